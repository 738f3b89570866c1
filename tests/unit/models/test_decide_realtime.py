"""The states of a realtime model, in the order of the specification (spec: realtime §9, §10, §12)."""

from collections.abc import Mapping
from typing import Any

import pytest

from magicstick.kube.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NameConflict,
    NamespaceTerminating,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from magicstick.kube.kinds import CONFIG_MAP
from magicstick.models.asking import question_of
from magicstick.models.decide import decide_failure
from magicstick.models.observation import CheckState, EngineCheck, ModelObservation
from magicstick.models.realtime.health import RealtimeQuestion
from magicstick.models.resolved import Hold, Reason, Refusal, ResolvedRealtime, UnifiedMemory
from magicstick.modules.facts import Gap, not_ready
from magicstick.runtime.plan import Apply, Finalizer, Patch, Plan
from tests.support.model_objects import (
    activation,
    kubeai,
    live_deployment,
    live_model,
    live_service,
    module,
    observation,
)
from tests.support.model_plans import applied, condition, decided, deletions, message, status_of, stored, told
from tests.support.realtime_objects import (
    ENDPOINT,
    WELL,
    amd_sharing,
    nvidia_sharing,
    realtime,
    runtime_pod,
    serving,
    wish,
)

SPEC = {"type": "local", "local": wish()}
REFUSAL = Refusal(
    Reason.INVALID_SPEC, "spec.local.realtime.gpuNode", "names a node that is no longer available"
)
MISSING = "Node node-1 has no allocatable GPU resource for this backend (nvidia.com/gpu)."


def seen(*live: Any, of: Any = None, **changes: Any) -> ModelObservation:
    """A realtime model that `live` objects serve."""
    usual = {"resolved": realtime(), "profile": None, "modules": (), "published": False}
    found = of if of is not None else activation(spec=SPEC)
    return observation(found, *live, **{**usual, **changes})


def look(*live: Any, **changes: Any) -> Plan:
    return decided(seen(*live, **changes))


def broken(reason: str, *, waiting: str = "") -> Any:
    """A Pod whose container ended for this reason, and now waits for another."""
    last = {"terminated": {"reason": reason, "exitCode": 1}} if reason else {}
    return runtime_pod(state={"waiting": {"reason": waiting}} if waiting else {}, last=last)


# --- steps 1 to 9, each with everything after it wrong as well -------------------------------------

LATER: dict[str, Any] = {
    "cleanup": "Node node-1 is cleared.",
    "sharing": nvidia_sharing(phase="Blocked", message="the GPU is held"),
    "resolved": REFUSAL,
    "modules": (module("litellm", not_ready(Gap.NOT_READY)),),
}
WAITS: list[tuple[str, dict[str, Any], tuple[str, str]]] = [
    ("3", LATER, ("Starting", "ModelCacheMaintenance")),
    ("4 blocked", {**LATER, "cleanup": ""}, ("Degraded", "GpuSharingBlocked")),
    (
        "4 on its way",
        {**LATER, "cleanup": "", "sharing": amd_sharing(phase="Switching", message="draining")},
        ("Starting", "WaitingForGpuSharing"),
    ),
    ("5", {**LATER, "cleanup": "", "sharing": None}, ("Degraded", "InvalidModelSpec")),
    (
        "6",
        {**LATER, "cleanup": "", "sharing": None, "resolved": Refusal(Reason.INVALID_TARGET, "spec", "x")},
        ("Degraded", "InvalidComputeTarget"),
    ),
    (
        "7",
        {"modules": LATER["modules"], "resolved": realtime(missing=MISSING)},
        ("WaitingForModules", "WaitingForModules"),
    ),
    ("8", {"resolved": realtime(missing=MISSING)}, ("WaitingForGPU", "WaitingForGPU")),
]


@pytest.mark.parametrize(("changes", "expected"), [row[1:] for row in WAITS], ids=[row[0] for row in WAITS])
def test_each_step_speaks_before_the_next_and_leaves_what_runs_alone(
    changes: dict[str, Any], expected: tuple[str, str]
) -> None:
    for live in ((), serving()):
        plan = look(*live, **changes)
        assert told(plan) == expected
        assert plan.steps == ()
        assert status_of(plan)["modelRef"] == "vllm-omni/demo"


