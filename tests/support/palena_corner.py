"""A corner of a real API server in which Palena runs, and hands that play the foreign operators.

    async with palena_corner(cluster) as corner, corner.operator():
        await corner.gateway("gw")
        await corner.until_running("gw")

Nothing becomes ready by itself: a test says what CloudNativePG, the LiteLLM operator and kubelets report.
"""

import contextlib
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from hack.bare import BareClient
from hack.devcluster import CONTROL_PLANE, DevCluster
from hack.devcluster.audit import AuditMark, AuditRecord
from magicstick.runtime.conditions import check_conditions
from tests.support import palena_crds
from tests.support.mirror import Mirror, Object
from tests.support.operator import RunningOperator, operator
from tests.support.oracles import silence, told
from tests.support.palena_objects import gateway, litellm_status, model, secret
from tests.support.world import World

CRDS: Final = Path(__file__).resolve().parents[2] / "manifests" / "crds"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AGENT: Final = "magicstick"
CONFLICT: Final = 409
HALF: Final[Mapping[str, Any]] = {"magicstick_enable_appliance": False, "magicstick_enable_palena": True}
"""The settings of an operator that does nothing but Palena."""


class PalenaCorner:
    """Two namespaces, what is in them, and who acts there. `other` is the second one."""

    def __init__(self, cluster: DevCluster, client: BareClient) -> None:
        suffix = secrets.token_hex(3)
        self.cluster, self.client = cluster, client
        self.world = World(cluster, client)
        self.namespace, self.other = f"palena-{suffix}", f"palena-{suffix}-other"
        self.mirror = Mirror(
            client,
            *(self.path(plural) for plural in _PLURALS),
            *(self.path(plural, self.other) for plural in ("litellmmodels", "secrets", "palenagateways")),
        )

    def path(self, plural: str, namespace: str = "") -> str:
        """The collection of a kind in one of the namespaces."""
        return f"{_PLURALS[plural]}/namespaces/{namespace or self.namespace}/{plural}"

    @contextlib.asynccontextmanager
    async def operator(self, **settings: object) -> AsyncIterator[RunningOperator]:
        """Run Palena until the block ends."""
        async with operator(self.world, **{**HALF, **settings}) as running:
            yield running

    # --- what users do ---------------------------------------------------------------------------

    async def gateway(self, name: str = "gw", *, namespace: str = "", **spec: Any) -> None:
        """Make or change a gateway."""
        home = namespace or self.namespace
        await self.client.apply(
            f"{self.path('palenagateways', home)}/{name}",
            gateway(name, namespace=home, **spec),
            manager="user",
        )

    async def model(self, name: str, *refs: str | dict[str, Any], **spec: Any) -> None:
        """Make or change a model."""
        body = model(name, *refs, namespace=self.namespace, **spec)
        await self.client.apply(f"{self.path('palenamodels')}/{name}", body, manager="user")

    async def secret(self, name: str, values: Mapping[str, str]) -> None:
        """Make or change a Secret."""
        body = secret(name, values, namespace=self.namespace)
        await self.client.apply(f"{self.path('secrets')}/{name}", body, manager="user")

    async def delete(self, plural: str, name: str) -> None:
        """Ask for a deletion."""
        await self.client.send("DELETE", f"{self.path(plural)}/{name}")

    async def hold(self, plural: str, name: str, *finalizers: str) -> None:
        """Have an object held by finalizers, as its own operator would; none lets it go."""
        body = {"metadata": {"finalizers": list(finalizers)}}
        await self.client.merge(f"{self.path(plural)}/{name}", body)

    async def collect_garbage(self) -> None:
        """Remove what belonged to gateways that are gone, as the garbage collector does."""
        living = {each["metadata"]["uid"] for each in self.mirror.all(self.path("palenagateways")).values()}
        for plural in ("secrets", "networkpolicies", "services", "statefulsets"):
            for name, obj in dict(self.mirror.all(self.path(plural))).items():
                owners = {each["uid"] for each in obj["metadata"].get("ownerReferences", ())}
                if owners and not owners & living:
                    await self.delete(plural, name)
                    await self.until_gone(plural, name)

    # --- what others report ----------------------------------------------------------------------

    async def report(self, plural: str, name: str, status: Mapping[str, Any], namespace: str = "") -> None:
        """Write a status as the object's own controller would."""
        await self.client.merge(f"{self.path(plural, namespace)}/{name}/status", {"status": status})

    async def database_ready(self, gateway_name: str = "gw", phase: str = "Cluster in healthy state") -> None:
        cluster = f"{gateway_name}-palena-pg"
        await self.until_there("clusters", cluster)
        uri = f"postgresql://litellm:swordfish@{cluster}-rw.{self.namespace}:5432/litellm"
        await self.secret(f"{cluster}-app", {"uri": uri})
        await self.report("clusters", cluster, {"phase": phase, "instances": 1, "readyInstances": 1})

    async def redis_ready(self, gateway_name: str = "gw", *, ready: bool = True) -> None:
        name = f"{gateway_name}-palena-redis"
        live = await self.until_there("statefulsets", name)
        generation = live["metadata"]["generation"]
        status = {"observedGeneration": generation, "replicas": 1, "readyReplicas": int(ready)}
        await self.report("statefulsets", name, status)

    async def litellm_ready(self, gateway_name: str = "gw") -> None:
        name = f"{gateway_name}-palena-litellm"
        await self.until_there("litellminstances", name)
        condition = {"type": "Ready", "status": "True", "reason": "AllResourcesReady", "message": "ready"}
        status = {"ready": True, "replicas": 1, "readyReplicas": 1, "conditions": [condition]}
        await self.report("litellminstances", name, status)

    async def model_synced(self, name: str, namespace: str = "", **status: Any) -> None:
        await self.until_there("litellmmodels", name, namespace)
        await self.report("litellmmodels", name, litellm_status(**status), namespace)

    async def all_ready(self, gateway_name: str = "gw") -> None:
        """Everything around a gateway becomes ready, in order; returns once it runs."""
        await self.database_ready(gateway_name)
        await self.redis_ready(gateway_name)
        await self.litellm_ready(gateway_name)
        await self.until_phase("palenagateways", gateway_name, "Running")

    # --- what is there ---------------------------------------------------------------------------

    def find(self, plural: str, name: str, namespace: str = "") -> Object | None:
        return self.mirror.get(self.path(plural, namespace), name)

    def names(self, plural: str, namespace: str = "") -> set[str]:
        return set(self.mirror.all(self.path(plural, namespace)))

    def must(self, plural: str, name: str, namespace: str = "") -> Object:
        found = self.find(plural, name, namespace)
        assert found is not None, f"there is no {plural}/{name}\n{self.mirror.describe()}"
        return found

    def phase(self, plural: str, name: str) -> str:
        """The phase reported for the present generation; "" otherwise."""
        found = self.find(plural, name) or {"metadata": {}, "status": {}}
        status = found.get("status", {})
        current = status.get("observedGeneration") == found["metadata"].get("generation")
        return str(status.get("phase", "")) if current else ""

    def reason(self, plural: str, name: str, type_: str = "Ready") -> str:
        found = self.find(plural, name) or {}
        conditions = found.get("status", {}).get("conditions", ())
        return next((str(each["reason"]) for each in conditions if each["type"] == type_), "")

    async def until_there(self, plural: str, name: str, namespace: str = "") -> Object:
        await self.mirror.until(f"{plural}/{name} is there", lambda: self.find(plural, name, namespace))
        return self.must(plural, name, namespace)

    async def until_gone(self, plural: str, name: str, namespace: str = "") -> None:
        await self.mirror.until(
            f"{plural}/{name} is gone", lambda: self.find(plural, name, namespace) is None
        )

    async def until_phase(self, plural: str, name: str, phase: str, reason: str = "") -> None:
        """Wait until this is reported, with a reason of any condition if one is given."""

        def reached() -> bool:
            found = self.find(plural, name) or {}
            reasons = {each["reason"] for each in found.get("status", {}).get("conditions", ())}
            return self.phase(plural, name) == phase and (not reason or reason in reasons)

        await self.mirror.until(f"{plural}/{name} is {phase} {reason}", reached)

    # --- what was asked of the server -------------------------------------------------------------

    def writes(self, since: AuditMark) -> list[AuditRecord]:
        """What the operator wrote in this corner, without Events and leases."""
        return [
            each
            for each in self.cluster.audit(AGENT, since)
            if each.namespace in (self.namespace, self.other)
            and each.is_write
            and each.resource not in ("events", "leases")
        ]

    async def quiet(self) -> None:
        """Wait for a while in which nothing is written; fails when none comes."""
        await silence(self.cluster, self.writes)

    def assert_sound(self) -> None:
        """Conditions of all objects of Palena's are well formed."""
        for plural in (each for each in _PLURALS if each.startswith("palena")):
            for name, obj in self.mirror.all(self.path(plural)).items():
                if obj.get("status"):
                    assert not check_conditions(obj), (name, check_conditions(obj))


