"""The vocabulary of statuses: closed, and explained where it is defined."""

import ast
from pathlib import Path

import pytest

from magicstick.api.module_activation import ModuleActivationStatus
from magicstick.modules.status import HEALTHY, IN_PROGRESS, ModulePhase, ModuleReason, module_status
from magicstick.runtime.conditions import MESSAGE_LIMIT

PACKAGE = Path(__file__).parents[3] / "magicstick"


@pytest.mark.parametrize("package", ["modules", "appliance"])
def test_every_word_of_a_status_is_explained_in_a_sentence(package: str) -> None:
    tree = ast.parse((PACKAGE / package / "status.py").read_text())
    enums = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    assert enums
    for enum in enums:
        for word, sentence in zip(enum.body[1::2], enum.body[2::2], strict=True):
            assert isinstance(word, ast.Assign)
            assert isinstance(sentence, ast.Expr)
            assert isinstance(sentence.value, ast.Constant)
            assert str(sentence.value.value).endswith(".")


def test_every_phase_is_healthy_in_progress_or_degraded() -> None:
    assert set(ModulePhase) == HEALTHY | IN_PROGRESS | {ModulePhase.DEGRADED}
    assert not HEALTHY & IN_PROGRESS


@pytest.mark.parametrize("phase", ModulePhase)
def test_a_status_is_what_our_schema_knows(phase: ModulePhase) -> None:
    made = module_status(3, phase, ModuleReason.REMOVING, "x" * 5000, "app-x")
    conditions = [{**each, "lastTransitionTime": "2026-01-01T00:00:00Z"} for each in made["conditions"]]
    read = ModuleActivationStatus.model_validate({**made, "conditions": conditions})
    assert (read.observed_generation, read.phase, read.kustomization) == (3, phase.value, "app-x")
    assert len(read.message) == MESSAGE_LIMIT
    assert {each.observed_generation for each in read.conditions} == {3}