def test_step_1_a_deleted_model_keeps_its_finalizer_until_everything_is_gone() -> None:
    gone = activation(spec=SPEC, dying=True)
    plan = look(*serving(), of=gone)
    assert told(plan) == ("Removing", "Removing")
    assert [each[:2] for each in deletions(plan)] == [
        ("Deployment", "demo-realtime"),
        ("Service", "demo-realtime"),
        ("ConfigMap", "demo-realtime"),
    ]
    config = serving()[:1]
    plan = look(*config, of=gone)
    assert plan.finalizer is Finalizer.KEEP
    assert [each[0] for each in deletions(plan)] == ["ConfigMap"]
    assert look(of=gone).finalizer is Finalizer.REMOVE


def test_step_2_e27_a_disabled_model_is_removed_and_keeps_its_settings() -> None:
    off = activation(spec={**SPEC, "enabled": False})
    plan = look(*serving(), of=off)
    assert told(plan) == ("Removing", "Removing")
    assert len(deletions(plan)) == 3
    assert told(look(of=off)) == ("Disabled", "Disabled")
    assert "realtime" in off.spec["local"]


@pytest.mark.parametrize(
    ("old", "kinds"),
    [((live_model(),), {"Model"}), ((live_service(), live_deployment()), {"Deployment", "Service"})],
)
def test_row_15_another_runtime_makes_room_first(old: tuple[Any, ...], kinds: set[str]) -> None:
    plan = look(*old, *serving(), occupant=None)
    assert told(plan) == ("Starting", "RetiringPreviousRuntime")
    assert applied(plan) == []
    assert {each[0] for each in deletions(plan)} == kinds
    assert not any(each[1] == "demo-realtime" for each in deletions(plan))


@pytest.mark.req("MS-046", "MS-087")
def test_row_17_an_ordinary_model_ends_the_realtime_runtime_that_it_was() -> None:
    plain = activation()
    plan = decided(observation(plain, *serving(), resolved=kubeai()))
    assert told(plan) == ("Starting", "RetiringPreviousRuntime")
    assert {each[0] for each in deletions(plan)} == {"Deployment", "Service", "ConfigMap"}
    after = decided(observation(plain, resolved=kubeai()))
    assert {each["kind"] for each in applied(after)} == {"Model"}


# --- step 10 (row 16) ------------------------------------------------------------------------------


@pytest.mark.req("MS-045", "MS-046")
def test_the_config_comes_before_the_service_and_the_deployment() -> None:
    plan = look()
    assert told(plan) == ("Starting", "WaitingForRealtimePod")
    assert [body["kind"] for body in applied(plan)] == ["ConfigMap", "Service", "Deployment"]
    assert deletions(plan) == []


def test_a_strategy_that_somebody_left_there_goes_before_the_apply_that_it_would_have_refused() -> None:
    edited = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}
    *_, before, deployment = look(*serving(spec=edited)).steps

    assert isinstance(before, Patch)
    assert before.body == {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}}
    assert isinstance(deployment, Apply)
    as_wanted = {"strategy": {"type": "Recreate"}}
    assert not [step for step in look(*serving(spec=as_wanted)).steps if isinstance(step, Patch)]


@pytest.mark.req("MS-052")
@pytest.mark.parametrize(
    "status",
    [
        {"observedGeneration": 0},
        {"updatedReplicas": 0},
        {"availableReplicas": 0},
        {"readyReplicas": 0},
    ],
)
def test_e22_a_rollout_that_is_not_complete_is_waited_for(status: dict[str, int]) -> None:
    plan = look(*serving(status=status), check=WELL, published=True)
    assert told(plan) == ("Starting", "WaitingForRealtimePod")
    assert condition(plan, "RuntimeReady") == "False"
    assert told(look(*serving(ready=None), check=WELL, published=True))[1] == "WaitingForRealtimePod"
    older = serving(generation=2)
    assert told(look(*older, check=WELL, published=True))[1] == "WaitingForRealtimePod"


@pytest.mark.req("MS-053")
@pytest.mark.parametrize("check", [EngineCheck(), EngineCheck(CheckState.WAITING, "HTTP 503.")])
def test_a_runtime_is_waited_for_until_it_says_that_it_is_well(check: EngineCheck) -> None:
    plan = look(*serving(), check=check, published=True)
    assert told(plan) == ("Starting", "WaitingForRealtimeHealth")
    assert (condition(plan, "RuntimeReady"), status_of(plan)["runtimeEndpoint"]) == ("False", "")


