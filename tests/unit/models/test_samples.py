"""When a measurement is written to a status, and when what was reported stands (spec: models §3.2)."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from magicstick.api.model_activation_status import ModelActivationStatus
from magicstick.models.observation import CheckState, EngineCheck
from magicstick.models.samples import FRESH_LOOKS, settled, steady

RESYNC_S = 20.0
FRESH_S = FRESH_LOOKS * RESYNC_S
TAKEN = datetime(2026, 1, 1, 12, tzinfo=UTC)


def sample(speed: int, at: object = TAKEN) -> dict[str, object]:
    return {"tokensPerSecond": speed, "sampledAt": at.isoformat() if isinstance(at, datetime) else at}


def status(stats: Mapping[str, object] | None) -> ModelActivationStatus:
    return ModelActivationStatus(freeTokenStats=stats, memoryUsage=stats)


def told(reported: Mapping[str, object] | None, stats: Mapping[str, object] | None, age_s: float) -> object:
    """Which statistics are told when what was reported is so old; memory fares alike."""
    check = EngineCheck(CheckState.PASSED, memory_usage=stats, stats=stats)
    found = settled(check, status(reported), TAKEN + timedelta(seconds=age_s), RESYNC_S)
    assert found.memory_usage == found.stats
    return found.stats


def test_other_values_are_news_once_a_minute() -> None:
    assert FRESH_S == 60
    later = sample(2, TAKEN + timedelta(seconds=20))
    assert told(sample(1), later, FRESH_S - 1) == sample(1)
    assert told(sample(1), later, FRESH_S) == later


def test_a_runtime_that_came_to_rest_within_the_minute_is_told_as_it_is_after_it() -> None:
    at_rest = sample(0, TAKEN + timedelta(seconds=20))
    before = EngineCheck(CheckState.PASSED, stats=at_rest)
    now = steady(before, EngineCheck(CheckState.PASSED, stats=sample(0, TAKEN + timedelta(seconds=80))))
    assert told(sample(1), now.stats, 80) == at_rest


def test_the_first_measurement_and_the_last_are_news_at_once() -> None:
    assert told(None, sample(1), 1) == sample(1)
    assert told(sample(1), None, 1) is None


def test_equal_values_are_never_news() -> None:
    assert told(sample(1), sample(1, TAKEN + timedelta(hours=1)), 3600) == sample(1)


@pytest.mark.parametrize("at", ["yesterday", "2026-01-01T12:00:00", None, TAKEN + timedelta(days=1)])
def test_a_reported_time_that_cannot_be_holds_up_nothing(at: object) -> None:
    assert told(sample(1, at), sample(2), 1) == sample(2)


def test_while_nobody_can_tell_what_was_reported_stands() -> None:
    found = settled(EngineCheck(), status(sample(1)), TAKEN + timedelta(hours=1), RESYNC_S)
    assert found.stats == sample(1)
