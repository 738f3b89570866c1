"""Kinds that are not there, come late, go, come back, or cannot be read."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hack.bench.process import free_port
from hack.devcluster import CONTROL_PLANE, DevCluster
from magicstick.api.kinds import KUSTOMIZATION
from tests.support.operator import RunningOperator, operator
from tests.support.oracles import assert_settled, quiet, snapshot, told
from tests.support.polling import until
from tests.support.scenario import Calm
from tests.support.world import BASIS, DEFINITIONS, FLUX_GROUP, SMALL_CATALOG, World, corner, install_kinds

pytestmark = pytest.mark.anyio

FLUX = f"{DEFINITIONS}/{KUSTOMIZATION.crd_name}"
EVERYWHERE = f"/apis/{FLUX_GROUP}/kustomizations"
PROMISED = "promises.example.com"
GONE_S = 30.0


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """A control plane whose definitions may be removed without harm to other tests."""
    with DevCluster.start(CONTROL_PLANE, directory=tmp_path_factory.mktemp("own")) as cluster:
        yield cluster


async def ready(world: World) -> None:
    await world.activate("gamma", parameters={"storage": "10Gi"})
    await world.until_phase("gamma", "Ready")


async def exists(world: World, path: str) -> bool:
    try:
        await world.client.get(path)
    except RuntimeError as error:
        if " 404 " in str(error):
            return False
        raise
    return True


async def remove_flux(world: World) -> None:
    """Delete the definition; returns once it and all its objects are gone."""
    for item in (await world.client.get(EVERYWHERE))["items"]:
        if item["metadata"]["namespace"] != world.flux_namespace:  # Flux acts only in our corner
            await world.client.merge(item_path(item), {"metadata": {"finalizers": None}})
    await world.client.send("DELETE", FLUX)

    async def gone() -> bool:
        return not await exists(world, FLUX)

    await until("the definition is gone", gone, deadline_s=GONE_S)


def item_path(item: Mapping[str, Any]) -> str:
    metadata = item["metadata"]
    return f"/apis/{FLUX_GROUP}/namespaces/{metadata['namespace']}/kustomizations/{metadata['name']}"


async def install_flux(world: World) -> None:
    """Install the definition again, and what Git brings of it."""
    await asyncio.to_thread(install_kinds, world.cluster)
    await world.kustomization(BASIS, {})


async def test_removing_and_installing_a_definition_needs_no_restart(own: DevCluster) -> None:
    expected = await Calm(own).end(ready)
    async with corner(own) as world, operator(world):
        await ready(world)
        mark = own.audit_mark()
        await remove_flux(world)
        for module in ("alpha", "beta", "gamma"):
            await world.until_phase(module, "WaitingForCRD")
        assert KUSTOMIZATION.crd_name in world.message("gamma")
        await quiet(world)
        deletions = [record for record in world.operator_writes(mark) if record.verb == "delete"]
        assert not told(deletions)
        await install_flux(world)
        for module in ("alpha", "beta", "gamma"):
            await world.until_phase(module, "Ready", deadline_s=60.0)
        await assert_settled(world)
        assert snapshot(world) == expected


@pytest.mark.parametrize("before_s", [0.0, 1.0, 10.0], ids=["at once", "after a second", "after ten"])
async def test_a_definition_may_come_after_the_operator_and_its_objects(
    own: DevCluster, before_s: float
) -> None:
    expected = await Calm(own).end(ready)
    async with corner(own) as world:
        await remove_flux(world)
        async with operator(world):
            await world.activate("gamma", parameters={"storage": "10Gi"})
            await asyncio.sleep(before_s)  # the fault is how long it takes
            await install_flux(world)
            await world.until_phase("gamma", "Ready", deadline_s=60.0)
            await assert_settled(world)
            assert snapshot(world) == expected


def definition(name: str, *, port: int | None = None, stored: str = "v1") -> dict[str, Any]:
    """A definition with the versions v1 and v2; with a port, its conversion webhook is there."""
    plural, group = name.split(".", 1)
    kind = plural.rstrip("s").capitalize()
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [
        {"name": version, "served": True, "storage": version == stored, "schema": schema}
        for version in ("v1", "v2")
    ]
    webhook = {
        "clientConfig": {"url": f"https://127.0.0.1:{port}/convert"},
        "conversionReviewVersions": ["v1"],
    }
    conversion = {"strategy": "Webhook", "webhook": webhook} if port else {"strategy": "None"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "plural": plural,
                "kind": kind,
                "singular": plural.rstrip("s"),
                "listKind": f"{kind}List",
            },
            "versions": versions,
            "conversion": conversion,
        },
    }


@pytest.mark.parametrize("after_s", [0.0, 1.0, 10.0], ids=["at once", "after a second", "after ten"])
async def test_a_module_waits_for_the_definitions_that_it_promises(own: DevCluster, after_s: float) -> None:
    promising = {
        "path": "manifests/modules/delta",
        "kustomizationName": "app-delta",
        "requires": ["basis"],
        "waitForReady": True,
        "requiredCrds": [PROMISED],
    }
    async with corner(own) as world, operator(world):
        await world.catalog({**SMALL_CATALOG, "delta": promising})
        await world.activate("delta")
        await world.until_phase("delta", "WaitingForCRD")
        assert PROMISED in world.message("delta")
        await asyncio.sleep(after_s)  # the fault is how long it takes
        await world.client.apply(f"{DEFINITIONS}/{PROMISED}", definition(PROMISED))
        try:
            await world.until_phase("delta", "Ready")
            await assert_settled(world)
        finally:
            await world.client.send("DELETE", f"{DEFINITIONS}/{PROMISED}")
        await world.until_phase("delta", "WaitingForCRD")
        await assert_settled(world)
        assert not world.child("app-delta")["spec"]["suspend"]  # type: ignore[index] # it is there


@pytest.mark.req("MS-114")
@pytest.mark.req("MS-118")
async def test_a_dependant_wakes_when_only_the_status_of_its_dependency_changes(own: DevCluster) -> None:
    async with corner(own, flux=False) as world, operator(world, requeue_seconds=600.0):
        await world.activate("beta")
        await world.mirror.until("alpha is applied", lambda: world.child("app-alpha"))
        await world.until_phase("beta", "WaitingForModules")
        await quiet(world)
        assert world.child("app-beta") is None
        await world.report("app-alpha")
        await world.mirror.until("beta is applied", lambda: world.child("app-beta"))
        await world.report("app-beta")
        await world.until_phase("beta", "Ready")
        await world.report("app-alpha", "False")
        await world.mirror.until(
            "beta is suspended", lambda: (world.child("app-beta") or {})["spec"]["suspend"]
        )
        await world.until_phase("beta", "WaitingForModules")
        await assert_settled(world)


Break = Callable[[], Awaitable[None]]


@asynccontextmanager
async def unreadable_kustomizations(world: World) -> AsyncIterator[None]:
    """Within the block no Kustomization of v1 can be listed: they are stored in a version that nobody
    converts any more. The definition's own versions are kept beside it."""
    live = await world.client.get(FLUX)
    before = {"versions": live["spec"]["versions"], "conversion": live["spec"]["conversion"]}
    old = {**_version(live, "v1"), "name": "v1alpha0", "storage": True, "served": True}
    others = [{**version, "storage": False} for version in live["spec"]["versions"]]
    webhook = {
        "clientConfig": {"url": f"https://127.0.0.1:{free_port()}/convert", "caBundle": None},
        "conversionReviewVersions": ["v1"],
    }
    await _change(world, {"versions": [*others, old], "conversion": {"strategy": "None"}})
    for name in world.mirror.all(world.kustomizations):
        await world.client.merge(f"{world.kustomizations}/{name}", _touched("old"))
    await _change(world, {"conversion": {"strategy": "Webhook", "webhook": webhook}})
    try:
        await until("the list fails", lambda: _list_fails(world))
        yield
    finally:
        await _change(world, {"conversion": {"strategy": "None", "webhook": None}})
        await _change(world, {"versions": [*before["versions"], {**old, "storage": False}]})
        await until("the list works", lambda: _list_works(world))
        for name in world.mirror.all(world.kustomizations):
            await world.client.merge(f"{world.kustomizations}/{name}", _touched("new"))


