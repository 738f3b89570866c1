"""What holds for every module in every situation."""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.api import labels
from magicstick.api.kinds import APPLIANCE, KUSTOMIZATION, MODULE_ACTIVATION
from magicstick.kube.errors import ApiError, Conflict, Forbidden, NamespaceTerminating, Unavailable
from magicstick.kube.informer import InformerState
from magicstick.kube.objects import Resource
from magicstick.modules.decide import decide, decide_failure
from magicstick.modules.facts import is_ours
from magicstick.modules.reconciler import observe
from magicstick.runtime.conditions import check_conditions
from magicstick.runtime.plan import Apply, Create, Delete, Finalizer, Plan
from tests.support.effort import examples
from tests.support.module_objects import activation, appliance, catalog, condition, kustomization
from tests.support.module_world import World

CATALOGS = {
    "chain": catalog(
        a={"requires": ["b", "basis"]},
        b={"requires": ["c"], "aliases": ["beta"]},
        c={"parameters": [{"name": "storage", "substitution": "SIZE"}], "postBuildSubstitution": True},
    ),
    "ring": catalog(a={"requires": ["b"]}, b={"requires": ["a"]}, c={"requires": ["basis", "nothing"]}),
    "vendor": catalog(
        a={"waitForReady": True, "requiredCrds": ["things.example.com"]}, b={"path": 7}, c=None
    ),
    "renamed": catalog(a={"kustomizationName": "other-a"}, b={"aliases": ["c"]}),
}
NAMES = ["a", "b", "c", "beta", "basis", "nothing"]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=5,
)
SIZES = st.sampled_from(["5Gi", "", "big", {"size": "1Gi"}]) | JSON
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "module": st.sampled_from([*NAMES, " B ", ""]) | JSON,
        "enabled": st.booleans() | JSON,
        "parameters": st.dictionaries(st.just("storage"), SIZES) | JSON,
        "applianceRef": st.sampled_from([{"name": "other"}, {"name": "local"}]) | JSON,
    },
)
STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from(["Ready", "Degraded", "Removing"]) | JSON,
        "observedGeneration": st.integers(0, 2) | JSON,
        "kustomization": st.sampled_from(["app-a", "app-b", "gone"]) | JSON,
        "conditions": st.lists(st.builds(condition, st.sampled_from(["True", "False"])), max_size=1) | JSON,
    },
)
LIVES = st.sampled_from([{}, {"finalizers": ["x"]}, {"finalizers": ["x"], "dying": True}])
ACTIVATIONS = st.builds(
    lambda name, spec, status, life, generation: activation(
        name, spec=spec, status=status, generation=generation, **life
    ),
    st.sampled_from(NAMES),
    SPECS,
    STATUSES,
    LIVES,
    st.integers(1, 2),
)
KUSTOMIZATIONS = st.builds(
    lambda name, module, ready, reason, suspend, ours, life, observed: kustomization(
        name, module=module, ready=ready, reason=reason, suspend=suspend, ours=ours, observed=observed, **life
    ),
    st.sampled_from(["app-a", "other-a", "app-b", "app-c", "infrastructure-basis"]),
    st.sampled_from([*NAMES, None]),
    st.sampled_from([None, "True", "False", "Unknown"]),
    st.sampled_from(["", "BuildFailed", "DependencyNotReady"]),
    st.booleans(),
    st.booleans(),
    LIVES,
    st.integers(0, 1),
)
APPLIANCES = st.builds(appliance, source=st.sampled_from([{"name": "mine"}, {}]) | JSON)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Any objects, in any condition, some kinds of which may be unreadable."""
    name = draw(st.none() | st.sampled_from(sorted(CATALOGS)))
    objects = [
        *draw(st.lists(ACTIVATIONS, min_size=1, max_size=4)),
        *draw(st.lists(KUSTOMIZATIONS, max_size=4)),
        *draw(st.lists(APPLIANCES, max_size=1)),
    ]
    there = World(CATALOGS[name] if name is not None else None, *objects)
    for kind in (MODULE_ACTIVATION, KUSTOMIZATION, APPLIANCE):
        there.reads.states[kind] = draw(st.sampled_from([InformerState.SYNCED] * 5 + list(InformerState)))
    there.definitions.names = set(draw(st.sampled_from([[], ["things.example.com"]])))
    there.definitions.unknown = draw(st.sampled_from([False, False, True]))
    return there


def plans(there: World) -> list[tuple[Resource, Plan]]:
    """What is decided about each activation."""
    return [
        (each, decide(observe(each, there.facts))) for each in there.reads.stores[MODULE_ACTIVATION].list()
    ]


@given(worlds())
def test_there_is_a_decision_and_a_well_formed_status_for_everything(there: World) -> None:
    for each, plan in plans(there):
        assert plan.outcome in there.modules.declaration.requeue_s
        assert {step.kind for step in plan.steps} <= there.modules.declaration.writes
        assert check(each, plan) == []


@given(
    worlds(),
    st.sampled_from([Forbidden("no"), NamespaceTerminating("going"), Unavailable("?"), Conflict("!")]),
)
def test_there_is_a_report_for_every_failure(there: World, error: ApiError) -> None:
    for each in there.reads.stores[MODULE_ACTIVATION].list():
        plan = decide_failure(observe(each, there.facts), error)
        assert plan.outcome in there.modules.declaration.requeue_s
        assert plan.steps == ()
        assert check(each, plan) == []


def check(each: Resource, plan: Plan) -> list[str]:
    """What is wrong with the conditions of the plan's status."""
    if plan.status is None:
        return []
    told = [{**entry, "lastTransitionTime": "x"} for entry in plan.status["conditions"]]
    status: Mapping[str, Any] = {**plan.status, "conditions": told}
    return check_conditions({"metadata": {"generation": each.metadata.generation}, "status": status})


