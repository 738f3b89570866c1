"""Where the objects of an instance's way in are (spec: modules-and-apps §9.2)."""

from typing import Final, Literal

from magicstick.api.names import suffixed
from magicstick.apps.kinds import HTTP_ROUTE, REFERENCE_GRANT, SECURITY_POLICY
from magicstick.apps.ports import GatewaySite, Reference
from magicstick.kube.kinds import Kind, ObjectKey

Side = Literal["local", "public"]
"""Which of an instance's two hosts something is for."""

SIDES: Final[tuple[Side, ...]] = ("local", "public")


def route_place(instance: str, side: Side, site: GatewaySite) -> Reference:
    """Of the route to the application."""
    return _place(HTTP_ROUTE, site.namespace, instance, side)


def callback_place(instance: str, side: Side, site: GatewaySite) -> Reference:
    """Of the route on which sign-in comes back."""
    return _place(HTTP_ROUTE, site.namespace, instance, f"{side}-callback")


def policy_place(instance: str, side: Side, site: GatewaySite) -> Reference:
    """Of the policy of both these routes, whichever sign-in there is."""
    return _place(SECURITY_POLICY, site.namespace, instance, f"{side}-sso")


def grant_place(instance: str, target_namespace: str) -> Reference:
    """Of the grant that lets the routes lead into the application's namespace."""
    return _place(REFERENCE_GRANT, target_namespace, instance, "route-access")


def references(instance: str, target_namespace: str, site: GatewaySite) -> tuple[Reference, ...]:
    """Every place that an object of this instance's way in may have."""
    sides = tuple(
        place(instance, side, site) for side in SIDES for place in (route_place, callback_place, policy_place)
    )
    return (*sides, grant_place(instance, target_namespace))


def _place(kind: Kind, namespace: str, instance: str, suffix: str) -> Reference:
    """Long names are shortened with a hash, so that two of them do not meet."""
    return Reference(kind, ObjectKey(namespace, suffixed(instance, suffix)))
