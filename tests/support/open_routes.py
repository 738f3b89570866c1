"""Whether a route to an instance ever led anywhere without a policy that stood, by the audit log.

    watch = OpenRoutes()
    watch.feed(cluster.audit())
    watch.end()
    assert not watch.violations

All writes of routes, policies and grants are replayed in the order in which they took effect. A route that
the operator has written for an instance is *protected*. It is *exposed* while it has a backend and no policy
is sound for it. A policy is *sound* for a route while all of this holds:

    - it targets the route, belongs to the same instance, and is not being deleted;
    - its spec is the one that the operator wrote last;
    - each Gateway that the route names is among its ancestors;
    - all its ancestors have accepted it in its present generation, and none says that it is overridden.

The operator must never expose a route by a write of its own, nor make a grant before all policies of the
instance stand. Others can expose routes: they edit or delete a policy, open a route, and the gateway takes
its verdict back. Nobody can prevent that; what is allowed then is

    - that the operator does not know of it for SIGHT, and goes on as it had decided: it may still open what
      that policy protected until then;
    - that its first write for this instance after that closes a route, and so on until all are closed; a
      write to a policy must not come before at all, since nothing but knowing gives a reason for it;
    - that all are closed within REACTION, by any later write of the operator, and when the log ends.

Assumes bodies in the log for all writes but those of the control plane itself, which only deletes: what
cannot be judged is an error, not a pass. The gateway's proxies are not looked at: what they serve follows
the same objects, and an external authorization that cannot be asked refuses.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final

import pytest

from hack.devcluster import AuditRecord, DevCluster
from hack.devcluster.audit import Json
from hack.devcluster.layout import Layout
from tests.support.gateway_log import (
    GRANTS,
    INSTANCES,
    POLICIES,
    ROUTES,
    accepted,
    audited,
    body_after,
    by_operator,
    has_all_gateways,
    instance_of,
    leads_somewhere,
    targets,
    told,
    uid_in,
    ways,
    writes,
)

SIGHT: Final = timedelta(seconds=2)
"""Within which a change of somebody else has reached the operator, also on a busy machine."""
REACTION: Final = timedelta(seconds=10)
"""Within which it has closed what somebody else exposed."""

Place = tuple[str, str, str]
"""Plural, namespace, name."""
Owner = tuple[str, str]
"""Namespace of the routes, and instance: several appliances may share a cluster."""


@dataclass(frozen=True, slots=True)
class Event:
    """A write that made something less safe: when it was answered, what it was, and of which kind of object."""

    at: datetime
    what: str
    resource: str

    @classmethod
    def of(cls, record: AuditRecord) -> "Event":
        """This write."""
        return cls(record.answered, told(record), record.resource)

    def unseen(self, record: AuditRecord) -> bool:
        """Whether the operator may not have known it when it sent a request.

        Who writes a policy has looked at it: while its routes are open, only one that fell needs that.
        """
        looked = self.resource == record.resource == POLICIES
        return not looked and record.received < self.at + SIGHT


@dataclass(frozen=True)
class Held:
    """An object as the server has it. What is asked of it again and again is found out once.

    Attributes:
        body: as last answered.
        written: the spec that the operator wrote last; None while it never did.
    """

    body: Json
    written: Any = None

    @cached_property
    def stands(self) -> bool:
        """Of a policy: whether it is as the operator wrote it, and accepted so."""
        return self.written == self.body.get("spec") and accepted(self.body)

    @cached_property
    def instance(self) -> str:
        """The instance that it belongs to; "" for any other object."""
        return instance_of(self.body)

    @cached_property
    def targets(self) -> frozenset[str]:
        """Of a policy: names of the routes that it is for."""
        return targets(self.body)

    @cached_property
    def open(self) -> bool:
        """Of a route: whether it is protected and has a backend."""
        return self.written is not None and bool(self.instance) and leads_somewhere(self.body)


@dataclass(slots=True)
class OpenRoutes:
    """See the module.

    Attributes:
        violations: sentences, in the order of the log.
        exposed: the routes that are exposed now, and what exposed them.
    """

    violations: list[str] = field(default_factory=list)
    exposed: dict[Place, Event] = field(default_factory=dict)
    _objects: dict[Place, Held] = field(default_factory=dict)
    _families: dict[Owner, set[Place]] = field(default_factory=dict)
    """What belongs to each instance: no write concerns another one, so a long log costs no more than its length."""
    _lost: dict[Place, Event] = field(default_factory=dict)
    """What others have done last to routes that they opened, and to routes whose policy they took away."""
    _owners: dict[str, Owner] = field(default_factory=dict)
    """By uid of the AppInstance."""
    _reported: set[Place] = field(default_factory=set)

    def feed(self, records: Iterable[AuditRecord]) -> None:
        """Replay more of the log. Each call goes on where the last one ended."""
        for record in writes(records):
            self._replay(record)

    def end(self) -> None:
        """There is no more: whatever is exposed now stays so."""
        for place, event in self.exposed.items():
            self._say(place, f"was still open at the end, because of {event.what}")

    def doubly_served(self) -> set[tuple[str, str, str]]:
        """What leads to two instances of an appliance now: namespace of the routes, host, path."""
        served: dict[tuple[str, str, str], set[str]] = {}
        for place, held in self._of(ROUTES):
            if leads_somewhere(held.body):
                for host, path in ways(held.body):
                    served.setdefault((place[1], host, path), set()).add(held.instance)
        return {way for way, instances in served.items() if len(instances) > 1}

    # --- what happened -------------------------------------------------------------------------------

    def _replay(self, record: AuditRecord) -> None:
        owner, places = self._owner(record), self._places(record)
        standing, opened, concerned = self._standing(places), self._open(places), self._relatives(places)
        for place in places:
            self._change(place, record)
        if not by_operator(record):
            lost = {route for policy, routes in standing.items() for route in routes if not self._at(policy)}
            self._lost |= dict.fromkeys(lost | (self._open(places) - opened), Event.of(record))
        self._judge(record, owner, concerned | self._relatives(places))

    def _change(self, place: Place, record: AuditRecord) -> None:
        body, before = body_after(record), self._objects.pop(place, None)
        if before is not None:
            self._families[place[1], before.instance].discard(place)
        if body is None:
            return
        held = replace(before or Held(body), body=body)
        if by_operator(record) and not record.subresource:
            held = replace(held, written=body.get("spec"))
            if uid := uid_in(body):
                self._owners[uid] = (record.namespace, held.instance)
        self._objects[place] = held
        self._families.setdefault((place[1], held.instance), set()).add(place)

    def _places(self, record: AuditRecord) -> list[Place]:
        if record.resource == INSTANCES:
            return []
        if record.verb == "deletecollection":
            return [each for each in self._objects if each[:2] == (record.resource, record.namespace)]
        name = record.name or str((record.response_object or {}).get("metadata", {}).get("name", ""))
        return [(record.resource, record.namespace, name)]

    def _owner(self, record: AuditRecord) -> Owner | None:
        """The instance that a write is for, and where its routes are; None if that is not known."""
        body = record.response_object or {}
        if record.resource == INSTANCES:
            return self._owners.get(body.get("metadata", {}).get("uid", ""))
        known = [self._objects[each].instance for each in self._places(record) if each in self._objects]
        instance = next(filter(None, [*known, instance_of(body)]), "")
        return (record.namespace, instance) if instance else None

    # --- what is so ------------------------------------------------------------------------------------

    def _of(self, resource: str) -> Iterator[tuple[Place, Held]]:
        return ((place, held) for place, held in self._objects.items() if place[0] == resource)

    def _at(self, policy: Place) -> bool:
        held = self._objects.get(policy)
        return held is not None and held.stands

    def _among(self, places: Iterable[Place], resource: str) -> Iterator[tuple[Place, Held]]:
        """Those of these places that hold such an object."""
        return (
            (place, self._objects[place])
            for place in places
            if place[0] == resource and place in self._objects
        )

    def _relatives(self, places: Iterable[Place]) -> set[Place]:
        """These places, and those of everything that belongs to the same instances."""
        held = ((place, self._objects[place]) for place in places if place in self._objects)
        families = (self._families[place[1], each.instance] for place, each in held if each.instance)
        return set(places).union(*families)

    def _standing(self, places: Iterable[Place]) -> dict[Place, list[Place]]:
        """The policies among these places that stand, and the routes that they are for."""
        return {
            place: [(ROUTES, place[1], name) for name in held.targets]
            for place, held in self._among(places, POLICIES)
            if held.stands
        }

    def _open(self, places: Iterable[Place]) -> set[Place]:
        """The protected routes among these places that have a backend."""
        return {place for place, held in self._among(places, ROUTES) if held.open}

    def _sound(self, route: Place) -> bool:
        body, family = self._objects[route].body, self._families[route[1], self._objects[route].instance]
        return any(
            route[2] in held.targets and held.stands and has_all_gateways(held.body, body)
            for _, held in self._among(family, POLICIES)
        )

    # --- what is allowed -------------------------------------------------------------------------------

    def _judge(self, record: AuditRecord, owner: Owner | None, concerned: set[Place]) -> None:
        """What becomes of these places by this write; whatever else is exposed stays so."""
        before = self.exposed
        exposed = {place for place in self._open(concerned) if not self._sound(place)}
        now = (before.keys() - concerned) | exposed
        self.exposed = {place: event for place, event in before.items() if place in now}
        self._reported &= now
        for place in sorted(now - before.keys()):
            self.exposed[place] = self._exposing(place, record)
        if by_operator(record):
            self._judge_grant(record)
            if owner is not None and before.keys() <= now:
                self._judge_reaction(record, owner)

    def _exposing(self, route: Place, record: AuditRecord) -> Event:
        """What exposed a route: this write, or what the operator could not know yet when it sent it."""
        lost = self._lost.get(route)
        if not by_operator(record):
            return Event.of(record)
        if lost is not None and lost.unseen(record):
            return lost
        self._say(route, f"was exposed by {told(record)}")
        return Event.of(record)

    def _judge_reaction(self, record: AuditRecord, owner: Owner) -> None:
        """A write that closes nothing, while there is something to close."""
        for place, event in self.exposed.items():
            own = (place[1], self._objects[place].instance) == owner
            if own and not event.unseen(record):
                self._say(place, f"was left open by {told(record)}, exposed by {event.what}")
            elif place[1] == owner[0] and record.received >= event.at + REACTION:
                self._say(place, f"was open for more than {REACTION.seconds} s, exposed by {event.what}")

    def _judge_grant(self, record: AuditRecord) -> None:
        if record.resource != GRANTS or record.code != 201:
            return
        grant_body = record.response_object or {}
        owners = {(each["namespace"], instance_of(grant_body)) for each in grant_body["spec"]["from"]}
        for place, held in self._of(POLICIES):
            excused = any(self._unseen((ROUTES, place[1], each), record) for each in held.targets)
            if (place[1], held.instance) in owners and not held.stands and not excused:
                grant = (GRANTS, record.namespace, record.name)
                self._say(grant, f"was made while policy {place[1]}/{place[2]} did not stand")

    def _unseen(self, route: Place, record: AuditRecord) -> bool:
        lost = self._lost.get(route)
        return lost is not None and lost.unseen(record)

    def _say(self, place: Place, what: str) -> None:
        """Once for each time that something is exposed."""
        if place not in self._reported:
            self.violations.append(f"{place[0]} {place[1]}/{place[2]} {what}")
            self._reported.add(place)


@contextmanager
def watched_to_its_end() -> Iterator[None]:
    """Within the block no cluster may end in which a route was exposed as it must not be."""
    stop = DevCluster.stop

    def stop_and_tell(cluster: DevCluster) -> None:
        stopped_before = not cluster.alive()
        watch = OpenRoutes()
        try:
            if not stopped_before:
                watch.feed(audited(Layout(cluster.directory).audit_log))
                watch.end()
        finally:
            stop(cluster)
        assert not watch.violations, "\n".join(watch.violations)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DevCluster, "stop", stop_and_tell)
        yield
