"""A corner in which instances live: their modules, Helm, a gateway that accepts, and the operator.

async with instance_scene(cluster) as scene:
    await scene.make("kubeopencode-demo", "kubeopencode")
    await scene.until("kubeopencode-demo", "Ready")
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from typing import Any, Final

from hack import yamls
from hack.bare import BareClient
from hack.devcluster import DevCluster
from hack.devcluster.actors.helm import HelmActor
from hack.devcluster.audit import AuditMark, AuditRecord
from magicstick.runtime.conditions import check_conditions
from tests.support.manifests import MANIFESTS
from tests.support.mirror import Mirror, Object
from tests.support.operator import RunningOperator, operator
from tests.support.oracles import silence
from tests.support.reported import Reported
from tests.support.scene import assert_honest_writes
from tests.support.world import AGENT, GROUP, World, corner

MODULES: Final[Mapping[str, Mapping[str, Any]]] = {
    "basis": {
        "path": "manifests/modules/basis",
        "kustomizationName": "platform-basis",
        "activationMode": "static",
    },
    **{
        name: {"path": f"manifests/modules/{name}", "kustomizationName": f"app-{name}", "requires": ["basis"]}
        for name in (
            "litellm",
            "model-catalog",
            "kubeopencode",
            "odysseus",
            "hermes-operator",
            "openclaw-operator",
            "paperclip-operator",
            "agent-sandbox",
        )
    },
}
APPLICATIONS: Final[Mapping[str, Any]] = yamls.load(
    (MANIFESTS.parent / "catalogs" / "applications.yaml").read_text()
)
INSTANCE_WRITES: Final[Collection[tuple[str, str, str]]] = frozenset(
    {
        ("appliance.magicstick.dev", "appinstances", ""),
        ("appliance.magicstick.dev", "appinstances", "status"),
        ("helm.toolkit.fluxcd.io", "helmreleases", ""),
        ("gateway.networking.k8s.io", "httproutes", ""),
        ("gateway.networking.k8s.io", "referencegrants", ""),
        ("gateway.envoyproxy.io", "securitypolicies", ""),
        ("", "namespaces", ""),
    }
)
"""What the operator writes for instances, besides what it writes for modules."""


class GatewayPlayer:
    """Stands in for Envoy Gateway: gives each policy its verdict, as soon as it sees it."""

    def __init__(self, client: BareClient, mirror: Mirror, path: str, namespace: str) -> None:
        self.accepts = True
        self._client = client
        self._mirror = mirror
        self._path = path
        self._namespace = namespace

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["GatewayPlayer"]:
        """Give verdicts within the block."""
        task = asyncio.create_task(self._judge_all())
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _judge_all(self) -> None:
        while True:
            await self._mirror.until("a policy lacks a verdict", lambda: any(self._open()), deadline_s=3600)
            for policy in tuple(self._open()):
                with contextlib.suppress(RuntimeError):  # it went meanwhile
                    await self._judge(policy)

    def _open(self) -> Iterator[Object]:
        """The policies without a verdict on their present generation, while verdicts are given."""
        for policy in self._mirror.all(self._path).values() if self.accepts else ():
            said = [
                each
                for ancestor in policy.get("status", {}).get("ancestors", ())
                for each in ancestor["conditions"]
            ]
            if not any(each["observedGeneration"] == policy["metadata"]["generation"] for each in said):
                yield policy

    async def _judge(self, policy: Object) -> None:
        condition = {
            "type": "Accepted",
            "status": "True",
            "reason": "Accepted",
            "message": "Policy has been accepted.",
            "observedGeneration": policy["metadata"]["generation"],
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        ancestor = {
            "ancestorRef": {
                "group": "gateway.networking.k8s.io",
                "kind": "Gateway",
                "name": "identity-pilot",
                "namespace": self._namespace,
            },
            "controllerName": "gateway.envoyproxy.io/gatewayclass-controller",
            "conditions": [condition],
        }
        path = f"{self._path}/{policy['metadata']['name']}/status"
        await self._client.merge(path, {"status": {"ancestors": [ancestor]}})


class InstanceScene(Reported):
    """See the module."""

    def __init__(self, world: World) -> None:
        self.world, corner_name = world, world.namespace.removesuffix("-system")
        self.identity, self.target = f"{corner_name}-identity", f"{corner_name}-apps"
        self.instances = f"/apis/{GROUP}/namespaces/{world.namespace}/appinstances"
        self.releases = f"/apis/helm.toolkit.fluxcd.io/v2/namespaces/{world.namespace}/helmreleases"
        self.routes = f"/apis/gateway.networking.k8s.io/v1/namespaces/{self.identity}/httproutes"
        self.policies = f"/apis/gateway.envoyproxy.io/v1alpha1/namespaces/{self.identity}/securitypolicies"
        self.grants = f"/apis/gateway.networking.k8s.io/v1beta1/namespaces/{self.target}/referencegrants"
        self.namespaces = "/api/v1/namespaces"
        mirror = Mirror(
            world.client,
            self.instances,
            self.releases,
            self.routes,
            self.policies,
            self.grants,
            self.namespaces,
        )
        super().__init__(mirror, self.instances)
        self.helm = HelmActor(world.client)
        self.gateway = GatewayPlayer(world.client, self.mirror, self.policies, self.identity)

    @property
    def settings(self) -> Mapping[str, object]:
        """What an operator in this corner is told besides where it is."""
        return {"identity_namespace": self.identity}

    # -- furnishing ---------------------------------------------------------------------------------

    async def furnish(self) -> None:
        """Catalogs, the gateway's namespace, and a source that delivers."""
        world = self.world
        await world.catalog(MODULES)
        await self.applications(APPLICATIONS["applications"])
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.identity}}
        await world.client.apply(f"{self.namespaces}/{self.identity}", body)
        source = {"kind": "GitRepository", "name": "flux-system", "namespace": world.flux_namespace}
        await world.appliance({}, source=source)
        await self._source()

    async def applications(self, applications: Mapping[str, Any]) -> None:
        """Replace the application catalog."""
        text = json.dumps({"applications": applications})
        await self.world.config_map("magicstick-app-catalog", {"applications.json": text})

    async def _source(self) -> None:
        path = (
            f"/apis/source.toolkit.fluxcd.io/v1/namespaces/{self.world.flux_namespace}"
            "/gitrepositories/flux-system"
        )
        body = {
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "GitRepository",
            "metadata": {"name": "flux-system", "namespace": self.world.flux_namespace},
            "spec": {"interval": "1m0s", "url": "https://git.example.com/magicstick.git"},
        }
        await self.world.client.apply(path, body, manager="git")
        now = "2026-01-01T00:00:00Z"
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "Succeeded",
            "message": "stored artifact",
            "observedGeneration": 1,
            "lastTransitionTime": now,
        }
        artifact = {
            "path": "main.tar.gz",
            "url": "http://localhost/main.tar.gz",
            "revision": "main@sha1:0000000000000000000000000000000000000000",
            "digest": f"sha256:{'0' * 64}",
            "lastUpdateTime": now,
        }
        status = {"observedGeneration": 1, "conditions": [ready], "artifact": artifact}
        await self.world.client.merge(f"{path}/status", {"status": status})

    # -- acting as a user ---------------------------------------------------------------------------

    async def make(self, name: str, application: str, **spec: Any) -> None:
        """Create or change an AppInstance as a user would; returns once the mirror shows it."""
        body = {
            "apiVersion": GROUP,
            "kind": "AppInstance",
            "metadata": {"name": name, "namespace": self.world.namespace},
            "spec": {"application": application, "targetNamespace": self.target, **spec},
        }
        answer = await self.world.client.apply(f"{self.instances}/{name}", body, manager="user")
        await self.until_seen(name, answer)

    async def look_again(self) -> None:
        """Let the gateway player see every policy again, after it was told something else."""
        for name in tuple(self.mirror.all(self.policies)):
            annotations = {"devcluster.magicstick.dev/seen": str(self.gateway.accepts)}
            await self.world.client.merge(
                f"{self.policies}/{name}", {"metadata": {"annotations": annotations}}
            )

    async def delete(self, name: str) -> None:
        """Delete an AppInstance as a user would."""
        await self.world.delete(self.instances, name)

    # -- reading ------------------------------------------------------------------------------------

    def release(self, name: str) -> Object | None:
        """A HelmRelease."""
        return self.mirror.get(self.releases, name)

    async def until_gone(self, name: str) -> None:
        """Wait until an instance does not exist any more."""
        await self.mirror.until(f"{name} is gone", lambda: self.get(name) is None)

    def way_in(self, name: str) -> set[str]:
        """Names of all that stands of the way in to an instance."""
        return {
            each["metadata"]["name"]
            for path in (self.routes, self.policies, self.grants)
            for each in self.mirror.all(path).values()
            if each["metadata"].get("labels", {}).get("appliance.magicstick.dev/appinstance") == name
        }

    def open_routes(self) -> set[str]:
        """Names of the routes that lead somewhere."""
        return {
            name
            for name, route in self.mirror.all(self.routes).items()
            if any(rule.get("backendRefs") for rule in route["spec"]["rules"])
        }

    def writes(self, since: AuditMark | None = None) -> list[AuditRecord]:
        """What the operator wrote in this corner, without Events and leases."""
        corner_namespaces = {self.world.namespace, self.world.flux_namespace, self.identity, self.target}
        return [
            each
            for each in self.world.cluster.audit(AGENT, since)
            if each.is_write
            and each.resource not in ("events", "leases")
            and (each.namespace in corner_namespaces or each.name in corner_namespaces)
        ]

    async def rest(self) -> None:
        """Wait for a while in which the operator writes nothing."""
        await silence(self.world.cluster, self.writes)

    def assert_sound(self) -> None:
        """Conditions of all instances are well formed."""
        for name, found in self.mirror.all(self.instances).items():
            assert not check_conditions(found), (name, check_conditions(found))


