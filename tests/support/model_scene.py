"""A corner in which models live: the modules that they need, KubeAI, a model catalog, and the operator.

async with model_scene(cluster) as scene:
    await scene.activate("demo", local={...})
    await scene.until("demo", "WaitingForPod")
"""

import contextlib
import json
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any, Final

from hack import yamls
from hack.devcluster import DevCluster
from magicstick.api.kinds import HOST_OPERATION
from magicstick.kube.kinds import ObjectKey
from magicstick.models.catalog_facts import NAME as MODEL_CATALOG
from magicstick.models.ports import Seams, WakeUp
from magicstick.runtime.conditions import check_conditions
from tests.support.kubeai import DEFINITION, SPACE, KubeAiPlayer
from tests.support.manifests import MANIFESTS
from tests.support.mirror import Mirror, Object
from tests.support.operator import operator
from tests.support.oracles import quiet
from tests.support.reported import Reported
from tests.support.scene import assert_honest_writes
from tests.support.world import GROUP, World, corner

ROOT: Final = MANIFESTS.parent
MODULES: Final[Mapping[str, Mapping[str, Any]]] = {
    "basis": {
        "path": "manifests/modules/basis",
        "kustomizationName": "platform-basis",
        "activationMode": "static",
    },
    "gpu": {
        "path": "manifests/modules/gpu",
        "kustomizationName": "platform-gpu",
        "activationPolicy": "hardware-detected",
        "providesCapabilities": ["compute.gpu.nvidia"],
    },
    **{
        name: {"path": f"manifests/modules/{name}", "kustomizationName": f"app-{name}", "requires": ["basis"]}
        for name in ("kubeai", "freetoken", "litellm", "model-catalog")
    },
}
CPU: Final = {"computeTarget": "cpu", "engine": "VLLM", "url": "hf://example/model"}
MODEL_WRITES: Final[Collection[tuple[str, str, str]]] = frozenset(
    {
        ("appliance.magicstick.dev", "modelactivations", ""),
        ("appliance.magicstick.dev", "modelactivations", "status"),
        ("kubeai.org", "models", ""),
        ("", "pods", ""),
        ("", "configmaps", ""),
        ("helm.toolkit.fluxcd.io", "helmreleases", ""),
    }
)
"""What the operator writes for models, besides what it writes for modules."""


class PlayedCatalog:
    """A model catalog that lists what a test says, and tells of it at once; `names` None: unreadable."""

    def __init__(self) -> None:
        self.names: set[str] | None = set()
        self._wake: WakeUp = lambda _keys: None
        self._home = ""

    def at(self, home: str) -> None:
        """Where the activations are."""
        self._home = home

    def published(self, name: str, namespace: str) -> bool | None:  # noqa: ARG002 - as the protocol says
        return None if self.names is None else name in self.names

    def follow(self, wake: WakeUp) -> None:
        self._wake = wake

    def publish(self, *names: str) -> None:
        """List these models and no others."""
        told = (self.names or set()) | set(names)
        self.names = set(names)
        self._wake([ObjectKey(self._home, name) for name in told])


class ModelScene(Reported):
    """See the module."""

    def __init__(self, world: World, kubeai: KubeAiPlayer) -> None:
        path = f"/apis/{GROUP}/namespaces/{world.namespace}/modelactivations"
        super().__init__(Mirror(world.client, path), path)
        self.world, self.kubeai, self.catalog = world, kubeai, PlayedCatalog()
        self.catalog.at(self.world.namespace)

    @property
    def seams(self) -> Seams:
        """What the operator is given of what is played."""
        return Seams(publication=self.catalog)

    async def activate(self, name: str, *, kind: str = "local", **spec: Any) -> None:
        """Create or change a ModelActivation as a user would."""
        body = {
            "apiVersion": GROUP,
            "kind": "ModelActivation",
            "metadata": {"name": name, "namespace": self.world.namespace},
            "spec": {"type": kind, "enabled": True, **spec},
        }
        answer = await self.world.client.apply(f"{self.path}/{name}", body, manager="user")
        await self.until_seen(name, answer)

    async def delete(self, name: str) -> None:
        """Delete a ModelActivation as a user would."""
        await self.world.delete(self.path, name)

    async def host_operation(self, name: str, phase: str) -> None:
        """A request to clear the model cache, which a host has brought so far."""
        path = f"/apis/{GROUP}/namespaces/{self.world.namespace}/{HOST_OPERATION.plural}"
        body = cache_cleanup({"name": name}, "node-1")
        await self.world.client.apply(f"{path}/{name}", body, manager="dashboard")
        await self.world.client.merge(f"{path}/{name}/status", {"status": {"phase": phase}})

    async def rest(self) -> None:
        """Wait for a while in which the operator writes nothing."""
        await quiet(self.world)

    def assert_sound(self) -> None:
        """Conditions of all activations are well formed."""
        for name, found in self.mirror.all(self.path).items():
            assert not check_conditions(found), (name, check_conditions(found))


