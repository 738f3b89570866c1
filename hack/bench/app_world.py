"""A fresh control plane with the kinds and the modules that applications need, and those who act on them."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import yaml

from hack.bare import BareClient, spread
from hack.bench import app_objects as objects
from hack.bench.app_players import AppPlayers
from hack.bench.objects import (
    AI_NAMESPACE,
    CONFIG_MAPS,
    GROUP,
    IDENTITY_NAMESPACE,
    OPERATOR_NAMESPACE,
    SOURCE,
    config_map,
    namespace,
)
from hack.bench.world import CONCURRENCY, ROOT, World, empty_world, furnish, until_served
from hack.devcluster.cluster import DevCluster
from tests.support.instance_scene import definition

CATALOG: Final[dict[str, Any]] = yaml.safe_load((ROOT / "catalogs" / "applications.yaml").read_text())
USED: Final = {name: CATALOG["applications"][name] for name in objects.APPLICATIONS}
MODULES: Final = tuple(sorted({module for each in USED.values() for module in each["requiredModules"]}))
OURS: Final = ("appliances", "appinstances", "hostoperations", "modelactivations", "moduleactivations")
KINDS: Final = tuple(sorted({crd for each in USED.values() for crd in each.get("requiredCrds", ())}))


@contextlib.asynccontextmanager
async def app_world(directory: Path) -> AsyncIterator[World]:
    """A fresh control plane with everything that instances need, save a running operator."""
    async with empty_world(directory, "audit-bodies.yaml") as bench:
        await furnish_apps(bench.cluster, bench.client)
        yield bench


async def furnish_apps(cluster: DevCluster, client: BareClient) -> None:
    """Kinds, namespaces, the real catalog of applications, and modules as they need them."""
    await asyncio.to_thread(_install_kinds, cluster)
    await until_served(client, objects.INSTANCES, objects.RELEASES, *objects.WAY_IN)
    await furnish(client)
    for name in (AI_NAMESPACE, IDENTITY_NAMESPACE):
        await client.apply(f"/api/v1/namespaces/{name}", namespace(name))
    modules = {"groups": {}, "modules": {"basis": _module("basis", activationMode="static")}}
    modules["modules"] |= {name: _module(name, requires=["basis"]) for name in MODULES}
    for name, key, content in (
        ("magicstick-module-catalog", "modules.json", modules),
        ("magicstick-app-catalog", "applications.json", {"applications": USED}),
    ):
        await client.apply(f"{CONFIG_MAPS}/{name}", config_map(name, {key: json.dumps(content)}))
    body = {
        "apiVersion": GROUP,
        "kind": "Appliance",
        "metadata": {"name": "local", "namespace": OPERATOR_NAMESPACE},
        "spec": {"source": SOURCE},
    }
    await client.apply(f"/apis/{GROUP}/namespaces/{OPERATOR_NAMESPACE}/appliances/local", body)


def _install_kinds(cluster: DevCluster) -> None:
    cluster.apply([ROOT / "manifests" / "crds" / f"{plural}.yaml" for plural in OURS])
    for name in ("flux", "helm", "gateway", "envoy"):
        cluster.apply(cluster.crd_files(name))
    cluster.apply([definition(*name.split(".", 1)) for name in KINDS])


def _module(name: str, **more: Any) -> dict[str, Any]:
    kustomization = "platform-basis" if name == "basis" else f"app-{name}"
    return {"path": f"manifests/modules/{name}", "kustomizationName": kustomization, **more}


def playing(client: BareClient) -> contextlib.AbstractAsyncContextManager[AppPlayers]:
    """Flux, Helm and the gateway, within the block."""
    return AppPlayers(client).beside_flux()


async def activate_modules(bench: World) -> None:
    """The modules that applications need, Ready."""
    await bench.activate_modules(MODULES)


async def make_instances(client: BareClient, count: int) -> None:
    """Create the instances, `CONCURRENCY` at a time."""

    async def create(number: int) -> None:
        await client.create(objects.INSTANCES, objects.instance(number))

    await spread(range(count), create, concurrency=CONCURRENCY)
