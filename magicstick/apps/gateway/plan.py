"""The next steps to an instance's way in (spec: modules-and-apps §9.7).

What holds after every single step, whatever went before and wherever a plan breaks off:
    - No step gives a route a backend unless every policy of the instance is accepted as it is wanted.
    - No step changes or deletes a policy that stands while a route that it protects is open.
    - A policy that a route needs, and that is gone or edited, closes the route before it is repaired.

Routes are there, closed, before their policies are accepted, since a policy without its routes gets no
verdict. What somebody else has added to a policy stays with any apply of ours; such a policy is made anew.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from magicstick.api import labels
from magicstick.api.names import label_value
from magicstick.apps.gateway.acceptance import accepted, accepted_as_it_is, edited, refusal, targets
from magicstick.apps.gateway.places import (
    SIDES,
    callback_place,
    grant_place,
    policy_place,
    references,
    route_place,
)
from magicstick.apps.gateway.policies import admits_others, security_policy
from magicstick.apps.gateway.routes import (
    Object,
    application_route,
    callback_route,
    closed,
    closed_live,
    grant,
    is_open,
    is_public,
)
from magicstick.apps.kinds import HTTP_ROUTE, REFERENCE_GRANT, SECURITY_POLICY
from magicstick.apps.ports import (
    Access,
    AccessPlan,
    Admitted,
    GatewaySite,
    LiveAccess,
    Piece,
    Reference,
)
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.runtime.plan import Apply, Delete, Step

__all__ = ["close", "hold", "plan", "references", "remove"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The way in as it should be; routes are open here."""

    policies: Mapping[Reference, Object]
    grants: Mapping[Reference, Object]
    routes: Mapping[Reference, Object]

    def __contains__(self, place: Reference) -> bool:
        return place in self.policies or place in self.grants or place in self.routes


def wanted(access: Access, site: GatewaySite) -> Wanted:
    """Which objects there should be (spec: modules-and-apps §9.3)."""
    name, sides = access.instance, SIDES if access.exposure == "localAndPublic" else SIDES[:1]
    routes = {}
    for side in sides:
        routes[route_place(name, side, site)] = application_route(access, side, site)
        if access.authentication == "sso":
            routes[callback_place(name, side, site)] = callback_route(access, side, site)
    return Wanted(
        policies={policy_place(name, side, site): security_policy(access, side, site) for side in sides},
        grants={grant_place(name, access.backend.namespace): grant(access, site)},
        routes=routes,
    )


def plan(access: Access, live: LiveAccess, site: GatewaySite) -> AccessPlan:
    """The next steps, and whether the guard is accepted now. See the module.

    What has a name of ours and is somebody else's may be a route, which then is not ours to close: the grant
    goes, without which none leads to the application.
    """
    want = wanted(access, site)
    if conflict := _conflict(access, want, live):
        return AccessPlan((*close(live), *_deletions(live, REFERENCE_GRANT)), conflict=conflict)
    ready = _accepted(want, live, site) and not any(map(is_open, live.rivals))
    steps = _shut(want, live, ready=ready) or _build(want, live, ready=ready)
    return AccessPlan(steps, ready, refusal=_refusal(want, live))


def hold(live: LiveAccess, admitted: Admitted) -> tuple[Step, ...]:
    """Nothing, while each open route has a policy that stands as we wrote it; otherwise `close`.

    Nor does a policy help that admits others than the instance does by now, or a public route where it is
    local: what they should be instead cannot be told, but that they are too much can.
    """
    enough = [each for each in _standing(live) if not admits_others(each.spec, admitted)]
    protected = {route for each in enough for route in targets(each)}
    opened = filter(is_open, _live(live, HTTP_ROUTE))
    hidden = admitted.exposure == "local"
    guarded = all(each.metadata.key in protected and not (hidden and is_public(each)) for each in opened)
    return () if guarded else close(live)


def close(live: LiveAccess) -> tuple[Step, ...]:
    """Every route that is open leads nowhere, first those that no policy protects; all else stays."""
    return tuple(
        Apply(HTTP_ROUTE, closed_live(each))
        for each in _urgent_first(live)
        if is_open(each) and not each.metadata.dying
    )


def remove(live: LiveAccess) -> tuple[Step, ...]:
    """Routes, first those that no policy protects, and once all are gone grants, then policies."""
    if routes := _urgent_first(live):
        return tuple(_away(each) for each in routes if not each.metadata.dying)
    return (*_deletions(live, REFERENCE_GRANT), *_deletions(live, SECURITY_POLICY))


# --- the steps of a plan ---------------------------------------------------------------------------


def _shut(want: Wanted, live: LiveAccess, *, ready: bool) -> tuple[Step, ...]:
    """What has to be true before anything else is touched: nothing is open that should not be."""
    return tuple(
        step
        for each in _urgent_first(live)
        if not each.metadata.dying and (step := _shutting(want, each, ready=ready)) is not None
    )


def _shutting(want: Wanted, route: Resource, *, ready: bool) -> Step | None:
    body = want.routes.get(Reference(HTTP_ROUTE, route.metadata.key))
    if body is None:
        return _away(route)
    return Apply(HTTP_ROUTE, closed(body)) if is_open(route) and not ready else None


