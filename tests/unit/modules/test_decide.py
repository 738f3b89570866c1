"""The decision about one module, row by row (spec: modules-and-apps §7)."""

from typing import Any

import pytest

from magicstick.api import labels
from magicstick.kube.objects import Resource
from magicstick.modules.decide import decide
from magicstick.modules.observation import ModuleObservation
from magicstick.modules.status import ModulePhase, ModuleReason, module_status
from magicstick.runtime.conditions import MESSAGE_LIMIT
from magicstick.runtime.plan import Create, Delete, Finalizer
from tests.support.module_objects import activation, appliance, catalog, condition, kustomization
from tests.support.module_plans import applied, message, observed, stands, told
from tests.support.module_world import World

OURS = [labels.MODULE_FINALIZER]
BASIS = kustomization("infrastructure-basis", ours=False)
LEAF: dict[str, Any] = {"requires": ["basis"]}
CATALOG = catalog(
    leaf=LEAF,
    top={"requires": ["leaf"]},
    sized={"requires": ["basis"], "parameters": [{"name": "storage", "substitution": "SIZE"}]},
    vendor={"requires": ["basis"], "waitForReady": True, "requiredCrds": ["things.example.com"]},
    ring={"requires": ["gnir"]},
    gnir={"requires": ["ring"]},
    broken={"path": ["no", "path"], "aliases": ["kaputt"]},
)


def world(*objects: Resource) -> World:
    return World(CATALOG, BASIS, *objects)


def seen(name: str, *others: Resource, there: World | None = None) -> ModuleObservation:
    """What is observed of the activation `name`, among the others."""
    return observed(there or world(*others), name)


# --- 1, 2, 2a: not a module to be managed --------------------------------------------------------


def test_row_1_a_module_that_is_in_no_catalog_is_unknown() -> None:
    plan = decide(seen("foo", activation("foo", generation=7)))
    assert told(plan) == ("Degraded", "UnknownModule", "")
    assert (plan.status or {})["observedGeneration"] == 7
    assert (plan.steps, plan.finalizer) == ((), Finalizer.KEEP)


@pytest.mark.parametrize("text", ["broken", "kaputt"])
def test_row_1_an_invalid_entry_makes_its_module_unknown_and_says_why(text: str) -> None:
    plan = decide(seen("mine", activation("mine", module=text)))
    assert told(plan) == ("Degraded", "UnknownModule", "")
    assert "path" in message(plan)


def test_row_1_what_is_installed_of_an_unknown_module_stays() -> None:
    plan = decide(seen("foo", activation("foo"), stands("foo")))
    assert told(plan) == ("Degraded", "UnknownModule", "app-foo")
    assert plan.steps == ()


def test_row_1_an_unknown_module_that_is_deleted_takes_its_kustomization_along() -> None:
    dying = activation("foo", finalizers=OURS, dying=True)
    plan = decide(seen("foo", dying, stands("foo")))
    assert [type(step) for step in plan.steps] == [Delete]
    assert told(plan)[0] == "Removing"
    assert decide(seen("foo", dying)).finalizer is Finalizer.REMOVE


def test_row_1_a_kustomization_is_found_though_the_catalog_forgot_how_the_activation_calls_its_module() -> (
    None
):
    gone = activation(
        "mine", module="thing", finalizers=OURS, dying=True, status={"kustomization": "app-old"}
    )
    plan = decide(seen("mine", gone, kustomization("app-old", module="old")))
    assert [step.key.name for step in plan.steps if isinstance(step, Delete)] == ["app-old"]


def test_row_2_a_static_module_is_not_generated() -> None:
    plan = decide(seen("basis", activation("basis")))
    assert told(plan) == ("Degraded", "StaticModule", "")
    assert (plan.steps, plan.finalizer) == ((), Finalizer.KEEP)


def test_row_2_the_deletion_of_a_static_modules_activation_only_drops_the_finalizer() -> None:
    plan = decide(seen("basis", activation("basis", finalizers=OURS, dying=True)))
    assert (plan.steps, plan.finalizer, plan.status) == ((), Finalizer.REMOVE, None)


def test_row_2a_the_activation_named_like_the_module_speaks_for_it() -> None:
    others = activation("aaa", module="leaf", created="2020-01-01T00:00:00Z"), activation("leaf")
    plan = decide(seen("aaa", *others, stands("leaf")))
    assert told(plan) == ("Degraded", "DuplicateModule", "")
    assert (plan.steps, plan.finalizer) == ((), Finalizer.KEEP)
    assert told(decide(seen("leaf", *others, stands("leaf"))))[0] == "Ready"


