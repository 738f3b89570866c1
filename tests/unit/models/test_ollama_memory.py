"""Measurements in the status: what they say, and when they are news (spec: models §10.4)."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.api.model_activation_status import ModelActivationStatus
from magicstick.models.memory_usage import MIB, memory_usage, sample_of
from magicstick.models.observation import CheckState, EngineCheck
from magicstick.models.samples import settled, steady
from tests.support.model_objects import NOW

USAGE = {"source": "ollama-api-ps", "sampledAt": "2026-01-01T12:00:00Z", "replicas": 1, "totalMi": 3}
LATER = {**USAGE, "sampledAt": "2026-01-01T12:00:20Z"}
GROWN = {**LATER, "totalMi": 4}


@pytest.mark.parametrize(
    "loaded",
    [
        {},
        {"size": 0, "size_vram": 0},
        {"size": 1},
        {"size": 1, "size_vram": -1},
        {"size": 1, "size_vram": 2},
        {"size": "1", "size_vram": 0},
        {"size": True, "size_vram": False},
        {"size": 1.5, "size_vram": 0},
        {"size": 10**30, "size_vram": 0},
    ],
)
def test_numbers_that_cannot_be_are_no_sample(loaded: dict[str, Any]) -> None:
    assert sample_of(loaded) is None


@given(st.integers(1, 1 << 45), st.data())
def test_every_byte_is_counted_and_rounded_up(size: int, data: st.DataObject) -> None:
    on_gpu = data.draw(st.integers(0, size))
    sample = sample_of({"size": size, "size_vram": on_gpu})
    assert sample is not None
    for name, amount in (("totalMi", size), ("vramMi", on_gpu), ("ramMi", size - on_gpu)):
        assert (sample[name] - 1) * MIB < amount <= sample[name] * MIB


def test_over_all_pods_the_largest_of_each_number_counts() -> None:
    samples = [{"totalMi": 9, "vramMi": 1, "ramMi": 8}, {"totalMi": 8, "vramMi": 6, "ramMi": 2}]
    assert memory_usage(samples, NOW) == {
        "source": "ollama-api-ps",
        "sampledAt": "2026-01-01T12:00:00Z",
        "replicas": 2,
        "totalMi": 9,
        "vramMi": 6,
        "ramMi": 8,
    }


def test_without_a_sample_the_memory_is_unknown_and_not_zero() -> None:
    assert memory_usage([], NOW + timedelta(days=1)) is None


def test_a_later_time_alone_is_no_news() -> None:
    before, after = EngineCheck(memory_usage=USAGE), EngineCheck(CheckState.PASSED, memory_usage=LATER)
    assert steady(before, after).memory_usage == USAGE
    assert steady(before, EngineCheck(memory_usage=GROWN)).memory_usage == GROWN
    assert steady(before, EngineCheck()).memory_usage is None
    assert steady(EngineCheck(), after) == after


def test_what_was_reported_holds_until_somebody_can_tell() -> None:
    """So an operator that begins on settled models writes nothing."""
    status = ModelActivationStatus.model_validate({"memoryUsage": USAGE, "freeTokenStats": {"vramMi": 1}})
    unknown = settled(EngineCheck(message="silent"), status, NOW, 20.0)
    assert (unknown.memory_usage, unknown.stats, unknown.message) == (USAGE, {"vramMi": 1}, "silent")
    known = settled(EngineCheck(CheckState.PASSED, memory_usage=LATER), status, NOW, 20.0)
    assert (known.memory_usage, known.stats) == (USAGE, None)
