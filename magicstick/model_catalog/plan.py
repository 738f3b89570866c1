"""What has to be sent to LiteLLM so that it has the routes that it should have, and nothing else.

Guarantees: applied as a whole, the next plan is empty; a deployment of the mesh, or one that is not ours
and stands in LiteLLM's configuration, is in no plan; nothing is deleted but what is marked as ours, by
its id. Pure (spec: companions §1.1 and §1.3).

LiteLLM shows no keys, so whether a route is as it should be is told by a fingerprint that the route
carries: keyed with the master key, it tells nobody what the route's own key is.
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from magicstick.model_catalog.desired import Desired, Problem
from magicstick.model_catalog.inventory import FIELDS, FINGERPRINT, Deployment
from magicstick.model_catalog.routes import Route
from magicstick.model_catalog.values import Object, canonical, items
from magicstick.runtime.logs import Secret

VISIBLE: Final = ("model", "api_base")
"""Parameters that LiteLLM shows as they are: where they were changed by hand they are set again."""
SUFFIX_LENGTH: Final = 8


class Verb(StrEnum):
    """How a route gets to LiteLLM."""

    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    """Delete and create: a field is to go, and LiteLLM's update only ever adds fields."""


@dataclass(frozen=True, slots=True)
class Put:
    """One route as it is sent. `body` holds the provider's key: it is never logged or shown."""

    verb: Verb
    id: str
    route: Route
    fingerprint: str
    body: Object = field(repr=False)

    def done(self, deployment: Deployment) -> bool:
        """Whether LiteLLM shows this deployment as it was sent."""
        return deployment.id == self.id and is_current(deployment, self.route, self.fingerprint)


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """One deployment of ours that nobody wants."""

    id: str
    name: str
    source: str


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """What is sent, in this order: traffic to a dead backend is worse than a late publication."""

    withdrawals: tuple[Withdrawal, ...] = ()
    updates: tuple[Put, ...] = ()
    creations: tuple[Put, ...] = ()
    held: frozenset[str] = frozenset()
    """Names whose deployments stay as they are."""
    current: tuple[Route, ...] = ()
    """Routes for which nothing has to be sent."""
    problems: tuple[Problem, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether nothing has to be sent."""
        return not (self.withdrawals or self.updates or self.creations)


def plan(desired: Desired, existing: Sequence[Deployment], master_key: Secret) -> SyncPlan:
    """What leads from the existing deployments to the desired routes."""
    held = [each for each in existing if any(hold.covers(each) for hold in desired.holds)]
    retained, held_names = {each.id for each in held}, frozenset(each.name for each in held)
    known, taken = _by_name(existing), {each.id for each in existing}
    puts: list[Put] = []
    current: list[Route] = []
    for route in desired.routes.values():
        if route.name in held_names:
            continue
        match = known.get(route.name)
        deployment_id = match.id if match else _free_id(route, taken)
        taken.add(deployment_id)
        retained.add(deployment_id)
        put = _put(route, match, deployment_id, master_key)
        if match and is_current(match, route, put.fingerprint):
            current.append(route)
        else:
            puts.append(put)
    withdrawals, problems = _withdrawals(existing, retained)
    return SyncPlan(
        withdrawals,
        tuple(each for each in puts if each.verb is not Verb.CREATE),
        tuple(each for each in puts if each.verb is Verb.CREATE),
        held_names,
        tuple(current),
        (*problems, *_beside(puts, existing)),
    )


def is_current(deployment: Deployment, route: Route, fingerprint: str) -> bool:
    """Whether LiteLLM has the route as it should be."""
    shown = ((deployment.params.get(name), route.params.get(name)) for name in VISIBLE)
    return (
        deployment.managed
        and deployment.name == route.name
        and deployment.info.get(FINGERPRINT) == fingerprint
        and all(live == meant for live, meant in shown if isinstance(live, str) and meant is not None)
    )


def fingerprint_of(body: Object, master_key: Secret) -> str:
    """HMAC-SHA256, in hex, of a deployment that has no fingerprint yet (spec: companions §1.2)."""
    return hmac.new(master_key.get_secret_value().encode(), canonical(body), hashlib.sha256).hexdigest()


def _by_name(existing: Sequence[Deployment]) -> Mapping[str, Deployment]:
    """The deployment that a route of each name would change: ours before adopted ones, then by id."""
    mine = (each for each in existing if each.id and not each.mesh_owned and (each.managed or each.stored))
    found: dict[str, Deployment] = {}
    for each in sorted(mine, key=lambda one: (not one.managed, one.id)):
        found.setdefault(each.name, each)
    return found


def _free_id(route: Route, taken: set[str]) -> str:
    """The id for a new deployment. Two names can have one slug, and a foreign deployment any id."""
    if route.id not in taken:
        return route.id
    return f"{route.id}-{hashlib.sha256(route.name.encode()).hexdigest()[:SUFFIX_LENGTH]}"


def _put(route: Route, match: Deployment | None, deployment_id: str, master_key: Secret) -> Put:
    params = dict(route.params)
    if route.key is not None:
        params["api_key"] = route.key.get_secret_value()
    fields = sorted([*(f"params.{name}" for name in params), *(f"info.{name}" for name in route.info)])
    info = {**route.info, "id": deployment_id, FIELDS: fields}
    body = {"model_name": route.name, "litellm_params": params, "model_info": info}
    fingerprint = fingerprint_of(body, master_key)
    body["model_info"] = {**info, FINGERPRINT: fingerprint}
    return Put(_verb(match, fields), deployment_id, route, fingerprint, body)


def _verb(match: Deployment | None, fields: Sequence[str]) -> Verb:
    if match is None:
        return Verb.CREATE
    dropped = match.managed and set(items(match.info, FIELDS)) - set(fields)
    return Verb.REPLACE if dropped else Verb.UPDATE


def _withdrawals(
    existing: Sequence[Deployment], retained: set[str]
) -> tuple[tuple[Withdrawal, ...], tuple[Problem, ...]]:
    ours = [each for each in existing if each.managed]
    going = {each.id: each for each in ours if each.id and each.id not in retained}
    nameless = sorted({each.name for each in ours if not each.id})
    problems = (Problem(f"route {name[:80]!r}", "has no id in LiteLLM and stays") for name in nameless)
    withdrawals = (Withdrawal(each.id, each.name, each.source) for _, each in sorted(going.items()))
    return tuple(withdrawals), tuple(problems)


def _beside(puts: Iterable[Put], existing: Sequence[Deployment]) -> Iterable[Problem]:
    """Routes that are made beside one of LiteLLM's own configuration, which nobody can change."""
    configured = {each.name for each in existing if not (each.managed or each.stored or each.mesh_owned)}
    for put in puts:
        if put.verb is Verb.CREATE and put.route.name in configured:
            reason = "stands in LiteLLM's own configuration as well; ours is made beside it"
            yield Problem(f"route {put.route.name[:80]!r}", reason)