@pytest.mark.parametrize(
    ("created", "speaker"), [(("2026-01-02", "2026-01-01"), "b"), (("2026-01-01", "2026-01-01"), "a")]
)
def test_row_2a_else_the_oldest_then_the_first_by_name_speaks(created: tuple[str, str], speaker: str) -> None:
    both = [
        activation(name, module="leaf", created=f"{day}T00:00:00Z")
        for name, day in zip("ab", created, strict=True)
    ]
    phases = {name: told(decide(seen(name, *both)))[1] for name in "ab"}
    assert phases.pop(speaker) != "DuplicateModule"
    assert list(phases.values()) == ["DuplicateModule"]


def test_row_2a_a_duplicate_that_is_deleted_leaves_the_module_alone() -> None:
    both = activation("leaf"), activation("mine", module="leaf", finalizers=OURS, dying=True)
    plan = decide(seen("mine", *both, stands("leaf")))
    assert (plan.steps, plan.finalizer) == ((), Finalizer.REMOVE)


def test_row_2a_a_module_stays_with_a_second_activation_while_the_first_is_deleted() -> None:
    both = activation("leaf", finalizers=OURS, dying=True), activation("mine", module="leaf")
    assert decide(seen("leaf", *both, stands("leaf"))).steps == ()
    assert told(decide(seen("mine", *both, stands("leaf"))))[0] == "Ready"


# --- 3, 4, 5, 6: leaving and disabled ------------------------------------------------------------


@pytest.mark.req("MS-117")
@pytest.mark.parametrize("gone", [{"dying": True, "finalizers": OURS}, {"enabled": False}])
def test_rows_3_and_5_a_suspended_kustomization_is_resumed_before_it_is_deleted(gone: dict[str, Any]) -> None:
    live = kustomization("app-leaf", module="leaf", suspend=True)
    plan = decide(seen("leaf", activation("leaf", **gone), live))
    assert told(plan) == ("Removing", "Removing", "app-leaf")
    assert applied(plan)["suspend"] is False
    assert not any(isinstance(step, Delete) for step in plan.steps)


@pytest.mark.req("MS-116")
@pytest.mark.parametrize("gone", [{"dying": True, "finalizers": OURS}, {"enabled": False}])
def test_rows_3_and_5_then_exactly_that_object_is_deleted(gone: dict[str, Any]) -> None:
    plan = decide(
        seen("leaf", activation("leaf", **gone), kustomization("app-leaf", module="leaf", uid="u1"))
    )
    (step,) = plan.steps
    assert isinstance(step, Delete)
    assert (step.key.name, step.uid) == ("app-leaf", "u1")
    assert told(plan) == ("Removing", "Removing", "app-leaf")


@pytest.mark.parametrize("gone", [{"dying": True, "finalizers": OURS}, {"enabled": False}])
def test_e4_a_kustomization_that_is_being_deleted_is_left_to_flux(gone: dict[str, Any]) -> None:
    live = kustomization("app-leaf", module="leaf", suspend=True, dying=True, finalizers=["flux"])
    plan = decide(seen("leaf", activation("leaf", **gone), live))
    assert told(plan) == ("Removing", "Removing", "app-leaf")
    assert plan.steps == ()
    assert plan.finalizer is not Finalizer.REMOVE


def test_row_4_once_it_is_gone_the_finalizer_goes_and_no_status_is_written() -> None:
    plan = decide(seen("leaf", activation("leaf", dying=True, finalizers=OURS)))
    assert (plan.steps, plan.finalizer, plan.status) == ((), Finalizer.REMOVE, None)


def test_row_6_a_disabled_module_without_kustomization_is_disabled() -> None:
    plan = decide(seen("leaf", activation("leaf", enabled=False)))
    assert told(plan) == ("Disabled", "Disabled", "")
    assert plan.steps == ()


@pytest.mark.req("MS-122")
@pytest.mark.parametrize("gone", [{"dying": True, "finalizers": OURS}, {"enabled": False}])
def test_a_foreign_kustomization_is_never_removed(gone: dict[str, Any]) -> None:
    plan = decide(seen("leaf", activation("leaf", **gone), kustomization("app-leaf", ours=False)))
    assert plan.steps == ()


