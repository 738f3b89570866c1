"""Modules from beginning to end, with the real skeleton and a played Flux (spec: modules-and-apps §16)."""

from typing import Any

import pytest

from magicstick.api import labels
from magicstick.kube.errors import Forbidden
from magicstick.kube.objects import Resource
from tests.support.module_objects import (
    activation,
    appliance,
    catalog,
    kustomization,
    shipped_catalog,
)
from tests.support.module_world import World

pytestmark = pytest.mark.anyio

STATIC = [
    kustomization(name, ours=False, ready=None)
    for name in ("infrastructure-basis", "hardware-discovery", "apps")
]
DEFAULTS: dict[str, Any] = {
    "basis": {"enabled": True},
    "dashboard": {"enabled": True},
    "litellm": {"enabled": True},
    "model-catalog": {"enabled": True},
}


def shipped(*objects: Resource) -> World:
    """A world with the shipped catalog and the Kustomizations that Git brings."""
    return World(shipped_catalog(), *STATIC, *objects)


async def settled(*objects: Resource) -> World:
    """The same, once everybody has come to rest."""
    there = shipped(*objects)
    await there.settle()
    return there


def names(there: World) -> set[str]:
    """The generated Kustomizations."""
    return {each.metadata.name for each in there.facts.kustomizations.list() if each.metadata.labels}


def phase(there: World, name: str) -> str:
    found = there.activation(name)
    assert found is not None
    return str(found.status.get("phase"))


@pytest.mark.req("MS-015", "MS-103", "MS-110", "MS-113")
async def test_row_1_the_default_appliance_brings_exactly_its_modules() -> None:
    there = await settled(appliance(DEFAULTS))
    assert {each.metadata.name for each in there.facts.activations.list()} == {"litellm", "model-catalog"}
    assert names(there) == {"app-litellm", "app-model-catalog"}
    assert there.flux.installed >= {"app-litellm", "app-model-catalog", "infrastructure-basis", "apps"}
    assert there.local().status["phase"] == "Ready"


@pytest.mark.req("MS-114")
async def test_a_module_is_created_only_once_its_dependencies_are_ready() -> None:
    there = shipped(activation("model-catalog"))
    there.flux.verdicts["app-litellm"] = "Unknown"
    await there.settle()
    assert names(there) == {"app-litellm"}
    assert phase(there, "model-catalog") == "WaitingForModules"
    there.flux.verdicts.clear()
    await there.settle()
    assert names(there) == {"app-litellm", "app-model-catalog"}
    assert phase(there, "model-catalog") == "Ready"


@pytest.mark.req("MS-115", "MS-118", "MS-119", "MS-120")
async def test_e1_e2_row_9_a_module_is_suspended_while_its_dependency_fails_and_keeps_what_it_has() -> None:
    there = await settled(activation("model-catalog"))
    there.flux.verdicts["app-litellm"] = "False"
    await there.settle()
    live = there.kustomization("app-model-catalog")
    assert live is not None
    assert live.spec["suspend"] is True
    assert "app-model-catalog" in there.flux.installed
    assert (phase(there, "litellm"), phase(there, "model-catalog")) == ("Degraded", "WaitingForModules")
    waiting = there.activation("model-catalog")
    assert waiting is not None
    assert waiting.status["kustomization"] == "app-model-catalog"
    there.flux.verdicts.clear()
    await there.settle()
    assert phase(there, "model-catalog") == "Ready"
    assert there.flux.pruned == []


@pytest.mark.req("MS-116", "MS-117", "MS-314")
async def test_e3_row_10_a_module_that_is_disabled_while_suspended_is_pruned() -> None:
    there = await settled(activation("model-catalog"))
    there.flux.verdicts["app-litellm"] = "False"
    await there.settle()
    there.edit("model-catalog", enabled=False)
    there.writes.clear()
    await there.look_at("model-catalog")
    assert there.writes == [
        ("apply", "Kustomization", "app-model-catalog"),
        ("delete", "Kustomization", "app-model-catalog"),
        ("status", "ModuleActivation", "model-catalog"),
    ]
    assert phase(there, "model-catalog") == "Removing"
    await there.settle()
    assert phase(there, "model-catalog") == "Disabled"
    assert there.flux.pruned == ["app-model-catalog"]
    assert there.flux.leaked == []


