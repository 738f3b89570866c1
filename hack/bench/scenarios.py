"""What is measured. Each function returns figures; `report.py` holds the limits they must keep."""

import asyncio
import contextlib
import math
import random
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiohttp
import msgspec

from hack.bench import objects
from hack.bench.process import Operator, operator
from hack.bench.report import Figure
from hack.bench.world import World, milliseconds, world
from hack.devcluster.audit import AuditRecord


def percentiles(values: Sequence[float]) -> tuple[float, float]:
    """The 50th and the 99th."""
    cuts = statistics.quantiles(values, n=100)
    return cuts[49], cuts[98]


async def latency(directory: Path, *, loaded: int = 1000, changes: int = 1000) -> list[Figure]:
    """From a committed spec change to the committed change of the child, beside a bare apply."""
    async with world(directory) as bench:
        await bench.load(loaded)
        async with operator(bench.cluster.kubeconfig, directory / "operator.log"):
            await bench.settle(loaded)
            since = bench.cluster.audit_mark()
            bare = await _interleaved(bench, loaded, changes)
            await bench.quiet()
            reached = _spec_to_child(list(bench.cluster.audit(since=since)))
    p50, p99 = percentiles(reached)
    bare_p50, bare_p99 = percentiles(bare)
    return [
        Figure("event to apply, p50", p50, "ms", bare_p50, limit=5.0),
        Figure("event to apply, p99", p99, "ms", bare_p99, limit=10.0, limit_ratio=3.0),
    ]


async def _interleaved(bench: World, loaded: int, changes: int) -> list[float]:
    """One spec change, then one bare apply, again and again; the bare ones' milliseconds.

    Each begins only when nothing of the one before is under way, the operator's report included.
    """
    rng = random.Random(1)  # noqa: S311 - which module is changed needs no secrecy
    took: list[float] = []
    async with _arrivals(bench) as arrivals:
        for turn in range(changes):
            name, flavour = objects.module_name(rng.randrange(loaded)), f"flavour-{turn}"
            patch = {"spec": {"parameters": {"flavour": flavour}}}
            answer = await bench.client.merge(f"{objects.ACTIVATIONS}/{name}", patch)
            generation = msgspec.json.decode(answer)["metadata"]["generation"]
            await asyncio.wait_for(arrivals.of(f"{name} {generation}"), 10)
            body = objects.kustomization(0, flavour)
            body["metadata"] = {"name": "bare", "namespace": objects.FLUX_NAMESPACE}
            begun = time.perf_counter()
            await bench.client.apply(f"{objects.KUSTOMIZATIONS}/bare", body)
            took.append((time.perf_counter() - begun) * 1000)
    return took


class _Arrivals:
    """Which changes have been reported in an activation's status, as the bench's own watch sees them."""

    def __init__(self) -> None:
        self._seen: dict[str, asyncio.Event] = {}

    def _event(self, what: str) -> asyncio.Event:
        return self._seen.setdefault(what, asyncio.Event())

    def see(self, what: str) -> None:
        self._event(what).set()

    async def of(self, what: str) -> None:
        await self._event(what).wait()


@contextlib.asynccontextmanager
async def _arrivals(bench: World) -> AsyncIterator[_Arrivals]:
    arrivals = _Arrivals()

    async def follow() -> None:
        async for line in bench.client.stream(f"{objects.ACTIVATIONS}?watch=1"):
            activation = msgspec.json.decode(line)["object"]
            generation = activation.get("status", {}).get("observedGeneration")
            arrivals.see(f"{activation['metadata']['name']} {generation}")

    async with asyncio.TaskGroup() as group:
        follower = group.create_task(follow())
        yield arrivals
        follower.cancel()


def _spec_to_child(records: list[AuditRecord]) -> list[float]:
    """Pairs each change of an activation's spec with the next write to its child; milliseconds."""
    changed: dict[str, AuditRecord] = {}
    took: list[float] = []
    for record in sorted(records, key=lambda record: record.answered):
        if not record.is_write or record.subresource:
            continue
        if record.resource == "moduleactivations" and not record.user_agent.startswith("magicstick"):
            changed[f"app-{record.name}"] = record
        elif record.resource == "kustomizations" and record.name in changed:
            took.append(milliseconds(changed.pop(record.name).answered, record.answered))
    return took


