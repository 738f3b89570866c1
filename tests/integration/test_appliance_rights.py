"""The operator under its own service account: what it is granted is what it uses."""

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import pytest

from hack.bare import BareClient
from hack.devcluster import CONTROL_PLANE, DevCluster
from hack.devcluster.actors.flux import FluxActor
from hack.devcluster.audit import AuditRecord
from hack.devcluster.rest import Object
from magicstick.api.labels import MANAGED_BY, OPERATOR
from tests.support.manifests import MANIFESTS
from tests.support.mirror import Mirror
from tests.support.operator import operator
from tests.support.oracles import assert_settled, told
from tests.support.scene import OURS_TO_WRITE, Verdicts
from tests.support.world import AGENT, BASIS, World

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

NAMESPACE, FLUX_NAMESPACE, ACCOUNT = "ai-system", "flux-system", "magicstick-operator"
MODELS, IDENTITY = "ai", "identity-system"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one resource (`resource/subresource`) in a namespace; empty for the whole cluster."""

    namespace: str
    group: str
    resource: str
    verb: str


OURS, FLUX = "appliance.magicstick.dev", "kustomize.toolkit.fluxcd.io"
HELM, GATEWAY, ENVOY = "helm.toolkit.fluxcd.io", "gateway.networking.k8s.io", "gateway.envoyproxy.io"


def _each(namespace: str, group: str, resources: str, verbs: str, why: str) -> dict[Right, str]:
    return {
        Right(namespace, group, resource, verb): why
        for resource in resources.split()
        for verb in verbs.split()
    }


READ_AGAIN = "a write that met a conflict reads its object again, and no conflict is provoked here"
SEEN_ANYWAY = "says less than list and watch, which are used"
NO_MODEL = "brings a model along, and none lives here: what a model makes and removes has tests of its own"
NO_INSTANCE = (
    "brings an instance along, and none lives here: what an instance makes and removes has tests of its own"
)
PATCH_ANYWAY = "allows nothing that patch, which is used, does not"
UNUSED: Final[Mapping[Right, str]] = {
    **_each(NAMESPACE, OURS, "appliances moduleactivations", "get", READ_AGAIN),
    **_each(FLUX_NAMESPACE, FLUX, "kustomizations", "get", READ_AGAIN),
    **_each("", "apiextensions.k8s.io", "customresourcedefinitions", "get", SEEN_ANYWAY),
    **_each("", "", "nodes", "get", SEEN_ANYWAY),
    **_each(NAMESPACE, OURS, "appinstances modelactivations hostoperations", "get", SEEN_ANYWAY),
    **_each("", "", "services pods", "get", SEEN_ANYWAY),
    **_each("", "apps", "deployments", "get", SEEN_ANYWAY),
    **_each(MODELS, "", "configmaps", "get", SEEN_ANYWAY),
    **_each(FLUX_NAMESPACE, "", "configmaps", "get", SEEN_ANYWAY),
    **_each("", "kubeai.org", "models", "get", SEEN_ANYWAY),
    **_each(MODELS, "kubeai.org", "models", "create update patch delete", NO_MODEL),
    **_each(MODELS, "apps", "deployments", "create update patch delete", NO_MODEL),
    **_each(MODELS, "", "services", "create update patch delete", NO_MODEL),
    **_each(MODELS, "", "configmaps", "create patch delete", NO_MODEL),
    **_each(MODELS, "", "pods", "delete", NO_MODEL),
    **_each(FLUX_NAMESPACE, "", "configmaps", "patch", NO_MODEL),
    **_each(FLUX_NAMESPACE, "helm.toolkit.fluxcd.io", "helmreleases", "get patch", NO_MODEL),
    **_each(NAMESPACE, OURS, "modelactivations", "update patch", NO_MODEL),
    **_each(
        NAMESPACE, OURS, "modelactivations/status modelactivations/finalizers", "get update patch", NO_MODEL
    ),
    **_each("", "", "configmaps namespaces", "get", SEEN_ANYWAY),
    **_each("", "", "namespaces", "create", NO_INSTANCE),
    **_each("", GATEWAY, "referencegrants", "get create update patch delete", NO_INSTANCE),
    **_each(IDENTITY, GATEWAY, "httproutes", "get create update patch delete", NO_INSTANCE),
    **_each(IDENTITY, ENVOY, "securitypolicies", "get create update patch delete", NO_INSTANCE),
    **_each("", "networking.k8s.io", "networkpolicies", "get create update patch delete", NO_INSTANCE),
    **_each("", "", "resourcequotas limitranges", "get create update patch", NO_INSTANCE),
    **_each(NAMESPACE, HELM, "helmreleases", "get create update patch delete", NO_INSTANCE),
    **_each(NAMESPACE, OURS, "appinstances", "update patch", NO_INSTANCE),
    **_each(NAMESPACE, OURS, "appinstances/status appinstances/finalizers", "get update patch", NO_INSTANCE),
    **_each(NAMESPACE, "", "configmaps", "get", SEEN_ANYWAY),
    **_each(NAMESPACE, OURS, "appliances/status moduleactivations/status", "get", SEEN_ANYWAY),
    **_each(NAMESPACE, OURS, "appliances/status moduleactivations/status", "update", PATCH_ANYWAY),
    **_each(NAMESPACE, OURS, "moduleactivations", "update", PATCH_ANYWAY),
    **_each(NAMESPACE, "coordination.k8s.io", "leases", "update", PATCH_ANYWAY),
    **_each(FLUX_NAMESPACE, FLUX, "kustomizations", "update", PATCH_ANYWAY),
    **_each(FLUX_NAMESPACE, FLUX, "kustomizations", "create", "an apply that creates needs it besides patch"),
    **_each(
        NAMESPACE,
        OURS,
        "moduleactivations/finalizers",
        "get update patch",
        "asked for by servers that check owner references; no object has that subresource",
    ),
}
"""Rights that this life does not use, and why they are granted all the same."""

MODELS_WRITE: Final = frozenset(
    {
        (OURS, "modelactivations", ""),
        (OURS, "modelactivations", "status"),
        ("kubeai.org", "models", ""),
        ("apps", "deployments", ""),
        ("", "services", ""),
        ("", "pods", ""),
        ("", "configmaps", ""),
        ("helm.toolkit.fluxcd.io", "helmreleases", ""),
    }
)
"""(group, resource, subresource) of what is written where there are models; Pods are only deleted, and of
ConfigMaps and HelmReleases those that are granted by name only patched."""

INSTANCES_WRITE: Final = frozenset(
    {
        (OURS, "appinstances", ""),
        (OURS, "appinstances", "status"),
        (HELM, "helmreleases", ""),
        (GATEWAY, "httproutes", ""),
        (GATEWAY, "referencegrants", ""),
        (ENVOY, "securitypolicies", ""),
        ("", "namespaces", ""),
        ("networking.k8s.io", "networkpolicies", ""),
        ("", "resourcequotas", ""),
        ("", "limitranges", ""),
    }
)
"""(group, resource, subresource) of what is written where there are instances."""


class Installed(World):
    """The corner that the manifests describe."""

    def __init__(self, cluster: DevCluster, client: BareClient) -> None:
        super().__init__(cluster, client)
        self.namespace, self.flux_namespace = NAMESPACE, FLUX_NAMESPACE
        self.mirror = Mirror(client, self.activations, self.appliances, self.kustomizations)
        self.flux = FluxActor(client, self.flux_namespace)


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """The manifests as a user installs them, without the Deployment's Pod: nobody runs Pods here."""
    with DevCluster.start(CONTROL_PLANE) as cluster:
        cluster.apply(cluster.crd_files("flux"))
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": FLUX_NAMESPACE}})
        cluster.kubectl("apply", "--server-side", "-f", str(MANIFESTS / "crds"))
        cluster.kubectl("apply", "--server-side", "-k", str(MANIFESTS))
        # What Flux brings with the namespace of models.
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": MODELS}})
        cluster.apply(MANIFESTS / "modules" / "basis" / "operator-rights.yaml")
        # What it brings with the namespace of the gateway.
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": IDENTITY}})
        cluster.apply(MANIFESTS / "platform" / "first-run-setup" / "operator-rights.yaml")
        yield cluster


