"""The parts that plans for instances are made of: reports, and the steps on HelmReleases."""

from collections.abc import Iterable
from dataclasses import replace

from magicstick.api import labels
from magicstick.api.kinds import HELM_RELEASE
from magicstick.api.names import RELEASE_NAME_LIMIT, is_dns_label
from magicstick.api.parse import InvalidSpec
from magicstick.apps.gateway import plan as gateway
from magicstick.apps.gateway.routes import is_open
from magicstick.apps.kinds import HTTP_ROUTE
from magicstick.apps.objects import with_suspension
from magicstick.apps.observation import InstanceObservation
from magicstick.apps.status import (
    NOWHERE,
    Addresses,
    InstancePhase,
    Outcome,
    Report,
    Target,
    instance_status,
)
from magicstick.apps.way_in import admitted
from magicstick.kube.objects import Resource
from magicstick.runtime.conditions import cut
from magicstick.runtime.plan import Apply, Delete, Finalizer, Plan, Step

LOGGED_CHARACTERS = 253


def report(
    o: InstanceObservation,
    phase: InstancePhase,
    reason: str,
    message: str,
    steps: tuple[Step, ...] = (),
    *,
    addresses: Addresses = NOWHERE,
) -> Plan:
    """A plan that says what the instance's state is."""
    told = Report(phase, reason, message, addresses, target(o))
    return Plan(phase, steps, finalizer(o), instance_status(o.generation, told), log=_log(o))


def unusable(o: InstanceObservation, reason: str, message: str, steps: tuple[Step, ...] = ()) -> Plan:
    """A plan for an instance that nothing can be installed for: its status names no target."""
    told = Report(InstancePhase.DEGRADED, reason, message)
    return Plan(told.phase, steps, finalizer(o), instance_status(o.generation, told), log=_log(o))


def kept(o: InstanceObservation, reason: str, message: str, steps: tuple[Step, ...] = ()) -> Plan:
    """A plan that leaves the status as it is; where there never was one, it says why not.

    So it does where the status says that the guard is ready, and the way in had to be closed meanwhile.
    """
    if not o.instance.status.get("phase"):
        return report(o, InstancePhase.RECONCILING, reason, message, steps)
    if o.status.access_guard_ready and _is_shut(o):
        known = previous(o, guarded=False)
        return report(o, InstancePhase.RECONCILING, reason, message, steps, addresses=known)
    return Plan(Outcome.HELD, steps, finalizer(o))


def _is_shut(o: InstanceObservation) -> bool:
    """Whether there are routes, and none of them leads anywhere."""
    routes = [each.live for each in o.live.pieces if each.kind == HTTP_ROUTE]
    return bool(routes) and not any(map(is_open, routes))


def released() -> Plan:
    """The instance may go."""
    return Plan(Outcome.RELEASED, finalizer=Finalizer.REMOVE)


def finalizer(o: InstanceObservation) -> Finalizer:
    """Ours is put on whatever something may be made for, and on nothing that is dying."""
    makes = o.definition is not None and is_dns_label(o.name, RELEASE_NAME_LIMIT)
    if makes and not o.dying and labels.INSTANCE_FINALIZER not in o.instance.metadata.finalizers:
        return Finalizer.ADD
    return Finalizer.KEEP


def target(o: InstanceObservation) -> Target:
    """The HelmRelease of the instance, which may still have to be made."""
    return Target(o.name, o.site.appliance_namespace)


def previous(o: InstanceObservation, *, guarded: bool) -> Addresses:
    """The addresses that were reported last: what is waited for took nothing away (spec: §8.6)."""
    status = o.status
    last = Addresses(
        status.url,
        status.local_url,
        status.public_url,
        status.authentication,
        status.required_role,
        status.access_guard_ready,
    )
    return replace(last, guarded=guarded and bool(o.live.pieces))


def holding(o: InstanceObservation) -> tuple[Step, ...]:
    """The way in stays as it stands, as far as what guards it does: no policy, no way in.

    Nor is there one where nobody can tell who may use it.
    """
    read = admitted(o.instance)
    return gateway.close(o.live) if isinstance(read, InvalidSpec) else gateway.hold(o.live, read)


def shutting(o: InstanceObservation) -> tuple[Step, ...]:
    """The way in goes first, then Flux leaves the release alone; nothing is made for it."""
    return (*gateway.remove(o.live), *_suspension(o.releases))


def removing(o: InstanceObservation) -> tuple[Step, ...]:
    """The way in goes first; then each release is resumed and deleted, so that Flux uninstalls it."""
    return (*gateway.remove(o.live), *_removal(o.releases))


def _suspension(releases: Iterable[Resource]) -> tuple[Step, ...]:
    return tuple(
        Apply(HELM_RELEASE, with_suspension(each, suspend=True))
        for each in releases
        if not each.metadata.dying
    )


def _removal(releases: Iterable[Resource]) -> tuple[Step, ...]:
    return tuple(
        Apply(HELM_RELEASE, with_suspension(each, suspend=False))
        if each.spec.get("suspend") is True
        else Delete(HELM_RELEASE, each.metadata.key, each.metadata.uid)
        for each in releases
        if not each.metadata.dying
    )


def _log(o: InstanceObservation) -> dict[str, str]:
    return {"instance": o.name, "application": cut(o.application, LOGGED_CHARACTERS)}
