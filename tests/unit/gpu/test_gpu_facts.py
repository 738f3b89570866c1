"""Each vendor's entry (spec: gpu §3 to §5, §18), from nodes, definitions and activations."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from magicstick.api.appliance import HardwareOperator
from magicstick.gpu.assessment import NODE_LIMIT, Findings, assess
from magicstick.gpu.facts import ProviderState
from magicstick.gpu.providers import providers_of
from magicstick.gpu.sightings import Sight
from magicstick.kube.discovery import CrdView
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, NODE
from magicstick.kube.objects import ObjectMeta
from tests.support.gpu_objects import AMD, AMD_SUPPORTED, INTEL, INTEL_SUPPORTED, NVIDIA, card, host, node
from tests.support.module_objects import activation, appliance, catalog, shipped_catalog
from tests.support.module_world import World, crd

READY = {"observedGeneration": 1, "phase": "Ready", "message": "Applied."}
GPU = {"nvidia.com/gpu": "1"}
CLUSTER_POLICIES = "clusterpolicies.nvidia.com"


def world(*nodes: Any, objects: tuple[Any, ...] = (), settled: bool = True) -> World:
    """A world with the shipped catalog; unless told otherwise, all labels stood for long."""
    there = World(shipped_catalog(), appliance(), *objects)
    for each in nodes:
        there.put_node(each)
    if settled:
        settle(there)
    return there


def settle(there: World, seconds: float = 3.0) -> None:
    there.hardware_facts.provider_states()
    there.clock.passed_s += seconds
    there.hardware_facts.provider_states()


def define(there: World, *names: str) -> None:
    store = there.reads.stores[CUSTOM_RESOURCE_DEFINITION]
    store.replace([crd(name, established=True) for name in names], next(there.versions))


def state(there: World, module: str = "gpu") -> ProviderState:
    return next(each for each in there.hardware_facts.provider_states() if each.module == module)


def entry(there: World, module: str = "gpu") -> Mapping[str, Any]:
    found = state(there, module)
    fields = {**found.details, "module": module, "phase": found.phase.value, "needed": found.needed}
    HardwareOperator.model_validate(fields)
    return fields


def checks(there: World, module: str = "gpu") -> list[tuple[str, str]]:
    return [(each["name"], each["status"]) for each in entry(there, module)["checks"]]


@pytest.mark.req("MS-321", "MS-107")
def test_e21_without_hardware_all_three_are_told_of_and_none_is_requested() -> None:
    there = world(node())
    told = {each.module: (each.phase.value, each.needed) for each in there.hardware_facts.provider_states()}
    assert told == dict.fromkeys(("gpu", "amd-gpu", "intel-gpu"), ("NotRequired", False))
    assert entry(there)["operatorActive"] is False
    assert there.hardware_facts.requested() == ()


def test_an_entry_without_hardware_is_whole() -> None:
    assert entry(world()) == {
        "module": "gpu",
        "displayName": "NVIDIA GPU Operator",
        "vendor": "nvidia",
        "operatorVersion": "v26.7.0",
        "driverMode": "operator-managed",
        "phase": "NotRequired",
        "needed": False,
        "operatorActive": False,
        "managedBy": "none",
        "modulePhase": "",
        "detectionLabel": NVIDIA,
        "supportedLabel": NVIDIA,
        "detectedNodes": [],
        "compatibleNodes": [],
        "supportedNodes": [],
        "resourceNames": ["nvidia.com/gpu"],
        "allocatableResources": 0,
        "message": f"No node has the label {NVIDIA}.",
        "checks": [
            {"name": "hardware-detected", "status": "False", "message": f"0 nodes with the label {NVIDIA}."},
            {
                "name": "platform-preflight",
                "status": "Unknown",
                "message": "There is no hardware to look at.",
            },
            {"name": "operator-ready", "status": "Unknown", "message": "NotRequired"},
            {
                "name": "allocatable-resource",
                "status": "Unknown",
                "message": "0 of nvidia.com/gpu can be allocated.",
            },
        ],
    }


@pytest.mark.req("MS-104", "MS-031")
@pytest.mark.parametrize(("label", "module"), [(NVIDIA, "gpu"), (AMD, "amd-gpu"), (INTEL, "intel-gpu")])
def test_e22_a_label_requests_exactly_its_vendor(label: str, module: str) -> None:
    there = world(node("n1", label))
    assert there.hardware_facts.requested() == (module,)
    told = {each.module: each.phase.value for each in there.hardware_facts.provider_states()}
    assert told == dict.fromkeys(("gpu", "amd-gpu", "intel-gpu"), "NotRequired") | {module: "Detected"}
    assert checks(there, module) == [
        ("hardware-detected", "True"),
        ("platform-preflight", "True"),
        ("operator-ready", "Unknown"),
        ("allocatable-resource", "False"),
    ]


@pytest.mark.req("MS-106", "MS-331")
def test_e22_it_is_ready_with_its_module_and_something_to_allocate() -> None:
    on = activation("gpu", status=READY)
    there = world(node("n1", NVIDIA, allocatable=GPU), objects=(on,))
    told = entry(there)
    assert (told["phase"], told["managedBy"], told["operatorActive"]) == ("Ready", "magicstick", True)
    assert (told["allocatableResources"], told["modulePhase"]) == (1, "Ready")
    assert told["message"] == "1 GPU can be allocated."
    assert [status for _, status in checks(there)] == ["True"] * 4


@pytest.mark.req("MS-330", "MS-331")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"allocatable": {"nvidia.com/gpu": "0"}},
        {"allocatable": GPU, "ready": False},
        {"allocatable": {"amd.com/gpu": "1"}},
    ],
)
def test_a_ready_module_without_anything_to_allocate_is_installing(options: dict[str, Any]) -> None:
    there = world(node("n1", NVIDIA, **options), objects=(activation("gpu", status=READY),))
    assert entry(there)["phase"] == "Installing"


@pytest.mark.req("MS-331")
def test_what_an_incompatible_node_offers_does_not_count() -> None:
    there = world(
        node("good", NVIDIA),
        node("bad", NVIDIA, kubelet="v1.20.0", allocatable=GPU),
        objects=(activation("gpu", status=READY),),
    )
    told = entry(there)
    assert (told["phase"], told["allocatableResources"]) == ("Installing", 0)
    assert told["detectedNodes"] == ["bad", "good"]
    assert told["compatibleNodes"] == ["good"]
    assert list(told["incompatibleNodes"]) == ["bad"]


def test_resources_of_all_names_and_nodes_are_added() -> None:
    there = world(
        node("n1", INTEL, INTEL_SUPPORTED, allocatable={"gpu.intel.com/i915": "1", "gpu.intel.com/xe": "2"}),
        node("n2", INTEL, INTEL_SUPPORTED, allocatable={"gpu.intel.com/xe": "2k"}),
        objects=(activation("intel-gpu", status=READY),),
    )
    assert entry(there, "intel-gpu")["allocatableResources"] == 2003


@pytest.mark.req("MS-109")
def test_18_1_labels_lost_leave_activation_and_say_unknown() -> None:
    there = world(node("n1", NVIDIA, allocatable=GPU), objects=(activation("gpu", status=READY),))
    there.put_node(node("n1", allocatable=GPU))
    settle(there, 4)
    assert entry(there)["phase"] == "Ready"
    assert entry(there)["message"].endswith("Labels are missing on n1; they are not taken for lost yet.")
    settle(there, 60)
    told = entry(there)
    assert (told["phase"], told["needed"], told["operatorActive"]) == ("Unknown", False, True)
    assert told["message"].startswith(f"The label {NVIDIA} is missing on every node.")


def test_18_2_hardware_of_a_module_that_is_off_is_disabled() -> None:
    there = world(node("n1", NVIDIA), objects=(activation("gpu", enabled=False),))
    assert (entry(there)["phase"], there.hardware_facts.requested()) == ("Disabled", ())


@pytest.mark.req("MS-108")
def test_18_3_e23_a_foreign_definition_is_a_conflict_until_it_offers_something() -> None:
    there = world(node("n1", NVIDIA))
    define(there, CLUSTER_POLICIES)
    told = entry(there)
    assert (told["phase"], told["managedBy"], told["operatorActive"]) == ("Conflict", "external", True)
    assert there.hardware_facts.requested() == ()
    there.put_node(node("n1", NVIDIA, allocatable=GPU))
    assert (entry(there)["phase"], entry(there)["managedBy"]) == ("Ready", "external")


@pytest.mark.req("MS-108")
def test_a_definition_counts_before_it_is_established() -> None:
    there = world(node("n1", NVIDIA))
    there.reads.stores[CUSTOM_RESOURCE_DEFINITION].replace(
        [CrdView(ObjectMeta(name=CLUSTER_POLICIES))], next(there.versions)
    )
    assert (entry(there)["phase"], there.hardware_facts.requested()) == ("Conflict", ())


def test_a_foreign_definition_without_hardware_is_unknown() -> None:
    there = world()
    define(there, CLUSTER_POLICIES)
    assert (entry(there)["phase"], entry(there)["managedBy"]) == ("Unknown", "external")


def test_the_definitions_of_a_module_of_ours_are_not_foreign() -> None:
    there = world(node("n1", NVIDIA), objects=(activation("gpu"),))
    define(there, CLUSTER_POLICIES)
    assert (entry(there)["phase"], entry(there)["managedBy"]) == ("Installing", "magicstick")


@pytest.mark.req("MS-105")
def test_18_4_hardware_on_an_architecture_without_support_installs_nothing() -> None:
    there = world(node("n1", AMD, architecture="arm64"))
    told = entry(there, "amd-gpu")
    assert (told["phase"], there.hardware_facts.requested()) == ("Unsupported", ())
    assert told["incompatibleNodes"] == {"n1": ["The architecture must be amd64 and is arm64."]}
    assert "n1: The architecture must be amd64 and is arm64." in told["message"]
    assert checks(there, "amd-gpu")[1] == ("platform-preflight", "False")


@pytest.mark.parametrize(
    ("module", "label", "supported", "resource"),
    [
        ("amd-gpu", AMD, AMD_SUPPORTED, "amd.com/gpu"),
        ("intel-gpu", INTEL, INTEL_SUPPORTED, "gpu.intel.com/xe"),
    ],
)
def test_a_vendor_with_a_rule_of_its_own_decides_what_it_supports(
    module: str, label: str, supported: str, resource: str
) -> None:
    on = activation(module, status=READY)
    there = world(node("n1", label, allocatable={resource: "1"}), objects=(on,))
    assert entry(there, module)["phase"] == "Unsupported"
    there.put_node(node("n1", label, supported, allocatable={resource: "1"}))
    settle(there)
    told = entry(there, module)
    assert (told["phase"], told["supportedNodes"]) == ("Ready", ["n1"])


def test_f18_a_support_label_that_vanishes_is_held_as_well() -> None:
    there = world(
        node("n1", AMD, AMD_SUPPORTED, allocatable={"amd.com/gpu": "1"}),
        objects=(activation("amd-gpu", status=READY),),
    )
    there.put_node(node("n1", AMD, allocatable={"amd.com/gpu": "1"}))
    settle(there, 30)
    assert entry(there, "amd-gpu")["phase"] == "Ready"
    settle(there, 30)
    assert entry(there, "amd-gpu")["phase"] == "Unsupported"


@pytest.mark.parametrize(
    ("status", "phase", "module_phase"),
    [
        ({}, "Installing", "Reconciling"),
        ({**READY, "observedGeneration": 0}, "Installing", "Reconciling"),
        ({**READY, "phase": "WaitingForModules"}, "Installing", "WaitingForModules"),
        ({**READY, "phase": "Degraded", "message": "the chart is broken"}, "Degraded", "Degraded"),
        ({**READY, "phase": 7}, "Installing", "Reconciling"),
    ],
)
def test_the_modules_own_phase_counts_for_its_present_generation(
    status: dict[str, Any], phase: str, module_phase: str
) -> None:
    there = world(node("n1", NVIDIA, allocatable=GPU), objects=(activation("gpu", status=status),))
    told = entry(there)
    assert (told["phase"], told["modulePhase"]) == (phase, module_phase)
    assert phase != "Degraded" or told["message"] == "the chart is broken"


def test_an_activation_that_is_being_removed_is_told_of() -> None:
    dying = activation("gpu", finalizers=["x"], dying=True)
    there = world(node("n1", NVIDIA), objects=(dying,))
    told = entry(there)
    assert (told["phase"], told["message"]) == ("Disabled", "There is hardware, but gpu is being removed.")


def test_an_activation_under_an_alias_is_the_vendors() -> None:
    there = world(
        node("n1", NVIDIA), objects=(activation("mine", module="nvidia-gpu-operator", enabled=False),)
    )
    assert entry(there)["phase"] == "Disabled"


def test_a_name_that_is_taken_is_told_of() -> None:
    there = world(node("n1", NVIDIA), objects=(activation("gpu", module="litellm"),))
    assert (
        entry(there)["message"]
        == "There is hardware, but a ModuleActivation named gpu is about something else."
    )


def test_an_activation_of_another_appliance_is_told_of() -> None:
    theirs = activation("gpu", spec={"applianceRef": {"name": "other"}})
    there = world(node("n1", NVIDIA), objects=(theirs,))
    told = entry(there)
    assert (told["phase"], told["message"]) == (
        "Disabled",
        "There is hardware, but gpu is activated for another Appliance.",
    )


@pytest.mark.req("MS-322")
def test_devices_are_told_of_whether_or_not_a_label_is_there() -> None:
    there = world(node("n1", evidence=host("n1", card("10de"))))
    (device,) = entry(there)["devices"]
    assert device["id"] == "uid-n1/0000:01:00.0"
    assert "devices" not in entry(there, "amd-gpu")


def test_what_a_host_wrote_is_handed_on_while_it_is_believed() -> None:
    there, view = world(), node("n1", evidence=host("n1", memoryArchitecture="unified"))
    assert there.hardware_facts.evidence(view)["memoryArchitecture"] == "unified"
    there.clock.passed_s += 86_400
    assert there.hardware_facts.evidence(view) == {}


def test_evidence_grows_old_without_any_event() -> None:
    there = world(node("n1", NVIDIA, evidence=host("n1", card("10de"))))
    there.clock.passed_s += 86_400
    assert "devices" not in entry(there)


# --- what cannot be read ---------------------------------------------------------------------------


REPORTED = {
    "gpu": {
        "module": "gpu",
        "phase": "Ready",
        "needed": True,
        "detectedNodes": ["n1"],
        "supportedNodes": ["n1"],
        "allocatableResources": 3,
        "message": "3 GPUs can be allocated.",
    }
}


def reported(modules: Any = None, nodes: tuple[Any, ...] = ()) -> World:
    there = World(
        shipped_catalog() if modules is None else modules, appliance(status={"hardwareOperators": REPORTED})
    )
    for each in nodes:
        there.put_node(each)
    return there


@pytest.mark.parametrize("unread", [InformerState.SYNCING, InformerState.FAILING])
def test_while_nodes_cannot_be_read_the_last_report_stays(unread: InformerState) -> None:
    there = reported()
    there.reads.enter(NODE, unread)
    told = entry(there)
    assert (told["phase"], told["needed"], told["allocatableResources"]) == ("Ready", True, 3)
    assert told["message"].startswith(f"Nodes cannot be read now ({unread}).")
    assert state(there).held
    assert there.hardware_facts.requested() == ()


def test_what_was_never_reported_is_unknown_while_nodes_cannot_be_read() -> None:
    there = reported()
    there.reads.enter(NODE, InformerState.FAILING)
    told = entry(there, "intel-gpu")
    assert (told["phase"], told["needed"], told["vendor"]) == ("Unknown", False, "intel")


def test_a_held_entry_is_the_same_when_it_is_held_again() -> None:
    there = reported()
    there.reads.enter(NODE, InformerState.FAILING)
    once = entry(there)
    local = there.local()
    there.set_status(local, {"hardwareOperators": {"gpu": once}})
    assert entry(there) == once


def test_while_definitions_cannot_be_read_nothing_is_said_of_who_installed_it() -> None:
    there = reported(nodes=(node("n1", NVIDIA),))
    settle(there)
    there.reads.enter(CUSTOM_RESOURCE_DEFINITION, InformerState.FAILING)
    told = entry(there)
    assert (told["phase"], told["allocatableResources"]) == ("Ready", 3)
    assert told["message"].startswith("CustomResourceDefinitions cannot be read now.")
    assert there.hardware_facts.requested() == ()


def test_definitions_do_not_matter_to_a_module_of_ours() -> None:
    there = world(node("n1", NVIDIA, allocatable=GPU), objects=(activation("gpu", status=READY),))
    there.reads.enter(CUSTOM_RESOURCE_DEFINITION, InformerState.FAILING)
    assert entry(there)["phase"] == "Ready"


def test_without_a_catalog_everything_stays_as_it_was_reported() -> None:
    there = World(None, appliance(status={"hardwareOperators": REPORTED}))
    assert entry(there)["phase"] == "Ready"
    assert entry(there)["message"].startswith("There is no module catalog.")
    assert [each.module for each in there.hardware_facts.provider_states()] == ["gpu", "amd-gpu", "intel-gpu"]


@pytest.mark.req("MS-321")
def test_a_catalog_without_vendors_still_tells_of_all_three() -> None:
    there = World(catalog(alpha={}), appliance())
    assert [each.module for each in there.hardware_facts.provider_states()] == ["gpu", "amd-gpu", "intel-gpu"]
    assert entry(there)["message"] == "The module catalog has no entry gpu."


def test_an_invalid_entry_holds_its_vendor_and_no_other() -> None:
    broken = catalog(gpu={"hardware": {"vendor": "nvidia"}}, amd_gpu={})
    there = reported(broken)
    assert (entry(there)["phase"], entry(there)["allocatableResources"]) == ("Ready", 3)
    assert entry(there)["message"].startswith("The entry of gpu in the module catalog is invalid: ")
    assert (
        entry(there, "amd-gpu")["message"]
        == "The entry of amd-gpu in the module catalog describes no hardware."
    )


def test_an_entry_that_was_invalid_for_a_while_does_not_flap() -> None:
    there = reported(nodes=(node("n1", NVIDIA, allocatable={"nvidia.com/gpu": "3"}),))
    there.put(activation("gpu", status=READY))
    assert entry(there)["phase"] == "Ready"
    there.catalogs.put(catalog(gpu={"hardware": {"vendor": "nvidia"}}))
    assert entry(there)["phase"] == "Ready"
    there.catalogs.put(shipped_catalog())
    assert (entry(there)["phase"], entry(there)["detectedNodes"]) == ("Ready", ["n1"])


@pytest.mark.parametrize("garbage", [7, [], "x", {"gpu": 7}, {"gpu": {"phase": "Odd", "needed": "yes"}}])
def test_a_report_of_any_form_is_survived(garbage: Any) -> None:
    there = World(shipped_catalog(), appliance(status={"hardwareOperators": garbage}))
    there.reads.enter(NODE, InformerState.FAILING)
    assert (entry(there)["phase"], entry(there)["needed"]) == ("Unknown", False)


def test_a_vendor_that_only_the_catalog_knows_is_told_of_last() -> None:
    block = {"vendor": "acme", "detectionLabel": "example.com/acme", "supportedLabel": "example.com/acme"}
    there = World(catalog(acme={"hardware": block}), appliance())
    assert [each.module for each in there.hardware_facts.provider_states()] == [
        "gpu",
        "amd-gpu",
        "intel-gpu",
        "acme",
    ]


# --- after a restart -------------------------------------------------------------------------------


def test_a_restart_tells_of_the_same_at_once() -> None:
    there = reported(nodes=(node("n1", NVIDIA, allocatable={"nvidia.com/gpu": "3"}),))
    there.put(activation("gpu", status=READY))
    told = entry(there)
    assert (told["phase"], told["detectedNodes"], told["supportedNodes"]) == ("Ready", ["n1"], ["n1"])


def test_a_restart_while_labels_are_missing_holds_them_anew() -> None:
    there = reported(nodes=(node("n1", allocatable={"nvidia.com/gpu": "3"}),))
    there.put(activation("gpu", status=READY))
    assert entry(there)["phase"] == "Ready"
    settle(there, 60)
    assert entry(there)["phase"] == "Unknown"


@pytest.mark.req("MS-107")
def test_a_restart_in_the_middle_of_a_flap_requests_nothing() -> None:
    there = reported(nodes=(node("n1", NVIDIA),))
    assert entry(there)["phase"] == "Detected"
    assert there.hardware_facts.requested() == ()
    settle(there, 3)
    assert there.hardware_facts.requested() == ("gpu",)


# --- bounds and seams ------------------------------------------------------------------------------


def test_the_lists_of_an_entry_are_bounded() -> None:
    there = world(*(node(f"n{number:04}", AMD, architecture="arm64") for number in range(NODE_LIMIT + 50)))
    told = entry(there, "amd-gpu")
    assert len(told["detectedNodes"]) == len(told["incompatibleNodes"]) == NODE_LIMIT
    assert "And 247 more." in told["message"]


def test_a_report_on_devices_decides_instead_of_the_support_label() -> None:
    """The seam for the report on AMD's devices: only what it allows is supported, and counts."""
    amd = providers_of(shipped_catalog())["amd-gpu"]
    sights = {
        name: Sight(
            node(name, AMD, allocatable={"amd.com/gpu": "1"}), there=True, standing=True, missing=False
        )
        for name in ("n1", "n2")
    }
    on = activation("amd-gpu", status=READY)
    known = Findings(detected=sights, supported=sights, activations=(on,), activation=on)
    assert assess(amd, known).situation.allocatable == 2
    judged = assess(amd, Findings(sights, {}, (on,), on, eligible={"n2"}))
    assert (judged.supported, judged.situation.allocatable, judged.phase) == (("n2",), 1, "Ready")
    assert assess(amd, Findings(sights, sights, (on,), on, eligible=set())).phase == "Unsupported"


