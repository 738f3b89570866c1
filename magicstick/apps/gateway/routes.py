"""Builders of routes, and of the grant that they need. Values in, dicts out (spec: modules-and-apps §9.4).

What the server would fill in inside of lists is written out, so that a route as it should be is known
without asking.
"""

from collections.abc import Mapping
from typing import Any, Final

from magicstick.api import labels
from magicstick.api.names import label_value
from magicstick.apps.gateway.hosts import LOCAL_SUFFIX
from magicstick.apps.gateway.places import Side, callback_place, grant_place, route_place
from magicstick.apps.gateway.reading import maps
from magicstick.apps.kinds import HTTP_ROUTE, SERVICE
from magicstick.apps.ports import Access, Backend, GatewaySite, Reference
from magicstick.kube.objects import Resource

Object = dict[str, Any]

EVERY_PATH: Final = {"path": {"type": "PathPrefix", "value": "/"}}
_PASSIVE_FILTERS: Final = frozenset({"RequestHeaderModifier", "ResponseHeaderModifier"})
"""Filters that lead nobody anywhere; a mirror or a redirect does."""

_OWN_LABELS: Final = (labels.MANAGED_BY, labels.INSTANCE, labels.APPLICATION)
_OWN_ANNOTATIONS: Final = (labels.MDNS_ENABLED, labels.FULL_NAME)


def metadata(place: Reference, access: Access, **annotations: str) -> Object:
    """Identity and marks of an object of this instance's way in."""
    made: Object = {
        "name": place.key.name,
        "namespace": place.key.namespace,
        "labels": {
            labels.MANAGED_BY: labels.OPERATOR,
            labels.INSTANCE: label_value(access.instance),
            labels.APPLICATION: label_value(access.application),
        },
    }
    if not place.key.name.startswith(f"{access.instance}-"):
        annotations[labels.FULL_NAME] = access.instance
    if annotations:
        made["annotations"] = annotations
    return made


def callback_path(access: Access, side: Side, site: GatewaySite) -> str:
    """Where sign-in comes back on the shared host: one exact path for each application route."""
    return f"/oauth2/callback/{route_place(access.instance, side, site).key.name}"


def callback_host(access: Access, side: Side) -> str:
    """The shared host on which sign-in comes back."""
    return access.domains.mdns if side == "local" else access.domains.dashboard


def application_route(access: Access, side: Side, site: GatewaySite) -> Object:
    """The route from one host of the instance to the application, open."""
    rule: Object = {"matches": [EVERY_PATH], "backendRefs": [_backend(access.backend)]}
    if access.request_timeout is not None:
        rule["timeouts"] = {"request": access.request_timeout}
    if access.strip_cookies:
        rule["filters"] = [{"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["Cookie"]}}]
    place = route_place(access.instance, side, site)
    announced = {labels.MDNS_ENABLED: labels.TRUE} if side == "local" else {}
    host = access.hosts.local if side == "local" else access.hosts.public
    return _route(metadata(place, access, **announced), site, host, rule)


def callback_route(access: Access, side: Side, site: GatewaySite) -> Object:
    """The route from the one path on the shared host on which sign-in comes back, open.

    Without a timeout of its own: a sign-in takes moments, and the gateway's default bounds it.
    """
    path = {"type": "Exact", "value": callback_path(access, side, site)}
    rule: Object = {"matches": [{"path": path}], "backendRefs": [_backend(access.backend)]}
    place = callback_place(access.instance, side, site)
    return _route(metadata(place, access), site, callback_host(access, side), rule)


def closed(route: Object) -> Object:
    """The same route, leading nowhere."""
    rules = [{**rule, "backendRefs": []} for rule in route["spec"]["rules"]]
    return {**route, "spec": {**route["spec"], "rules": rules}}


def closed_live(route: Resource) -> Object:
    """A live route of ours, leading nowhere: made from it alone, where nothing else can be relied on."""
    spec = {name: route.spec[name] for name in ("parentRefs", "hostnames") if name in route.spec}
    spec["rules"] = [
        {**{name: rule[name] for name in ("matches", "timeouts") if name in rule}, "backendRefs": []}
        for rule in maps(route.spec.get("rules"))
    ]
    return {
        "apiVersion": HTTP_ROUTE.api_version,
        "kind": HTTP_ROUTE.kind,
        "metadata": {
            "name": route.metadata.name,
            "namespace": route.metadata.namespace,
            "labels": _only(route.metadata.labels, _OWN_LABELS),
            "annotations": _only(route.metadata.annotations, _OWN_ANNOTATIONS),
        },
        "spec": spec,
    }


def is_open(route: Resource) -> bool:
    """Whether a request to the route may end anywhere but at the gateway."""
    return any(
        rule.get("backendRefs")
        or any(each.get("type") not in _PASSIVE_FILTERS for each in maps(rule.get("filters")))
        for rule in maps(route.spec.get("rules"))
    )


def is_public(route: Resource) -> bool:
    """Whether a route is served under any name that is not one of the local network."""
    names = route.spec.get("hostnames")
    listed = names if isinstance(names, list | tuple) else ()
    return not listed or not all(str(each).endswith(LOCAL_SUFFIX) for each in listed)


def grant(access: Access, site: GatewaySite) -> Object:
    """What lets routes of the gateway's namespace lead to one Service alone (spec: modules-and-apps §9.3)."""
    place = grant_place(access.instance, access.backend.namespace)
    return {
        "apiVersion": place.kind.api_version,
        "kind": place.kind.kind,
        "metadata": metadata(place, access),
        "spec": {
            "from": [{"group": HTTP_ROUTE.group, "kind": HTTP_ROUTE.kind, "namespace": site.namespace}],
            "to": [{"group": SERVICE.group, "kind": SERVICE.kind, "name": access.backend.service}],
        },
    }


def _route(own_metadata: Object, site: GatewaySite, host: str, rule: Object) -> Object:
    parent = {"group": HTTP_ROUTE.group, "kind": "Gateway", "name": site.gateway}
    if site.section:
        parent["sectionName"] = site.section
    return {
        "apiVersion": HTTP_ROUTE.api_version,
        "kind": HTTP_ROUTE.kind,
        "metadata": own_metadata,
        "spec": {"parentRefs": [parent], "hostnames": [host], "rules": [rule]},
    }


def _backend(backend: Backend) -> Object:
    return {
        "group": SERVICE.group,
        "kind": SERVICE.kind,
        "name": backend.service,
        "namespace": backend.namespace,
        "port": backend.port,
        "weight": 1,
    }


def _only(marks: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    return {name: marks[name] for name in names if name in marks}
