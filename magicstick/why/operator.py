"""Whether an operator carries out what is decided: what its Lease tells (see `runtime.lease`)."""

from datetime import datetime, timedelta
from typing import Final

from magicstick.api.labels import OPERATOR
from magicstick.kube.kinds import LEASE
from magicstick.kube.objects import Resource
from magicstick.why.causes import Cause, Explanation, Hint, Subject, healthy, kubectl, unhealthy
from magicstick.why.sight import Sight

DEFAULT_DURATION_S: Final = 35.0
MINUTE_S: Final = 60
UNITS: Final = ((86400, "d"), (3600, "h"), (MINUTE_S, "min"))


def lease_of(sight: Sight) -> Subject:
    """The operator's Lease."""
    namespace, name = sight.settings.lease_place
    return Subject(LEASE, name, namespace)


def running(sight: Sight) -> bool | None:
    """Whether an operator holds the Lease now; None while it cannot be read, or there never was one."""
    lease = sight.find(lease_of(sight)) if sight.known(LEASE) else None
    return None if lease is None else bool(_holder(lease)) and not _stale(lease, sight.now)


def heard(sight: Sight) -> str:
    """When the operator was heard last, as the rest of a sentence that begins with `the operator`."""
    if not sight.known(LEASE):
        return "may be running or not: its Lease cannot be read"
    lease = sight.find(lease_of(sight))
    if lease is None:
        return "has not been heard: there is no Lease"
    renewed = _time(lease)
    return "was never heard" if renewed is None else f"was last heard {ago(sight.now - renewed)}"


def explain_lease(subject: Subject, sight: Sight) -> Explanation:
    """Whether what waits for the operator will be done."""
    if blocked := sight.obstacle(subject):
        return blocked
    lease = sight.find(subject)
    if lease is None:
        return unhealthy(_not_running(subject, "does not exist: no operator has run here yet", sight))
    if not _holder(lease):
        return unhealthy(_not_running(subject, f"was given up: the operator ended and {heard(sight)}", sight))
    if _stale(lease, sight.now):
        sentence = f"ran out: the operator {heard(sight)}, as {_holder(lease)}"
        return unhealthy(_not_running(subject, sentence, sight))
    sentence = f"is held: the operator {heard(sight)} and is about to act"
    hint = Hint("Ask again in a moment. If this stays, its log says more.", _logs(sight))
    return healthy(subject, "is held", Cause(subject, sentence, hint=hint, passing=True))


def ago(passed: timedelta) -> str:
    """A time that has passed, to the unit that matters; what lies ahead on another clock is now."""
    seconds = max(0, round(passed.total_seconds()))
    for size, unit in UNITS:
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"


def _not_running(subject: Subject, sentence: str, sight: Sight) -> Cause:
    home = sight.facts.site.appliance_namespace
    look = kubectl("get", "deployment,pods", "-l", f"app.kubernetes.io/name={OPERATOR}", namespace=home)
    return Cause(subject, sentence, hint=Hint("Start the operator, or see why it does not run.", look))


def _logs(sight: Sight) -> str:
    home = sight.facts.site.appliance_namespace
    return kubectl("logs", f"deployment/{OPERATOR}", "--since=10m", namespace=home)


def _holder(lease: Resource) -> str:
    return str(lease.spec.get("holderIdentity") or "")


def _stale(lease: Resource, now: datetime) -> bool:
    renewed, duration = _time(lease), lease.spec.get("leaseDurationSeconds")
    seconds = float(duration) if isinstance(duration, int | float) else DEFAULT_DURATION_S
    return renewed is None or now - renewed > timedelta(seconds=seconds)


def _time(lease: Resource) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(lease.spec.get("renewTime")))
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