@contextlib.asynccontextmanager
async def installed(cluster: DevCluster) -> AsyncIterator[Installed]:
    async with (
        BareClient(cluster.url, cluster.ca_file, cluster.admin_token, user_agent="test") as client,
        contextlib.AsyncExitStack() as stack,
    ):
        world = Installed(cluster, client)
        for static in (BASIS, "apps"):
            await world.kustomization(static, {})
        await stack.enter_async_context(world.mirror.running())
        await stack.enter_async_context(world.flux.running())
        yield world


async def live(world: World) -> None:
    """Everything that the operator ever does."""
    flux = Verdicts(world)
    for name in ("litellm", "model-catalog"):
        await world.until_phase(name, "Ready")
    await world.activate("litellm", parameters={"postgresStorage": "20Gi"})
    await world.until_phase("litellm", "Ready")
    await flux.fail(BASIS)
    await world.until_phase("model-catalog", "WaitingForModules")
    await flux.recover(BASIS)
    await world.until_phase("model-catalog", "Ready")
    await world.activate("model-catalog", enabled=False)
    await world.until_phase("model-catalog", "Disabled")
    await world.delete(world.activations, "model-catalog")
    await world.mirror.until("it is gone", lambda: world.activation("model-catalog") is None)
    await world.kustomization("app-orphan", {MANAGED_BY: OPERATOR})
    await world.mirror.until(
        "the orphan is gone",
        lambda: any(
            (type_, obj["metadata"]["name"]) == ("DELETED", "app-orphan")
            for _, type_, obj in world.mirror.history
        ),
    )
    await assert_settled(world)


