"""One phase and one status over everything (spec: magicstick-api §2.2)."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.api.appliance import ApplianceStatus
from magicstick.appliance.aggregate import Entries, appliance_status
from magicstick.appliance.entries import (
    ENTRY_LIMIT,
    ENTRY_MESSAGE_LIMIT,
    HardwareEntry,
    InstanceEntry,
    ModelEntry,
    ModuleEntry,
    bounded,
)
from magicstick.catalogs.loader import Problem, ProblemReason
from magicstick.runtime.conditions import check_conditions, find

PROBLEM = Problem(ProblemReason.MISSING, "ConfigMap ai-system/x does not exist. Nothing is generated.")


def status(entries: Entries, *, usable: bool = True, **problems: Problem) -> dict[str, Any]:
    made = appliance_status(3, entries, ["litellm"], problems, catalogs_usable=usable)
    conditions = [{**each, "lastTransitionTime": "x"} for each in made["conditions"]]
    assert (
        check_conditions({"metadata": {"generation": 3}, "status": {**made, "conditions": conditions}}) == []
    )
    return made


def phase(entries: Entries) -> str:
    return str(status(entries)["phase"])


MODULE_PHASES = {
    "Ready": "Ready",
    "Suspended": "Ready",
    "Disabled": "Ready",
    "Reconciling": "Reconciling",
    "WaitingForModules": "Reconciling",
    "WaitingForCRD": "Reconciling",
    "Removing": "Reconciling",
    "": "Reconciling",
    "Degraded": "Degraded",
}


@pytest.mark.req("MS-019")
@pytest.mark.parametrize(("one", "whole"), MODULE_PHASES.items())
def test_a_module_makes_the_appliance(one: str, whole: str) -> None:
    assert phase(Entries(modules=[ModuleEntry("a", "Ready"), ModuleEntry("b", one)])) == whole


@pytest.mark.req("MS-019")
@pytest.mark.parametrize(("one", "whole"), {**MODULE_PHASES, "Degraded": "Reconciling"}.items())
def test_a_degraded_instance_counts_as_waiting_only(one: str, whole: str) -> None:
    assert phase(Entries(instances=[InstanceEntry("hermes", "team", one)])) == whole


@pytest.mark.req("MS-019")
@pytest.mark.parametrize(("one", "whole"), {**MODULE_PHASES, "Suspended": "Reconciling"}.items())
def test_a_model_makes_the_appliance(one: str, whole: str) -> None:
    assert phase(Entries(models=[ModelEntry("a", one)])) == whole


@pytest.mark.req("MS-019", "MS-329")
@pytest.mark.parametrize("needed", [True, False])
@pytest.mark.parametrize(
    ("one", "needed_phase", "other_phase"),
    [
        ("NotRequired", "Ready", "Ready"),
        ("Ready", "Ready", "Ready"),
        ("Unknown", "Ready", "Ready"),
        ("Detected", "Reconciling", "Reconciling"),
        ("Installing", "Reconciling", "Reconciling"),
        ("Degraded", "Degraded", "Ready"),
        ("Unsupported", "Degraded", "Ready"),
        ("Conflict", "Degraded", "Ready"),
        ("Disabled", "Degraded", "Ready"),
    ],
)
def test_hardware_counts_against_the_appliance_only_where_it_is_there(
    one: str, needed_phase: str, other_phase: str, *, needed: bool
) -> None:
    expected = needed_phase if needed else other_phase
    assert phase(Entries(hardware=[HardwareEntry("gpu", one, needed=needed)])) == expected


def test_nothing_at_all_is_ready() -> None:
    made = status(Entries())
    assert made["phase"] == "Ready"
    assert "modules" not in made
    assert "instances" not in made


def test_degraded_comes_before_reconciling() -> None:
    assert phase(Entries(modules=[ModuleEntry("a", "Removing"), ModuleEntry("b", "Degraded")])) == "Degraded"


def test_without_a_usable_catalog_it_is_degraded_and_says_why() -> None:
    made = status(Entries(), usable=False, modules=PROBLEM)
    ready = find(made["conditions"], "Ready") or {}
    assert (made["phase"], ready["reason"], ready["message"]) == (
        "Degraded",
        "CatalogUnavailable",
        PROBLEM.message,
    )


def test_a_bad_catalog_alone_does_not_change_the_phase() -> None:
    made = status(Entries(), modules=PROBLEM)
    valid = find(made["conditions"], "CatalogsValid") or {}
    assert made["phase"] == "Ready"
    assert (valid["status"], valid["reason"], valid["message"]) == (
        "False",
        "CatalogMissing",
        PROBLEM.message,
    )
    assert (find(status(Entries())["conditions"], "CatalogsValid") or {})["status"] == "True"


def test_the_ready_condition_has_the_phase_as_its_reason_and_names_who_waits() -> None:
    entries = Entries(modules=[ModuleEntry(f"m{number}", "Removing") for number in range(7)])
    ready = find(status(entries)["conditions"], "Ready") or {}
    assert ready["reason"] == "Reconciling"
    assert ready["message"].endswith("m4 (Removing) and 2 more")
    assert ready["observedGeneration"] == 3


def test_a_module_and_its_hardware_that_fail_alike_are_named_once() -> None:
    entries = Entries(
        modules=[ModuleEntry("gpu", "Degraded")],
        hardware=[
            HardwareEntry("gpu", "Degraded", needed=True),
            HardwareEntry("amd-gpu", "Conflict", needed=True),
        ],
    )
    ready = find(status(entries)["conditions"], "Ready") or {}
    assert ready["message"] == "Not working: gpu (Degraded), amd-gpu (Conflict)"


@pytest.mark.req("MS-019")
def test_the_status_is_what_our_schema_knows() -> None:
    entries = Entries(
        modules=[ModuleEntry("litellm", "Ready", "app-litellm", auto_enabled=True, message="Applied")],
        instances=[
            InstanceEntry("hermes", "team", "Ready", "ai-system", "HelmRelease", "team", "u", "l", "p", "m")
        ],
        models=[ModelEntry("qwen", "Ready", "up", {"modelRef": "kubeai/qwen", "engine": "VLLM"})],
        hardware=[HardwareEntry("gpu", "Ready", needed=True, details={"vendor": "nvidia"})],
    )
    made = status(entries)
    read = ApplianceStatus.model_validate(
        {**made, "conditions": [{**each, "lastTransitionTime": "x"} for each in made["conditions"]]}
    )
    assert read.modules["litellm"].auto_enabled is True
    assert read.modules["litellm"].kustomization == "app-litellm"
    assert read.instances["hermes"]["team"].local_url == "l"
    assert read.instances["hermes"]["team"].name == "team"
    assert read.models["qwen"].model_ref == "kubeai/qwen"
    assert made["models"]["qwen"]["engine"] == "VLLM"
    assert read.hardware_operators["gpu"].vendor == "nvidia"
    assert read.seeded_modules == ("litellm",)


def test_an_instance_without_an_application_stands_under_unknown() -> None:
    made = status(Entries(instances=[InstanceEntry("", "x", "Ready")]))
    assert list(made["instances"]) == ["unknown"]


def test_a_message_is_cut() -> None:
    made = status(Entries(modules=[ModuleEntry("a", "Ready", message="x" * 5000)]))
    assert len(made["modules"]["a"]["message"]) == ENTRY_MESSAGE_LIMIT


def test_of_very_many_entries_those_that_need_attention_are_listed() -> None:
    entries = [ModuleEntry(f"m{number:05}", "Ready") for number in range(ENTRY_LIMIT)]
    entries += [ModuleEntry("zzz", "Degraded")]
    made = status(Entries(modules=entries))
    assert len(made["modules"]) == ENTRY_LIMIT
    assert "zzz" in made["modules"]


def test_a_status_of_very_much_of_everything_fits_into_the_store() -> None:
    name, text = "n" * 56, "x" * 5000
    entries = Entries(
        modules=[ModuleEntry(f"{name}{number}", "Ready", name, message=text) for number in range(2000)],
        instances=[
            InstanceEntry("hermes", f"{name}{number}", "Ready", name, name, name, name, name, name, text)
            for number in range(2000)
        ],
        models=[ModelEntry(f"{name}{number}", "Ready", text, {"engine": name}) for number in range(1999)]
        + [ModelEntry("broken", "Degraded")],
    )
    made = status(entries)
    assert len(json.dumps(made)) < 1_000_000
    assert len(made["modules"]) == len(made["models"]) == ENTRY_LIMIT // 2
    assert "broken" in made["models"]


@pytest.mark.parametrize("character", ["\U0001f600", "\x01"], ids=["four bytes", "an escape"])
def test_what_hosts_say_of_themselves_fits_into_the_store_and_costs_others_nothing(character: str) -> None:
    nodes = [f"{number:03}{'n' * 250}" for number in range(200)]
    device = dict.fromkeys(("name", "architecture", "hostDriver"), character * 128)
    details = {
        **dict.fromkeys(("detectedNodes", "compatibleNodes", "supportedNodes"), nodes),
        "incompatibleNodes": {name: ["x" * 160] * 3 for name in nodes},
        "devices": [device] * 128,
        "checks": [{"name": "hardware-detected"}] * 4,
    }
    vendors = ("gpu", "amd-gpu", "intel-gpu")
    modules = [ModuleEntry(f"m{number}", "Ready") for number in range(ENTRY_LIMIT)]
    hardware = [HardwareEntry(vendor, "Ready", needed=True, details=details) for vendor in vendors]
    made = status(Entries(modules=modules, hardware=hardware))
    assert len(json.dumps(made, ensure_ascii=False).encode()) < 1_000_000
    assert len(made["modules"]) == ENTRY_LIMIT
    for vendor in vendors:
        entry = made["hardwareOperators"][vendor]
        assert entry["detectedNodes"] == nodes[: len(entry["detectedNodes"])]
        assert len(entry["devices"]) >= 15
        assert len(entry["checks"]) == 4


@given(st.lists(st.sampled_from(["Ready", "Degraded"])), st.integers(0, 10))
def test_a_bound_keeps_the_order_of_what_it_keeps(phases: list[str], limit: int) -> None:
    entries = [ModuleEntry(str(number), each) for number, each in enumerate(phases)]
    kept = bounded(entries, limit)
    assert len(kept) == min(limit, len(entries))
    for healthy, group in itertools.groupby(kept, key=lambda each: each.healthy):
        names = [int(each.module) for each in group]
        assert names == sorted(names) or (healthy is None)