def test_e22_a_healthy_runtime_tells_its_address_and_is_ready_once_it_is_published() -> None:
    waiting = look(*serving(), check=WELL)
    assert told(waiting) == ("Reconciling", "WaitingForCatalog")
    assert condition(waiting, "RuntimeReady") == "True"
    assert status_of(waiting)["runtimeEndpoint"] == ENDPOINT
    ready = look(*serving(), check=WELL, published=True)
    assert told(ready) == ("Ready", "RealtimeRuntimeReady")
    assert message(ready).startswith("1/1 replicas of vLLM-Omni on NVIDIA GPU are ready.")


def test_health_that_was_good_holds_while_nobody_can_tell_and_no_longer() -> None:
    before = stored(look(*serving(), check=WELL, published=True), activation(spec=SPEC))
    assert told(look(*serving(), of=before, published=True))[0] == "Ready"
    edited = activation(spec=SPEC, status=dict(before.status), generation=2)
    plan = look(*serving(), of=edited, published=True)
    assert told(plan) == ("Starting", "WaitingForRealtimeHealth")
    assert condition(plan, "RuntimeReady") == "False"


def test_e29_an_edit_withdraws_the_route_until_the_new_generation_is_well() -> None:
    before = stored(look(*serving(), check=WELL, published=True), activation(spec=SPEC))
    edited = activation(spec=SPEC, status=dict(before.status), generation=2)
    plan = look(*serving(ready=0), of=edited, published=True)
    assert status_of(plan)["observedGeneration"] == 2
    assert condition(plan, "RuntimeReady") == "False"


def test_a_runtime_that_serves_keeps_its_address_while_something_else_is_waited_for() -> None:
    before = stored(look(*serving(), check=WELL, published=True), activation(spec=SPEC))
    plan = look(*serving(), of=before, check=WELL, published=True, cleanup="It is cleared.")
    assert told(plan) == ("Starting", "ModelCacheMaintenance")
    assert (condition(plan, "RuntimeReady"), status_of(plan)["runtimeEndpoint"]) == ("True", ENDPOINT)


@pytest.mark.req("MS-081")
@pytest.mark.parametrize(
    ("reason", "waiting"),
    [
        ("", "ImagePullBackOff"),
        ("", "ErrImagePull"),
        ("", "CreateContainerConfigError"),
        ("Error", "CrashLoopBackOff"),
    ],
)
def test_a_pod_that_fails_degrades_and_points_to_its_log(reason: str, waiting: str) -> None:
    plan = look(*serving(ready=0), pods=(broken(reason, waiting=waiting),))
    assert told(plan) == ("Degraded", "RealtimePodFailed")
    assert waiting in message(plan)
    assert "log" in message(plan)
    assert len(applied(plan)) == 3


def test_out_of_memory_counts_more_than_that_the_container_waits_to_be_started_again() -> None:
    plan = look(*serving(ready=0), pods=(broken("OOMKilled", waiting="CrashLoopBackOff"),))
    assert told(plan) == ("Degraded", "RealtimePodFailed")
    assert "OOMKilled" in message(plan)
    assert "systemMemoryMi" in message(plan)


@pytest.mark.req("MS-063")
def test_e23_where_host_and_gpu_share_their_memory_no_offload_is_advised() -> None:
    pool = UnifiedMemory(node="node-1", pool_id="uid-node-1", mode="shared-gtt", memory_mi=16384)
    plan = look(*serving(ready=0), resolved=realtime(unified_memory=pool), pods=(broken("OOMKilled"),))
    assert told(plan) == ("Degraded", "RealtimePodFailed")
    assert "the system and the GPU share" in message(plan)
    assert "Thinker" not in message(plan)


def test_pods_of_others_and_dying_ones_do_not_count() -> None:
    dying = runtime_pod(dying=True, state={"waiting": {"reason": "ErrImagePull"}})
    plan = look(*serving(ready=0), pods=(dying,))
    assert told(plan) == ("Starting", "WaitingForRealtimePod")


