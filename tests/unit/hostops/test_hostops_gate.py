"""Whether the model cache is being cleared (spec: modules-and-apps §13, §16 E52, E53)."""

from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from magicstick.api.host_operation import FINISHED_PHASES, Action, HostOperationPhase
from magicstick.api.kinds import HOST_OPERATION
from magicstick.hostops.facts import HostOperationFacts, edge
from magicstick.hostops.gate import ACCEPTANCE_LIMIT, CLEAR_MODEL_CACHE, Gate, cache_cleanup, concerns_cache
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.kube.store import Store
from tests.support.manifests import MANIFESTS, objects
from tests.support.module_objects import HOME, body
from tests.support.objects import resource

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
JUST_NOW = "2026-01-01T11:59:00Z"
PHASES = get_args(HostOperationPhase)
UNFINISHED = [phase for phase in PHASES if phase not in FINISHED_PHASES]


def operation(
    name: str = "op",
    *,
    action: object = CLEAR_MODEL_CACHE,
    phase: object = None,
    created: str = JUST_NOW,
    node: str = "n1",
) -> Resource:
    made = body(HOST_OPERATION, HOME, name, created=created)
    status = {} if phase is None else {"phase": phase}
    return resource({**made, "spec": {"action": action, "nodeName": node}, "status": status})


def gate(*operations: Resource, last_known: bool | None = None, now: datetime = NOW) -> Gate:
    return cache_cleanup(operations, last_known, now)


@pytest.mark.req("MS-090")
@pytest.mark.parametrize("phase", UNFINISHED)
def test_e52_an_operation_that_runs_closes_the_gate(phase: str) -> None:
    assert gate(operation(phase=phase, created="2020-01-01T00:00:00Z")).active


@pytest.mark.req("MS-089")
@pytest.mark.parametrize("phase", [None, "", "Odd", 7, {}, []])
def test_e52_an_operation_without_a_known_phase_closes_the_gate(phase: object) -> None:
    assert gate(operation(phase=phase)).active


@pytest.mark.req("MS-091")
@pytest.mark.parametrize("phase", sorted(FINISHED_PHASES))
def test_e52_an_operation_that_ended_does_not(phase: str) -> None:
    assert not gate(operation(phase=phase)).active


@pytest.mark.parametrize("action", [each for each in get_args(Action) if each != CLEAR_MODEL_CACHE])
@pytest.mark.parametrize("phase", [None, "Applying"])
def test_e53_another_operation_does_not(action: str, phase: str | None) -> None:
    assert not gate(operation(action=action, phase=phase)).active


def test_operations_of_any_node_count_and_are_named() -> None:
    found = gate(
        operation("b", node="n2"), operation("a", phase="Preparing"), operation("c", phase="Succeeded")
    )
    assert (found.active, found.operations) == (True, ("a", "b"))
    assert found.message == "The model cache is being cleared: a, b."


def test_without_operations_the_gate_is_open() -> None:
    assert gate() == Gate(active=False)
    assert gate().message == ""


@pytest.mark.parametrize(("seconds", "active"), [(0, True), (599, True), (600, False), (86_400, False)])
def test_a_request_that_nobody_accepts_closes_it_for_ten_minutes(*, seconds: int, active: bool) -> None:
    created = (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = gate(operation(created=created))
    assert (found.active, found.ignored) == (active, () if active else (("op", "uid-HostOperation-op"),))
    assert timedelta(minutes=10) == ACCEPTANCE_LIMIT


@pytest.mark.parametrize("created", ["", "yesterday"])
def test_a_request_of_unknown_age_is_young(created: str) -> None:
    assert gate(operation(created=created)).active


@pytest.mark.parametrize(("last_known", "active"), [(None, True), (True, True), (False, False)])
def test_a_failed_list_keeps_the_last_state_and_closes_it_if_none_is_known(
    *, last_known: bool | None, active: bool
) -> None:
    found = cache_cleanup(None, last_known, NOW)
    assert (found.active, found.operations) == (active, ())
    assert found.message == (
        "Host operations cannot be read now; the model cache may be being cleared." if active else ""
    )


garbage = st.one_of(st.none(), st.text(max_size=12), st.integers(), st.lists(st.integers(), max_size=2))


@given(
    st.lists(
        st.tuples(
            garbage | st.just(CLEAR_MODEL_CACHE), garbage | st.sampled_from(PHASES), st.text(max_size=12)
        )
    )
)
def test_it_always_answers_and_one_running_operation_is_enough(made: list[tuple[Any, Any, str]]) -> None:
    found = [
        operation(f"op-{number}", action=action, phase=phase, created=created)
        for number, (action, phase, created) in enumerate(made)
    ]
    gate(*found)
    assert gate(*found, operation("running", phase="Applying")).active


# --- what wakes ------------------------------------------------------------------------------------


@pytest.mark.req("MS-091")
@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (None, operation(), True),
        (operation(), None, True),
        (operation(), operation(phase="Accepted"), True),
        (operation(phase="Accepted"), operation(phase="Preparing"), False),
        (operation(phase="Applying"), operation(phase="Succeeded"), True),
        (operation(phase="Succeeded"), None, False),
        (None, operation(action="reboot"), False),
        (operation(action="reboot"), operation(action="reboot", phase="Applying"), False),
    ],
)
def test_only_news_of_the_gate_wakes(*, old: Resource | None, new: Resource | None, wakes: bool) -> None:
    assert concerns_cache(old, new) is wakes