def test_a_module_takes_along_what_it_had_under_a_former_name() -> None:
    former = kustomization("old-leaf", module="leaf"), stands("leaf")
    plan = decide(seen("leaf", activation("leaf", enabled=False), *former))
    assert {step.key.name for step in plan.steps if isinstance(step, Delete)} == {"old-leaf", "app-leaf"}


def test_a_module_leaves_alone_what_stands_under_its_name_for_another() -> None:
    swapped = kustomization("app-leaf", module="top")
    plan = decide(seen("leaf", activation("leaf", enabled=False), activation("top"), swapped))
    assert (told(plan)[0], plan.steps) == ("Disabled", ())


def test_f05_a_dying_activation_gets_no_finalizer_and_no_child() -> None:
    held = activation("top", dying=True, finalizers=["example.com/hold"])
    assert decide(seen("top", held)).steps == ()
    plan = decide(seen("top", held, stands("top")))
    assert [type(step) for step in plan.steps] == [Delete]
    assert plan.finalizer is Finalizer.KEEP


# --- 6a, 6b, 7, 7a: enabled, and something is in the way -----------------------------------------


def test_row_6a_a_member_of_a_dependency_cycle_generates_nothing() -> None:
    plan = decide(seen("ring", activation("ring")))
    assert told(plan) == ("Degraded", "DependencyCycle", "")
    assert plan.steps == ()
    assert "ring, gnir" in message(plan)


def test_row_6b_a_foreign_kustomization_of_that_name_is_a_conflict() -> None:
    plan = decide(seen("leaf", activation("leaf"), kustomization("app-leaf", ours=False)))
    assert told(plan) == ("Degraded", "KustomizationConflict", "")
    assert plan.steps == ()


@pytest.mark.req("MS-114", "MS-314")
def test_row_7_nothing_is_created_while_a_dependency_is_missing() -> None:
    plan = decide(
        seen(
            "top", activation("top"), activation("leaf"), kustomization("app-leaf", module="leaf", ready=None)
        )
    )
    assert told(plan) == ("WaitingForModules", "WaitingForModules", "app-top")
    assert plan.steps == ()
    assert "leaf is not ready" in message(plan)


@pytest.mark.req("MS-115", "MS-118")
def test_e1_row_9_a_waiting_module_is_suspended_and_nothing_is_deleted() -> None:
    plan = decide(seen("top", activation("top"), activation("leaf"), stands("top")))
    spec = applied(plan)
    assert (spec["suspend"], spec["prune"], spec["deletionPolicy"]) == (True, True, "Delete")
    assert told(plan) == ("WaitingForModules", "WaitingForModules", "app-top")
    assert not any(isinstance(step, Delete) for step in plan.steps)


@pytest.mark.req("MS-315")
def test_e1_depends_on_lists_only_kustomizations_that_exist() -> None:
    both = catalog(leaf=LEAF, other=LEAF, top={"requires": ["basis", "leaf", "other", "nothing"]})
    exists = kustomization("app-leaf", module="leaf", ready="False")
    there = World(
        both, BASIS, activation("top"), activation("leaf"), activation("other"), exists, stands("top")
    )
    plan = decide(seen("top", there=there))
    assert applied(plan)["dependsOn"] == [{"name": "infrastructure-basis"}, {"name": "app-leaf"}]
    assert message(plan).startswith("Waiting for modules: leaf, other, nothing (")


def test_a_waiting_module_whose_kustomization_is_dying_is_left_to_flux() -> None:
    dying = kustomization("app-top", module="top", dying=True, finalizers=["flux"])
    assert decide(seen("top", activation("top"), activation("leaf"), dying)).steps == ()


@pytest.mark.req("MS-113")
def test_the_missing_dependencies_of_a_module_are_activated() -> None:
    plan = decide(seen("top", activation("top")))
    assert [step.body["metadata"]["name"] for step in plan.steps if isinstance(step, Create)] == ["leaf"]


def test_e11_a_static_dependency_is_never_activated() -> None:
    plan = decide(seen("leaf", activation("leaf"), there=World(CATALOG, activation("leaf"))))
    assert told(plan)[0] == "WaitingForModules"
    assert plan.steps == ()