async def test_e4_a_second_look_at_a_removal_sends_nothing() -> None:
    there = await settled(activation("litellm"))
    there.user_deletes("litellm")
    await there.look_at("litellm")
    assert phase(there, "litellm") == "Removing"
    there.writes.clear()
    await there.look_at("litellm")
    assert there.writes == []


@pytest.mark.req("MS-175")
async def test_a_deleted_module_goes_with_everything_it_had() -> None:
    there = await settled(activation("litellm"))
    there.user_deletes("litellm")
    await there.settle()
    assert there.activation("litellm") is None
    assert names(there) == set()
    assert there.flux.pruned == ["app-litellm"]


@pytest.mark.req("MS-227", "MS-314")
async def test_e5_row_3_row_8_a_disabled_activation_is_never_switched_on() -> None:
    there = await settled(
        appliance(DEFAULTS), activation("litellm", enabled=False), activation("model-catalog")
    )
    found = there.activation("litellm")
    assert found is not None
    assert found.spec["enabled"] is False
    assert (phase(there, "litellm"), phase(there, "model-catalog")) == ("Disabled", "WaitingForModules")
    waiting = there.activation("model-catalog")
    assert waiting is not None
    assert "litellm is disabled" in waiting.status["message"]


async def test_e6_a_needed_module_that_is_being_deleted_comes_back_only_once_it_is_gone() -> None:
    there = await settled(activation("model-catalog"))
    before = there.activation("litellm")
    assert before is not None
    there.user_deletes("litellm")
    await there.look_at("model-catalog")
    going = there.activation("litellm")
    assert going is not None
    assert going.metadata.uid == before.metadata.uid
    await there.settle()
    after = there.activation("litellm")
    assert after is not None
    assert after.metadata.uid != before.metadata.uid
    assert phase(there, "model-catalog") == "Ready"


async def test_e12_a_parameter_reaches_flux_however_it_is_written() -> None:
    for value in ({"size": "5Gi"}, {"storageSize": "5Gi"}, "5Gi"):
        there = await settled(activation("litellm", parameters={"postgresStorage": value}))
        live = there.kustomization("app-litellm")
        assert live is not None
        assert live.spec["postBuild"]["substitute"]["AI_APPLIANCE_LITELLM_POSTGRES_STORAGE"] == "5Gi"


async def test_an_invalid_parameter_leaves_what_was_applied_last() -> None:
    there = await settled(activation("litellm", parameters={"postgresStorage": "5Gi"}))
    before = there.kustomization("app-litellm")
    assert before is not None
    there.edit("litellm", parameters={"postgresStorage": "big"})
    await there.settle()
    after = there.kustomization("app-litellm")
    assert after is not None
    assert after.spec == before.spec
    assert phase(there, "litellm") == "Degraded"


@pytest.mark.req("MS-237")
async def test_e14_gpu_modules_wait_and_others_do_not() -> None:
    there = shipped(activation("gpu"), activation("litellm"))
    there.definitions.names.add("clusterpolicies.nvidia.com")
    await there.settle()
    waits = {name: there.kustomization(name) for name in ("platform-gpu", "app-litellm")}
    assert {name: live.spec["wait"] for name, live in waits.items() if live} == {
        "platform-gpu": True,
        "app-litellm": False,
    }
    assert phase(there, "gpu") == "Ready"


@pytest.mark.req("MS-021", "MS-315")
async def test_e15_what_requires_the_dashboard_depends_on_apps() -> None:
    there = shipped(activation("private-mesh"))
    there.flux.verdicts["apps"] = "False"
    await there.settle()
    assert phase(there, "private-mesh") == "WaitingForModules"
    there.flux.verdicts.clear()
    await there.settle()
    live = there.kustomization("app-private-mesh")
    assert live is not None
    assert live.spec["dependsOn"] == [{"name": name} for name in ("app-litellm", "app-model-catalog", "apps")]


