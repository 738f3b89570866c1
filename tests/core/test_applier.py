"""The applier against a server that answers what the test says."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from magicstick.kube.applier import MANAGED_BY, Applier
from magicstick.kube.cache import NotCachedError
from magicstick.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Invalid,
    KindNotServed,
    NameConflict,
    NotFound,
)
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource
from tests.support.objects import WIDGET, widget
from tests.support.waiting import SkippingClock

pytestmark = pytest.mark.anyio

OURS = "magicstick"
LABELS = {MANAGED_BY: OURS}
A = ObjectKey("default", "a")
Body = Mapping[str, Any]


@dataclass
class Sent:
    """A request: the verb, what it was about, and how it was bound."""

    verb: str
    body: Body = field(default_factory=dict)
    uid: str | None = None
    subresource: str | None = None
    force: bool = False
    resource_version: str | None = None


class Cluster:
    """Client and caches in one: what is live, what each next request is answered, what was sent."""

    def __init__(self, *live: Resource) -> None:
        self.cache = {obj.metadata.key: obj for obj in live}
        self.cached = True
        self.answers: deque[Resource | ApiError | None] = deque()
        self.sent: list[Sent] = []

    def _answer(self, sent: Sent) -> Any:
        self.sent.append(sent)
        answer = self.answers.popleft()
        if isinstance(answer, ApiError):
            raise answer
        return answer

    async def get(self, kind: Kind, key: ObjectKey, *, view: type[Resource]) -> Resource:
        assert (kind, key, view) == (WIDGET, A, Resource)
        found: Resource = self._answer(Sent("get"))
        return found

    async def create(self, kind: Kind, body: Body) -> Resource:
        assert kind == WIDGET
        created: Resource = self._answer(Sent("create", body))
        return created

    async def apply(
        self, kind: Kind, body: Body, *, subresource: str | None = None, force: bool = True
    ) -> Resource:
        assert kind == WIDGET
        applied: Resource = self._answer(Sent("apply", body, body["metadata"].get("uid"), subresource, force))
        return applied

    async def merge_patch(
        self, kind: Kind, key: ObjectKey, body: Body, *, subresource: str | None = None
    ) -> Resource:
        assert (kind, key) == (WIDGET, A)
        patched: Resource = self._answer(Sent("patch", body, subresource=subresource))
        return patched

    async def delete(
        self, kind: Kind, key: ObjectKey, *, uid: str | None = None, resource_version: str | None = None
    ) -> Resource | None:
        assert (kind, key) == (WIDGET, A)
        left: Resource | None = self._answer(Sent("delete", uid=uid, resource_version=resource_version))
        return left

    def live(self, kind: Kind, key: ObjectKey) -> Resource | None:
        if not self.cached:
            raise NotCachedError
        return self.cache.get(key) if kind == WIDGET else None

    def written(self, kind: Kind, obj: Resource) -> None:
        assert kind == WIDGET
        self.cache[obj.metadata.key] = obj

    def deleted(self, kind: Kind, key: ObjectKey, uid: str) -> None:
        assert kind == WIDGET
        found = self.cache.get(key)
        if found is not None and found.metadata.uid == uid:
            del self.cache[key]


class Bench:
    """An applier, its cluster, and the hot writes that it reported."""

    def __init__(self, *live: Resource) -> None:
        self.cluster = Cluster(*live)
        self.clock = SkippingClock()
        self.hot: list[tuple[Kind, ObjectKey, int]] = []
        self.applier = Applier(
            self.cluster,
            self.cluster,
            manager=OURS,
            on_hot_writes=lambda *told: self.hot.append(told),
            clock=self.clock,
        )

    def answers(self, *answers: Resource | ApiError | None) -> None:
        self.cluster.answers.extend(answers)

    @property
    def verbs(self) -> list[str]:
        return [sent.verb for sent in self.cluster.sent]


def desired(spec: Body, *, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {
            "name": "a",
            "namespace": "default",
            "labels": dict(LABELS if labels is None else labels),
        },
        "spec": spec,
    }


def owned(spec: Body) -> list[dict[str, Any]]:
    fields = {
        "f:metadata": {"f:labels": {f"f:{MANAGED_BY}": {}}},
        "f:spec": {f"f:{name}": {} for name in spec},
    }
    return [{"manager": OURS, "operation": "Apply", "fieldsV1": fields}]


def ours(version: int, spec: Body, *, wanted: Body | None = None, **more: Any) -> Resource:
    """The live object after we applied `wanted` (else `spec`)."""
    return widget("a", version, labels=LABELS, managed_fields=owned(wanted or spec), spec=spec, **more)


# --- apply ---------------------------------------------------------------------------------------


async def test_a_converged_object_gets_no_request_from_a_fresh_process() -> None:
    bench = Bench(ours(5, {"size": 1}))
    assert not await bench.applier.apply(WIDGET, desired({"size": 1}))
    assert bench.verbs == []
    assert bench.applier.counters.skipped == 1


async def test_a_new_object_is_applied_without_force() -> None:
    bench = Bench()
    bench.answers(ours(5, {"size": 1}))
    assert await bench.applier.apply(WIDGET, desired({"size": 1}))
    assert bench.cluster.sent == [Sent("apply", desired({"size": 1}), uid=None, force=False)]
    assert bench.cluster.cache[A].metadata.resource_version == "5"
    assert not await bench.applier.apply(WIDGET, desired({"size": 1}))


async def test_a_changed_object_is_applied_with_force_and_bound_to_its_uid() -> None:
    bench = Bench(ours(5, {"size": 1}))
    bench.answers(ours(6, {"size": 2}))
    body = desired({"size": 2})
    assert await bench.applier.apply(WIDGET, body)
    assert [(sent.uid, sent.force) for sent in bench.cluster.sent] == [("uid-a", True)]
    assert "uid" not in body["metadata"], "what the caller gave is not changed"
    assert bench.cluster.cache[A].metadata.resource_version == "6"


async def test_a_field_that_is_no_longer_wanted_is_a_change() -> None:
    bench = Bench(ours(5, {"size": 1, "colour": "red"}))
    bench.answers(ours(6, {"size": 1}))
    assert await bench.applier.apply(WIDGET, desired({"size": 1}))


async def test_an_object_of_someone_else_is_refused_before_anything_is_sent() -> None:
    for labels in ({}, {MANAGED_BY: "Helm"}):
        bench = Bench(widget("a", 5, labels=labels, spec={"size": 1}))
        with pytest.raises(NameConflict, match=r"widgets.example.com default/a exists and is not managed by"):
            await bench.applier.apply(WIDGET, desired({"size": 2}))
        assert bench.verbs == []


async def test_an_object_that_would_not_be_known_again_is_a_bug() -> None:
    bench = Bench()
    with pytest.raises(ValueError, match="lacks the label"):
        await bench.applier.apply(WIDGET, desired({"size": 1}, labels={}))


async def test_the_labels_value_can_differ_from_the_field_manager() -> None:
    cluster = Cluster(widget("a", 5, labels={MANAGED_BY: "appliance"}, managed_fields=owned({"size": 1})))
    applier = Applier(cluster, cluster, manager=OURS, managed_by="appliance")
    cluster.answers.append(ours(6, {"size": 1}))
    assert await applier.apply(WIDGET, desired({"size": 1}, labels={MANAGED_BY: "appliance"}))


async def test_a_dying_object_is_left_alone() -> None:
    bench = Bench(ours(5, {"size": 1}, dying=True, finalizers=["example.com/hold"]))
    assert not await bench.applier.apply(WIDGET, desired({"size": 2}))
    assert bench.verbs == []


async def test_a_replaced_object_is_a_conflict() -> None:
    bench = Bench(ours(5, {"size": 1}))
    bench.answers(Conflict("uid mismatch"))
    with pytest.raises(Conflict):
        await bench.applier.apply(WIDGET, desired({"size": 2}))
    assert bench.cluster.cache[A].metadata.resource_version == "5"


async def test_what_the_caches_do_not_know_is_asked_of_the_server() -> None:
    bench = Bench()
    bench.cluster.cached = False
    bench.answers(widget("a", 5, spec={"size": 1}))
    with pytest.raises(NameConflict):
        await bench.applier.apply(WIDGET, desired({"size": 1}))
    bench.answers(NotFound("gone"), ours(6, {"size": 1}))
    assert await bench.applier.apply(WIDGET, desired({"size": 1}))
    bench.answers(KindNotServed("no such kind"))
    with pytest.raises(KindNotServed):
        await bench.applier.apply(WIDGET, desired({"size": 1}))


async def test_a_spelling_that_the_server_rewrites_is_written_once() -> None:
    bench = Bench(ours(5, {"cpu": "1"}))
    bench.answers(ours(5, {"cpu": "1"}))
    assert not await bench.applier.apply(WIDGET, desired({"cpu": "1000m"})), "nothing changed"
    assert bench.applier.counters.without_effect == 1
    assert not await bench.applier.apply(WIDGET, desired({"cpu": "1000m"}))
    bench.cluster.written(WIDGET, ours(9, {"cpu": "1"}, status={"phase": "Ready"}))
    assert not await bench.applier.apply(WIDGET, desired({"cpu": "1000m"}))
    assert bench.verbs == ["apply"]


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        (ours(9, {"cpu": "2"}), {"cpu": "1000m"}),
        (ours(9, {"cpu": "1"}), {"cpu": "1500m"}),
        (ours(9, {"cpu": "1"}, uid="successor"), {"cpu": "1000m"}),
        (ours(9, {"cpu": "1", "more": 1}), {"cpu": "1000m"}),
    ],
    ids=["another value there", "another value wanted", "another object", "another difference"],
)
async def test_a_rewritten_spelling_hides_no_other_difference(there: Resource, wanted: Body) -> None:
    bench = Bench(ours(5, {"cpu": "1"}))
    bench.answers(ours(5, {"cpu": "1"}))
    await bench.applier.apply(WIDGET, desired({"cpu": "1000m"}))
    bench.cluster.written(WIDGET, there)
    bench.answers(ours(10, {"cpu": "1"}))
    await bench.applier.apply(WIDGET, desired(wanted))
    assert bench.verbs == ["apply", "apply"]


async def test_the_order_of_fields_is_no_difference_in_what_is_wanted() -> None:
    bench = Bench(ours(5, {"cpu": "1", "size": 2}))
    bench.answers(ours(5, {"cpu": "1", "size": 2}))
    await bench.applier.apply(WIDGET, desired({"cpu": "1000m", "size": 2}))
    await bench.applier.apply(WIDGET, desired({"size": 2, "cpu": "1000m"}))
    assert bench.verbs == ["apply"]


async def test_a_spelling_that_the_server_keeps_is_not_remembered() -> None:
    bench = Bench(ours(5, {"cpu": "1"}))
    bench.answers(ours(5, {"cpu": "1"}), ours(6, {"cpu": "2"}))
    await bench.applier.apply(WIDGET, desired({"cpu": "1000m"}))
    await bench.applier.apply(WIDGET, desired({"cpu": "2"}))
    assert len(bench.applier._rewritten) == 0


async def test_a_spelling_is_forgotten_with_its_object() -> None:
    bench = Bench(ours(5, {"cpu": "1"}))
    bench.answers(ours(5, {"cpu": "1"}), None)
    await bench.applier.apply(WIDGET, desired({"cpu": "1000m"}))
    assert len(bench.applier._rewritten) == 1
    await bench.applier.delete(WIDGET, A, "uid-a")
    assert len(bench.applier._rewritten) == 0


# --- create --------------------------------------------------------------------------------------


async def test_an_object_is_created_once_and_whoever_has_it_keeps_it() -> None:
    bench = Bench()
    bench.answers(widget("a", 5))
    assert await bench.applier.create(WIDGET, desired({}))
    assert bench.cluster.cache[A].metadata.resource_version == "5"
    assert not await bench.applier.create(WIDGET, desired({"other": 1}))
    assert bench.verbs == ["create"]


async def test_an_object_that_appeared_meanwhile_is_left_alone() -> None:
    bench = Bench()
    bench.answers(AlreadyExists("exists"))
    assert not await bench.applier.create(WIDGET, desired({}))
    assert bench.cluster.cache == {}


async def test_an_object_that_is_not_cached_is_created_without_a_read() -> None:
    bench = Bench()
    bench.cluster.cached = False
    bench.answers(AlreadyExists("exists"))
    assert not await bench.applier.create(WIDGET, desired({}))
    assert bench.verbs == ["create"]


# --- delete --------------------------------------------------------------------------------------


async def test_a_deletion_is_bound_to_the_uid_and_seen_at_once() -> None:
    bench = Bench(ours(5, {}))
    bench.answers(None)
    assert await bench.applier.delete(WIDGET, A, "uid-a")
    assert bench.cluster.sent == [Sent("delete", uid="uid-a")]
    assert bench.cluster.cache == {}


async def test_a_deletion_of_one_version_is_bound_to_it_and_a_later_version_is_a_conflict() -> None:
    bench = Bench(ours(5, {}))
    bench.answers(Conflict("the ResourceVersion in the precondition (5) does not match that of the object"))
    with pytest.raises(Conflict):
        await bench.applier.delete(WIDGET, A, "uid-a", "5")
    assert bench.cluster.sent == [Sent("delete", uid="uid-a", resource_version="5")]
    assert A in bench.cluster.cache


async def test_an_object_that_lives_on_for_its_finalizers_is_seen_dying() -> None:
    bench = Bench(ours(5, {}, finalizers=["example.com/hold"]))
    bench.answers(ours(6, {}, finalizers=["example.com/hold"], dying=True))
    assert await bench.applier.delete(WIDGET, A, "uid-a")
    assert bench.cluster.cache[A].metadata.dying
    assert not await bench.applier.delete(WIDGET, A, "uid-a")
    assert bench.verbs == ["delete"]


async def test_a_server_that_returns_the_object_it_removed_has_removed_it() -> None:
    bench = Bench(ours(5, {}))
    bench.answers(ours(5, {}))
    assert await bench.applier.delete(WIDGET, A, "uid-a")
    assert bench.cluster.cache == {}


@pytest.mark.parametrize(
    "error",
    [
        NotFound("gone"),
        Conflict("Precondition failed: UID in precondition: uid-a, UID in object meta: z"),
        Conflict("the UID in the precondition (uid-a) does not match the UID in record (z)"),
    ],
)
async def test_an_object_that_is_gone_or_replaced_needs_no_deletion(error: ApiError) -> None:
    bench = Bench(ours(5, {}))
    bench.answers(error)
    assert not await bench.applier.delete(WIDGET, A, "uid-a")
    assert bench.cluster.cache == {}


async def test_the_deletion_of_an_object_leaves_its_successor_in_the_caches() -> None:
    bench = Bench(ours(5, {}, uid="successor"))
    bench.answers(NotFound("gone"))
    assert not await bench.applier.delete(WIDGET, A, "uid-a")
    assert bench.cluster.cache[A].metadata.uid == "successor"


async def test_a_successor_that_is_dying_says_nothing_of_the_object_to_delete() -> None:
    bench = Bench(ours(5, {}, uid="successor", dying=True, finalizers=["example.com/hold"]))
    bench.answers(NotFound("gone"))
    await bench.applier.delete(WIDGET, A, "uid-a")
    assert bench.verbs == ["delete"]


@pytest.mark.parametrize("error", [KindNotServed("no such kind"), Conflict("try again")])
async def test_a_deletion_that_says_nothing_of_the_object_is_an_error(error: ApiError) -> None:
    bench = Bench(ours(5, {}))
    bench.answers(error)
    with pytest.raises(type(error)):
        await bench.applier.delete(WIDGET, A, "uid-a")
    assert A in bench.cluster.cache


# --- objects of others ---------------------------------------------------------------------------


PATCH: Body = {"metadata": {"annotations": {"example.com/asked": "2"}}, "spec": {"sizes": {"s": 1}}}


async def test_fields_of_an_object_of_someone_else_are_set_and_bound_to_what_was_read() -> None:
    theirs = widget("a", 7, spec={"sizes": {"m": 2}})
    bench = Bench(theirs)
    bench.answers(widget("a", 8, annotations={"example.com/asked": "2"}, spec={"sizes": {"s": 1, "m": 2}}))
    assert await bench.applier.patch(WIDGET, A, "uid-a", PATCH)
    (sent,) = bench.cluster.sent
    bound = {"uid": "uid-a", "resourceVersion": "7", "annotations": {"example.com/asked": "2"}}
    assert (sent.verb, sent.body) == ("patch", {"metadata": bound, "spec": {"sizes": {"s": 1}}})
    assert not await bench.applier.patch(WIDGET, A, "uid-a", PATCH)
    assert len(bench.cluster.sent) == 1


@pytest.mark.parametrize(
    "live",
    [
        widget("a", 7, uid="uid-of-another"),
        widget("a", 7, dying=True, finalizers=["example.com/x"]),
        widget("a", 7, annotations={"example.com/asked": "2", "b": "c"}, spec={"sizes": {"s": 1, "m": 2}}),
    ],
    ids=["replaced", "dying", "as it should be"],
)
async def test_an_object_that_is_another_or_as_it_should_be_gets_no_patch(live: Resource) -> None:
    bench = Bench(live)
    assert not await bench.applier.patch(WIDGET, A, "uid-a", PATCH)
    assert bench.verbs == []


async def test_an_object_that_is_gone_is_not_made_by_a_patch() -> None:
    bench = Bench()
    assert not await bench.applier.patch(WIDGET, A, "uid-a", PATCH)
    assert bench.verbs == []


@pytest.mark.parametrize(
    ("fields", "already"),
    [
        ({"data": {"k": "v"}}, True),
        ({"data": {"k": None}}, False),
        ({"data": {"other": None}}, True),
        ({"data": {"k": "w"}}, False),
        ({"spec": {"list": [1]}}, False),
    ],
    ids=["set", "to be removed", "not there", "another value", "a list is replaced"],
)
async def test_a_patch_is_sent_exactly_when_it_would_change_something(fields: Body, *, already: bool) -> None:
    bench = Bench(widget("a", 7, data={"k": "v"}, spec={"list": [1, 2]}))
    bench.answers(widget("a", 8))
    assert await bench.applier.patch(WIDGET, A, "uid-a", fields) is not already


# --- finalizers ----------------------------------------------------------------------------------


async def test_our_finalizer_comes_last_and_is_bound_to_what_was_read() -> None:
    live = ours(5, {}, finalizers=["x.example.com/1", "y.example.com/2"])
    bench = Bench(live)
    bench.answers(ours(6, {}, finalizers=["x.example.com/1", "y.example.com/2", "ours"]))
    assert await bench.applier.add_finalizer(WIDGET, live, "ours")
    assert bench.cluster.sent[0].body == {
        "metadata": {
            "uid": "uid-a",
            "resourceVersion": "5",
            "finalizers": ["x.example.com/1", "y.example.com/2", "ours"],
        }
    }
    assert bench.cluster.cache[A].metadata.resource_version == "6"


async def test_a_finalizer_is_not_added_twice_nor_to_a_dying_object() -> None:
    bench = Bench()
    assert not await bench.applier.add_finalizer(WIDGET, ours(5, {}, finalizers=["ours"]), "ours")
    dying = ours(5, {}, dying=True, finalizers=["other"])
    assert not await bench.applier.add_finalizer(WIDGET, dying, "ours")
    assert bench.verbs == []


async def test_our_finalizer_goes_and_those_of_others_keep_their_order() -> None:
    live = ours(5, {}, dying=True, finalizers=["x", "ours", "y"])
    bench = Bench(live)
    bench.answers(ours(6, {}, dying=True, finalizers=["x", "y"]))
    assert await bench.applier.remove_finalizer(WIDGET, live, "ours")
    assert bench.cluster.sent[0].body["metadata"]["finalizers"] == ["x", "y"]
    assert bench.cluster.cache[A].metadata.finalizers == ("x", "y")


async def test_the_last_finalizer_takes_a_dying_object_with_it() -> None:
    live = ours(5, {}, dying=True, finalizers=["ours"])
    bench = Bench(live)
    bench.answers(ours(6, {}, dying=True))
    assert await bench.applier.remove_finalizer(WIDGET, live, "ours")
    assert bench.cluster.cache == {}


async def test_a_living_object_outlives_its_last_finalizer() -> None:
    live = ours(5, {}, finalizers=["ours"])
    bench = Bench(live)
    bench.answers(ours(6, {}))
    assert await bench.applier.remove_finalizer(WIDGET, live, "ours")
    assert bench.cluster.cache[A].metadata.resource_version == "6"


async def test_a_finalizer_that_is_not_there_needs_no_removal() -> None:
    bench = Bench()
    assert not await bench.applier.remove_finalizer(WIDGET, ours(5, {}), "ours")
    assert bench.verbs == []


async def test_an_object_that_went_before_its_finalizer_is_gone() -> None:
    live = ours(5, {}, dying=True, finalizers=["ours"])
    bench = Bench(live)
    bench.answers(NotFound("gone"))
    assert not await bench.applier.remove_finalizer(WIDGET, live, "ours")
    assert bench.cluster.cache == {}


async def test_a_concurrent_change_is_a_conflict_for_a_finalizer() -> None:
    live = ours(5, {}, finalizers=["ours"])
    bench = Bench(live)
    bench.answers(Conflict("the object has been modified"))
    with pytest.raises(Conflict):
        await bench.applier.remove_finalizer(WIDGET, live, "ours")


# --- status --------------------------------------------------------------------------------------


async def test_a_status_is_applied_whole_to_its_subresource_and_bound_to_what_was_read() -> None:
    live = ours(5, {}, status={"phase": "Pending"})
    bench = Bench(live)
    bench.answers(ours(6, {}, status={"phase": "Ready"}))
    assert await bench.applier.apply_status(WIDGET, live, {"phase": "Ready"})
    body = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "a", "namespace": "default", "resourceVersion": "5"},
        "status": {"phase": "Ready"},
    }
    assert bench.cluster.sent == [Sent("apply", body, None, "status", force=True)]
    assert bench.cluster.cache[A].status == {"phase": "Ready"}


async def test_an_equal_status_is_not_written() -> None:
    live = ours(5, {}, status={"phase": "Ready", "list": [1]})
    bench = Bench(live)
    assert not await bench.applier.apply_status(WIDGET, live, {"list": (1,), "phase": "Ready"})
    assert bench.verbs == []


@pytest.mark.parametrize("status", [{"phase": "Ready"}, {"phase": "Ready", "url": "x", "more": 1}, {}])
async def test_a_status_with_less_or_more_is_another_status(status: Body) -> None:
    live = ours(5, {}, status={"phase": "Ready", "url": "x"})
    bench = Bench(live)
    bench.answers(ours(6, {}, status=status))
    assert await bench.applier.apply_status(WIDGET, live, status)


async def test_a_status_field_that_the_server_prunes_is_written_once() -> None:
    live = ours(5, {}, status={"phase": "Ready"})
    bench = Bench(live)
    bench.answers(live)
    assert not await bench.applier.apply_status(WIDGET, live, {"phase": "Ready", "unknown": 1})
    assert not await bench.applier.apply_status(WIDGET, live, {"phase": "Ready", "unknown": 1})
    assert bench.verbs == ["apply"]


async def test_the_status_of_a_dying_object_is_written() -> None:
    live = ours(5, {}, dying=True, finalizers=["ours"])
    bench = Bench(live)
    bench.answers(ours(6, {}, dying=True, finalizers=["ours"], status={"phase": "Deleting"}))
    assert await bench.applier.apply_status(WIDGET, live, {"phase": "Deleting"})


async def test_the_status_of_an_object_that_is_gone_is_dropped() -> None:
    live = ours(5, {})
    bench = Bench(live)
    bench.answers(NotFound("gone"))
    assert not await bench.applier.apply_status(WIDGET, live, {"phase": "Ready"})
    assert bench.cluster.cache == {}


async def test_a_refusal_passes_to_the_caller() -> None:
    live = ours(5, {})
    bench = Bench(live)
    bench.answers(Invalid("status.phase: Unsupported value"), KindNotServed("no such kind"))
    with pytest.raises(Invalid):
        await bench.applier.apply_status(WIDGET, live, {"phase": "Odd"})
    with pytest.raises(KindNotServed):
        await bench.applier.apply_status(WIDGET, live, {"phase": "Odd"})
    assert A in bench.cluster.cache


# --- loops that feed themselves ------------------------------------------------------------------


async def fight(bench: Bench, rounds: int, *, pause_s: float = 5.0) -> None:
    """Someone undoes our write each time."""
    for number in range(rounds):
        bench.cluster.written(WIDGET, ours(100 + 2 * number, {"size": 1}))
        bench.answers(ours(101 + 2 * number, {"size": 2}))
        assert await bench.applier.apply(WIDGET, desired({"size": 2}))
        bench.clock.now += pause_s


async def test_writing_the_same_again_and_again_is_reported_once() -> None:
    bench = Bench()
    await fight(bench, 5)
    assert bench.hot == []
    await fight(bench, 10)
    assert bench.hot == [(WIDGET, A, 6)]


async def test_a_fight_that_begins_anew_is_reported_anew() -> None:
    bench = Bench()
    await fight(bench, 8)
    bench.clock.now += 120
    await fight(bench, 8)
    assert len(bench.hot) == 2


async def test_slow_repairs_are_no_fight() -> None:
    bench = Bench()
    await fight(bench, 30, pause_s=13.0)
    assert bench.hot == []


async def test_new_intentions_are_no_fight() -> None:
    bench = Bench(ours(5, {"size": 0}))
    for size in range(1, 30):
        bench.answers(ours(5 + size, {"size": size}))
        assert await bench.applier.apply(WIDGET, desired({"size": size}))
    assert bench.hot == []


async def test_several_who_create_the_same_at_once_are_no_fight() -> None:
    bench = Bench()
    bench.cluster.cached = False
    for _ in range(30):
        bench.answers(AlreadyExists("exists"))
        assert not await bench.applier.create(WIDGET, desired({}))
    assert bench.hot == []


async def test_what_is_refused_each_time_is_no_fight() -> None:
    bench = Bench()
    for _ in range(30):
        bench.answers(KindNotServed("gone"))
        with pytest.raises(KindNotServed):
            await bench.applier.apply(WIDGET, desired({}))
    assert bench.hot == []


async def test_a_finalizer_that_is_refused_each_time_is_no_fight() -> None:
    bench = Bench()
    for _ in range(30):
        bench.answers(Invalid("the spec is missing"))
        with pytest.raises(Invalid):
            await bench.applier.add_finalizer(WIDGET, ours(5, {}), "example.com/f")
    assert bench.hot == []


async def test_what_is_remembered_of_writes_does_not_grow_for_ever() -> None:
    bench = Bench()
    for number in range(300):
        bench.answers(widget(f"w{number}", 5 + number))
        body = desired({})
        body["metadata"]["name"] = f"w{number}"
        await bench.applier.create(WIDGET, body)
        bench.clock.now += 10
    assert len(bench.applier._hot) <= 13


# --- re-reading ----------------------------------------------------------------------------------


async def test_a_refresh_puts_what_the_server_has_into_the_caches() -> None:
    bench = Bench(ours(5, {}))
    bench.answers(ours(8, {}), NotFound("gone"))
    await bench.applier.refresh(WIDGET, A)
    assert bench.cluster.cache[A].metadata.resource_version == "8"
    await bench.applier.refresh(WIDGET, A)
    assert A in bench.cluster.cache, "which object is gone, only the watch knows"
