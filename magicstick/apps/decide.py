"""The decision about one instance (spec: modules-and-apps §8.3).

A list of rules in the order of the specification; the first that has something to say decides. Each is
pure, total, and speaks of the next steps only: after a write everything is observed anew.

What holds throughout:
    - A HelmRelease is deleted only for an instance that is being deleted, and never to repair anything.
    - A suspended HelmRelease is resumed before it is deleted, since Flux uninstalls nothing otherwise.
    - The way in is closed before anything else is, and whatever is waited for: no rule leaves a route open
      whose policy is not accepted as it is.
    - What cannot be read changes nothing.
    - Nothing is made for an instance that is disabled or being deleted.
"""

from collections.abc import Callable
from typing import Final

from magicstick.api.app_instance import AppInstanceSpec
from magicstick.api.kinds import HELM_RELEASE
from magicstick.api.names import RELEASE_NAME_LIMIT, dns_label_problem
from magicstick.api.parse import InvalidSpec
from magicstick.apps.gateway import plan as gateway
from magicstick.apps.gateway.hosts import hosts_problem
from magicstick.apps.objects import Release, helm_release, namespace
from magicstick.apps.observation import InstanceObservation
from magicstick.apps.plans import (
    holding,
    kept,
    previous,
    released,
    removing,
    report,
    shutting,
    unusable,
)
from magicstick.apps.ports import AccessPlan
from magicstick.apps.release import verdict
from magicstick.apps.status import Addresses, InstancePhase, InstanceReason, Outcome
from magicstick.apps.way_in import (
    RESERVED_SERVICES,
    access,
    addresses,
    admitted,
    backend_service,
    belongs,
    hosts,
)
from magicstick.kube.errors import ApiError, Forbidden, NameConflict, NamespaceTerminating, Rejected
from magicstick.kube.kinds import NAMESPACE
from magicstick.modules.facts import State
from magicstick.runtime.conditions import cut
from magicstick.runtime.plan import Apply, Create, Plan, Step

Rule = Callable[[InstanceObservation], Plan | None]

REFUSAL_CHARACTERS: Final = 300
"""Of what the gateway says, the most that is repeated: it lists everything that it misses."""


def decide(o: InstanceObservation) -> Plan:
    """What to do next for this instance, and the status that it has now."""
    for rule in RULES:
        plan = rule(o)
        if plan is not None:
            return plan
    return _wanted(o)


def decide_failure(o: InstanceObservation, error: ApiError) -> Plan:
    """What to report after a step failed; an error that says nothing of the object keeps its status.

    The server's own words stay in the operator's log: they may quote values of the instance.
    """
    match error:
        case NameConflict():
            return _degraded(o, InstanceReason.NAME_CONFLICT, f"{error.message}.")
        case Forbidden():
            message = "The operator lacks a right that it needs for this instance. Its log names the request."
            return _degraded(o, InstanceReason.API_REJECTED, message)
        case Rejected():
            fields = ", ".join(sorted({field for field, _ in error.causes if field}))
            where = f" because of {fields}" if fields else ""
            message = f"The API server refuses what the instance needs{where}. The operator's log says why."
            return _degraded(o, InstanceReason.API_REJECTED, message)
        case NamespaceTerminating():
            message = "A namespace that the instance needs does not exist or is being deleted."
            known = previous(o, guarded=False)
            phase, reason = InstancePhase.RECONCILING, InstanceReason.WAITING_FOR_NAMESPACE
            return report(o, phase, reason, message, addresses=known)
        case _:
            return kept(o, InstanceReason.API_UNAVAILABLE, "The API server does not answer as it should.")


# --- whether anything can be done ------------------------------------------------------------------


def _not_ours(o: InstanceObservation) -> Plan | None:
    return None if o.ours else Plan(Outcome.NOT_OURS)


def _blind(o: InstanceObservation) -> Plan | None:
    """Unless what was made for the instance can be told, nothing is made, removed or released."""
    return kept(o, InstanceReason.API_UNAVAILABLE, f"{o.blind}.") if o.blind else None


def _leaving(o: InstanceObservation) -> Plan | None:
    """Neither modules nor definitions, catalogs nor names are waited for."""
    if not o.dying:
        return None
    if not (o.live.pieces or o.releases):
        return released()
    message = f"Instance {o.name} is being deleted, and what was made for it is being removed."
    return report(o, InstancePhase.REMOVING, InstanceReason.REMOVING, message, removing(o))


def _without_catalog(o: InstanceObservation) -> Plan | None:
    if o.entry is not None:
        return None
    message = "There is no usable application catalog yet."
    return kept(o, InstanceReason.CATALOG_UNAVAILABLE, message, _standing(o))


def _unknown_application(o: InstanceObservation) -> Plan | None:
    """What is installed of it stays, since a catalog edit must not remove anything."""
    if o.entry is None or o.definition is not None:
        return None
    if problem := o.entry.problem:
        message = f"Application {o.application} has an invalid entry in the application catalog: {problem}."
        return unusable(o, InstanceReason.INVALID_APPLICATION, message, _standing(o))
    message = f"Application {o.application} is not in the application catalog."
    return unusable(o, InstanceReason.UNKNOWN_APPLICATION, message, _standing(o))


