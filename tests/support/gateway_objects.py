"""What tests build of an instance's way in: what is wanted, and what the server would hold of it."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Final

from magicstick.apps.gateway.hosts import hosts_of
from magicstick.apps.gateway.plan import Wanted, wanted
from magicstick.apps.kinds import HTTP_ROUTE, REFERENCE_GRANT, SECURITY_POLICY
from magicstick.apps.ports import Access, Backend, Domains, GatewaySite, LiveAccess, Piece, Reference
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.runtime.plan import Apply, Delete, Step
from tests.support.objects import resource

Object = dict[str, Any]

SITE: Final = GatewaySite()
DOMAINS: Final = Domains("magicstick.local", "magicstick.example.com", "magicstick.example.com")
KINDS: Final[Mapping[str, Kind]] = {
    each.kind: each for each in (HTTP_ROUTE, REFERENCE_GRANT, SECURITY_POLICY)
}
OPERATOR: Final = "magicstick-operator"


def access(instance: str = "kubeopencode-demo", **changes: Any) -> Access:
    """An instance of kubeopencode with everything left at its default."""
    given = Access(
        instance=instance,
        uid=f"uid-{instance}",
        application="kubeopencode",
        hosts=hosts_of("demo", "kubeopencode", DOMAINS),
        domains=DOMAINS,
        authentication="sso",
        role="user",
        exposure="localAndPublic",
        backend=Backend("demo", "ai", 4096),
        request_timeout="0s",
    )
    return dataclasses.replace(given, **changes)


def bodies(want: Wanted) -> dict[Reference, Object]:
    """Everything that is wanted, routes open."""
    return {**want.policies, **want.grants, **want.routes}


def ancestor(
    *, generation: int, status: str = "True", gateway: str = "identity-pilot", **conditions: str
) -> Object:
    """What the gateway says of a policy; `conditions` by type besides Accepted."""
    said = {"Accepted": status, **conditions}
    return {
        "ancestorRef": {
            "group": "gateway.networking.k8s.io",
            "kind": "Gateway",
            "name": gateway,
            "namespace": "identity-system",
        },
        "controllerName": "gateway.envoyproxy.io/gatewayclass-controller",
        "conditions": [
            {"type": type_, "status": value, "observedGeneration": generation}
            for type_, value in said.items()
        ],
    }


def fields(spec: Mapping[str, Any]) -> Object:
    """The node of managedFields for a spec whose members are taken as atomic."""
    return {"f:spec": {f"f:{name}": {} for name in spec}}


def managed(manager: str, operation: str, node: Object, subresource: str = "") -> Object:
    """An entry of managedFields."""
    return {"manager": manager, "operation": operation, "subresource": subresource, "fieldsV1": node}


def stored(
    body: Mapping[str, Any],
    *,
    generation: int = 1,
    ancestors: Iterable[Object] | None = None,
    dying: bool = False,
    edits: Iterable[Object] = (),
    spec: Mapping[str, Any] | None = None,
    **marks: Any,
) -> Resource:
    """`body` as the server holds it after our apply.

    Args:
        body: what we applied.
        generation: of the object.
        ancestors: of its status; for a policy, one that accepts this generation.
        dying: whether it is being deleted.
        edits: entries of managedFields of others.
        spec: what it holds instead of ours.
        marks: members of metadata that it has instead of ours.
    """
    metadata: Object = {
        **body["metadata"],
        "uid": f"uid-{body['kind']}-{body['metadata']['name']}",
        "resourceVersion": "1",
        "generation": generation,
        "managedFields": [managed(OPERATOR, "Apply", fields(body["spec"])), *edits],
        **marks,
    }
    if dying:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    made = {**body, "metadata": metadata, "spec": body["spec"] if spec is None else spec}
    if body["kind"] == SECURITY_POLICY.kind:
        made["status"] = {
            "ancestors": [ancestor(generation=generation)] if ancestors is None else list(ancestors)
        }
    return resource(made)


def live(*objects: Resource, foreign: Iterable[Resource] = (), rivals: Iterable[Resource] = ()) -> LiveAccess:
    """What is observed: objects of the instance, and those of others at its places."""
    pieces = tuple(Piece(KINDS[each.kind], each) for each in objects)
    others = [Piece(KINDS[each.kind], each) for each in foreign]
    return LiveAccess(pieces, {each.reference: each.live for each in (*pieces, *others)}, tuple(rivals))


def standing(given: Access, site: GatewaySite = SITE) -> dict[str, Resource]:
    """Everything as it is once the instance is served, by name."""
    return {
        place.key.name: stored(body, generation=3 if place.kind == SECURITY_POLICY else 1)
        for place, body in bodies(wanted(given, site)).items()
    }


def told(steps: Iterable[Step]) -> list[str]:
    """Steps in words: verb and name, and of an applied route whether it leads anywhere."""
    return [_told(each) for each in steps]


def _told(step: Step) -> str:
    match step:
        case Delete(_, key):
            return f"delete {key.name}"
        case Apply(kind, body) if kind == HTTP_ROUTE:
            leads = any(rule["backendRefs"] for rule in body["spec"]["rules"])
            return f"{'open' if leads else 'close'} {body['metadata']['name']}"
        case Apply(_, body):
            return f"apply {body['metadata']['name']}"
        case _:
            return repr(step)


def key_of(body: Mapping[str, Any]) -> ObjectKey:
    """Where a body belongs."""
    return ObjectKey(body["metadata"]["namespace"], body["metadata"]["name"])