def cache_cleanup(metadata: Object, node: str) -> dict[str, Any]:
    """A HostOperation that asks for the model cache of a node to be cleared."""
    spec = {
        "action": "clear-model-cache",
        "nodeName": node,
        "nodeUid": "uid",
        "bootId": "boot",
        "requestId": "a" * 32,
        "planId": "b" * 64,
        "allowExperimental": False,
        "experimentMode": False,
        "acknowledgeDisruption": True,
        "actorHash": "c" * 64,
    }
    return {"apiVersion": GROUP, "kind": "HostOperation", "metadata": metadata, "spec": spec}


@contextlib.asynccontextmanager
async def model_corner(cluster: DevCluster) -> AsyncIterator[ModelScene]:
    """The corner, without an operator."""
    async with corner(cluster) as world, contextlib.AsyncExitStack() as stack:
        await world.catalog(MODULES)
        for name, key, file in (
            ("magicstick-compute-target-catalog", "targets.json", "compute-targets"),
            ("magicstick-model-presets", "presets.json", "model-presets"),
        ):
            content = yamls.load((ROOT / "catalogs" / f"{file}.yaml").read_text())
            await world.config_map(name, {key: json.dumps(content)})
        kubeai = KubeAiPlayer(world.client, world.flux_namespace)
        await kubeai.install()
        scene = ModelScene(world, kubeai)
        await stack.enter_async_context(kubeai.mirror.running())
        await stack.enter_async_context(scene.mirror.running())
        yield scene


@contextlib.asynccontextmanager
async def model_scene(
    cluster: DevCluster, *, writes: Collection[tuple[str, str, str]] = ()
) -> AsyncIterator[ModelScene]:
    """The corner with a running operator; at the end it must be silent, and what it wrote sound.

    `writes` is what is written here besides `MODEL_WRITES`.
    """
    mark = cluster.audit_mark()
    async with model_corner(cluster) as scene, operator(scene.world, seams=scene.seams):
        yield scene
        await scene.rest()
        scene.assert_sound()
    assert_honest_writes(scene.world.operator_writes(mark), {*MODEL_WRITES, *writes})


@contextlib.asynccontextmanager
async def whole_scene(cluster: DevCluster) -> AsyncIterator[ModelScene]:
    """The corner with an operator that asks and reads for itself; at the end it must be silent."""
    async with model_corner(cluster) as scene:
        await publish(scene)
        async with operator(scene.world):
            yield scene
            await scene.rest()
            scene.assert_sound()


async def publish(scene: ModelScene, *names: str, namespace: str = SPACE) -> None:
    """Have the real catalog list these models and no others, as the model catalog publishes them."""
    listed = [{"id": each, "name": each, "type": "chat"} for each in names]
    await publish_text(scene, json.dumps({"hash": "", "models": listed}), namespace=namespace)


async def publish_text(scene: ModelScene, text: str, *, namespace: str = SPACE) -> None:
    """Have the catalog say this."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": MODEL_CATALOG, "namespace": namespace},
        "data": {"catalog.json": text},
    }
    path = f"/api/v1/namespaces/{namespace}/configmaps/{MODEL_CATALOG}"
    await scene.world.client.apply(path, body, manager="model-catalog")


def install_kinds(cluster: DevCluster) -> None:
    """The kinds of Flux, Helm and KubeAI, and ours save Palena's; and what a Pod in `ai` needs to be admitted."""
    ours = [each for each in (MANIFESTS / "crds").glob("*.yaml") if not each.stem.startswith("palena")]
    cluster.apply([*sorted(ours), *cluster.crd_files("flux")])
    cluster.apply([*cluster.crd_files("helm"), dict(DEFINITION)])
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    account = {"name": "default", "namespace": SPACE}
    cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})


async def make_node(scene: ModelScene, name: str, allocatable: Mapping[str, str]) -> None:
    """A Ready Linux node that offers this."""
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": name}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    await scene.world.client.apply(f"/api/v1/nodes/{name}", node, manager="kubelet")
    status = {
        "allocatable": allocatable,
        "capacity": allocatable,
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"architecture": "amd64", "operatingSystem": "linux"},
    }
    await scene.world.client.merge(f"/api/v1/nodes/{name}/status", {"status": status})