Gateway = Callable[[InstanceScene], contextlib.AbstractAsyncContextManager[object]]
"""What gives policies their verdicts while the block lasts."""


def played(scene: InstanceScene) -> contextlib.AbstractAsyncContextManager[object]:
    """By the player."""
    return scene.gateway.running()


@contextlib.asynccontextmanager
async def instance_corner(cluster: DevCluster, gateway: Gateway = played) -> AsyncIterator[InstanceScene]:
    """The corner, without an operator."""
    async with corner(cluster) as world, contextlib.AsyncExitStack() as stack:
        scene = InstanceScene(world)
        await scene.furnish()
        await stack.enter_async_context(scene.mirror.running())
        await stack.enter_async_context(scene.helm.running())
        await stack.enter_async_context(gateway(scene))
        yield scene


@contextlib.asynccontextmanager
async def instance_scene(
    cluster: DevCluster, gateway: Gateway = played, **settings: object
) -> AsyncIterator[InstanceScene]:
    """The corner with a running operator; at the end it must be silent, and what it wrote sound."""
    async with instance_corner(cluster, gateway) as scene, watched(scene, **settings):
        yield scene


@contextlib.asynccontextmanager
async def watched(scene: InstanceScene, **settings: object) -> AsyncIterator[RunningOperator]:
    """An operator in the corner, which must be silent at the end, and whose writes must be sound."""
    mark = scene.world.cluster.audit_mark()
    async with operator(scene.world, **{**scene.settings, **settings}) as running:  # type: ignore[arg-type] # settings alone
        yield running
        await scene.rest()
        scene.assert_sound()
    assert_honest_writes(scene.writes(mark), INSTANCE_WRITES)


def install_kinds(cluster: DevCluster) -> None:
    """The kinds of Flux, Helm, the gateway and of one application, and ours."""
    cluster.apply([*sorted((MANIFESTS / "crds").glob("*.yaml"))])
    for name in ("flux", "helm", "gateway", "envoy"):
        cluster.apply(cluster.crd_files(name))
    cluster.apply([definition(each) for each in ("agents", "agenttemplates")])


def definition(plural: str, group: str = "kubeopencode.io") -> dict[str, Any]:
    """A definition of the kind that an application's operator brings: any object is admitted."""
    kind = plural.removesuffix("s").capitalize()
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [version],
        },
    }