@pytest.mark.req("MS-240")
def test_the_source_of_the_appliance_is_applied() -> None:
    source = {"kind": "GitRepository", "name": "mine", "namespace": "sources"}
    plan = decide(seen("leaf", activation("leaf"), appliance(source=source)))
    assert applied(plan)["sourceRef"] == source


@pytest.mark.req("MS-096")
def test_another_appliance_gives_no_source() -> None:
    source = {"kind": "GitRepository", "name": "mine", "namespace": "sources"}
    plan = decide(seen("leaf", activation("leaf"), appliance(source=source, name="other")))
    assert applied(plan)["sourceRef"]["name"] == "flux-system"


def test_row_7a_an_invalid_parameter_applies_nothing() -> None:
    plan = decide(seen("sized", activation("sized", parameters={"storage": "big"}), stands("sized")))
    assert told(plan) == ("Degraded", "InvalidParameter", "app-sized")
    assert plan.steps == ()
    assert "spec.parameters.storage must match" in message(plan)


def test_row_7a_without_a_kustomization_none_is_named() -> None:
    plan = decide(seen("sized", activation("sized", parameters={"storage": "big"})))
    assert told(plan) == ("Degraded", "InvalidParameter", "")


def test_row_7a_a_module_with_an_invalid_parameter_is_suspended_with_the_values_it_has() -> None:
    live = kustomization("app-sized", module="sized", spec={"postBuild": {"substitute": {"SIZE": "5Gi"}}})
    wanted = activation("sized", parameters={"storage": "big"})
    plan = decide(seen("sized", there=World(CATALOG, wanted, live)))
    assert applied(plan)["suspend"] is True
    assert applied(plan)["postBuild"] == {"substitute": {"SIZE": "5Gi"}}


def test_an_unreadable_spec_changes_nothing() -> None:
    plan = decide(seen("leaf", activation("leaf", enabled="yes"), stands("leaf")))
    assert told(plan) == ("Degraded", "InvalidSpec", "app-leaf")
    assert plan.steps == ()
    assert message(plan) == "spec.enabled must be true or false."


# --- 8, 9, 10: applied ---------------------------------------------------------------------------


@pytest.mark.req("MS-015", "MS-110")
def test_an_enabled_module_is_applied_with_its_finalizer_first() -> None:
    plan = decide(seen("leaf", activation("leaf")))
    assert applied(plan)["suspend"] is False
    assert plan.finalizer is Finalizer.ADD
    assert told(plan) == ("Reconciling", "WaitingForKustomization", "app-leaf")


@pytest.mark.req("MS-120")
def test_e2_a_module_whose_dependencies_recovered_is_resumed() -> None:
    live = kustomization("app-top", module="top", suspend=True)
    plan = decide(seen("top", activation("top"), activation("leaf"), stands("leaf"), live))
    assert applied(plan)["suspend"] is False


def test_row_8_ready() -> None:
    plan = decide(seen("leaf", activation("leaf", finalizers=OURS), stands("leaf")))
    assert told(plan) == ("Ready", "KustomizationReady", "app-leaf")
    assert message(plan) == "Applied revision: main@sha1:0000"
    assert plan.finalizer is Finalizer.KEEP


def test_row_9_flux_failed() -> None:
    live = kustomization("app-leaf", module="leaf", ready="False", reason="BuildFailed", message="x" * 5000)
    plan = decide(seen("leaf", activation("leaf"), live))
    assert told(plan) == ("Degraded", "BuildFailed", "app-leaf")
    assert len(message(plan)) == MESSAGE_LIMIT


def test_row_9_flux_failed_without_a_word() -> None:
    live = kustomization("app-leaf", module="leaf", ready="False", reason="", message="")
    plan = decide(seen("leaf", activation("leaf"), live))
    assert told(plan) == ("Degraded", "KustomizationNotReady", "app-leaf")
    assert message(plan)


@pytest.mark.parametrize(
    "live",
    [
        kustomization("app-leaf", module="leaf", ready=None),
        kustomization("app-leaf", module="leaf", ready="Unknown"),
        kustomization("app-leaf", module="leaf", generation=2, observed=1),
        kustomization("app-leaf", module="leaf", suspend=True),
    ],
)
def test_row_10_f07_without_a_word_on_the_current_generation_it_is_reconciling(live: Resource) -> None:
    plan = decide(seen("leaf", activation("leaf"), live))
    assert told(plan) == ("Reconciling", "WaitingForKustomization", "app-leaf")


