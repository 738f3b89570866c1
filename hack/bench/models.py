"""A thousand models from nothing to Ready, and what single changes cost then."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from hack.bench import model_objects as objects
from hack.bench.model_objects import Sort
from hack.bench.model_players import ModelPlayers
from hack.bench.model_world import GPUS, activate_models, activate_modules, model_world, offer, playing
from hack.bench.passes import passes
from hack.bench.process import Operator, operator
from hack.bench.replay import replay
from hack.bench.report import Figure
from hack.bench.world import CONCURRENCY, OPERATOR_AGENT, World, relevant
from hack.devcluster.audit import AuditRecord

CALM: Final = {"REQUEUE_SECONDS": "600"}
"""Passes are counted here, so there must be none that only time brings about."""
CONVERGE_S: Final = 300.0
STRATEGIC: Final = "application/strategic-merge-patch+json"

Passes = dict[str, float]
"""Passes of the models' controller by what was changed."""


async def models(directory: Path, *, count: int = 1000) -> list[Figure]:
    """Convergence beside a replay of all its writes, and the passes that single changes cause.

    The replay has everybody's writes: the operator's, and those of whoever acts on models.
    """
    async with model_world(directory / "operator") as bench, playing(bench.client) as players:
        log = directory / "operator.log"
        async with operator(bench.cluster.kubeconfig, log, environment=dict(CALM)) as running:
            await activate_modules(bench)
            records = await _converge(bench, players, count)
            looked = await _single_changes(bench, running)
    async with model_world(directory / "replay") as bare:
        mark = bare.cluster.audit_mark()
        await replay(bare.client, records, _subject, concurrency=CONCURRENCY)
        replayed_s = bare.span_s(mark)
    ours = [each for each in records if each.user_agent.startswith(OPERATOR_AGENT)]
    return [
        Figure(f"{count} models to Ready", span_s(records), "s", replayed_s, limit_ratio=1.5),
        Figure("writes per model", len(ours) / count, "requests", None, limit=6.0),
        *_figures(looked, count),
    ]


def _figures(passes: Passes, count: int) -> list[Figure]:
    on_nvidia = objects.count_of(count, Sort.NVIDIA_VLLM, Sort.OFFLOADING)
    return [
        Figure("models looked at after an event of a Pod", passes["pod"], "", 1.0, limit=1.0),
        Figure("after a change of an NVIDIA node", passes["nvidia"], "", on_nvidia, limit_ratio=1.0),
        Figure("after a change of a node without GPUs", passes["plain"], "", 0.0, limit=0.0),
        Figure("after a change of a node with AMD GPUs", passes["amd"], "", 0.0, limit=0.0),
    ]


def span_s(records: Sequence[AuditRecord]) -> float:
    """Seconds from the first request to the last answer."""
    first = min(record.received for record in records)
    return (max(record.answered for record in records) - first).total_seconds()


async def _converge(bench: World, players: ModelPlayers, count: int) -> list[AuditRecord]:
    """All writes from the first activation until all are Ready."""
    since = bench.cluster.audit_mark()
    await activate_models(bench.client, count)
    await players.until_ready(count, CONVERGE_S)
    await bench.quiet()
    return [record for record in bench.cluster.audit(since=since) if relevant(record)]


def _subject(record: AuditRecord) -> str:
    """The model that a request is about, or else the object."""
    if record.resource == "events" and record.request_object is not None:
        return str(record.request_object["regarding"]["name"])
    if record.resource == "pods":
        return record.name.removeprefix("model-").rpartition("-")[0]
    return record.name


async def _single_changes(bench: World, running: Operator) -> Passes:
    client = bench.client
    pod = f"{objects.PODS}/model-{objects.model_name(Sort.CPU_VLLM)}-0/status"
    told = {"status": {"conditions": [{"type": "DisruptionTarget", "status": "False"}]}}

    async def of(change: Callable[[], Awaitable[object]]) -> float:
        before = await passes(running, "models")
        await change()
        return await passes(running, "models") - before

    return {
        "pod": await of(lambda: client.send("PATCH", pod, told, content_type=STRATEGIC)),
        "nvidia": await of(lambda: offer(client, objects.NVIDIA_NODE, **{objects.NVIDIA: GPUS + 1})),
        "plain": await of(lambda: offer(client, objects.PLAIN_NODE, **{"example.com/thing": 1})),
        "amd": await of(lambda: offer(client, objects.PLAIN_NODE, **{objects.AMD: 1})),
    }
