"""The first figures of a family: how long converging took beside its replay, and what the operator wrote."""

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from hack.bare import BareClient
from hack.bench.convergence import Goal, beside_replay
from hack.bench.world import World
from hack.devcluster.audit import AuditRecord
from hack.devcluster.cluster import DevCluster

pytestmark = pytest.mark.anyio

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
GOAL = Goal(count=2, reached="2 things to Ready", written="writes per thing", most_written=1.5)


def record(name: str, second: float, *, agent: str = "magicstick/1", code: int = 200) -> AuditRecord:
    """A create that took a second."""
    received = BEGIN + timedelta(seconds=second)
    return AuditRecord(
        id=name,
        user_agent=agent,
        user="somebody",
        verb="create",
        group="example.com",
        version="v1",
        resource="things",
        namespace="",
        name=name,
        subresource="",
        code=code,
        uri=f"/apis/example.com/v1/things?of={name}",
        received=received,
        answered=received + timedelta(seconds=1),
        request_object={"kind": "Thing", "metadata": {"name": name, "uid": "given"}},
        response_object=None,
    )


class PlayedCluster:
    """Its audit log is what was sent to it, each request a second, and one to a lease long after."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []

    def audit_mark(self) -> int:
        return len(self.sent)

    def audit(self, user_agent: str | None = None, since: int = 0) -> Sequence[AuditRecord]:
        assert user_agent is None
        writes = [record(uri, place) for place, (uri, _) in enumerate(self.sent[since:])]
        return [*writes, dataclasses.replace(record("lease", 1000), resource="leases")]


class PlayedClient(BareClient):
    def __init__(self, cluster: PlayedCluster) -> None:
        super().__init__("https://example.com", Path(), "")
        self._cluster = cluster

    async def send(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json"
    ) -> bytes:
        assert (method, content_type) == ("POST", "application/json")
        self._cluster.sent.append((path, body))
        return b""


@contextlib.asynccontextmanager
async def bare(cluster: PlayedCluster) -> AsyncIterator[World]:
    yield World(cast("DevCluster", cluster), PlayedClient(cluster))


def name_of(record: AuditRecord) -> str:
    return record.name


async def test_the_time_from_the_first_request_to_the_last_answer_stands_beside_the_replays() -> None:
    records = [record("b", 5.0), record("a", 2.0), record("c", 3.0, agent="kubelet")]
    reached, _ = await beside_replay(GOAL, records, bare(PlayedCluster()), name_of)
    assert (reached.name, reached.value, reached.yardstick) == ("2 things to Ready", 4.0, 3.0)
    assert reached.kept, "4 s are less than one and a half times 3 s"


async def test_more_than_one_and_a_half_times_the_replay_is_told_as_missed() -> None:
    records = [record("a", 0.0), record("b", 2.1)]
    reached, _ = await beside_replay(GOAL, records, bare(PlayedCluster()), name_of)
    assert not reached.kept


async def test_the_operators_own_writes_are_counted_for_each_object() -> None:
    records = [record(name, 0.0) for name in "abcd"] + [record("e", 0.0, agent="kubelet")]
    _, written = await beside_replay(GOAL, records, bare(PlayedCluster()), name_of)
    assert (written.name, written.value, written.unit) == ("writes per thing", 2.0, "requests")
    assert not written.kept


async def test_everybodys_accepted_writes_are_sent_again() -> None:
    cluster = PlayedCluster()
    records = [record("a", 0.0), record("b", 1.0, agent="kubelet"), record("c", 2.0, code=409)]
    await beside_replay(GOAL, records, bare(cluster), name_of)
    assert [body["metadata"] for _, body in cluster.sent] == [{"name": "a"}, {"name": "b"}]
