"""What Pods say of themselves, which of their changes are news, and the timers about them."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.api.model_activation_status import PodCreation, PodRecovery
from magicstick.models.objects import kubeai_model
from magicstick.models.pods import PodView, ended, failure, pods_of, trouble
from magicstick.models.serving import direct_replicas, replicas, wants_none
from magicstick.models.trackers import Awaited, Recovery, moment, revision, stamp
from magicstick.models.wakes import pod_changed
from tests.support.model_objects import NOW, kubeai, live_deployment, live_model, pod
from tests.support.objects import resource

MOMENTS = st.floats(1.6e9, 4e9).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))


def test_pods_are_decoded_as_a_server_sends_them() -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ai", "labels": {"model": "demo"}, "managedFields": []},
        "spec": {"containers": [{"name": "server"}]},
        "status": {
            "phase": "Running",
            "podIP": "fd00::1",
            "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": None, "message": ""}],
            "containerStatuses": [
                {"name": "server", "restartCount": 2, "state": {"running": {"startedAt": "x"}}, "ready": True}
            ],
        },
    }
    view = msgspec.json.decode(msgspec.json.encode(body), type=PodView)
    assert (view.ready, view.terminal, view.status.pod_ip) == (True, False, "fd00::1")
    assert view.status.container_statuses[0].restart_count == 2


def test_a_whole_object_is_seen_as_the_watch_would_show_it() -> None:
    """What a write returns goes into the cache of Pods as well."""
    body = msgspec.to_builtins(pod(phase="Failed", dying=True, containers=[{"name": "server"}]))
    whole = resource({"apiVersion": "v1", "kind": "Pod", **body})
    assert msgspec.convert(whole, PodView, from_attributes=True).status.phase == "Failed"


@pytest.mark.req("MS-333")
def test_which_pods_count_as_those_of_a_model() -> None:
    model = live_model()
    mine, older, leaving, nobodys = (
        pod("a"),
        pod("b", owner="uid-older"),
        pod("c", dying=True),
        pod("d", owner=None),
    )
    assert [each.metadata.name for each in pods_of([nobodys, leaving, older, mine], model)] == ["a", "d"]
    assert [each.metadata.name for each in pods_of([older, mine], None)] == ["a", "b"]


def test_a_pod_of_another_kind_of_owner_counts_and_is_never_replaced() -> None:
    odd = pod(phase="Failed", owner_changes={"kind": "ReplicaSet"})
    assert pods_of([odd], live_model()) == (odd,)
    assert ended([odd], live_model()) is None


def test_a_failure_is_one_bounded_line() -> None:
    long = pod(phase="Failed", reason="r" * 500, message="m" * 5000)
    assert len(failure(long)) < 700
    assert failure(pod(phase="Succeeded")) == "model-demo-1: Succeeded"


def test_a_pod_that_serves_ended_or_leaves_has_no_trouble() -> None:
    broken = [{"name": "server", "lastState": {"terminated": {"reason": "OOMKilled"}}}]
    for each in (
        pod(ready=True, containers=broken),
        pod(phase="Failed", containers=broken),
        pod(dying=True, containers=broken),
    ):
        assert trouble([each]) is None
    found = trouble([pod("a"), pod("b", containers=broken)])
    assert found is not None
    assert found.reason == "ModelRuntimeOOMKilled"


@pytest.mark.parametrize(
    ("counted", "pods", "expected"),
    [
        (None, (), (0, 1)),
        (1, (pod(ready=True),), (1, 1)),
        (2, (pod("a", ready=True), pod("b")), (1, 2)),
        (0, (pod(ready=True),), (0, 1)),
        (1, (pod(ready=True, dying=True),), (0, 1)),
    ],
)
def test_a_replica_is_ready_when_kubeai_and_its_pod_say_so(
    counted: int | None, pods: tuple[PodView, ...], expected: tuple[int, int]
) -> None:
    assert replicas(live_model(ready=counted), pods) == expected


@pytest.mark.parametrize("garbage", [None, "1", True, -1, 1.5, {}])
def test_counts_that_are_none_are_zero(garbage: Any) -> None:
    model = resource(
        {"metadata": {"name": "demo"}, "status": {"replicas": {"ready": garbage, "all": garbage}}}
    )
    assert replicas(model, (pod(ready=True),)) == (0, 1)
    assert replicas(resource({"metadata": {}, "status": {"replicas": garbage}}), ()) == (0, 1)
    assert direct_replicas(live_deployment(status={"readyReplicas": garbage})) == 0


def test_a_model_is_scaled_to_zero_only_where_it_may_be() -> None:
    assert wants_none(live_model(spec={"minReplicas": 0, "replicas": 0}))
    assert wants_none(live_model(spec={"minReplicas": 0}))
    assert not wants_none(live_model(spec={"minReplicas": 0, "replicas": 1}))
    assert not wants_none(live_model(spec={"minReplicas": 1, "replicas": 0}))
    assert not wants_none(live_model(spec={}))


def test_news_of_a_pod_is_what_it_says_and_not_its_version() -> None:
    assert not pod_changed(pod(version="1"), pod(version="2"))
    assert pod_changed(None, pod())
    assert pod_changed(pod(), None)
    for other in (pod(ready=True), pod(phase="Failed"), pod(dying=True), pod(owner="uid-other")):
        assert pod_changed(pod(), other)


@given(MOMENTS, st.floats(0, 10**6))
def test_a_stored_time_is_never_early_and_can_be_read_at_once(now: datetime, later_s: float) -> None:
    kept = moment(stamp(now), now)
    assert kept is not None
    assert timedelta(0) <= kept - now < timedelta(seconds=1)
    assert moment(stamp(now), now + timedelta(seconds=later_s)) == kept


@pytest.mark.parametrize("text", ["", "x", "2026-01-01", "2026-01-01T12:00:00", "9999-12-31T23:59:59Z"])
def test_a_time_without_zone_or_from_the_future_is_none(text: str) -> None:
    assert moment(text, NOW) is None


def test_a_time_of_another_zone_is_the_same_time() -> None:
    there = NOW.astimezone(timezone(timedelta(hours=5)))
    assert stamp(there) == stamp(NOW)
    assert moment(there.isoformat(), NOW) == NOW


@given(MOMENTS, st.integers(0, 10**6))
def test_the_two_minutes_are_two_minutes(now: datetime, passed_s: int) -> None:
    first = Awaited.of(None, "r", now)
    stored = PodCreation.model_validate(first.status())
    at = moment(stored.since, now)
    assert at is not None
    left = Awaited.of(stored, "r", at + timedelta(seconds=passed_s)).left_s(at + timedelta(seconds=passed_s))
    assert left == 120 - passed_s


@pytest.mark.req("MS-344")
def test_the_waits_are_30_60_120_and_240_seconds() -> None:
    recovery, waits = Recovery("r"), []
    assert recovery.left_s(NOW) == 0
    for number in range(5):
        recovery = recovery.next(f"uid-{number}", "x", NOW)
        waits.append(recovery.left_s(NOW))
    assert waits[:4] == [30, 60, 120, 240]
    assert recovery.exhausted
    assert Recovery.of(PodRecovery.model_validate(recovery.status()), "r") == recovery
    assert Recovery.of(PodRecovery.model_validate(recovery.status()), "other").attempts == 0


@pytest.mark.req("MS-337")
def test_a_revision_is_the_models_identity_the_generation_and_what_is_wanted_but_for_replicas() -> None:
    model = live_model()
    base = revision(model, 1, kubeai_model(kubeai(), "p:1"))
    assert base == revision(
        live_model(generation=7), 1, kubeai_model(kubeai(min_replicas=0, max_replicas=5), "p:1")
    )
    for other in (
        revision(live_model(uid="uid-other"), 1, kubeai_model(kubeai(), "p:1")),
        revision(model, 2, kubeai_model(kubeai(), "p:1")),
        revision(model, 1, kubeai_model(kubeai(), "q:1")),
        revision(model, 1, kubeai_model(kubeai(url="hf://example/other"), "p:1")),
    ):
        assert other != base