def used(records: list[AuditRecord]) -> set[Right]:
    return {
        Right(
            record.namespace,
            record.group,
            "/".join(filter(None, (record.resource, record.subresource))),
            record.verb,
        )
        for record in records
    }


def exercised(right: Right, have: set[Right]) -> Right:
    """The right by which something was allowed: that of its namespace, else that of the whole cluster."""
    everywhere = replace(right, namespace="")
    return everywhere if right not in have and everywhere in have else right


def granted(cluster: DevCluster) -> Iterator[Right]:
    """The rights of the operator's account, by all bindings that name it."""
    for binding in cluster.rest.get(f"{RBAC}/clusterrolebindings")["items"]:
        if _names_account(binding):
            yield from _rights(cluster, binding["roleRef"], "")
    for binding in cluster.rest.get(f"{RBAC}/rolebindings")["items"]:
        if _names_account(binding):
            yield from _rights(cluster, binding["roleRef"], binding["metadata"]["namespace"])


def _names_account(binding: Object) -> bool:
    groups = {"system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}"}
    return any(
        (each["kind"], each["name"], each.get("namespace")) == ("ServiceAccount", ACCOUNT, NAMESPACE)
        or (each["kind"] == "Group" and each["name"] in groups)
        for each in binding.get("subjects", [])
    ) and not binding["metadata"]["name"].startswith("system:")


def _rights(cluster: DevCluster, reference: Object, namespace: str) -> Iterator[Right]:
    scope = f"/namespaces/{namespace}" if reference["kind"] == "Role" else ""
    role = cluster.rest.get(f"{RBAC}{scope}/{reference['kind'].lower()}s/{reference['name']}")
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                yield from (Right(namespace, group, resource, verb) for verb in rule["verbs"])


@pytest.mark.req("MS-011", "MS-012")
async def test_the_operator_is_granted_exactly_what_it_uses(cluster: DevCluster) -> None:
    token = cluster.service_account_token(NAMESPACE, ACCOUNT)
    async with installed(cluster) as world:
        # Once by streamed lists, once by lists in pages, as on older servers.
        async with operator(world, token=token, leader_election=True):
            await live(world)
        async with operator(world, token=token, leader_election=True, list_mode="list"):
            await assert_settled(world)

    asked = [each for each in cluster.audit(AGENT) if each.resource]
    assert {each.user for each in asked} == {f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"}
    refused = [each for each in asked if each.code == 403]
    assert not refused, told(refused)
    have = set(granted(cluster))
    need = {exercised(right, have) for right in used(asked)}
    assert need <= have, sorted(need - have)
    assert have - need == set(UNUSED), sorted((have - need) ^ set(UNUSED))
    # So it cannot write a workload, or what a specialised operator owns, even if it tried.
    writes = {"create", "update", "patch", "delete", "deletecollection"}
    writable = {(right.group, *right.resource.partition("/")[::2]) for right in have if right.verb in writes}
    assert writable - OURS_TO_WRITE - MODELS_WRITE - INSTANCES_WRITE == {
        (OURS, "moduleactivations", "finalizers"),
        (OURS, "appinstances", "finalizers"),
        (OURS, "modelactivations", "finalizers"),
    }
