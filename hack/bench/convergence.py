"""Many objects from nothing to their goal, beside a replay of all writes that it took."""

from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final

from hack.bench.players import Players
from hack.bench.replay import Subject, replay
from hack.bench.report import Figure
from hack.bench.world import CONCURRENCY, OPERATOR_AGENT, World, span_s
from hack.devcluster.audit import AuditRecord

CONVERGE_S: Final = 300.0
REPLAY_RATIO: Final = 1.5
"""So many times as long as the replay converging may take."""


@dataclass(frozen=True)
class Goal:
    """What is converged, in the words of its figures.

    Attributes:
        reached: what is timed.
        written: what is counted, of each of `count`.
        most_written: the limit of that; None where there is none.
    """

    count: int
    reached: str
    written: str
    most_written: float | None


async def converge(
    bench: World, players: Players, make: Coroutine[Any, Any, None], count: int
) -> list[AuditRecord]:
    """Everybody's writes from the making of the objects until so many are ready, and all is at rest."""
    since = bench.cluster.audit_mark()
    await make
    await players.until_ready(count, CONVERGE_S)
    await bench.quiet()
    return bench.everybodys_writes(since)


async def beside_replay(
    goal: Goal, records: Sequence[AuditRecord], bare: AbstractAsyncContextManager[World], subject: Subject
) -> list[Figure]:
    """The time and the operator's writes; `bare` is another world like the first, and no operator runs there.

    The replay has everybody's writes: the operator's, and those of whoever acts besides.
    """
    async with bare as bench:
        mark = bench.cluster.audit_mark()
        await replay(bench.client, records, subject, concurrency=CONCURRENCY)
        replayed_s = bench.span_s(mark)
    ours = sum(each.user_agent.startswith(OPERATOR_AGENT) for each in records)
    return [
        Figure(goal.reached, span_s(records), "s", replayed_s, limit_ratio=REPLAY_RATIO),
        Figure(goal.written, ours / goal.count, "requests", None, limit=goal.most_written),
    ]