@pytest.mark.req("MS-122")
@given(worlds())
def test_only_what_is_ours_is_ever_deleted(there: World) -> None:
    for _, plan in plans(there):
        for step in plan.steps:
            if isinstance(step, Delete):
                target = there.kustomization(step.key.name)
                assert target is not None
                assert is_ours(target)
                assert target.metadata.uid == step.uid


@pytest.mark.req("MS-117")
@given(worlds())
def test_nothing_suspended_and_nothing_dying_is_ever_deleted(there: World) -> None:
    for _, plan in plans(there):
        for step in plan.steps:
            if isinstance(step, Delete):
                target = there.kustomization(step.key.name)
                assert target is not None
                assert target.spec.get("suspend") is not True
                assert not target.metadata.dying


@pytest.mark.req("MS-118")
@given(worlds())
def test_what_an_enabled_module_has_under_its_name_is_never_deleted(there: World) -> None:
    for each, plan in plans(there):
        seen = observe(each, there.facts)
        if each.metadata.dying or each.spec.get("enabled") is False:
            continue
        doomed = {step.key.name for step in plan.steps if isinstance(step, Delete)}
        assert seen.flux_name not in doomed or not seen.flux_name


@given(worlds())
def test_f05_nothing_is_created_or_suspended_for_a_dying_activation(there: World) -> None:
    for each, plan in plans(there):
        if each.metadata.dying:
            assert not any(isinstance(step, Create) for step in plan.steps)
            assert all(not step.body["spec"]["suspend"] for step in plan.steps if isinstance(step, Apply))
            assert plan.finalizer is not Finalizer.ADD


@given(worlds())
def test_while_anything_is_unreadable_nothing_is_deleted_suspended_or_released(there: World) -> None:
    states = there.reads.states
    blind = states[MODULE_ACTIVATION] is not InformerState.SYNCED or states[KUSTOMIZATION] in (
        InformerState.SYNCING,
        InformerState.FAILING,
    )
    if not blind and there.catalogs.modules is not None:
        return
    for _, plan in plans(there):
        assert plan.steps == ()
        assert plan.finalizer is not Finalizer.REMOVE