def _away(route: Resource) -> Step:
    """The next step in the removal of a route: one that others hold is closed first, as long as it can be."""
    if is_open(route) and route.metadata.finalizers:
        return Apply(HTTP_ROUTE, closed_live(route))
    return Delete(HTTP_ROUTE, route.metadata.key, route.metadata.uid)


def _build(want: Wanted, live: LiveAccess, *, ready: bool) -> tuple[Step, ...]:
    """Policies, and once they are accepted the grant and open routes; what is wanted no more goes last."""
    routes = [Apply(HTTP_ROUTE, body if ready else closed(body)) for body in want.routes.values()]
    grants = [Apply(REFERENCE_GRANT, body) for body in want.grants.values()] if ready else []
    return (*_policies(want, live), *grants, *routes, *_leftovers(want, live))


def _policies(want: Wanted, live: LiveAccess) -> Iterator[Step]:
    for place, body in want.policies.items():
        policy = live.occupants.get(place)
        if policy is not None and _still_needed(policy, want, live):
            continue
        if policy is not None and edited(policy) and not policy.metadata.dying:
            yield Delete(SECURITY_POLICY, place.key, policy.metadata.uid)
        yield Apply(SECURITY_POLICY, body)


def _still_needed(policy: Resource, want: Wanted, live: LiveAccess) -> bool:
    """Whether a change of a policy would expose a route that is open, and dying, so that it stays open.

    It would if the policy stands, and whatever it is if it would no longer be that route's.
    """
    dying = {each.metadata.key for each in _live(live, HTTP_ROUTE) if is_open(each) and each.metadata.dying}
    lingering = dying & targets(policy)
    unwanted = lingering - {place.key for place in want.routes}
    return bool(unwanted) or (bool(lingering) and accepted_as_it_is(policy))


def _leftovers(want: Wanted, live: LiveAccess) -> Iterator[Step]:
    """Grants that nothing uses any more, and policies whose routes are gone."""
    yield from (_delete(each) for each in _unwanted(want, live, REFERENCE_GRANT) if _may_go(each))
    lingering = {each.live.metadata.key for each in _unwanted(want, live, HTTP_ROUTE)}
    for each in _unwanted(want, live, SECURITY_POLICY):
        if _may_go(each) and not lingering & targets(each.live):
            yield _delete(each)


# --- what there is -----------------------------------------------------------------------------------


def _accepted(want: Wanted, live: LiveAccess, site: GatewaySite) -> bool:
    """Whether every wanted policy stands as it is wanted."""
    return all(
        (policy := live.occupants.get(place)) is not None and accepted(policy, body, site)
        for place, body in want.policies.items()
    )


def _refusal(want: Wanted, live: LiveAccess) -> str:
    """The first thing that the gateway has against a wanted policy."""
    policies = (live.occupants[place] for place in want.policies if place in live.occupants)
    return next(filter(None, map(refusal, policies)), "")


def _conflict(access: Access, want: Wanted, live: LiveAccess) -> str:
    """What of somebody else is in the way, or would be exposed as what protects it changes or goes."""
    own = {labels.MANAGED_BY: labels.OPERATOR, labels.INSTANCE: label_value(access.instance)}
    protected = {route for each in _live(live, SECURITY_POLICY) for route in targets(each)}
    for place, occupant in live.occupants.items():
        relies = place.kind == HTTP_ROUTE and place.key in protected and is_open(occupant)
        if (relies or place in want) and not own.items() <= occupant.metadata.labels.items():
            return (
                f"{place.kind.kind} {place.key} exists and does not belong to this instance. Remove it to "
                "have the instance served"
            )
    return ""


def _live(live: LiveAccess, kind: Kind) -> list[Resource]:
    return [each.live for each in live.pieces if each.kind == kind]


def _protected(live: LiveAccess) -> frozenset[ObjectKey]:
    """The routes that a policy protects which stands as we wrote it."""
    return frozenset(route for each in _standing(live) for route in targets(each))


def _standing(live: LiveAccess) -> list[Resource]:
    """The policies that stand as we wrote them."""
    return [each for each in _live(live, SECURITY_POLICY) if accepted_as_it_is(each)]


def _urgent_first(live: LiveAccess) -> list[Resource]:
    """All routes, first those that are open and that no policy protects."""
    protected = _protected(live)
    return sorted(
        _live(live, HTTP_ROUTE), key=lambda each: not is_open(each) or each.metadata.key in protected
    )


def _unwanted(want: Wanted, live: LiveAccess, kind: Kind) -> list[Piece]:
    return [each for each in live.pieces if each.kind == kind and each.reference not in want]


def _may_go(piece: Piece) -> bool:
    return not piece.live.metadata.dying


def _delete(piece: Piece) -> Delete:
    return Delete(piece.kind, piece.live.metadata.key, piece.live.metadata.uid)


def _deletions(live: LiveAccess, kind: Kind) -> tuple[Delete, ...]:
    return tuple(_delete(each) for each in live.pieces if each.kind == kind and _may_go(each))