def test_a_ready_rollout_is_not_judged_by_a_pod_that_failed_before() -> None:
    plan = look(*serving(), check=WELL, published=True, pods=(broken("OOMKilled"),))
    assert told(plan)[0] == "Ready"


def test_f14_a_pod_that_no_node_takes_tells_the_schedulers_words() -> None:
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "too big"}
    plan = look(*serving(ready=0), pods=(runtime_pod(phase="Pending", conditions=[refused]),))
    assert told(plan) == ("Starting", "WaitingForRealtimePod")
    assert "too big" in message(plan)


@pytest.mark.parametrize(("type_", "value"), [("Progressing", "False"), ("ReplicaFailure", "True")])
def test_e22_a_deployment_that_fails_degrades_with_its_words(type_: str, value: str) -> None:
    failed = {"type": type_, "status": value, "message": "exceeded quota" + "x" * 2000}
    plan = look(*serving(ready=0, status={"conditions": [failed]}))
    assert told(plan) == ("Degraded", "RealtimeDeploymentFailed")
    assert "exceeded quota" in message(plan)
    assert len(message(plan)) < 700


def test_a_deployment_that_progresses_does_not_fail() -> None:
    fine = [{"type": "Progressing", "status": "True"}, {"type": "ReplicaFailure", "status": "False"}]
    assert told(look(*serving(ready=0, status={"conditions": fine})))[1] == "WaitingForRealtimePod"


# --- slots -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sharing", [nvidia_sharing(refused="Waiting for a slot (maximum 4)."), nvidia_sharing(node_uid="another")]
)
def test_e12_without_a_slot_the_runtime_goes_and_the_model_waits(sharing: Any) -> None:
    plan = look(*serving(), sharing=sharing, check=WELL)
    assert told(plan) == ("Starting", "WaitingForGpuSharing")
    assert applied(plan) == []
    assert [each[0] for each in deletions(plan)] == ["Deployment", "Service", "ConfigMap"]


def test_e18_a_shared_amd_gpu_is_held_by_a_slot_too() -> None:
    claim = Hold(mode="dra-shared", resource="amd.com/gpu", slots=4, claim="c")
    model = realtime(accelerator="rocm", hold=claim)
    assert told(look(resolved=model, sharing=amd_sharing()))[1] == "WaitingForRealtimePod"
    assert told(look(resolved=model, sharing=amd_sharing(refused="Waiting.")))[1] == "WaitingForGpuSharing"


# --- §10 -------------------------------------------------------------------------------------------

SECRET = "the server's own words"
FAILURES: list[tuple[ApiError, tuple[str, str], str]] = [
    (Forbidden(SECRET, code=403), ("Degraded", "RealtimePermissionDenied"), "HTTP 403"),
    (Unauthorized(SECRET, code=401), ("Degraded", "RealtimePermissionDenied"), "HTTP 401"),
    (TooManyRequests(SECRET), ("Starting", "RealtimeApiUnavailable"), "HTTP 429"),
    (Unavailable(SECRET, code=500), ("Starting", "RealtimeApiUnavailable"), "HTTP 500"),
    (Unavailable(SECRET), ("Starting", "RealtimeApiUnavailable"), "no answer"),
    (Invalid(SECRET, code=422, causes=[("spec.x", SECRET)]), ("Degraded", "RealtimeApiRejected"), "HTTP 422"),
    (Conflict(SECRET, code=409), ("Degraded", "RealtimeApiRejected"), "HTTP 409"),
    (NameConflict("services ai/demo-realtime exists"), ("Degraded", "NameConflict"), "exists"),
    (NamespaceTerminating(SECRET), ("WaitingForNamespace", "WaitingForNamespace"), "ai"),
]


@pytest.mark.req("MS-074", "MS-076", "MS-077")
@pytest.mark.parametrize(
    ("error", "expected", "word"), FAILURES, ids=[type(row[0]).__name__ for row in FAILURES]
)
def test_e24_e25_a_failed_request_is_told_by_its_code_and_never_in_the_servers_words(
    error: ApiError, expected: tuple[str, str], word: str
) -> None:
    before = activation(spec=SPEC, status={"phase": "Ready"}, generation=3)
    for o in (seen(of=before), seen(*serving(), of=activation(spec=SPEC, dying=True))):
        plan = decide_failure(o, error)
        assert told(plan) == expected
        assert word in message(plan)
        assert SECRET not in str(status_of(plan))
        assert status_of(plan)["observedGeneration"] == o.generation