@pytest.mark.req("MS-102")
@pytest.mark.parametrize("text", ["modelCatalog", "MODEL-CATALOG", "  model-catalog "])
async def test_e25_an_alias_in_an_activation_means_the_module(text: str) -> None:
    there = await settled(activation("foo", module=text))
    assert {each.metadata.name for each in there.facts.activations.list()} == {"foo", "litellm"}
    assert names(there) == {"app-litellm", "app-model-catalog"}


@pytest.mark.req("MS-102")
async def test_an_alias_in_a_requirement_means_the_module() -> None:
    both = catalog(model_catalog={"requires": ["basis"]}, top={"requires": ["modelCatalog"]})
    there = World(both, *STATIC, activation("top"))
    await there.settle()
    assert names(there) == {"app-model-catalog", "app-top"}


@pytest.mark.req("MS-113")
async def test_what_a_module_needs_comes_all_the_way_down() -> None:
    chain = catalog(a={"requires": ["b"]}, b={"requires": ["c"]}, c={"requires": ["basis"]})
    there = World(chain, *STATIC, activation("a"))
    await there.look_at("a")
    made = {each.metadata.name: each for each in there.facts.activations.list()}
    assert set(made) == {"a", "b", "c"}
    assert made["c"].metadata.annotations == {labels.AUTO_ENABLED: "true"}
    await there.settle()
    assert {phase(there, name) for name in "abc"} == {"Ready"}


async def test_e24_row_12_a_module_that_left_the_catalog_stays_while_its_activation_does() -> None:
    there = await settled(activation("litellm"))
    there.catalogs.put(catalog())
    await there.settle()
    found = there.activation("litellm")
    assert found is not None
    assert (found.status["phase"], found.status["kustomization"]) == ("Degraded", "app-litellm")
    assert there.flux.pruned == []
    there.user_deletes("litellm")
    await there.settle()
    assert there.flux.pruned == ["app-litellm"]
    assert there.activation("litellm") is None


async def test_a_module_whose_alias_left_the_catalog_with_it_stays_too() -> None:
    there = await settled(activation("foo", module="anythingllm"))
    there.flux.pruned.clear()
    there.catalogs.put(catalog())
    await there.settle()
    assert there.flux.pruned == []
    there.user_deletes("foo")
    await there.settle()
    assert "app-anything-llm" in there.flux.pruned


async def test_an_entry_that_becomes_invalid_costs_no_other_module_anything() -> None:
    entries: dict[str, Any] = {"leaf": {"requires": ["basis"]}, "top": {"requires": ["basis", "leaf"]}}
    there = World(catalog(**entries), *STATIC, activation("top", parameters={"a": "1"}))
    await there.settle()
    before = there.kustomization("app-top")
    for broken in ("leaf", "basis"):
        there.catalogs.put(catalog(**{**entries, broken: {"path": 5}}))
        await there.settle()
        assert phase(there, "top") == "Ready"
        assert there.kustomization("app-top") == before
    assert phase(there, "leaf") == "Ready"


async def test_a_module_whose_entry_is_invalid_is_still_waited_for() -> None:
    entries: dict[str, Any] = {"leaf": {}, "top": {"requires": ["leaf"]}}
    there = World(catalog(**entries), activation("top"))
    await there.settle()
    there.catalogs.put(catalog(**{**entries, "leaf": {"path": 5}}))
    there.flux.verdicts["app-leaf"] = "False"
    await there.settle()
    assert phase(there, "top") == "WaitingForModules"
    there.flux.verdicts.clear()
    await there.settle()
    assert phase(there, "top") == "Ready"


async def test_a_module_that_changes_its_kustomizations_name_is_there_all_the_time() -> None:
    there = World(catalog(leaf={"requires": ["basis"]}), *STATIC, activation("leaf"))
    await there.settle()
    there.catalogs.put(catalog(leaf={"requires": ["basis"], "kustomizationName": "new-leaf"}))
    await there.settle()
    assert names(there) == {"new-leaf"}
    assert "new-leaf" in there.flux.installed
    assert there.flux.pruned == ["app-leaf"]


