"""The public facts: is a module ready, and who speaks for it."""

from typing import Any

import pytest

from magicstick.api.kinds import APPLIANCE, KUSTOMIZATION, MODULE_ACTIVATION
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import Kind
from magicstick.kube.objects import Resource
from magicstick.modules.facts import READY, Gap, Readiness, State, not_ready
from tests.support.module_objects import activation, appliance, catalog, kustomization
from tests.support.module_world import World

CATALOG = catalog(
    leaf={"requires": ["basis"], "aliases": ["blatt", "Laub"]},
    vendor={"waitForReady": True, "requiredCrds": ["things.example.com"]},
    lazy={"requiredCrds": ["things.example.com"]},
    hidden=None,
)
BASIS = kustomization("infrastructure-basis", ours=False)
LEAF = kustomization("app-leaf", module="leaf")


def world(*objects: Resource) -> World:
    return World(CATALOG, *objects)


def test_a_module_is_ready_when_flux_says_so() -> None:
    assert world(activation("leaf"), LEAF).facts.readiness("leaf") == READY


def test_e15_a_static_module_is_ready_by_the_kustomization_of_git() -> None:
    assert world(BASIS).facts.readiness("basis") == READY
    assert world(kustomization("platform-basis")).facts.readiness("basis") == not_ready(Gap.NOT_INSTALLED)


@pytest.mark.parametrize(
    ("objects", "gap"),
    [
        ([LEAF], Gap.NO_ACTIVATION),
        ([activation("leaf", module="vendor"), LEAF], Gap.NAME_TAKEN),
        ([activation("leaf", spec={"applianceRef": {"name": "other"}}), LEAF], Gap.NAME_TAKEN),
        ([activation("leaf", enabled=False), LEAF], Gap.DISABLED),
        ([activation("leaf", dying=True, finalizers=["x"]), LEAF], Gap.BEING_REMOVED),
        ([activation("leaf")], Gap.NOT_INSTALLED),
        ([activation("leaf"), kustomization("app-leaf", ours=False)], Gap.NOT_OURS),
        ([activation("leaf"), kustomization("app-leaf", module="leaf", suspend=True)], Gap.NOT_READY),
        ([activation("leaf"), kustomization("app-leaf", module="leaf", ready="False")], Gap.NOT_READY),
        ([activation("leaf"), kustomization("app-leaf", module="leaf", ready=None)], Gap.NOT_READY),
        (
            [activation("leaf"), kustomization("app-leaf", module="leaf", generation=2, observed=1)],
            Gap.NOT_READY,
        ),
        ([activation("leaf"), kustomization("app-leaf", module="leaf", dying=True)], Gap.NOT_READY),
    ],
)
def test_f07_why_a_module_is_not_ready(objects: list[Resource], gap: Gap) -> None:
    assert world(*objects).facts.readiness("leaf") == not_ready(gap)


def test_what_is_in_no_catalog_is_never_ready() -> None:
    assert world(LEAF).facts.readiness("foo") == not_ready(Gap.NOT_IN_CATALOG)


def test_an_unreadable_activation_says_nothing_against_what_runs() -> None:
    assert world(activation("leaf", enabled="yes"), LEAF).facts.readiness("leaf") == READY


def test_a_module_that_promises_definitions_is_ready_only_with_them() -> None:
    there = world(activation("vendor"), kustomization("app-vendor", module="vendor"))
    assert there.facts.readiness("vendor") == not_ready(Gap.WITHOUT_CRDS)
    there.definitions.names.add("things.example.com")
    assert there.facts.readiness("vendor") == READY
    there.definitions.unknown = True
    assert there.facts.readiness("vendor").state is State.UNKNOWN


def test_without_the_promise_flux_checks_the_definitions_itself() -> None:
    there = world(activation("lazy"), kustomization("app-lazy", module="lazy"))
    there.definitions.unknown = True
    assert there.facts.readiness("lazy") == READY


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        (MODULE_ACTIVATION, InformerState.ABSENT),
        (MODULE_ACTIVATION, InformerState.SYNCING),
        (MODULE_ACTIVATION, InformerState.FAILING),
        (KUSTOMIZATION, InformerState.ABSENT),
        (KUSTOMIZATION, InformerState.SYNCING),
        (KUSTOMIZATION, InformerState.FAILING),
    ],
)
@pytest.mark.parametrize("module", ["leaf", "basis"])
def test_what_cannot_be_read_is_unknown_and_not_missing(
    kind: Kind, state: InformerState, module: str
) -> None:
    there = world()
    there.reads.states[kind] = state
    assert there.facts.readiness(module).state is State.UNKNOWN


