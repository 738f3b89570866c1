"""Namespaces that end while things live in them (F04)."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hack.devcluster import WITH_CONTROLLERS, DevCluster
from tests.support.operator import operator
from tests.support.oracles import assert_settled, quiet, told
from tests.support.polling import until
from tests.support.world import BASIS, SMALL_CATALOG, World, corner

pytestmark = pytest.mark.anyio

NAMESPACES = "/api/v1/namespaces"
CATALOG = "magicstick-module-catalog"
GONE_S = 60.0
SOLO = {"path": "manifests/modules/solo", "kustomizationName": "app-solo"}


@pytest.fixture(scope="module")
def tidy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """A control plane with the controllers that empty namespaces."""
    with DevCluster.start(WITH_CONTROLLERS, directory=tmp_path_factory.mktemp("tidy")) as cluster:
        yield cluster


async def gone(world: World, namespace: str) -> None:
    async def missing() -> bool:
        listing = await world.client.get(f"{NAMESPACES}?fieldSelector=metadata.name%3D{namespace}")
        return not listing["items"]

    await until(f"namespace {namespace} is gone", missing, deadline_s=GONE_S)


@asynccontextmanager
async def lingering(world: World, namespace: str) -> AsyncIterator[None]:
    """Delete the namespace; within the block somebody's finalizer holds it, afterwards it goes."""
    path = f"{NAMESPACES}/{namespace}/configmaps"
    held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    await world.client.create(path, held)
    await world.client.send("DELETE", f"{NAMESPACES}/{namespace}")
    try:
        yield
    finally:
        await world.client.merge(f"{path}/held", {"metadata": {"finalizers": None}})
        await gone(world, namespace)


async def test_modules_wait_for_the_namespace_of_their_kustomizations(tidy: DevCluster) -> None:
    async with corner(tidy) as world, operator(world):
        await world.catalog({**SMALL_CATALOG, "solo": SOLO})
        for name in ("solo", "alpha"):
            await world.activate(name)
            await world.until_phase(name, "Ready")
        async with lingering(world, world.flux_namespace):
            await world.mirror.until("solo says so", lambda: world.reason("solo") == "WaitingForNamespace")
            mark = tidy.audit_mark()
            # What cannot be made waits; what is to go can go.
            await world.delete(world.activations, "alpha")
            await world.mirror.until("alpha is gone", lambda: world.activation("alpha") is None)
            await world.activate("nobody-knows-it")
            await world.until_phase("nobody-knows-it", "Degraded")
            assert world.phase("solo") == "Reconciling"
            tries = [record for record in world.operator_writes(mark) if record.code == 403]
            assert len(tries) < 30, told(tries)
        await world.mirror.until("solo still waits", lambda: world.reason("solo") == "WaitingForNamespace")
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.flux_namespace}}
        await world.client.apply(f"{NAMESPACES}/{world.flux_namespace}", namespace)
        await world.kustomization(BASIS, {})
        await world.until_phase("solo", "Ready", deadline_s=60.0)
        await world.delete(world.activations, "nobody-knows-it")
        await world.activate("alpha")
        await world.until_phase("alpha", "Ready", deadline_s=60.0)
        await assert_settled(world)


@pytest.mark.parametrize("seen", [True, False], ids=["while running", "before the start"])
async def test_the_namespace_of_the_activations_can_end_and_what_they_brought_goes_with_it(
    tidy: DevCluster, *, seen: bool
) -> None:
    async with corner(tidy) as world:
        await catalog_elsewhere(world)
        elsewhere: Mapping[str, Any] = {"module_catalog_namespace": world.flux_namespace}
        async with operator(world, **elsewhere):
            await world.activate("gamma", parameters={"storage": "1Gi"})
            await world.until_phase("gamma", "Ready")
            await quiet(world)
            if seen:
                await world.client.send("DELETE", f"{NAMESPACES}/{world.namespace}")
                await gone(world, world.namespace)
        if not seen:
            await world.client.send("DELETE", f"{NAMESPACES}/{world.namespace}")
            async with operator(world, **elsewhere):
                await gone(world, world.namespace)
        await world.mirror.until(
            "all that we made is gone", lambda: set(world.mirror.all(world.kustomizations)) == {BASIS}
        )


async def test_catalogs_that_go_with_the_namespace_do_not_hold_it_up(tidy: DevCluster) -> None:
    """What was read of them once is enough to take leave."""
    async with corner(tidy) as world, operator(world):
        await world.activate("gamma", parameters={"storage": "1Gi"})
        await world.until_phase("gamma", "Ready")
        await world.client.send("DELETE", f"{NAMESPACES}/{world.namespace}")
        await gone(world, world.namespace)
        await world.mirror.until(
            "all that we made is gone", lambda: set(world.mirror.all(world.kustomizations)) == {BASIS}
        )


async def catalog_elsewhere(world: World) -> None:
    """A copy of the module catalog where it outlives the activations."""
    path = f"{NAMESPACES}/{world.namespace}/configmaps/{CATALOG}"
    data = (await world.client.get(path))["data"]
    copy = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CATALOG}, "data": data}
    await world.client.apply(f"{NAMESPACES}/{world.flux_namespace}/configmaps/{CATALOG}", copy)