def _invalid_name(o: InstanceObservation) -> Plan | None:
    problem = dns_label_problem(o.name, RELEASE_NAME_LIMIT)
    if problem is None:
        return None
    return unusable(o, InstanceReason.INVALID_NAME, f"metadata.name {problem}.", _standing(o))


def _disabled(o: InstanceObservation) -> Plan | None:
    """Before anything that is waited for: a suspended instance must never wait for its modules."""
    if o.enabled:
        return None
    url = f"https://{hosts(o).local}/" if o.domains.mdns else o.status.url
    shut = Addresses(url=url, authentication="sso", role="user")
    if o.live.pieces:
        phase, message = InstancePhase.RECONCILING, f"The way in to instance {o.name} is being removed."
    else:
        phase, message = InstancePhase.SUSPENDED, f"Instance {o.name} is switched off; its data stays."
    return report(o, phase, InstanceReason.SUSPENDED, message, shutting(o), addresses=shut)


# --- whether the spec can be understood -------------------------------------------------------------


def _invalid_access(o: InstanceObservation) -> Plan | None:
    read = admitted(o.instance)
    if not isinstance(read, InvalidSpec):
        return None
    message = f"{read}. Nobody may use the instance until then."
    return _degraded(o, InstanceReason.INVALID_ACCESS, message, gateway.close(o.live))


def _invalid_spec(o: InstanceObservation) -> Plan | None:
    if isinstance(o.spec, InvalidSpec):
        return _degraded(o, InstanceReason.INVALID_SPEC, f"{o.spec}.", holding(o))
    problem = dns_label_problem(o.spec.target_namespace)
    if problem is None:
        return None
    return _degraded(o, InstanceReason.INVALID_SPEC, f"spec.targetNamespace {problem}.", holding(o))


def _unknown(o: InstanceObservation) -> Plan | None:
    return kept(o, InstanceReason.API_UNAVAILABLE, f"{o.unknown}.", holding(o)) if o.unknown else None


def _invalid_host(o: InstanceObservation) -> Plan | None:
    problem = hosts_problem(hosts(o))
    if problem is None:
        return None
    return _degraded(o, InstanceReason.INVALID_HOSTNAME, f"{problem}.", holding(o))


def _host_conflict(o: InstanceObservation) -> Plan | None:
    if not o.host_owner:
        return None
    message = (
        f"Instance {o.host_owner} is older and is served as {hosts(o).local}. "
        "Give one of the two another spec.values.name."
    )
    return _degraded(o, InstanceReason.HOST_CONFLICT, message, gateway.remove(o.live))


def _foreign_release(o: InstanceObservation) -> Plan | None:
    """Before anything is made: what somebody else's release installs looks like this instance's own."""
    if o.stranger is None:
        return None
    key = o.stranger.metadata.key
    message = (
        f"HelmRelease {key} exists and does not belong to this instance. Remove it, or call the instance "
        "something else."
    )
    return _degraded(o, InstanceReason.NAME_CONFLICT, message, gateway.close(o.live))


# --- what has to be there first ---------------------------------------------------------------------


def _modules(o: InstanceObservation) -> Plan | None:
    """Nothing is made before the modules are ready; what stands already is kept as it should be."""
    waited = [each for each in o.modules if each.readiness.state is State.NOT_READY]
    unclear = [each for each in o.modules if each.readiness.state is State.UNKNOWN]
    listed = "; ".join(f"{each.name} {each.readiness.why}" for each in waited or unclear)
    if waited:
        phase, reason = InstancePhase.WAITING_FOR_MODULES, InstanceReason.WAITING_FOR_MODULES
        return _waiting(o, phase, reason, f"Waiting for modules: {listed}.", _upkeep(o))
    if unclear and o.release is None:
        return kept(
            o, InstanceReason.API_UNAVAILABLE, f"Modules: {listed}.", (*o.requests, *_upkeep(o).steps)
        )
    return None


def _definitions(o: InstanceObservation) -> Plan | None:
    """Those that the application requires, and those of Flux and the gateway."""
    missing = (*o.missing_crds, *o.unserved)
    if not missing:
        return None
    message = f"Waiting for CustomResourceDefinitions: {', '.join(missing)}."
    phase, reason = InstancePhase.WAITING_FOR_CRD, InstanceReason.WAITING_FOR_CRD
    return _waiting(o, phase, reason, message, _upkeep(o))


def _namespace(o: InstanceObservation) -> Plan | None:
    if not o.place.dying:
        return None
    message = f"Namespace {_spec(o).target_namespace} is being deleted."
    phase, reason = InstancePhase.RECONCILING, InstanceReason.WAITING_FOR_NAMESPACE
    return _waiting(o, phase, reason, message, _upkeep(o))