def test_without_a_catalog_nothing_is_known() -> None:
    assert World(None, activation("leaf"), LEAF).facts.readiness("leaf").state is State.UNKNOWN


@pytest.mark.parametrize("text", ["leaf", "LEAF", "blatt", "BLATT", "laub", " leaf "])
def test_an_activation_is_found_however_its_user_spells_the_module(text: str) -> None:
    there = world(activation("mine", module=text))
    assert [each.metadata.name for each in there.facts.activations_of("leaf")] == ["mine"]


@pytest.mark.req("MS-102")
def test_a_built_in_alias_leads_to_the_module_though_the_catalog_does_not_list_it() -> None:
    there = World(catalog(gpu={}), activation("mine", module="nvidia-gpu-operator"))
    assert [each.metadata.name for each in there.facts.activations_of("gpu")] == ["mine"]


def test_an_activation_without_a_module_means_its_own_name() -> None:
    there = world(activation("leaf", spec={"module": " "}), activation("vendor", spec={"module": None}))
    assert there.facts.activation("leaf") is not None
    assert there.facts.activation("vendor") is not None


def test_a_name_means_something_else_once_the_catalog_does() -> None:
    there = world(activation("mine", module="blatt"))
    there.catalogs.put(catalog(leaf={}, tree={"aliases": ["blatt"]}))
    assert there.facts.activation("leaf") is None
    assert there.facts.activation("tree") is not None


def test_the_generated_kustomizations_are_found_under_a_former_key_of_the_module() -> None:
    there = world(kustomization("app-blatt", module="blatt"), LEAF, kustomization("app-x", module="x"))
    assert [each.metadata.name for each in there.facts.generated("leaf")] == ["app-blatt", "app-leaf"]


SOURCES: list[tuple[Any, tuple[str, str]]] = [
    ({"kind": "GitRepository", "name": "mine", "namespace": "there"}, ("mine", "there")),
    ({"kind": "GitRepository", "name": "mine"}, ("mine", "flux-system")),
    ({"name": 7, "namespace": ""}, ("flux-system", "flux-system")),
    ("nonsense", ("flux-system", "flux-system")),
]


@pytest.mark.req("MS-096", "MS-240")
@pytest.mark.parametrize(("given", "expected"), SOURCES)
def test_the_source_is_the_appliances_with_defaults(given: Any, expected: tuple[str, str]) -> None:
    source = world(appliance(source=given)).facts.source()
    assert source is not None
    assert (source.name, source.namespace) == expected


def test_without_an_appliance_the_source_is_the_default() -> None:
    source = world().facts.source()
    assert source is not None
    assert (source.kind, source.name, source.namespace) == ("GitRepository", "flux-system", "flux-system")


def test_while_the_appliance_cannot_be_read_there_is_no_source() -> None:
    there = world()
    there.reads.states[APPLIANCE] = InformerState.FAILING
    assert there.facts.source() is None


BROKEN = catalog(leaf={"path": 5}, basis={"path": 5, "activationMode": "static"}, top={"requires": ["leaf"]})


@pytest.mark.parametrize(
    ("objects", "readiness"),
    [
        ([activation("leaf"), LEAF], READY),
        (
            [activation("leaf"), kustomization("app-leaf", module="leaf", ready="False")],
            not_ready(Gap.NOT_READY),
        ),
        ([activation("leaf", enabled=False), LEAF], not_ready(Gap.DISABLED)),
        ([activation("leaf")], not_ready(Gap.INVALID_ENTRY)),
    ],
)
def test_a_module_whose_entry_is_invalid_now_is_as_ready_as_what_is_installed_of_it(
    objects: list[Resource], readiness: Readiness
) -> None:
    assert World(BROKEN, *objects).facts.readiness("leaf") == readiness


def test_a_static_module_whose_entry_is_invalid_now_is_ready_by_the_kustomization_of_git() -> None:
    facts = World(BROKEN, BASIS).facts
    assert facts.flux_name("basis") == "infrastructure-basis"
    assert facts.readiness("basis") == READY
    assert World(BROKEN).facts.readiness("basis") == not_ready(Gap.NOT_INSTALLED)
