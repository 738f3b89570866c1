"""A thousand models from nothing to Ready, and what single changes cost then."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from hack.bench import model_objects as objects
from hack.bench.convergence import Goal, beside_replay, converge
from hack.bench.model_objects import Sort
from hack.bench.model_world import GPUS, activate_models, activate_modules, model_world, offer, playing
from hack.bench.passes import CALM, passes
from hack.bench.process import Operator, operator
from hack.bench.report import Figure
from hack.bench.world import World
from hack.devcluster.audit import AuditRecord

STRATEGIC: Final = "application/strategic-merge-patch+json"

Passes = dict[str, float]
"""Passes of the models' controller by what was changed."""


async def models(directory: Path, *, count: int = 1000) -> list[Figure]:
    """Convergence beside a replay of all its writes, and the passes that single changes cause."""
    async with model_world(directory / "operator") as bench, playing(bench.client) as players:
        log = directory / "operator.log"
        async with operator(bench.cluster.kubeconfig, log, environment=dict(CALM)) as running:
            await activate_modules(bench)
            records = await converge(bench, players, activate_models(bench.client, count), count)
            looked = await _single_changes(bench, running)
    goal = Goal(count, f"{count} models to Ready", "writes per model", 6.0)
    first = await beside_replay(goal, records, model_world(directory / "replay"), _subject)
    return [*first, *_figures(looked, count)]


def _figures(passes: Passes, count: int) -> list[Figure]:
    on_nvidia = objects.count_of(count, Sort.NVIDIA_VLLM, Sort.OFFLOADING)
    return [
        Figure("models looked at after an event of a Pod", passes["pod"], "", 1.0, limit=1.0),
        Figure("after a change of an NVIDIA node", passes["nvidia"], "", on_nvidia, limit_ratio=1.0),
        Figure("after a change of a node without GPUs", passes["plain"], "", 0.0, limit=0.0),
        Figure("after a change of a node with AMD GPUs", passes["amd"], "", 0.0, limit=0.0),
    ]


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