async def test_a_module_that_changes_its_key_is_neither_lost_nor_doubled() -> None:
    there = World(catalog(leaf={"requires": ["basis"]}), *STATIC, activation("leaf"))
    await there.settle()
    renamed = {"requires": ["basis"], "aliases": ["leaf"], "kustomizationName": "app-leaf"}
    there.catalogs.put(catalog(foliage=renamed))
    await there.settle()
    live = there.kustomization("app-leaf")
    assert live is not None
    assert live.metadata.labels[labels.MODULE] == "foliage"
    assert there.flux.pruned == []


async def test_an_activation_that_means_another_module_now_takes_the_former_away() -> None:
    there = await settled(activation("foo", module="kubeai"))
    there.edit("foo", module="freetoken")
    await there.settle()
    assert names(there) == {"platform-freetoken"}
    assert there.flux.pruned == ["platform-kubeai"]


async def test_a_kustomization_that_somebody_deletes_comes_back() -> None:
    there = await settled(activation("litellm"))
    live = there.kustomization("app-litellm")
    assert live is not None
    await there.delete(there.modules.declaration.edges[1].kind, live.metadata.key, live.metadata.uid)
    await there.settle()
    assert "app-litellm" in there.flux.installed
    assert phase(there, "litellm") == "Ready"


async def test_a_module_that_is_enabled_again_while_flux_prunes_comes_back() -> None:
    there = await settled(activation("litellm"))
    there.edit("litellm", enabled=False)
    await there.look_at("litellm")
    there.edit("litellm", enabled=True)
    await there.settle()
    assert there.flux.pruned == ["app-litellm"]
    assert phase(there, "litellm") == "Ready"


@pytest.mark.req("MS-232", "MS-240")
async def test_another_source_reaches_every_module() -> None:
    there = await settled(appliance(DEFAULTS))
    source = {"kind": "GitRepository", "name": "mine", "namespace": "sources"}
    there.put(appliance(DEFAULTS, source=source, status=there.local().status, generation=2))
    await there.settle()
    for name in ("app-litellm", "app-model-catalog"):
        live = there.kustomization(name)
        assert live is not None
        assert live.spec["sourceRef"] == source


@pytest.mark.req("MS-011", "MS-012")
async def test_nothing_but_kustomizations_activations_and_statuses_is_ever_written() -> None:
    there = await settled(appliance(DEFAULTS), activation("gpu"), activation("anything-llm"))
    there.user_deletes("anything-llm")
    await there.settle()
    assert {kind for _, kind, _ in there.writes} == {"Kustomization", "ModuleActivation", "Appliance"}
    assert {verb for verb, kind, _ in there.writes if kind == "Appliance"} == {"status"}
    assert {body["kind"] for body in there.bodies} == {"Kustomization"}


async def test_f01_at_rest_nothing_is_written_whatever_flux_looks_at() -> None:
    there = await settled(appliance(DEFAULTS))
    there.writes.clear()
    for name in ("infrastructure-basis", "app-litellm", "app-model-catalog"):
        there.flux.look_again(name)
        await there.round(lambda turns: [turn for turn in turns if turn != "flux"])
        there.flux.act()
        await there.round()
    assert there.writes == []


async def test_a_refused_kustomization_is_reported_and_no_neighbour_suffers() -> None:
    there = shipped(activation("litellm"), activation("kubeai"))
    there.refuse = lambda _kind, body: (
        Forbidden("admission says no", code=403) if body["metadata"]["name"] == "app-litellm" else None
    )
    await there.settle()
    found = there.activation("litellm")
    assert found is not None
    assert found.status["phase"] == "Degraded"
    assert "admission says no" in found.status["message"]
    assert phase(there, "kubeai") == "Ready"


async def test_f05_a_dying_activation_with_a_foreign_finalizer_causes_nothing() -> None:
    there = shipped(activation("model-catalog", finalizers=["example.com/hold"], dying=True))
    await there.settle()
    assert there.writes == []


async def test_a_user_takes_over_the_name_of_a_needed_module() -> None:
    there = await settled(activation("model-catalog"), activation("litellm", module="kubeai"))
    found = there.activation("model-catalog")
    assert found is not None
    assert found.status["phase"] == "WaitingForModules"
    assert "another module or Appliance has its name" in found.status["message"]
