"""Objects that are poisoned, dying, stale, or simply at rest."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from hack.devcluster import DevCluster
from magicstick.api.labels import MODULE_FINALIZER
from tests.support.operator import operator
from tests.support.oracles import assert_settled, quiet, told
from tests.support.scenario import change, substitution
from tests.support.world import GROUP, SMALL_CATALOG, World, corner

pytestmark = pytest.mark.anyio

HOLD = "example.com/hold"
HEALTHY = 20
LONG_NAME = ".".join(["a" * 63] * 3 + ["b" * 61])  # 253 characters, the most that a name may have
DEEP = msgspec.Raw(b'{"a":' * 5000 + b'"deep"' + b"}" * 5000)
LARGE = "x" * 1_400_000  # the server takes 1.5 MB


def modules(count: int, prefix: str = "m") -> dict[str, Mapping[str, Any]]:
    """Modules that need nothing but the basis, each with a parameter."""
    shape = SMALL_CATALOG["gamma"]
    return {
        f"{prefix}-{number:02d}": {
            **shape,
            "path": f"manifests/modules/{prefix}-{number:02d}",
            "kustomizationName": f"app-{prefix}-{number:02d}",
            "requires": ["basis"],
        }
        for number in range(count)
    }


def activation(world: World, name: str, spec: Mapping[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": GROUP,
        "kind": "ModuleActivation",
        "metadata": {"name": name, "namespace": world.namespace, **metadata},
        "spec": {"enabled": True, **spec},
    }


async def create(world: World, name: str, spec: Mapping[str, Any], **metadata: Any) -> None:
    await world.client.create(world.activations, activation(world, name, spec, **metadata))


async def release(world: World, name: str) -> None:
    """Take our hold away, as its owner would."""
    kept = [each for each in (world.activation(name) or {})["metadata"]["finalizers"] if each != HOLD]
    await world.client.merge(f"{world.activations}/{name}", {"metadata": {"finalizers": kept}})
    await world.mirror.until(f"{name} is gone", lambda: world.activation(name) is None)


def finalizers(world: World, name: str) -> list[str]:
    return list((world.activation(name) or {})["metadata"].get("finalizers", []))


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")  # aiohttp's advice above 1 MiB
async def test_poisoned_objects_cost_only_themselves(control_plane: DevCluster) -> None:
    healthy = modules(HEALTHY)
    odd = modules(6, "odd")
    async with corner(control_plane) as world, operator(world) as running:
        await world.catalog({"basis": SMALL_CATALOG["basis"], **healthy, **odd})
        names = list(odd)
        await create(world, "deep", {"module": names[0], "parameters": {"storage": {"size": DEEP}}})
        await create(world, "deep-and-unknown", {"module": names[1], "parameters": {"other": DEEP}})
        await create(world, LONG_NAME, {"module": names[2]})
        await create(world, "large", {"module": names[3], "parameters": {"storage": LARGE}})
        await create(world, "unicode", {"module": "модуль 🦊\u2028", "parameters": {"ключ": "\U0001f98a"}})
        await create(world, "static", {"module": "basis"})
        await create(world, "list", {"module": names[4], "parameters": {"storage": ["10Gi", {"a": None}]}})
        await world.kustomization("app-odd-05", {})
        await create(world, "taken", {"module": names[5]})
        await world.config_map("neighbour", {"text": "y" * 1_000_000})
        for name in healthy:
            await world.activate(name, parameters={"storage": "1Gi"})
        for name in healthy:
            await world.until_phase(name, "Ready")
        for name in ("deep", "large", "unicode", "static", "list", "taken"):
            await world.until_phase(name, "Degraded")
        for name in (LONG_NAME, "deep-and-unknown"):
            await world.until_phase(name, "Ready")
        await world.activate("m-00", parameters={"storage": "2Gi"})
        await world.mirror.until("2Gi arrives", lambda: substitution(world, "app-m-00") == "2Gi")
        await world.until_phase("m-00", "Ready")
        await assert_settled(world)
        assert not [entry for entry in running.logs if entry["event"] == "event not written"]
        await world.delete(world.activations, "deep")
        await world.mirror.until("the deep one can go", lambda: world.activation("deep") is None)


@pytest.mark.parametrize("running", [True, False], ids=["seen alive", "never seen alive"])
async def test_a_dying_object_is_only_cleaned_up(control_plane: DevCluster, *, running: bool) -> None:
    async with corner(control_plane) as world:
        if not running:
            await create(world, "alpha", {"module": "alpha"}, finalizers=[HOLD])
            await world.delete(world.activations, "alpha")
            await world.mirror.until("it is dying", lambda: dying(world, "alpha"))
        mark = world.cluster.audit_mark()
        async with operator(world):
            if running:
                await create(world, "alpha", {"module": "alpha"}, finalizers=[HOLD])
                await world.until_phase("alpha", "Ready")
                await world.delete(world.activations, "alpha")
                await world.mirror.until("we let go", lambda: finalizers(world, "alpha") == [HOLD])
                mark = world.cluster.audit_mark()
            await quiet(world)
            assert MODULE_FINALIZER not in finalizers(world, "alpha")
            assert world.child("app-alpha") is None
            assert not told(world.operator_writes(mark))
            await release(world, "alpha")
            await quiet(world)
            assert world.child("app-alpha") is None
            assert not told(world.operator_writes(mark))


def dying(world: World, name: str) -> bool:
    return "deletionTimestamp" in (world.activation(name) or {"metadata": {}})["metadata"]


async def test_an_object_that_lives_for_a_moment_leaves_nothing(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world, operator(world):
        for _ in range(10):
            await create(world, "alpha", {"module": "alpha"})
            await world.delete(world.activations, "alpha")
            await world.mirror.until("alpha is gone", lambda: world.activation("alpha") is None)
        await quiet(world)
        await world.mirror.until("its child is gone", lambda: world.child("app-alpha") is None)
        await world.activate("alpha")
        await world.until_phase("alpha", "Ready")
        await assert_settled(world)


@pytest.mark.req("MS-114")
async def test_a_ready_from_the_generation_before_opens_no_gate(control_plane: DevCluster) -> None:
    omega = {"path": "manifests/modules/omega", "kustomizationName": "app-omega", "requires": ["gamma"]}
    async with corner(control_plane) as world, operator(world):
        await world.catalog({**SMALL_CATALOG, "omega": omega})
        await world.activate("gamma", parameters={"storage": "1Gi"})
        await world.until_phase("gamma", "Ready")
        world.flux.pause()
        await world.activate("gamma", parameters={"storage": "2Gi"})
        await world.mirror.until("the new value is there", lambda: substitution(world) == "2Gi")
        await world.activate("omega")
        await world.until_phase("omega", "WaitingForModules")
        await quiet(world)
        stale = world.child("app-gamma") or {}
        assert stale["status"]["conditions"][0]["status"] == "True"
        assert stale["status"]["observedGeneration"] < stale["metadata"]["generation"]
        assert world.child("app-omega") is None
        assert world.phase("gamma") == "Reconciling"
        world.flux.resume()
        await world.until_phase("omega", "Ready")
        await change(world, "3Gi")
        await world.until_phase("omega", "Ready")
        await assert_settled(world)
