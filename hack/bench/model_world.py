"""A fresh control plane with KubeAI, nodes and the modules that models need, and whoever acts on models."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import yaml

from hack.bare import BareClient, spread
from hack.bench import model_objects as objects
from hack.bench.model_players import RELEASES, ModelPlayers
from hack.bench.objects import CONFIG_MAPS, config_map
from hack.bench.world import CONCURRENCY, ROOT, World, empty_world, furnish, until_served
from hack.devcluster.cluster import DevCluster
from tests.support.model_scene import MODULES, install_kinds

NEEDED: Final = ("kubeai", "litellm", "model-catalog", "gpu")
GPUS: Final = 8


@contextlib.asynccontextmanager
async def model_world(directory: Path) -> AsyncIterator[World]:
    """A fresh control plane with everything that models need, save a running operator."""
    async with empty_world(directory, "audit-bodies.yaml") as bench:
        await furnish_models(bench.cluster, bench.client)
        yield bench


async def furnish_models(cluster: DevCluster, client: BareClient) -> None:
    """Kinds, namespaces, the real catalogs of targets and presets, nodes, and KubeAI."""
    await asyncio.to_thread(install_kinds, cluster)
    await until_served(client, objects.ACTIVATIONS, objects.MODELS, RELEASES)
    await furnish(client)
    for name, key, content in (
        ("magicstick-module-catalog", "modules.json", {"groups": {}, "modules": dict(MODULES)}),
        ("magicstick-compute-target-catalog", "targets.json", _shipped("compute-targets")),
        ("magicstick-model-presets", "presets.json", _shipped("model-presets")),
    ):
        await client.apply(f"{CONFIG_MAPS}/{name}", config_map(name, {key: json.dumps(content)}))
    await client.apply(objects.CATALOG, objects.catalog([]), manager="model-catalog")
    for name, allocatable in ((objects.NVIDIA_NODE, {objects.NVIDIA: GPUS}), (objects.PLAIN_NODE, {})):
        await client.apply(f"{objects.NODES}/{name}", objects.node(name), manager="kubelet")
        await offer(client, name, **allocatable)
    await ModelPlayers(client).install()


def _shipped(catalog: str) -> Any:
    return yaml.safe_load((ROOT / "catalogs" / f"{catalog}.yaml").read_text())


async def offer(client: BareClient, node: str, **allocatable: int) -> None:
    """Have a node offer this."""
    status = {"status": objects.node_status(**allocatable)}
    await client.merge(f"{objects.NODES}/{node}/status", status)


def playing(client: BareClient) -> contextlib.AbstractAsyncContextManager[ModelPlayers]:
    """Flux, and whoever acts on models, within the block."""
    return ModelPlayers(client).beside_flux()


async def activate_modules(bench: World) -> None:
    """The modules that models need, Ready."""
    await bench.activate_modules(NEEDED)


async def activate_models(client: BareClient, count: int, *, replicas: int = 1) -> None:
    """Create the activations, `CONCURRENCY` at a time."""

    async def create(number: int) -> None:
        await client.create(objects.ACTIVATIONS, objects.activation(number, replicas=replicas))

    await spread(range(count), create, concurrency=CONCURRENCY)