async def _change(world: World, spec: Mapping[str, Any]) -> None:
    await world.client.merge(FLUX, {"spec": spec})


def _touched(value: str) -> Mapping[str, Any]:
    """Any change makes the server store the object anew."""
    return {"metadata": {"annotations": {"example.com/stored": value}}}


def _version(live: Mapping[str, Any], name: str) -> dict[str, Any]:
    return dict(next(version for version in live["spec"]["versions"] if version["name"] == name))


async def _list_fails(world: World) -> bool:
    return not await _list_works(world)


async def _list_works(world: World) -> bool:
    try:
        await world.client.get(world.kustomizations)
    except RuntimeError:
        return False
    return True


async def test_a_kind_that_cannot_be_listed_holds_up_only_what_needs_it(own: DevCluster) -> None:
    async with corner(own) as world:
        async with operator(world) as running:
            await ready(world)
            await assert_settled(world)
            mark = own.audit_mark()
            async with unreadable_kustomizations(world):
                running.proxy.reset_all()
                await until("the operator notices", lambda: fails(running))
                await still_works(world, mark)
                # A start in this state must not wait for the kind either.
                await running.stop()
                async with operator(world, sync_timeout_seconds=3600.0) as second:
                    assert await fails(second)
                    await world.activate("alpha", name="another-alpha")
                    await world.mirror.until("it is told", lambda: world.reason("another-alpha"))
                    await still_works(world, mark)
        async with operator(world):
            for module in ("alpha", "beta", "gamma"):
                await world.until_phase(module, "Ready", deadline_s=60.0)
            await world.until_phase("another-alpha", "Degraded")
            assert world.reason("another-alpha") == "DuplicateModule"
            await assert_settled(world)


async def fails(running: RunningOperator) -> bool:
    """Whether the operator has tried in vain to read Kustomizations."""
    return any(
        informer.counters.failures > 0
        for informer in running.manager.caches.informers()
        if informer.scope.kind == KUSTOMIZATION
    )


async def still_works(world: World, mark: Any) -> None:
    """Nothing is concluded from what cannot be read, and what can be read is served."""
    await quiet(world)
    writes = [record for record in world.operator_writes(mark) if record.resource == "kustomizations"]
    assert not told(writes)
    for module in ("alpha", "beta", "gamma"):
        assert world.phase(module) == "Ready"
