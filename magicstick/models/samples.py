"""Measurements in the status: when they are news, and when what was reported still holds.

A measurement carries the time at which it was taken. The time alone is no news, or every model would be
written at every poll; so `sampledAt` says since when it has been so. Values of a runtime in use differ at
every poll, and a status is no place for a curve: by default they are news once a minute (spec: models §3.2).
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from magicstick.api.model_activation_status import ModelActivationStatus
from magicstick.models.observation import CheckState, EngineCheck

SAMPLED_AT: Final = "sampledAt"
FRESH_LOOKS: Final = 3
"""After so many resyncs, of 20 s each by default, a reported measurement may be replaced by another one."""
Measured = Mapping[str, object] | None


def steady(before: EngineCheck, now: EngineCheck) -> EngineCheck:
    """What is known now; a measurement that differs in nothing but its time stays the earlier one."""
    return replace(
        now,
        memory_usage=_steady(before.memory_usage, now.memory_usage),
        stats=_steady(before.stats, now.stats),
    )


def settled(check: EngineCheck, status: ModelActivationStatus, now: datetime, resync_s: float) -> EngineCheck:
    """A check beside what was reported last: while nobody can tell, what was measured is not taken back.

    So an operator that has just begun writes nothing to a model that is as it was.
    """
    reported = EngineCheck(memory_usage=status.memory_usage, stats=status.free_token_stats)
    if check.state is CheckState.UNKNOWN:
        return replace(check, memory_usage=reported.memory_usage, stats=reported.stats)
    known = steady(reported, check)
    return replace(
        known,
        memory_usage=_fresh(reported.memory_usage, known.memory_usage, now, resync_s),
        stats=_fresh(reported.stats, known.stats, now, resync_s),
    )


def _fresh(reported: Measured, measured: Measured, now: datetime, resync_s: float) -> Measured:
    """What was reported a moment ago, as long as there is a measurement at all."""
    if reported is None or measured is None:
        return measured
    try:
        age_s = (now - datetime.fromisoformat(str(reported.get(SAMPLED_AT)))).total_seconds()
    except (ValueError, TypeError):  # no time, or one without a zone: somebody else wrote it
        return measured
    return reported if abs(age_s) < FRESH_LOOKS * resync_s else measured


def _steady(before: Measured, now: Measured) -> Measured:
    return before if _values(before) == _values(now) else now


def _values(measured: Measured) -> Mapping[str, object] | None:
    if measured is None:
        return None
    return {name: value for name, value in measured.items() if name != SAMPLED_AT}
