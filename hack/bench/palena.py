"""Hundreds of gateways with their models from nothing to Running, and what they cost at rest."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from hack.bare import BareClient, spread
from hack.bench import palena_objects as objects
from hack.bench.convergence import Goal, beside_replay, converge
from hack.bench.objects import OPERATOR_NAMESPACE, namespace
from hack.bench.palena_players import REPORTS, PalenaPlayers
from hack.bench.process import operator
from hack.bench.report import Figure
from hack.bench.world import CONCURRENCY, OPERATOR_AGENT, ROOT, World, empty_world, until_served
from hack.devcluster.actors.definitions import PALENA_CRDS
from hack.devcluster.audit import AuditRecord

ALONE: Final = {"MAGICSTICK_ENABLE_APPLIANCE": "false", "MAGICSTICK_ENABLE_PALENA": "true"}
REST_S: Final = 60.0
"""So long a converged operator is watched; its own looks over its caches come every 60 s."""
API_SERVER: Final = "system:apiserver"
"""It gives Services their addresses by itself, wherever they are made."""
NUMBER: Final = re.compile(r"(?:gw|model)-(\d{5})")
"""Of the gateway that an object belongs to, by the object's name."""


async def palena(directory: Path, *, count: int = 300) -> list[Figure]:
    """Convergence beside a replay of all its writes, and a minute at rest."""
    async with (
        palena_world(directory / "operator") as bench,
        PalenaPlayers(bench.client).running() as players,
        operator(bench.cluster.kubeconfig, directory / "operator.log", environment=dict(ALONE)),
    ):
        make = make_gateways(bench.client, count)
        written = await converge(bench, players, make, count * (1 + objects.MODELS_EACH))
        asked = await _at_rest(bench)
    records = [record for record in written if record.user != API_SERVER]
    what = f"{count} gateways with {objects.MODELS_EACH} models each to Running"
    goal = Goal(count, what, "writes per gateway and its models", None)
    return [
        *await beside_replay(goal, records, palena_world(directory / "replay"), subject),
        Figure(f"requests in {REST_S:g} s at rest", float(len(asked)), "requests", None, limit=0.0),
    ]


@contextlib.asynccontextmanager
async def palena_world(directory: Path) -> AsyncIterator[World]:
    """A fresh control plane with Palena's kinds and those that it drives, and nothing of either."""
    async with empty_world(directory, "audit-everything.yaml") as bench:
        own = sorted((ROOT / "manifests" / "crds").glob("palena*.yaml"))
        await asyncio.to_thread(bench.cluster.apply, [*own, *sorted(PALENA_CRDS.glob("*.yaml"))])
        await until_served(bench.client, objects.GATEWAYS, objects.MODELS, *REPORTS)
        for name in (OPERATOR_NAMESPACE, objects.SPACE):
            await bench.client.apply(f"/api/v1/namespaces/{name}", namespace(name))
        keys = objects.secret(objects.PROVIDER_KEYS, {"key": "CHANGEME"})
        await bench.client.create(objects.SECRETS, keys)
        yield bench


async def make_gateways(client: BareClient, count: int) -> None:
    """Create the gateways, each with its models, `CONCURRENCY` at a time."""

    async def create(number: int) -> None:
        await client.create(objects.GATEWAYS, objects.gateway(number))
        for place in range(objects.MODELS_EACH):
            await client.create(objects.MODELS, objects.model(number, place))

    await spread(range(count), create, concurrency=CONCURRENCY)


async def _at_rest(bench: World) -> list[AuditRecord]:
    """What the operator asks for in a while in which nothing happens, save watches and its lease."""
    since = bench.cluster.audit_mark()
    await asyncio.sleep(REST_S)  # that nothing happens can only be seen by looking for a while
    return [
        each
        for each in bench.cluster.audit(OPERATOR_AGENT, since)
        if each.verb != "watch" and each.resource != "leases"
    ]


def subject(record: AuditRecord) -> str:
    """The gateway that a request is about, or whose models it is about; or else the object."""
    found = NUMBER.search(_name(record))
    return found.group(1) if found else record.name


def _name(record: AuditRecord) -> str:
    """A create names its object in its body alone."""
    metadata = (record.request_object or {}).get("metadata", {})
    return record.name or str(metadata.get("name", ""))