# --- what wakes ------------------------------------------------------------------------------------


def test_a_heartbeat_wakes_nobody() -> None:
    facts = world(node("n1", NVIDIA)).hardware_facts
    assert not facts.node_changed(node("n1", NVIDIA), node("n1", NVIDIA, heartbeat="2026-01-01T12:00:10Z"))


@pytest.mark.parametrize(
    "after",
    [
        node("n1"),
        node("n1", NVIDIA, AMD),
        node("n1", NVIDIA, allocatable=GPU),
        node("n1", NVIDIA, ready=False),
        node("n1", NVIDIA, cordoned=True),
        node("n1", NVIDIA, kubelet="v1.37.0"),
        node("n1", NVIDIA, architecture="arm64"),
        node("n1", NVIDIA, uid="another"),
        node("n1", NVIDIA, evidence=host("n1", card("10de"))),
        node("n1", NVIDIA, labelled={"nvidia.com/gpu.memory": "24000"}),
        None,
    ],
)
def test_what_an_entry_depends_on_wakes(after: Any) -> None:
    facts = world(node("n1", NVIDIA)).hardware_facts
    assert facts.node_changed(node("n1", NVIDIA), after)
    assert facts.node_changed(after, node("n1", NVIDIA))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (node("n1"), node("n1", ready=False)),
        (None, node("n1")),
        (node("n1"), None),
        (node("n1"), node("n1", labelled={"example.com/x": "true"}, allocatable={"example.com/y": "1"})),
        (node("n1", NVIDIA), node("n1", NVIDIA, labelled={"example.com/x": "true"})),
        (node("n1", NVIDIA), node("n1", NVIDIA, allocatable={"cpu": "7", "example.com/y": "1"})),
        (
            node("n1", evidence=host("n1", card("10de"))),
            node("n1", evidence=host("n1", card("10de"), generatedAt="2026-01-01T12:00:30Z")),
        ),
    ],
)
def test_what_no_entry_depends_on_wakes_nobody(before: Any, after: Any) -> None:
    facts = world(node("other", NVIDIA)).hardware_facts
    assert not facts.node_changed(before, after)


