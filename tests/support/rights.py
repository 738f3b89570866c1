"""The operator's own rights in a corner: what manifests/rbac grants, with the corner's namespaces."""

import asyncio
import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hack.bare import BareClient
from tests.support.manifests import MANIFESTS, Object, objects
from tests.support.polling import until
from tests.support.world import World

ACCOUNT = "magicstick-operator"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ALL_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete")
READING = ("get", "list", "watch")


async def grant(world: World) -> str:
    """Make the operator's account and grant what the manifests do; the account's token."""
    for obj in _adapted(world):
        await asyncio.to_thread(world.cluster.rest.apply, obj)
    return await asyncio.to_thread(world.cluster.service_account_token, world.namespace, ACCOUNT)


def user(world: World) -> str:
    """The operator's user name."""
    return f"system:serviceaccount:{world.namespace}:{ACCOUNT}"


async def grant_where_models_run(world: World, *, writing: bool = True) -> None:
    """Grant the account what the namespace of models brings along, under a name of the corner's own.

    Without `writing`, only what is read there.
    """
    for file, obj in objects(MANIFESTS / "modules" / "basis"):
        if file.name != "operator-rights.yaml":
            continue
        mine = with_namespaces(copy.deepcopy(obj), {"ai-system": world.namespace})
        if "rules" in mine:
            mine["rules"] = [rule for rule in mine["rules"] if writing or "list" in rule["verbs"]]
        mine["metadata"]["name"] += f"-{world.namespace}"
        if mine["kind"] == "RoleBinding":
            mine["roleRef"]["name"] += f"-{world.namespace}"
        await asyncio.to_thread(world.cluster.rest.apply, mine)


async def grant_at_the_gateway(world: World, namespace: str) -> None:
    """Grant the account what the namespace of the gateway brings along, in the one that stands for it."""
    for file, obj in objects(MANIFESTS / "platform" / "first-run-setup"):
        if file.name == "operator-rights.yaml":
            places = {"ai-system": world.namespace, "identity-system": namespace}
            await asyncio.to_thread(world.cluster.rest.apply, with_namespaces(copy.deepcopy(obj), places))


async def limit_kustomizations(world: World, token: str, verbs: Sequence[str]) -> None:
    """Allow these verbs on Kustomizations and no others; returns once the server acts on it."""
    role = f"{RBAC}/namespaces/{world.flux_namespace}/roles/{ACCOUNT}"
    group = "kustomize.toolkit.fluxcd.io"
    await _limit(world, token, role, _Resource(group, "kustomizations", world.flux_namespace), verbs)


async def limit_nodes(world: World, token: str, verbs: Sequence[str]) -> None:
    """Allow these verbs on Nodes and no others; returns once the server acts on it."""
    role = f"{RBAC}/clusterroles/{ACCOUNT}-{world.namespace}"
    await _limit(world, token, role, _Resource("", "nodes"), verbs)


@dataclass(frozen=True, slots=True)
class _Resource:
    group: str
    plural: str
    namespace: str = ""


async def _limit(world: World, token: str, role: str, resource: _Resource, verbs: Sequence[str]) -> None:
    """Give a role these verbs on one resource; its other rules stay."""
    rules = (await world.client.get(role)).get("rules") or []
    kept = [rule for rule in rules if resource.plural not in rule["resources"]]
    rule = {"apiGroups": [resource.group], "resources": [resource.plural], "verbs": [*verbs]}
    await world.client.merge(role, {"rules": [*kept, *([rule] if verbs else [])]})
    async with BareClient(world.cluster.url, world.cluster.ca_file, token) as account:

        async def in_force() -> bool:
            return {verb for verb in ALL_VERBS if await _may(account, resource, verb)} == set(verbs)

        await until("the server acts on the role", in_force)


async def _may(account: BareClient, resource: _Resource, verb: str) -> bool:
    attributes = {
        "group": resource.group,
        "resource": resource.plural,
        "namespace": resource.namespace,
        "verb": verb,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = await account.send("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    return b'"allowed":true' in answer


def _adapted(world: World) -> list[Object]:
    """The service account first; cluster-wide objects under names of the corner's own."""
    places = {"ai-system": world.namespace, "flux-system": world.flux_namespace}
    found = []
    for file, obj in objects(MANIFESTS / "rbac"):
        if file.name == "human-access.yaml":
            continue
        mine = with_namespaces(copy.deepcopy(obj), places)
        if "namespace" not in mine["metadata"]:
            mine["metadata"]["name"] += f"-{world.namespace}"
        if mine["kind"] == "ClusterRoleBinding":
            mine["roleRef"]["name"] += f"-{world.namespace}"
        found.append(mine)
    return sorted(found, key=lambda obj: obj["kind"] != "ServiceAccount")


def with_namespaces(value: Any, places: dict[str, str]) -> Any:
    """A copy of an object that names these namespaces in place of those."""
    if isinstance(value, dict):
        return {
            name: places.get(each, each) if name == "namespace" else with_namespaces(each, places)
            for name, each in value.items()
        }
    return [with_namespaces(each, places) for each in value] if isinstance(value, list) else value


async def refused(world: World, token: str, path: str, body: Object) -> None:
    """Wait until the server refuses this apply of the operator's account (as a dry run)."""
    async with BareClient(world.cluster.url, world.cluster.ca_file, token) as account:

        async def in_force() -> bool:
            return not await _accepted(account, path, body)

        await until("the server acts on the policy", in_force)


async def _accepted(account: BareClient, path: str, body: Object) -> bool:
    query = "?fieldManager=probe&force=true&dryRun=All"
    try:
        await account.send("PATCH", path + query, body, content_type="application/apply-patch+yaml")
    except RuntimeError:
        return False
    return True