def test_a_failure_while_a_realtime_runtime_is_retired_is_told_the_same_way() -> None:
    plan = decide_failure(observation(activation(), *serving()), Forbidden(SECRET, code=403))
    assert told(plan) == ("Degraded", "RealtimePermissionDenied")
    ordinary = decide_failure(observation(activation()), Forbidden(SECRET, code=403))
    assert told(ordinary) == ("Degraded", "RuntimePermissionDenied")


# --- §12 -------------------------------------------------------------------------------------------


def test_the_status_tells_what_the_model_was_resolved_to() -> None:
    recovery = {"revision": "x", "attempts": 2}
    before = activation(spec=SPEC, status={"phase": "Starting", "podRecovery": recovery})
    status = status_of(look(*serving(), of=before))
    expected: Mapping[str, Any] = {
        "modelRef": "vllm-omni/demo",
        "catalogId": "demo",
        "computeTarget": "nvidia-gpu",
        "engine": "VLLM",
        "resolvedResourceProfile": "qwen3-omni",
        "vramRequiredMi": 22118,
        "memoryRequiredMi": 16384,
        "cpuResources": {"requestMillicores": 1000, "limitMillicores": 0},
        "cpuOffloading": False,
        "requestedKvCacheType": "auto",
        "memoryArchitecture": "",
        "sharedPoolId": "",
        "gpuAllocationMode": "",
        "artifact": "",
        "precision": "",
        "quantization": "",
    }
    assert expected.items() <= status.items()
    assert status["podRecovery"]["attempts"] == 2
    assert not {"podCreation", "memoryUsage", "freeTokenStats"} & set(status)


def test_a_refused_model_has_a_reference_and_no_place_in_the_catalog() -> None:
    status = status_of(look(resolved=REFUSAL))
    assert (status["modelRef"], status["catalogId"]) == ("vllm-omni/demo", "")


@pytest.mark.req("MS-067")
@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (realtime(gpu_count=2), {"mode": "exclusive", "wholeGpuCount": 2}),
        (
            realtime(hold=Hold(mode="time-slicing", resource="nvidia.com/gpu", slots=4)),
            {"mode": "time-slicing", "slotCount": 1},
        ),
        (
            realtime(hold=Hold(mode="dra-shared", slots=4, claim="c", device="0000:c4:00.0")),
            {"mode": "dra-shared", "claimName": "c", "device": "0000:c4:00.0"},
        ),
        (realtime(hold=Hold(mode="cpu", slots=1)), None),
    ],
)
def test_the_status_tells_how_devices_are_held(
    model: ResolvedRealtime, expected: dict[str, Any] | None
) -> None:
    found = status_of(look(resolved=model)).get("gpuSharing")
    common = {"node": "node-1", "memoryIsolation": False}
    assert found == (None if expected is None else {**common, **expected})


@pytest.mark.req("MS-063")
def test_shared_memory_is_told_as_one_pool_of_the_host() -> None:
    pool = UnifiedMemory(node="node-1", pool_id="uid-node-1", mode="shared-gtt", memory_mi=16384)
    status = status_of(look(resolved=realtime(accelerator="rocm", unified_memory=pool, vram_mi=92160)))
    assert (status["memoryArchitecture"], status["sharedPoolId"]) == ("unified", "uid-node-1")
    assert (status["gpuAllocationMode"], status["memoryRequiredMi"], status["vramRequiredMi"]) == (
        "shared-gtt",
        16384,
        92160,
    )


# --- whom is asked ---------------------------------------------------------------------------------


def test_only_a_runtime_that_is_rolled_out_is_asked() -> None:
    assert isinstance(question_of(seen(*serving()), realtime()), RealtimeQuestion)
    for live in ((), serving(ready=0), serving(dying=True)):
        assert question_of(seen(*live), realtime()) is None


def test_what_serves_it_is_ours_by_kind_and_name() -> None:
    found = seen(*serving())
    assert {each.kind for each in found.runtimes} >= {CONFIG_MAP}
    assert found.serves_realtime
    assert not observation(activation()).serves_realtime