def test_the_end_of_a_node_whose_labels_are_held_wakes() -> None:
    there = world(node("n1", NVIDIA))
    there.put_node(node("n1"))
    assert there.hardware_facts.node_changed(node("n1"), None)


def test_definitions_wake_when_they_come_or_go_and_are_a_vendors() -> None:
    facts = world().hardware_facts
    theirs, other = crd(CLUSTER_POLICIES), crd("things.example.com")
    assert facts.definition_changed(None, theirs)
    assert facts.definition_changed(theirs, None)
    assert not facts.definition_changed(theirs, crd(CLUSTER_POLICIES, established=True))
    assert not facts.definition_changed(None, other)


def test_activations_wake_when_they_are_a_vendors_and_change_what_they_want() -> None:
    facts = world().hardware_facts
    on = activation("gpu")
    assert facts.activation_changed(None, on)
    assert facts.activation_changed(on, None)
    assert facts.activation_changed(None, activation("mine", module="nvidia-gpu"))
    assert facts.activation_changed(None, activation("gpu", module="litellm"))
    assert not facts.activation_changed(on, activation("gpu", status=READY))
    assert not facts.activation_changed(None, activation("litellm"))


def test_a_verdict_is_given_once_for_what_stays_as_it_is() -> None:
    there = world(node("n1", NVIDIA, allocatable=GPU))
    before = state(there).assessment
    there.clock.passed_s += 20
    assert state(there).assessment is before
    there.put_node(node("n1", NVIDIA, allocatable={"nvidia.com/gpu": "2"}))
    assert entry(there)["allocatableResources"] == 2
    define(there, CLUSTER_POLICIES)
    assert entry(there)["managedBy"] == "external"
    there.put(activation("gpu", status=READY))
    assert entry(there)["managedBy"] == "magicstick"


def test_what_was_reported_of_another_label_is_not_held() -> None:
    there = world(node("n1", NVIDIA))
    there.put(msgspec.structs.replace(there.local(), status={"hardwareOperators": {"gpu": entry(there)}}))
    known = shipped_catalog()
    hardware = known.modules["gpu"].hardware
    assert hardware is not None
    elsewhere = {"detection_label": "example.com/gpu", "supported_label": "example.com/gpu"}
    moved = known.modules["gpu"].model_copy(update={"hardware": hardware.model_copy(update=elsewhere)})
    there.catalogs.put(dataclasses.replace(known, modules={**known.modules, "gpu": moved}))
    assert entry(there)["detectedNodes"] == []
    assert entry(there)["phase"] == "NotRequired"
