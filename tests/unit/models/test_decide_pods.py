"""Rows 24 to 29 of the table: what the Pods of a KubeAI Model mean for it (spec: models §9, §10)."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from magicstick.kube.objects import Resource
from magicstick.models.observation import CheckState, EngineCheck
from magicstick.models.pods import PodView
from magicstick.models.status import ModelPhase, Outcome
from magicstick.modules.facts import Gap, not_ready
from magicstick.runtime.conditions import timestamp
from magicstick.runtime.plan import Plan
from tests.support.model_objects import (
    NOW,
    activation,
    kubeai,
    live_model,
    module,
    observation,
    ollama,
    pod,
)
from tests.support.model_plans import applied, condition, decided, deletions, message, status_of, stored, told

FAILED = pod(phase="Failed", reason="Evicted", message="The node was low on memory.")


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def look(
    before: Resource | None, *pods: PodView, at: float = 0.0, serving: Resource | None = None, **seen: Any
) -> Plan:
    """One decision, `at` seconds after the first."""
    model = serving if serving is not None else live_model(ready=0)
    return decided(observation(before, model, pods=pods, **seen), later(at))


def awaited(plan: Plan) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = status_of(plan).get("podCreation")
    return found


def attempts(plan: Plan) -> int:
    recovery = status_of(plan).get("podRecovery")
    return 0 if recovery is None else int(recovery["attempts"])


# --- 25, 26: no Pod ------------------------------------------------------------------------------


@pytest.mark.req("MS-332", "MS-335")
def test_e1_e2_rows_25_and_26_two_minutes_without_a_pod_and_no_less_degrade() -> None:
    first = look(None)
    assert told(first) == ("WaitingForPod", "WaitingForModelPod")
    for at in (1, 60, 119, 119.9):
        plan = look(stored(first), at=at)
        assert told(plan) == ("WaitingForPod", "WaitingForModelPod")
        assert awaited(plan) == awaited(first)
    stalled = look(stored(first), at=120)
    assert told(stalled) == ("Degraded", "ModelPodCreationStalled")
    assert awaited(stalled) == awaited(first)


@pytest.mark.req("MS-335")
def test_a_timer_that_began_within_a_second_does_not_end_early() -> None:
    first = look(None, at=0.9)
    before = stored(first)
    assert told(look(before, at=0.95))[0] == "WaitingForPod"
    assert told(look(before, at=120.85))[0] == "WaitingForPod"
    assert told(look(before, at=121))[0] == "Degraded"


@pytest.mark.req("MS-336")
def test_a_stalled_model_goes_on_being_applied_and_a_pod_clears_it() -> None:
    stalled = stored(look(stored(look(None)), at=500))
    again = look(stalled, at=501, resolved=kubeai(url="hf://example/other"))
    assert [body["spec"]["url"] for body in applied(again)] == ["hf://example/other"]
    pending = look(stalled, pod(phase="Pending"), at=502)
    assert told(pending) == ("Starting", "WaitingForReadyReplica")
    assert awaited(pending) is None


@pytest.mark.req("MS-337")
@pytest.mark.parametrize(
    "changed",
    [
        {"serving": live_model(ready=0, uid="uid-other")},
        {"resolved": kubeai(args=("--max-model-len=1",))},
        {"resolved": kubeai(annotations={})},
    ],
)
def test_e3_another_model_or_another_configuration_restarts_the_timer(changed: dict[str, Any]) -> None:
    first = stored(look(None))
    plan = look(first, at=119, **changed)
    assert (awaited(plan) or {})["since"] == timestamp(later(119))
    assert told(look(stored(plan), at=121, **changed))[0] == "WaitingForPod"


@pytest.mark.req("MS-337")
def test_e3_another_generation_of_the_activation_restarts_the_timer() -> None:
    first = look(None)
    edited = activation(generation=2, status=status_of(first))
    assert (awaited(look(edited, at=119)) or {})["since"] == timestamp(later(119))


@pytest.mark.req("MS-337")
@pytest.mark.parametrize(
    "changed",
    [
        {"serving": live_model(ready=0, generation=9)},
        {"serving": live_model(ready=0, spec={"engine": "VLLM", "minReplicas": 1, "replicas": 3})},
        {"resolved": kubeai(max_replicas=4)},
    ],
)
def test_replicas_and_generations_of_the_model_do_not_restart_the_timer(changed: dict[str, Any]) -> None:
    first = look(None)
    assert awaited(look(stored(first), at=60, **changed)) == awaited(first)


@pytest.mark.req("MS-334", "MS-337")
def test_a_wait_state_in_between_does_not_restart_the_timer() -> None:
    first = look(None)
    missing = (module("litellm", not_ready(Gap.NOT_READY)),)
    between = look(stored(first), at=60, modules=missing)
    assert told(between)[0] == "WaitingForModules"
    assert awaited(between) == awaited(first)
    assert told(look(stored(between), at=120))[0] == "Degraded"


@pytest.mark.req("MS-338")
def test_a_pod_in_a_wait_state_ends_the_timer() -> None:
    missing = (module("litellm", not_ready(Gap.NOT_READY)),)
    assert awaited(look(stored(look(None)), pod(phase="Pending"), at=60, modules=missing)) is None


@pytest.mark.req("MS-333")
@pytest.mark.parametrize("left", [pod(dying=True), pod(owner="uid-older")])
def test_e5_a_pod_that_terminates_or_is_of_an_older_model_is_no_pod(left: PodView) -> None:
    first = look(None, left)
    assert told(first) == ("WaitingForPod", "WaitingForModelPod")
    assert told(look(stored(first), left, at=120))[0] == "Degraded"


def test_a_pod_without_any_owner_counts() -> None:
    assert told(look(None, pod(owner=None)))[0] == "Starting"


@pytest.mark.parametrize(
    "since",
    [
        "nonsense",
        "2026-01-01T11:00:00",
        timestamp(NOW + timedelta(hours=1)),
        "0001-01-01T00:00:00+14:00",
        "",
    ],
)
def test_e6_a_time_that_is_none_or_lies_ahead_restarts_the_timer(since: str) -> None:
    first = look(None)
    told_before = {**status_of(first), "podCreation": {**(awaited(first) or {}), "since": since}}
    plan = look(activation(status=told_before))
    assert told(plan)[0] == "WaitingForPod"
    assert (awaited(plan) or {})["since"] == timestamp(NOW)


@pytest.mark.req("MS-338")
def test_e7_a_stalled_model_starts_and_becomes_ready() -> None:
    stalled = stored(look(stored(look(None)), at=121))
    pending = stored(look(stalled, pod(phase="Pending"), at=130))
    plan = look(pending, pod(ready=True), at=140, serving=live_model(ready=1), published=True)
    assert told(plan) == ("Ready", "CatalogReady")
    assert awaited(plan) is None


def test_e39_a_model_that_kubeai_scaled_to_zero_awaits_no_pod() -> None:
    idle = live_model(ready=0, spec={"engine": "VLLM", "minReplicas": 0, "replicas": 0})
    plan = look(stored(look(None)), at=500, serving=idle, resolved=kubeai(min_replicas=0))
    assert told(plan) == ("Starting", "ScaledToZero")
    assert awaited(plan) is None
    wanted = live_model(ready=0, spec={"engine": "VLLM", "minReplicas": 0, "replicas": 1})
    assert told(look(None, serving=wanted, resolved=kubeai(min_replicas=0)))[0] == "WaitingForPod"


def test_the_end_of_the_two_minutes_is_looked_at_when_it_comes() -> None:
    first = stored(look(None))
    outcomes = [look(first, at=at).outcome for at in (0, 99, 105, 112, 116, 118.5, 119.5, 120)]
    assert outcomes == [
        ModelPhase.WAITING_FOR_POD,
        ModelPhase.WAITING_FOR_POD,
        Outcome.DUE_10,
        Outcome.DUE_5,
        Outcome.DUE_2,
        Outcome.DUE_1,
        Outcome.DUE_1,
        ModelPhase.DEGRADED,
    ]


# --- 24: Pods that ended for good ----------------------------------------------------------------


@pytest.mark.req("MS-341", "MS-343")
@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_e8_an_attempt_is_written_down_before_the_pod_is_deleted_as_it_was_seen(phase: str) -> None:
    ended = pod(phase=phase, version="41")
    first = look(None, ended)
    assert told(first) == ("Starting", "RecoveringTerminalModelPod")
    assert (deletions(first), attempts(first), first.outcome) == ([], 1, Outcome.RECORDED)
    second = look(stored(first), ended)
    assert deletions(second) == [("Pod", "model-demo-1", "uid-model-demo-1", "41")]
    assert attempts(second) == 1


@pytest.mark.req("MS-345")
def test_an_attempt_that_was_written_down_and_not_carried_out_is_carried_out_and_counts_once() -> None:
    first = stored(look(None, FAILED))
    plan = look(first, FAILED, at=3600)
    assert [name for _, name, *_ in deletions(plan)] == ["model-demo-1"]
    assert attempts(plan) == 1


@pytest.mark.req("MS-345")
def test_e12_a_pod_that_changed_meanwhile_is_deleted_in_its_new_version_in_the_same_attempt() -> None:
    first = stored(look(None, FAILED))
    changed = pod(phase="Failed", version="8")
    plan = look(first, changed)
    assert deletions(plan)[0][3] == "8"
    assert attempts(plan) == 1


@pytest.mark.req("MS-344")
def test_e9_the_waits_grow_and_end_to_the_second() -> None:
    before, at = stored(look(None, FAILED)), 0.0
    for attempt, wait_s in enumerate((30, 60, 120, 240), start=2):
        ended = pod(f"model-demo-{attempt}", phase="Failed")
        early = look(before, ended, at=at + wait_s - 1)
        assert told(early) == ("Degraded", "ModelPodRecoveryBackoff")
        assert (deletions(early), attempts(early)) == ([], attempt - 1)
        at += wait_s
        due = look(before, ended, at=at)
        assert told(due) == ("Starting", "RecoveringTerminalModelPod")
        assert attempts(due) == attempt
        before = stored(due)


@pytest.mark.req("MS-344", "MS-345")
def test_e10_five_attempts_are_all_however_late_and_an_edit_begins_anew() -> None:
    revision = status_of(look(None, FAILED))["podRecovery"]["revision"]
    spent = {
        "revision": revision,
        "attempts": 5,
        "lastAttempt": timestamp(NOW),
        "lastPodUid": "uid-other",
        "lastFailure": "x",
    }
    for at in (0, 86_400):
        plan = look(activation(status={"podRecovery": spent}), FAILED, at=at)
        assert told(plan) == ("Degraded", "ModelPodRecoveryExhausted")
        assert deletions(plan) == []
        assert "Evicted: The node was low on memory." in message(plan)
    edited = look(activation(generation=2, status={"podRecovery": spent}), FAILED)
    assert (told(edited)[1], attempts(edited)) == ("RecoveringTerminalModelPod", 1)


def test_the_fifth_pod_is_deleted_though_the_attempts_are_spent_with_it() -> None:
    first = look(None, FAILED)
    spent = {**status_of(first)["podRecovery"], "attempts": 5}
    plan = look(activation(status={**status_of(first), "podRecovery": spent}), FAILED)
    assert [name for _, name, *_ in deletions(plan)] == ["model-demo-1"]


@pytest.mark.parametrize("last", ["nonsense", "2026-01-01T11:59:59", timestamp(NOW + timedelta(hours=1))])
def test_a_last_attempt_that_is_no_time_or_lies_ahead_holds_up_nothing(last: str) -> None:
    spent = {**status_of(look(None, FAILED))["podRecovery"], "lastAttempt": last, "lastPodUid": "uid-other"}
    plan = look(activation(status={"podRecovery": spent}), FAILED)
    assert (told(plan)[1], attempts(plan)) == ("RecoveringTerminalModelPod", 2)


def test_e11_while_the_replacement_is_pending_the_attempts_are_kept_and_nothing_is_reported() -> None:
    first = stored(look(None, FAILED))
    plan = look(first, pod("model-demo-2", phase="Pending"), at=10)
    assert told(plan) == ("Starting", "WaitingForReadyReplica")
    assert attempts(plan) == 1
    missing = (module("litellm", not_ready(Gap.NOT_READY)),)
    assert attempts(look(first, modules=missing)) == 1


def test_a_ready_replica_forgets_the_attempts() -> None:
    first = stored(look(None, FAILED))
    plan = look(first, pod("model-demo-2", ready=True), serving=live_model(ready=1))
    assert "podRecovery" not in status_of(plan)


@pytest.mark.req("MS-342", "MS-346")
@pytest.mark.parametrize(
    "kept",
    [
        pod(phase="Running"),
        pod(phase="Pending"),
        pod(phase="Unknown"),
        pod(phase="Failed", dying=True),
        pod(phase="Failed", owner=None),
        pod(phase="Failed", owner="uid-older"),
        pod(phase="Failed", owner_changes={"controller": False}),
        pod(phase="Failed", owner_changes={"name": "other"}),
        pod(phase="Failed", owner_changes={"apiVersion": "kubeai.org/v2"}),
        pod(phase="Failed", owner_changes={"kind": "ReplicaSet"}),
        pod(phase="Failed", version=""),
    ],
)
def test_e13_nothing_but_an_ended_pod_of_exactly_this_model_is_ever_deleted(kept: PodView) -> None:
    plan = look(None, kept)
    assert (deletions(plan), attempts(plan)) == ([], 0)


def test_an_ended_pod_is_left_alone_while_another_serves() -> None:
    plan = look(None, FAILED, pod("model-demo-2", ready=True), serving=live_model(ready=1), published=True)
    assert told(plan)[0] == "Ready"
    assert deletions(plan) == []


def test_the_first_ended_pod_comes_first_and_the_others_wait() -> None:
    older = pod("model-demo-9", phase="Failed", created="2025-01-01T00:00:00Z")
    plan = look(stored(look(None, FAILED, older)), FAILED, older)
    assert [name for _, name, *_ in deletions(plan)] == ["model-demo-9"]


# --- 27, 28: Pods that are not ready -------------------------------------------------------------


def scheduling(text: str) -> dict[str, Any]:
    return {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}


def container(
    state: dict[str, Any], *, restarts: int = 0, last: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {"name": "server", "restartCount": restarts, "state": state, "lastState": last or {}}


@pytest.mark.req("MS-340")
def test_e15_row_27_an_unschedulable_pod_tells_the_schedulers_words() -> None:
    plan = look(None, pod(phase="Pending", conditions=[scheduling("0/3 nodes: Insufficient cpu")]))
    assert told(plan) == ("Starting", "Unschedulable")
    assert "0/3 nodes: Insufficient cpu" in message(plan)


@pytest.mark.req("MS-340", "MS-347")
def test_row_28_a_pod_that_is_not_ready_yet_is_starting() -> None:
    plan = look(None, pod(phase="Running"))
    assert told(plan) == ("Starting", "WaitingForReadyReplica")
    assert message(plan).startswith("0/1 replicas of vLLM on CPU are ready. ")


@pytest.mark.req("MS-339")
def test_e4_a_pod_that_pulls_or_downloads_for_hours_is_only_starting() -> None:
    pulling = pod(phase="Pending", containers=[container({"waiting": {"reason": "ContainerCreating"}})])
    for at in (0, 86_400):
        plan = look(stored(look(None)), pulling, at=at)
        assert told(plan) == ("Starting", "WaitingForReadyReplica")
        assert awaited(plan) is None


@pytest.mark.parametrize(
    ("status", "reason", "text"),
    [
        (
            container({"terminated": {"reason": "OOMKilled", "exitCode": 137}}),
            "ModelRuntimeOOMKilled",
            "OOMKilled",
        ),
        (
            container(
                {"waiting": {"reason": "CrashLoopBackOff"}},
                restarts=1,
                last={"terminated": {"reason": "OOMKilled"}},
            ),
            "ModelRuntimeOOMKilled",
            "server",
        ),
        (
            container({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}),
            "ModelContainerStartupFailed",
            "no such image",
        ),
        (
            container({"waiting": {"reason": "CreateContainerConfigError"}}),
            "ModelContainerStartupFailed",
            "Config",
        ),
        (
            container(
                {"waiting": {"reason": "CrashLoopBackOff"}}, restarts=3, last={"terminated": {"exitCode": 2}}
            ),
            "ModelRuntimeCrashLoop",
            "last exit code 2",
        ),
        (
            container({"running": {}}, restarts=4, last={"terminated": {"exitCode": 1}}),
            "ModelRuntimeCrashLoop",
            "4 times",
        ),
    ],
)
def test_f14_what_keeps_a_pod_from_serving_is_told_as_it_is(status: Any, reason: str, text: str) -> None:
    plan = look(None, pod(containers=[status]))
    assert told(plan) == ("Starting", reason)
    assert text in message(plan)
    assert deletions(plan) == []


def test_f14_a_few_restarts_are_no_crash_loop() -> None:
    early = container(
        {"waiting": {"reason": "CrashLoopBackOff"}}, restarts=2, last={"terminated": {"exitCode": 1}}
    )
    assert told(look(None, pod(containers=[early])))[1] == "WaitingForReadyReplica"


@pytest.mark.req("MS-360", "MS-362")
@pytest.mark.parametrize("pods", [(), (pod(),), (pod(ready=True, dying=True),)])
def test_f14_a_ready_model_whose_last_replica_goes_is_ready_no_more_though_kubeai_counts_it_still(
    pods: tuple[PodView, ...],
) -> None:
    serving = live_model(ready=1)
    ready = stored(look(None, pod(ready=True), serving=serving, published=True))
    plan = look(ready, *pods, serving=serving, published=True)
    assert told(plan)[0] in {"Starting", "WaitingForPod"}
    assert (condition(plan, "RuntimeReady"), condition(plan, "Ready")) == ("False", "False")


def test_f14_a_ready_pod_that_kubeai_does_not_count_yet_is_waited_for() -> None:
    assert told(look(None, pod(ready=True), serving=live_model()))[1] == "WaitingForReadyReplica"


@pytest.mark.req("MS-349")
def test_the_effective_cache_type_is_empty_until_a_replica_is_ready() -> None:
    assert status_of(look(None, pod()))["effectiveKvCacheType"] == ""
    assert status_of(look(None))["effectiveKvCacheType"] == ""
    ready = look(None, pod(ready=True), serving=live_model(ready=1))
    assert status_of(ready)["effectiveKvCacheType"] == "auto"


# --- 29: Ollama's alias --------------------------------------------------------------------------


@pytest.mark.req("MS-359", "MS-360", "MS-363")
def test_row_29_an_ollama_model_is_not_ready_before_its_alias_is() -> None:
    serving = live_model(ready=1)
    seen: dict[str, Any] = {"resolved": ollama(), "published": True}
    for check in (EngineCheck(), EngineCheck(CheckState.WAITING, "The source is still downloading.")):
        plan = look(None, pod(ready=True), serving=serving, check=check, **seen)
        assert told(plan) == ("Starting", "WaitingForOllamaAlias")
        assert check.message in message(plan)
        assert status_of(plan)["effectiveKvCacheType"] == "f16"
        assert condition(plan, "RuntimeReady") == "False"
    passed = EngineCheck(CheckState.PASSED, memory_usage={"totalMi": 10})
    ready = look(None, pod(ready=True), serving=serving, check=passed, **seen)
    assert told(ready) == ("Ready", "CatalogReady")
    assert status_of(ready)["memoryUsage"] == {"totalMi": 10}
    lost = look(
        stored(ready), pod(ready=True), serving=serving, check=EngineCheck(CheckState.WAITING), **seen
    )
    assert told(lost) == ("Starting", "WaitingForOllamaAlias")


def test_row_29_an_alias_that_was_there_holds_while_nobody_can_tell() -> None:
    serving = live_model(ready=1)
    seen: dict[str, Any] = {"resolved": ollama(), "published": True}
    passed = EngineCheck(CheckState.PASSED)
    ready = stored(look(None, pod(ready=True), serving=serving, check=passed, **seen))
    assert told(look(ready, pod(ready=True), serving=serving, **seen))[0] == "Ready"
    edited = activation(generation=2, status=dict(ready.status))
    assert told(look(edited, pod(ready=True), serving=serving, **seen))[1] == "WaitingForOllamaAlias"


def test_vllm_has_no_alias() -> None:
    plan = look(None, pod(ready=True), serving=live_model(ready=1), published=True, check=EngineCheck())
    assert told(plan)[0] == "Ready"
