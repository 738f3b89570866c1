"""A fresh control plane with our CRDs, a synthetic catalog and a ready `basis`, ready to be measured."""

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from hack.bare import BareClient, RefusedError, spread
from hack.bench import objects
from hack.devcluster.audit import AuditMark, AuditRecord
from hack.devcluster.cluster import DevCluster
from tests.support.polling import until

ROOT = Path(__file__).resolve().parents[2]
CONCURRENCY = 16
QUIET_S = 1.0
OPERATOR_AGENT = "magicstick"


@dataclass(slots=True)
class World:
    """The cluster, and a bare client with all rights."""

    cluster: DevCluster
    client: BareClient

    async def load(self, count: int) -> None:
        """Replace the module catalog by one of `count` modules."""
        body = objects.catalog(count)
        await self.client.apply(f"{objects.CONFIG_MAPS}/{body['metadata']['name']}", body)

    async def activate(self, count: int) -> None:
        """Create `count` ModuleActivations, `CONCURRENCY` at a time."""

        async def create(number: int) -> None:
            await self.client.create(objects.ACTIVATIONS, objects.activation(number))

        await spread(range(count), create, concurrency=CONCURRENCY)

    async def activate_modules(self, names: Iterable[str]) -> None:
        """Have a running operator activate these, and wait until it is at rest."""
        for name in names:
            await self.client.create(objects.ACTIVATIONS, objects.module_activation(name))
        await self.quiet()

    async def replay(self, count: int) -> None:
        """The yardstick of converging: the same four writes an object, and nothing decided."""

        async def writes(number: int) -> None:
            name = objects.module_name(number)
            path = f"{objects.ACTIVATIONS}/{name}"
            await self.client.create(objects.ACTIVATIONS, objects.activation(number))
            await self.client.merge(path, {"metadata": {"finalizers": [objects.FINALIZER]}})
            await self.client.apply(
                f"{objects.KUSTOMIZATIONS}/app-{name}", objects.kustomization(number), manager="replay"
            )
            await self.client.apply(f"{path}/status", objects.status(number), manager="replay")

        await spread(range(count), writes, concurrency=CONCURRENCY)

    async def make_ready(self, count: int) -> None:
        """Play Flux once: report every synthetic Kustomization as applied."""

        async def report(number: int) -> None:
            name = f"app-{objects.module_name(number)}"
            path = f"{objects.KUSTOMIZATIONS}/{name}"
            generation = (await self.client.get(path))["metadata"]["generation"]
            await self.client.apply(
                f"{path}/status", objects.ready_status(name, generation), manager="kustomize-controller"
            )

        await spread(range(count), report, concurrency=CONCURRENCY)

    async def settle(self, count: int) -> None:
        """Have a running operator bring `count` modules to Ready, and come to rest."""
        await self.activate(count)
        await self.quiet()
        await self.make_ready(count)
        await self.quiet()

    async def quiet(self, *, quiet_s: float = QUIET_S, deadline_s: float = 300.0) -> None:
        """Wait until nobody but the lease's holder has written for `quiet_s`."""
        deadline = time.monotonic() + deadline_s
        mark, last = self.cluster.audit_mark(), time.monotonic()
        while time.monotonic() - last < quiet_s:
            if time.monotonic() > deadline:
                raise TimeoutError("the operator goes on writing")
            await asyncio.sleep(0.05)  # reads a file; nothing tells when a line is appended
            now = self.cluster.audit_mark()
            if any(relevant(record) for record in self.cluster.audit(since=mark)):
                last = time.monotonic()
            mark = now

    def writes(self, since: AuditMark) -> list[AuditRecord]:
        """The operator's writes since the mark, without those to the lease."""
        return [record for record in self.cluster.audit(OPERATOR_AGENT, since) if relevant(record)]

    def span_s(self, since: AuditMark) -> float:
        """Seconds from the first write of anybody since the mark to the last one."""
        return span_s(self.everybodys_writes(since))

    def everybodys_writes(self, since: AuditMark) -> list[AuditRecord]:
        """All writes since the mark, without those to leases."""
        return [record for record in self.cluster.audit(since=since) if relevant(record)]


def relevant(record: AuditRecord) -> bool:
    """Whether this is a write, and not one to a lease."""
    return record.is_write and record.resource != "leases"


def span_s(records: Sequence[AuditRecord]) -> float:
    """Seconds from the first request to the last answer."""
    first = min(record.received for record in records)
    return (max(record.answered for record in records) - first).total_seconds()


def milliseconds(start: datetime, end: datetime) -> float:
    """Between two moments of the audit log."""
    return (end - start).total_seconds() * 1000


@contextlib.asynccontextmanager
async def world(directory: Path) -> AsyncIterator[World]:
    """A fresh control plane below `directory`, stopped at the end of the block."""
    async with empty_world(directory, "audit-policy.yaml") as bench:
        cluster = bench.cluster
        cluster.apply([*sorted((ROOT / "manifests" / "crds").glob("*.yaml")), *cluster.crd_files("flux")])
        await furnish(bench.client)
        yield bench


@contextlib.asynccontextmanager
async def empty_world(directory: Path, policy: str) -> AsyncIterator[World]:
    """A fresh control plane with nothing on it; `policy` is one of the audit policies beside this file."""
    audit_policy = Path(__file__).with_name(policy)
    with DevCluster.start(directory=directory, audit_policy=audit_policy) as cluster:
        async with BareClient(cluster.url, cluster.ca_file, cluster.admin_token) as client:
            yield World(cluster, client)


async def until_served(client: BareClient, *paths: str) -> None:
    """A kind that was defined a moment ago is unknown at first, and then its storage is being prepared."""
    for path in paths:
        await until(f"{path} is served", functools.partial(_served, client, path))


async def _served(client: BareClient, path: str) -> bool:
    try:
        await client.get(path)
    except RefusedError:
        return False
    return True


async def furnish(client: BareClient) -> None:
    """Namespaces, the catalogs that are not measured, and a ready `basis`."""
    for name in (objects.OPERATOR_NAMESPACE, objects.FLUX_NAMESPACE):
        await client.apply(f"/api/v1/namespaces/{name}", objects.namespace(name))
    for name, key, text in (
        ("magicstick-app-catalog", "applications.json", '{"applications":{}}'),
        (
            "magicstick-compute-target-catalog",
            "targets.json",
            '{"schemaVersion":3,"engines":{},"targets":{}}',
        ),
        ("magicstick-model-presets", "presets.json", '{"schemaVersion":3,"presets":{}}'),
    ):
        await client.apply(f"{objects.CONFIG_MAPS}/{name}", objects.config_map(name, {key: text}))
    body, status = objects.ready_basis()
    path = f"{objects.KUSTOMIZATIONS}/{objects.BASIS}"
    await client.apply(path, body)
    await client.apply(f"{path}/status", status)
