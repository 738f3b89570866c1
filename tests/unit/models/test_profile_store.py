"""The one writer of the profile store: what it sees, and what it writes when (decision 15; case F08)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from magicstick.api.kinds import HELM_RELEASE, KUBEAI_MODEL, MODEL_ACTIVATION
from magicstick.catalogs.compute_targets import ComputeTargetCatalog
from magicstick.catalogs.modules import ModuleCatalog
from magicstick.catalogs.presets import PresetCatalog
from magicstick.gpu.nodes import NodeView
from magicstick.kube.errors import Forbidden
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CONFIG_MAP, NODE, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.models.facts import ModelFacts
from magicstick.models.kubeai_release import PROFILES, STORE_KEY
from magicstick.models.profile_store import (
    REQUESTED_AT,
    REQUESTED_FOR,
    ProfileStoreReconciler,
    StoreObservation,
    StoreOutcome,
    decide,
)
from magicstick.models.release_facts import ReleaseFacts
from magicstick.models.resolve import resolve
from magicstick.models.resolved import DerivedProfile
from magicstick.models.store_document import MAX_CHARACTERS, Claim
from magicstick.modules.facts import ModuleFacts
from magicstick.modules.objects import Site
from magicstick.runtime.plan import Patch, Plan
from magicstick.runtime.reads import Reads
from tests.support.gpu_objects import node
from tests.support.model_objects import activation
from tests.support.module_world import FakeDefinitions
from tests.support.objects import resource
from tests.support.resolution import CPU, HF, chosen, release_object, resolved, store_object
from tests.support.runtime import FakeStores
from tests.support.shipped import MODULES, PRESETS, TARGETS
from tests.support.virtual_time import VirtualTime

pytestmark = pytest.mark.anyio

KEY = ObjectKey("flux-system", "magicstick-offloading-profiles")
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
PROFILE = DerivedProfile("magicstick-cpu-0123456789abcdef0123", {"requests": {"cpu": "1"}})
CLAIM = Claim(ObjectKey("ai-system", "demo"), "2026-01-01T00:00:00Z", (PROFILE,))


@dataclass
class Shipped:
    """The shipped catalogs, as long as a test leaves them."""

    modules: ModuleCatalog | None = MODULES
    compute_targets: ComputeTargetCatalog | None = TARGETS
    presets: PresetCatalog | None = PRESETS

    def __post_init__(self) -> None:
        self.handlers: list[Any] = []

    def subscribe(self, handler: Any) -> None:
        self.handlers.append(handler)


@dataclass
class Settings:
    """What the reconciler asks for."""

    requeue_seconds: float = 20.0


class Bench:
    """The reconciler over stores that a test fills."""

    def __init__(self) -> None:
        self.stores = FakeStores()
        self.clock = VirtualTime()
        self.catalogs = Shipped()
        reads = Reads(self.stores)
        modules = ModuleFacts(reads, self.catalogs, Site(), FakeDefinitions())
        self.release = ReleaseFacts(reads, Site())
        self.reconciler = ProfileStoreReconciler(
            ModelFacts(modules, reads, lambda _node: {}, self.clock),
            self.release,
            reads,
            self.catalogs,
            Settings(),
            self.clock,
        )
        reads.declare(self.reconciler.declaration)
        self.stores.enter(HELM_RELEASE, InformerState.SYNCED, release_object())
        self.hold({})

    def hold(self, profiles: Mapping[str, Any], text: str | None = None) -> None:
        self.stores.enter(CONFIG_MAP, InformerState.SYNCED, store_object(profiles, text))

    def want(self, *activations: Resource) -> None:
        self.stores.enter(MODEL_ACTIVATION, InformerState.SYNCED, *activations)

    def serve(self, *references: str) -> None:
        models = [
            resource({"metadata": {"namespace": "ai", "name": f"m{at}"}, "spec": {"resourceProfile": each}})
            for at, each in enumerate(references)
        ]
        self.stores.enter(KUBEAI_MODEL, InformerState.SYNCED, *models)

    async def plan(self) -> Plan:
        observation = await self.reconciler.observe(KEY)
        assert observation is not None
        return self.reconciler.decide(observation, self.clock.now())

    async def stored(self) -> dict[str, Any]:
        """What the plan makes of the store."""
        return profiles_of(await self.plan())


def profiles_of(plan: Plan) -> dict[str, Any]:
    (step,) = [each for each in plan.steps if isinstance(each, Patch) and each.kind == CONFIG_MAP]
    document: dict[str, Any] = json.loads(step.body["data"][STORE_KEY])
    return dict(document[PROFILES])


def demo(name: str = "demo", **local: Any) -> Resource:
    return activation(name, spec={"type": "local", "local": {**CPU, **local}})


def derived(**local: Any) -> dict[str, Any]:
    return {each.name: each.content for each in chosen(resolved({**CPU, **local})).derived}


# --- the decision -----------------------------------------------------------------------------------


def seen(**changes: Any) -> StoreObservation:
    usual = StoreObservation(store_object(), claims=(CLAIM,), release=release_object())
    return replace(usual, **changes)


@pytest.mark.req("MS-154")
def test_a_new_profile_is_written_and_the_release_asked_to_take_it_at_once() -> None:
    store, release = decide(seen(), NOW).steps
    assert isinstance(store, Patch)
    assert isinstance(release, Patch)
    assert (store.key, store.uid) == (KEY, "uid-store")
    assert json.loads(store.body["data"][STORE_KEY]) == {PROFILES: {PROFILE.name: PROFILE.content}}
    assert (release.kind, release.uid) == (HELM_RELEASE, "uid-release")
    assert release.body["metadata"]["annotations"][REQUESTED_AT] == "2026-01-01T12:00:00.000000Z"


@pytest.mark.req("MS-154")
def test_two_requests_within_a_second_are_two_to_flux() -> None:
    """It compares the text with that of the request that it handled last, and with nothing else."""
    moments = (NOW, NOW + timedelta(milliseconds=120))
    releases = [step for now in moments for step in decide(seen(), now).steps if step.kind == HELM_RELEASE]
    tokens = [
        each.body["metadata"]["annotations"][REQUESTED_AT] for each in releases if isinstance(each, Patch)
    ]
    assert len(set(tokens)) == len(moments)


@pytest.mark.req("MS-139")
def test_nothing_of_the_release_is_written_but_the_two_annotations() -> None:
    release = decide(seen(), NOW).steps[1]
    assert isinstance(release, Patch)
    assert release.body.keys() == {"metadata"}
    assert release.body["metadata"].keys() == {"annotations"}
    assert release.body["metadata"]["annotations"].keys() == {REQUESTED_AT, REQUESTED_FOR}


def asked(**annotations: str) -> Resource:
    """The release after it has been asked to take the profile of `CLAIM`."""
    release = decide(seen(), NOW).steps[1]
    assert isinstance(release, Patch)
    live = release_object()
    given = {**release.body["metadata"]["annotations"], **annotations}
    return msgspec.structs.replace(live, metadata=msgspec.structs.replace(live.metadata, annotations=given))


def test_a_store_at_rest_is_neither_written_nor_asked_for_again() -> None:
    settled = seen(current={PROFILE.name: PROFILE.content}, release=asked())
    assert decide(settled, NOW) == Plan(StoreOutcome.SETTLED)


@pytest.mark.parametrize("text", ["{", "", "[]", "{}", '{"resourceProfiles":[]}'])
async def test_a_store_that_holds_no_profiles_is_mended_though_nobody_wants_any(text: str) -> None:
    bench = Bench()
    bench.hold({}, text)
    assert await bench.stored() == {}


def test_somebody_elses_request_for_a_reconcile_is_not_answered_with_one_of_ours() -> None:
    theirs = asked(**{REQUESTED_AT: "2026-02-02T00:00:00Z"})
    assert decide(seen(current={PROFILE.name: PROFILE.content}, release=theirs), NOW).steps == ()


def test_a_request_that_was_lost_between_the_two_writes_is_made_up_for() -> None:
    written = seen(current={PROFILE.name: PROFILE.content})
    (step,) = decide(written, NOW).steps
    assert isinstance(step, Patch)
    assert step.kind == HELM_RELEASE


def test_a_cluster_without_models_is_left_as_git_made_it() -> None:
    assert decide(seen(claims=()), NOW) == Plan(StoreOutcome.SETTLED)


def test_without_a_release_the_store_is_written_all_the_same() -> None:
    (step,) = decide(seen(release=None), NOW).steps
    assert isinstance(step, Patch)
    assert step.kind == CONFIG_MAP


@pytest.mark.req("MS-153")
def test_a_full_store_has_an_outcome_of_its_own() -> None:
    huge = DerivedProfile("magicstick-cpu-ffffffffffffffffffff", {"x": "y" * MAX_CHARACTERS})
    plan = decide(seen(claims=(CLAIM, Claim(ObjectKey("ai-system", "huge"), "2026", (huge,)))), NOW)
    assert plan.outcome == StoreOutcome.FULL
    assert plan.log["activations"] == ["ai-system/huge"]
    assert profiles_of(plan) == {PROFILE.name: PROFILE.content}


@pytest.mark.parametrize(("unused_s", "kept"), [(0, True), (599, True), (600, False), (6000, False)])
def test_an_unused_profile_is_dropped_after_ten_minutes(unused_s: float, *, kept: bool) -> None:
    current = {PROFILE.name: PROFILE.content, "handmade": {"a": 1}}
    since = {PROFILE.name: NOW - timedelta(seconds=unused_s)}
    plan = decide(seen(claims=(), current=current, unused_since=since, release=None), NOW)
    if kept:
        assert plan.steps == ()
    else:
        assert profiles_of(plan) == {"handmade": {"a": 1}}


# --- what it sees -----------------------------------------------------------------------------------


@pytest.mark.req("MS-004", "MS-148")
async def test_the_store_is_derived_from_all_activations_that_want_to_be_served() -> None:
    bench = Bench()
    bench.want(
        demo("a"),
        demo("b", memoryRequiredMi=8192),
        demo("c", memoryRequiredMi=8192),
        activation("off", spec={"enabled": False, "local": {**CPU, "memoryRequiredMi": 1024}}),
        activation("going", dying=True, spec={"local": {**CPU, "memoryRequiredMi": 2048}}),
        activation("theirs", spec={"applianceRef": {"name": "another"}, "local": dict(CPU)}),
        activation("wrong", spec={"local": {"computeTarget": "cpu"}}),
        activation("far", spec={"type": "external", "external": {"model": "openai/x"}}),
    )
    assert await bench.stored() == derived() | derived(memoryRequiredMi=8192)


@pytest.mark.req("MS-130")
async def test_an_offloading_model_has_its_memory_in_the_store() -> None:
    bench = Bench()
    local = {"url": HF, "vram": "12000Mi", "memoryRequiredMi": 16000, "cpuOffloading": True}
    bench.want(activation(spec={"local": local}))
    held = await bench.stored()
    assert held["magicstick-nvidia-gpu-ram-16000"]["limits"] == {"memory": "16000Mi", "nvidia.com/gpu": "1"}
    assert len(held) == 2


async def test_what_a_model_names_stays_however_long_it_is_not_wanted() -> None:
    bench = Bench()
    (name,) = derived()
    bench.hold(derived())
    bench.serve(f"{name}:1")
    for _ in range(3):
        assert (await bench.plan()).outcome == StoreOutcome.SETTLED
        bench.clock.advance(3600)
    bench.serve()
    await bench.plan()
    bench.clock.advance(599)
    assert profiles_untouched(await bench.plan())
    bench.clock.advance(1)
    assert await bench.stored() == {}


def profiles_untouched(plan: Plan) -> bool:
    return not any(step.kind == CONFIG_MAP for step in plan.steps)


async def test_a_profile_that_is_wanted_again_begins_its_ten_minutes_anew() -> None:
    bench = Bench()
    bench.hold(derived())
    await bench.plan()
    bench.clock.advance(590)
    bench.want(demo())
    await bench.plan()
    bench.want()
    await bench.plan()
    bench.clock.advance(590)
    assert profiles_untouched(await bench.plan())


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        (MODEL_ACTIVATION, InformerState.FAILING),
        (MODEL_ACTIVATION, InformerState.ABSENT),
        (KUBEAI_MODEL, InformerState.FAILING),
        (KUBEAI_MODEL, InformerState.SYNCING),
        (NODE, InformerState.FAILING),
        (HELM_RELEASE, InformerState.FAILING),
    ],
)
async def test_nothing_is_dropped_while_something_cannot_be_read(kind: Any, state: InformerState) -> None:
    bench = Bench()
    bench.hold(derived())
    await bench.plan()
    bench.clock.advance(6000)
    bench.stores.enter(kind, state)
    assert (await bench.plan()).outcome == StoreOutcome.HELD
    assert (await bench.plan()).steps == ()


async def test_without_kubeais_kind_there_are_no_models() -> None:
    bench = Bench()
    bench.want(demo())
    bench.stores.enter(KUBEAI_MODEL, InformerState.ABSENT)
    assert await bench.stored() == derived()


@pytest.mark.parametrize("missing", ["modules", "compute_targets", "presets"])
async def test_without_a_catalog_the_store_stays_as_it_is(missing: str) -> None:
    bench = Bench()
    bench.want(demo())
    setattr(bench.catalogs, missing, None)
    assert (await bench.plan()).outcome == StoreOutcome.HELD


@pytest.mark.parametrize("text", ["", "{", "[]", '{"resourceProfiles": 3}'])
async def test_a_store_that_somebody_broke_is_made_whole(text: str) -> None:
    bench = Bench()
    bench.hold({}, text)
    bench.want(demo())
    assert await bench.stored() == derived()


async def test_a_store_that_git_has_not_made_is_not_made() -> None:
    bench = Bench()
    bench.stores.enter(CONFIG_MAP, InformerState.SYNCED)
    assert await bench.reconciler.observe(KEY) is None


async def test_another_base_profile_makes_another_profile() -> None:
    bench = Bench()
    bench.want(demo())
    before = await bench.stored()
    values = {PROFILES: {"magicstick-vllm-cpu-memory": {"requests": {"memory": "16Mi"}, "imageName": "new"}}}
    bench.stores.enter(HELM_RELEASE, InformerState.SYNCED, release_object(values=values))
    after = await bench.stored()
    assert before.keys().isdisjoint(after.keys())
    assert [each["imageName"] for each in after.values()] == ["new"]


async def test_news_that_no_object_tells_wakes_the_store() -> None:
    bench = Bench()
    woken: list[ObjectKey] = []
    bench.reconciler.follow(woken.extend)
    bench.catalogs.handlers[0]("model-presets", None, None)
    bench.stores.enter(NODE, InformerState.SYNCED)
    assert woken == [KEY, KEY]


async def test_a_change_of_an_activation_a_model_or_the_release_wakes_the_store_and_others_do_not() -> None:
    edges = {each.kind: each for each in Bench().reconciler.declaration.edges}
    old, new = (msgspec.structs.replace(demo(), status={"phase": phase}) for phase in ("Starting", "Ready"))
    assert not edges[MODEL_ACTIVATION].changed(old, new)
    assert edges[MODEL_ACTIVATION].changed(old, activation(generation=2))
    assert tuple(edges[MODEL_ACTIVATION].wakes(old, new)) == (KEY,)
    model = resource({"metadata": {"name": "m"}, "spec": {"resourceProfile": "a:1", "replicas": 1}})
    scaled = resource({"metadata": {"name": "m"}, "spec": {"resourceProfile": "a:1", "replicas": 2}})
    assert not edges[KUBEAI_MODEL].changed(model, scaled)
    assert edges[KUBEAI_MODEL].changed(model, None)
    assert edges[HELM_RELEASE].changed(release_object(), asked())


async def test_a_refused_write_is_logged_and_tried_again() -> None:
    bench = Bench()
    observation = await bench.reconciler.observe(KEY)
    assert observation is not None
    plan = bench.reconciler.decide_failure(observation, Forbidden("no"), NOW)
    assert plan == Plan(StoreOutcome.FAILED)
    assert bench.reconciler.declaration.requeue_s[plan.outcome] == 20.0


async def test_a_pass_works_out_anew_only_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for: list[str] = []

    def counted(given: Resource, *ground: Any) -> Any:
        asked_for.append(given.metadata.name)
        return resolve(given, *ground)

    monkeypatch.setattr("magicstick.models.claims.resolve", counted)
    bench = Bench()
    bench.want(demo("a"), demo("b"))
    await bench.plan()
    bench.want(demo("a"), activation("b", generation=2, spec={"local": dict(CPU)}), demo("c"))
    await bench.plan()
    assert asked_for == ["a", "b", "b", "c"]


def woken_by(bench: Bench, old: NodeView, new: NodeView) -> list[ObjectKey]:
    """What a change of a node wakes."""
    (edge,) = [each for each in bench.reconciler.declaration.edges if each.kind == NODE]
    return list(edge.wakes(old, new)) if edge.changed(old, new) else []


def test_nodes_wake_the_store_only_for_models_that_depend_on_them() -> None:
    bench, labelled = Bench(), node("n1", allocatable={"nvidia.com/gpu": "1"})
    assert woken_by(bench, node("n1"), labelled) == []
    bench.want(demo())
    assert woken_by(bench, node("n1"), labelled) == []
    bench.want(demo(), activation("fast", spec={"type": "local", "local": {"computeTarget": "nvidia-gpu"}}))
    assert woken_by(bench, node("n1"), labelled) == [KEY]
    assert woken_by(bench, node("n1"), node("n1", labelled={"example.com/other": "true"})) == []
    assert (
        woken_by(
            bench, node("n1", heartbeat="2026-01-01T12:00:00Z"), node("n1", heartbeat="2026-01-01T12:01:00Z")
        )
        == []
    )