def last(phase: ModulePhase, reason: str, generation: int = 1) -> dict[str, Any]:
    """The status that was reported last."""
    return module_status(generation, phase, reason, "said before", "app-leaf")


def test_f01_the_periodic_look_of_flux_is_no_news_for_a_ready_module() -> None:
    before = activation("leaf", status=last(ModulePhase.READY, ModuleReason.KUSTOMIZATION_READY))
    plan = decide(seen("leaf", before, kustomization("app-leaf", module="leaf", ready="Unknown")))
    assert (plan.outcome, plan.status) == ("Ready", None)


def test_f01_the_retries_of_flux_are_no_news_for_a_failed_module() -> None:
    trying = {"observedGeneration": -1, "conditions": [condition("Unknown", "Progressing")]}
    before = activation("leaf", status=last(ModulePhase.DEGRADED, "BuildFailed"))
    plan = decide(seen("leaf", before, kustomization("app-leaf", module="leaf", status=trying)))
    assert (plan.outcome, plan.status) == ("Degraded", None)


@pytest.mark.parametrize(
    "before",
    [
        activation("leaf", generation=2, status=last(ModulePhase.READY, ModuleReason.KUSTOMIZATION_READY)),
        activation("leaf", status=last(ModulePhase.DEGRADED, ModuleReason.INVALID_PARAMETER)),
        activation("leaf", status=last(ModulePhase.WAITING_FOR_MODULES, ModuleReason.WAITING_FOR_MODULES)),
        activation("leaf", status={"phase": "Degraded", "conditions": [{}], "observedGeneration": 1}),
    ],
)
def test_any_other_last_word_gives_way_to_what_flux_is_doing(before: Resource) -> None:
    plan = decide(seen("leaf", before, kustomization("app-leaf", module="leaf", ready="Unknown")))
    assert told(plan)[:2] == ("Reconciling", "WaitingForKustomization")


def test_a_module_is_not_ready_for_a_generation_that_flux_has_not_applied() -> None:
    trying = {"observedGeneration": 1, "conditions": [condition("Unknown", "Progressing", observed=2)]}
    before = activation("leaf", status=last(ModulePhase.READY, ModuleReason.KUSTOMIZATION_READY))
    plan = decide(seen("leaf", before, kustomization("app-leaf", module="leaf", generation=2, status=trying)))
    assert told(plan)[0] == "Reconciling"


def test_a_failure_is_forgotten_once_flux_is_asked_for_something_else() -> None:
    before = activation("leaf", status=last(ModulePhase.DEGRADED, "BuildFailed"))
    asked = kustomization("app-leaf", module="leaf", generation=2, ready="False", observed=1)
    assert told(decide(seen("leaf", before, asked)))[:2] == ("Reconciling", "WaitingForKustomization")


def test_a_wanted_kustomization_that_somebody_deletes_is_waited_for() -> None:
    dying = kustomization("app-leaf", module="leaf", dying=True, finalizers=["flux"])
    plan = decide(seen("leaf", activation("leaf"), dying))
    assert told(plan) == ("Reconciling", "WaitingForKustomization", "app-leaf")
    assert plan.steps == ()
    assert "created again" in message(plan)


def test_what_a_module_had_under_a_former_name_goes_once_the_new_one_is_ready() -> None:
    old = kustomization("old-leaf", module="leaf", uid="u-old")
    early = kustomization("app-leaf", module="leaf", ready="Unknown", observed=0)
    assert not any(
        isinstance(step, Delete) for step in decide(seen("leaf", activation("leaf"), old, early)).steps
    )
    plan = decide(seen("leaf", activation("leaf"), old, stands("leaf")))
    assert [step.uid for step in plan.steps if isinstance(step, Delete)] == ["u-old"]


def test_a_module_that_promises_definitions_is_ready_only_with_them() -> None:
    there = world(activation("vendor"), stands("vendor"))
    plan = decide(seen("vendor", there=there))
    assert told(plan) == ("WaitingForCRD", "WaitingForCRD", "app-vendor")
    assert "things.example.com" in message(plan)
    there.definitions.names.add("things.example.com")
    assert told(decide(seen("vendor", there=there)))[0] == "Ready"


def test_definitions_that_cannot_be_read_keep_the_status() -> None:
    there = world(activation("vendor", status={"phase": "Ready"}), stands("vendor"))
    there.definitions.unknown = True
    assert decide(seen("vendor", there=there)).status is None