@pytest.mark.req("MS-114", "MS-115")
@given(worlds())
def test_no_module_is_applied_unsuspended_unless_all_that_it_requires_is_ready(there: World) -> None:
    for each, plan in plans(there):
        seen = observe(each, there.facts)
        running = [
            step
            for step in plan.steps
            if isinstance(step, Apply) and not step.body["spec"]["suspend"] and "path" in step.body["spec"]
        ]
        if running:
            assert all(each.readiness.state.value == "ready" for each in seen.dependencies)


# --- coming to rest ------------------------------------------------------------------------------

WISHES = st.lists(
    st.builds(
        lambda name, module, enabled, size: activation(
            name, module=module, enabled=enabled, parameters={"storage": size}
        ),
        st.sampled_from(["a", "b", "c", "mine"]),
        st.sampled_from(["a", "b", "beta", "c", "basis", "nothing"]),
        st.booleans(),
        st.sampled_from(["5Gi", "", "big"]),
    ),
    max_size=4,
    unique_by=lambda each: each.metadata.name,
)
VERDICTS = st.dictionaries(
    st.sampled_from(["app-a", "app-b", "app-c", "infrastructure-basis"]),
    st.sampled_from(["True", "False", "Unknown"]),
)


def start(wishes: list[Resource], verdicts: Mapping[str, str], key: str) -> World:
    """A fresh world in which nothing has happened yet."""
    git = kustomization("infrastructure-basis", ours=False, ready=None)
    there = World(CATALOGS[key], git, appliance({"b": {"enabled": True}}), *wishes)
    there.flux.verdicts.update(verdicts)
    return there


async def story(there: World, seed: int) -> dict[str, Any]:
    """Everything comes to rest, a user changes their mind, everything comes to rest again."""
    chance = random.Random(seed)

    def shuffled(turns: list[str]) -> list[str]:
        return chance.sample(turns, len(turns))

    await there.settle(shuffled)
    there.writes.clear()
    await there.round(shuffled)
    assert there.writes == []
    for name in ("a", "b"):
        if there.activation(name) is not None:
            there.edit(name, enabled=name == "a")
    await there.settle(shuffled)
    there.flux.verdicts.clear()
    await there.settle(shuffled)
    return dict(there.end())


@examples(40)
@given(WISHES, VERDICTS, st.sampled_from(sorted(CATALOGS)), st.integers(0, 1000), st.integers(0, 1000))
def test_everything_comes_to_rest_at_one_state_in_whatever_order_it_is_looked_at(
    wishes: list[Resource], verdicts: Mapping[str, str], key: str, one: int, other: int
) -> None:
    worlds_ = start(wishes, verdicts, key), start(wishes, verdicts, key)
    ends = [asyncio.run(story(there, seed)) for there, seed in zip(worlds_, (one, other), strict=True)]
    assert ends[0] == ends[1]
    assert all(there.flux.leaked == [] for there in worlds_)


@examples(20)
@given(WISHES, VERDICTS, st.sampled_from(sorted(CATALOGS)), st.integers(0, 1000))
def test_once_every_activation_is_deleted_nothing_of_ours_is_left(
    wishes: list[Resource], verdicts: Mapping[str, str], key: str, seed: int
) -> None:
    there = start(wishes, verdicts, key)
    there.drop(there.local())

    async def leave() -> None:
        await there.settle()
        chance = random.Random(seed)
        for each in there.reads.stores[MODULE_ACTIVATION].list():
            there.edit(each.metadata.name, enabled=False)
        for each in there.reads.stores[MODULE_ACTIVATION].list():
            there.user_deletes(each.metadata.name)
        await there.settle(lambda turns: chance.sample(turns, len(turns)))

    asyncio.run(leave())
    assert there.reads.stores[MODULE_ACTIVATION].list() == ()
    left = there.reads.stores[KUSTOMIZATION].list()
    assert [each.metadata.name for each in left if each.metadata.labels.get(labels.MANAGED_BY)] == []
    assert there.flux.leaked == []