_PLURALS: Final[Mapping[str, str]] = {
    "palenagateways": "/apis/palena.ai/v1alpha1",
    "palenamodels": "/apis/palena.ai/v1alpha1",
    "clusters": "/apis/postgresql.cnpg.io/v1",
    "litellminstances": "/apis/litellm.palena.ai/v1alpha1",
    "litellmmodels": "/apis/litellm.palena.ai/v1alpha1",
    "statefulsets": "/apis/apps/v1",
    "services": "/api/v1",
    "secrets": "/api/v1",
    "persistentvolumeclaims": "/api/v1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
    "palenauis": "/apis/palena.ai/v1alpha1",
    "palenamcpservers": "/apis/palena.ai/v1alpha1",
    "palenaobservabilities": "/apis/palena.ai/v1alpha1",
    "deployments": "/apis/apps/v1",
    "configmaps": "/api/v1",
    "ingresses": "/apis/networking.k8s.io/v1",
    "litellmvirtualkeys": "/apis/litellm.palena.ai/v1alpha1",
    "langfuseinstances": "/apis/langfuse.palena.ai/v1alpha1",
    "databases": "/apis/postgresql.cnpg.io/v1",
    "databaseroles": "/apis/postgresql.cnpg.io/v1",
}


@contextlib.contextmanager
def palena_control_plane() -> Iterator[DevCluster]:
    """A control plane with Palena's own kinds, and those that it drives, until the block ends."""
    with DevCluster.start(CONTROL_PLANE) as cluster:
        cluster.apply(sorted(CRDS.glob("*.yaml")))
        palena_crds.install(cluster)
        yield cluster


@contextlib.asynccontextmanager
async def palena_corner(cluster: DevCluster) -> AsyncIterator[PalenaCorner]:
    """A corner without an operator; what is in it stays there."""
    async with BareClient(cluster.url, cluster.ca_file, cluster.admin_token, user_agent="test") as client:
        corner = PalenaCorner(cluster, client)
        for name in (corner.namespace, corner.other, corner.world.namespace):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await client.apply(f"/api/v1/namespaces/{name}", body)
        async with corner.mirror.running():
            yield corner


def assert_honest(writes: list[AuditRecord]) -> None:
    """Each write was checked strictly, and accepted unless somebody else was faster."""
    refused = [each for each in writes if not 200 <= each.code < 300 and each.code != CONFLICT]
    assert not refused, told(refused)
    lax = [each for each in writes if each.verb != "delete" and "fieldValidation=Strict" not in each.uri]
    assert not lax, told(lax)