async def converge(directory: Path, *, count: int = 1000, repeat: int = 3) -> list[Figure]:
    """`count` modules from nothing to applied and reported, beside a replay of the same writes."""
    spans, replays, writes = [], [], []
    for turn in range(repeat):
        span, made, _ = await _converge_once(directory / f"operator-{turn}", count)
        spans.append(span)
        writes.append(made / count)
        replays.append(await _replay_once(directory / f"replay-{turn}", count))
    ratios = [span / replay for span, replay in zip(spans, replays, strict=True)]
    return [
        Figure(
            f"converge {count} modules",
            statistics.median(spans),
            "s",
            statistics.median(replays),
            limit_ratio=1.3,
            ratio=statistics.median(ratios),
        ),
        Figure("writes per module", max(writes), "requests", 3.0, limit_ratio=1.0 + 10 / count),
    ]


async def _converge_once(directory: Path, count: int) -> tuple[float, int, float]:
    """Seconds, writes of the operator, and its processor seconds."""
    async with world(directory) as bench:
        await bench.load(count)
        async with operator(bench.cluster.kubeconfig, directory / "operator.log") as running:
            since, before = bench.cluster.audit_mark(), running.cpu_s()
            await bench.activate(count)
            await bench.quiet()
            used = running.cpu_s() - before
        return bench.span_s(since), len(bench.writes(since)), used


async def _replay_once(directory: Path, count: int) -> float:
    async with world(directory) as bench:
        since = bench.cluster.audit_mark()
        await bench.replay(count)
        return bench.span_s(since)


async def cold_start(directory: Path, *, count: int = 1000) -> list[Figure]:
    """From the start of the process to synced and quiet, on a cluster that is converged."""
    async with world(directory) as bench:
        await bench.load(count)
        async with operator(bench.cluster.kubeconfig, directory / "first.log"):
            await bench.settle(count)
        since = bench.cluster.audit_mark()
        async with operator(bench.cluster.kubeconfig, directory / "second.log") as running:
            took = await _settled(running, count)
            await bench.quiet()
            writes = len(bench.writes(since))
        bare = await _bare_start(bench)
    return [
        Figure(f"cold start with {count} modules", took, "s", bare, limit=2.0),
        Figure("writes of the cold start", float(writes), "requests", None, limit=0.0),
    ]


async def _settled(running: Operator, count: int) -> float:
    """Seconds from the start until every module was looked at and the queues are empty."""
    async with aiohttp.ClientSession() as session:
        while True:
            async with session.get(f"http://127.0.0.1:{running.metrics_port}/metrics") as answer:
                values = _metrics(await answer.text())
            passes = sum(
                value
                for name, value in values.items()
                if name.startswith("controller_runtime_reconcile_total{") and 'controller="modules"' in name
            )
            depth = sum(value for name, value in values.items() if name.startswith("workqueue_depth{"))
            if passes >= count and depth == 0:
                return time.perf_counter() - running.started
            await asyncio.sleep(0.02)  # polls a foreign process that has no other way to tell


def _metrics(text: str) -> dict[str, float]:
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, value in lines}


async def _bare_start(bench: World) -> float:
    """Seconds that listing the same objects takes a client that is already running."""
    begun = time.perf_counter()
    await asyncio.gather(bench.client.get(objects.ACTIVATIONS), bench.client.get(objects.KUSTOMIZATIONS))
    return time.perf_counter() - begun


async def scaling(directory: Path, *, counts: Sequence[int] = (100, 1000, 3000)) -> list[Figure]:
    """The exponent with which the cost of converging grows with the number of modules."""
    spans, used = [], []
    for count in counts:
        span, _, cpu = await _converge_once(directory / str(count), count)
        spans.append(span)
        used.append(cpu)
    return [
        Figure("exponent of the time to converge", exponent(counts, spans), "", 1.0, limit=1.1),
        Figure("exponent of the operator's processor time", exponent(counts, used), "", 1.0, limit=1.1),
    ]


def exponent(counts: Sequence[int], costs: Sequence[float]) -> float:
    """The slope of the straight line through the logarithms."""
    slope, _ = statistics.linear_regression(
        [math.log(count) for count in counts], [math.log(cost) for cost in costs]
    )
    return slope