def test_the_edge_is_about_our_namespace() -> None:
    key = ObjectKey(HOME, "m")
    made = edge(HOME, lambda _old, _new: [key])
    assert (made.kind, made.namespace, list(made.wakes(None, operation()))) == (HOST_OPERATION, HOME, [key])


# --- facts -----------------------------------------------------------------------------------------


class FakeReads:
    """One store of HostOperations, in a state that a test sets."""

    def __init__(self, *operations: Resource) -> None:
        self.held: Store[Resource] = Store("hostoperations")
        self.held.replace(operations, 9)
        self.now = InformerState.SYNCED

    def store(self, kind: Kind, namespace: str = "", name: str | None = None) -> Store[Resource]:
        assert (kind, namespace, name) == (HOST_OPERATION, HOME, None)
        return self.held

    def state(self, kind: Kind, namespace: str = "", name: str | None = None) -> InformerState:
        assert (kind, namespace, name) == (HOST_OPERATION, HOME, None)
        return self.now


def test_facts_follow_the_store() -> None:
    reads = FakeReads(operation(phase="Applying"))
    facts = HostOperationFacts(reads, HOME)
    assert facts.cache_cleanup(NOW).active
    reads.held.replace([operation(phase="Succeeded")], 10)
    assert not facts.cache_cleanup(NOW).active


@pytest.mark.parametrize("unread", [InformerState.FAILING, InformerState.SYNCING])
@pytest.mark.parametrize("phase", ["Applying", "Succeeded"])
def test_a_list_that_fails_later_leaves_the_gate_as_it_was(unread: InformerState, phase: str) -> None:
    reads = FakeReads(operation(phase=phase))
    facts = HostOperationFacts(reads, HOME)
    before = facts.cache_cleanup(NOW).active
    reads.now = unread
    assert facts.cache_cleanup(NOW).active is before


def test_a_list_that_never_succeeded_closes_the_gate() -> None:
    reads = FakeReads()
    reads.now = InformerState.FAILING
    assert HostOperationFacts(reads, HOME).cache_cleanup(NOW).active


def test_a_kind_that_is_not_served_leaves_it_open_even_once_it_cannot_be_read() -> None:
    reads = FakeReads(operation())
    facts = HostOperationFacts(reads, HOME)
    reads.now = InformerState.ABSENT
    assert not facts.cache_cleanup(NOW).active
    reads.now = InformerState.FAILING
    assert not facts.cache_cleanup(NOW).active


def test_a_request_that_nobody_accepted_is_told_of_once() -> None:
    reads = FakeReads(operation("old", created="2026-01-01T11:00:00Z"))
    facts = HostOperationFacts(reads, HOME)
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            assert not facts.cache_cleanup(NOW).active
    assert [(each["log_level"], each["name"]) for each in logs] == [("warning", "old")]


# --- rights ----------------------------------------------------------------------------------------


@pytest.mark.req("MS-094")
def test_host_operations_and_what_holds_cached_files_are_never_written() -> None:
    """The files are deleted by the host's worker: no right of ours reaches a volume, a host or an operation."""
    rules = [
        rule
        for _, obj in objects(MANIFESTS / "rbac")
        if obj["kind"] in {"Role", "ClusterRole"}
        and not obj["metadata"]["name"].endswith("kubernetes-operator")
        for rule in obj["rules"]
    ]
    writes = {"create", "update", "patch", "delete", "deletecollection", "*"}
    out_of_reach = {"hostoperations", "hostoperations/status", "persistentvolumeclaims", "persistentvolumes"}
    assert rules
    for rule in rules:
        if writes & set(rule["verbs"]):
            assert not out_of_reach & set(rule["resources"])
            assert not {"*", "pods/exec", "nodes/proxy"} & set(rule["resources"])