def _reserved(o: InstanceObservation) -> Plan | None:
    """Whoever reaches the instance must reach nothing else (spec: platform P7)."""
    taken = _taken(o)
    return _degraded(o, InstanceReason.RESERVED_NAME, taken, gateway.close(o.live)) if taken else None


def _taken(o: InstanceObservation) -> str:
    """Why the Service that the routes would lead to is not the instance's; "" where it may be."""
    definition, service = o.definition, o.place.service
    if definition is None:
        return ""
    name = backend_service(o.instance, definition)
    if name in RESERVED_SERVICES:
        return f"Service {name} belongs to the platform. Call the instance something else."
    if service is not None and not belongs(service, o, definition):
        return f"Service {service.metadata.key} is there already and is not this instance's."
    return ""


RULES: Final[tuple[Rule, ...]] = (
    _not_ours,
    _blind,
    _leaving,
    _without_catalog,
    _unknown_application,
    _invalid_name,
    _disabled,
    _invalid_access,
    _invalid_spec,
    _unknown,
    _invalid_host,
    _host_conflict,
    _foreign_release,
    _modules,
    _definitions,
    _namespace,
    _reserved,
)


# --- an instance that may be there ------------------------------------------------------------------


def _wanted(o: InstanceObservation) -> Plan:
    """Its namespace, its way in, its release; the guard counts before the release does."""
    way = _way(o)
    if way.conflict:
        return _degraded(o, InstanceReason.NAME_CONFLICT, f"{way.conflict}.", way.steps)
    steps = (*o.requests, *_missing_namespace(o), *way.steps, *_installation(o))
    served = _addresses(o, guarded=way.ready)
    if not way.ready:
        message = (
            "Waiting for the gateway to accept the instance's policies. Its routes lead nowhere until then."
        )
        if way.refusal:
            message += f" The gateway says: {cut(way.refusal, REFUSAL_CHARACTERS)}"
        reason = InstanceReason.WAITING_FOR_ACCESS_GUARD
        return report(o, InstancePhase.RECONCILING, reason, message, steps, addresses=served)
    told = verdict(o.release)
    return report(o, told.phase, told.reason, told.message, steps, addresses=served)


def _missing_namespace(o: InstanceObservation) -> tuple[Step, ...]:
    """Before the grant, which cannot be made without it (spec: modules-and-apps §8.4)."""
    return () if o.place.exists else (Create(NAMESPACE, namespace(_spec(o).target_namespace)),)


def _installation(o: InstanceObservation) -> tuple[Step, ...]:
    if o.definition is None or o.source is None:
        return ()
    spec = _spec(o)
    body = helm_release(
        Release(
            name=o.name,
            home=o.site.appliance_namespace,
            target=spec.target_namespace,
            application=o.application,
            chart_path=o.definition.chart_path,
            source=o.source,
            hosts=hosts(o),
            values=spec.values,
            retries=o.retries,
        )
    )
    return (Apply(HELM_RELEASE, body),)


# --- shared -----------------------------------------------------------------------------------------


def _spec(o: InstanceObservation) -> AppInstanceSpec:
    """The spec, which every rule from `_invalid_spec` on may take for valid."""
    return o.spec if isinstance(o.spec, AppInstanceSpec) else AppInstanceSpec(application=o.application)


def _way(o: InstanceObservation) -> AccessPlan:
    if o.definition is None:
        return AccessPlan(holding(o))
    return gateway.plan(access(o, _spec(o), o.definition), o.live, o.gateway)


def _upkeep(o: InstanceObservation) -> AccessPlan:
    """What becomes of a way in while something else is waited for: it is kept as wanted, or as it is.

    None is made; and where it cannot be kept, since its kinds or its namespace are not there, it is held. It
    is closed where it would lead to somebody else, whatever is waited for.
    """
    if _taken(o):
        return AccessPlan(gateway.close(o.live))
    if not o.live.pieces or o.unserved or o.place.dying or not o.place.exists:
        return AccessPlan(holding(o))
    return _way(o)


def _standing(o: InstanceObservation) -> tuple[Step, ...]:
    """For an instance of which little is known: it is shut if it is switched off, or else held."""
    return holding(o) if o.enabled else shutting(o)


def _addresses(o: InstanceObservation, *, guarded: bool) -> Addresses:
    if o.definition is None:
        return previous(o, guarded=guarded)
    return addresses(access(o, _spec(o), o.definition), guarded=guarded)


def _waiting(
    o: InstanceObservation, phase: InstancePhase, reason: str, message: str, way: AccessPlan
) -> Plan:
    steps = (*o.requests, *way.steps)
    return report(o, phase, reason, message, steps, addresses=previous(o, guarded=way.ready))


def _degraded(o: InstanceObservation, reason: str, message: str, steps: tuple[Step, ...] = ()) -> Plan:
    known = previous(o, guarded=False)
    return report(o, InstancePhase.DEGRADED, reason, message, steps, addresses=known)
