"""The phase table (spec: gpu §4): each row, their order, and that it always answers."""

from dataclasses import fields, replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.api.appliance import HardwareManager, HardwarePhase
from magicstick.gpu.phases import ROWS, Situation, row_of
from magicstick.gpu.status import ManagedBy, ProviderPhase

THERE = Situation(detected=True, compatible=True)
ON = replace(THERE, exists=True, enabled=True)
READY = replace(ON, module_phase="Ready", supported=True, rule_decides=True, allocatable=1)

TABLE = [
    (1, "NotRequired", Situation()),
    (1, "NotRequired", Situation(exists=True)),
    (1, "NotRequired", Situation(exists=True, module_phase="Disabled", allocatable=3)),
    (2, "Unsupported", Situation(detected=True)),
    (2, "Unsupported", Situation(detected=True, exists=True, enabled=True, module_phase="Ready")),
    (2, "Unsupported", Situation(detected=True, external=True)),
    (2, "Unsupported", Situation(detected=True, exists=True)),
    (3, "Unknown", Situation(exists=True, enabled=True, module_phase="Ready", allocatable=2)),
    (3, "Unknown", Situation(exists=True, enabled=True, module_phase="Degraded")),
    (4, "Unknown", Situation(external=True)),
    (5, "Disabled", replace(THERE, exists=True)),
    (5, "Disabled", replace(THERE, exists=True, module_phase="Ready", allocatable=1)),
    (6, "Ready", replace(THERE, external=True, allocatable=1)),
    (6, "Ready", replace(THERE, external=True, allocatable=1, rule_decides=True)),
    (7, "Conflict", replace(THERE, external=True)),
    (8, "Detected", THERE),
    (8, "Detected", replace(THERE, allocatable=4)),
    (9, "Degraded", replace(ON, module_phase="Degraded")),
    (9, "Degraded", replace(ON, module_phase=" degraded ", allocatable=1)),
    (10, "Installing", ON),
    (10, "Installing", replace(ON, module_phase="Reconciling", allocatable=1, supported=True)),
    (10, "Installing", replace(ON, module_phase="WaitingForModules")),
    (11, "Unsupported", replace(ON, module_phase="Ready", rule_decides=True)),
    (11, "Unsupported", replace(ON, module_phase="Ready", rule_decides=True, allocatable=1)),
    (12, "Installing", replace(READY, allocatable=0)),
    (12, "Installing", replace(ON, module_phase="Ready")),
    (13, "Ready", READY),
    (13, "Ready", replace(ON, module_phase="READY", allocatable=1)),
]


@pytest.mark.req("MS-328")
@pytest.mark.parametrize(("number", "phase", "situation"), TABLE)
def test_row(number: int, phase: str, situation: Situation) -> None:
    row = row_of(situation)
    assert (row.number, row.phase) == (number, phase)


def test_every_row_has_an_example_and_stands_in_its_place() -> None:
    assert [row.number for row in ROWS] == list(range(1, 14))
    assert {number for number, _, _ in TABLE} == set(range(1, 14))


@pytest.mark.req("MS-328")
def test_the_phases_are_those_of_the_schema() -> None:
    assert {phase.value for phase in ProviderPhase} == set(get_args(HardwarePhase))
    assert {each.value for each in ManagedBy} == set(get_args(HardwareManager))


situations = st.builds(
    Situation,
    **{
        field.name: st.booleans()
        for field in fields(Situation)
        if field.name not in {"module_phase", "allocatable"}
    },
    module_phase=st.one_of(
        st.sampled_from(["", "Ready", "ready", "Degraded", "Removing"]), st.text(max_size=20)
    ),
    allocatable=st.integers(0, 5),
)


@given(situations)
def test_there_is_always_exactly_one_first_row(situation: Situation) -> None:
    found = row_of(situation)
    assert found.holds(situation)
    assert not any(row.holds(situation) for row in ROWS[: found.number - 1])


@pytest.mark.req("MS-330", "MS-331")
@given(situations)
def test_ready_needs_something_to_allocate_on_a_compatible_node(situation: Situation) -> None:
    if row_of(situation).phase is ProviderPhase.READY:
        assert situation.detected
        assert situation.compatible
        assert situation.allocatable > 0


@pytest.mark.req("MS-031", "MS-107", "MS-108")
@given(situations)
def test_only_compatible_hardware_that_nobody_serves_is_detected(situation: Situation) -> None:
    if row_of(situation).phase is ProviderPhase.DETECTED:
        assert situation.detected
        assert situation.compatible
        assert not situation.external
        assert not situation.exists


@given(situations)
def test_what_a_user_switched_off_is_never_more_than_disabled(situation: Situation) -> None:
    if situation.exists and not situation.enabled and not situation.external:
        allowed = {ProviderPhase.NOT_REQUIRED, ProviderPhase.UNSUPPORTED, ProviderPhase.DISABLED}
        assert row_of(situation).phase in allowed
