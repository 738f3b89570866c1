"""Why the Appliance is not ready: its catalogs, and everything that its status is made of."""

from collections.abc import Iterator, Mapping

from magicstick.api.kinds import APP_INSTANCE, GIT_REPOSITORY, MODEL_ACTIVATION, MODULE_ACTIVATION
from magicstick.appliance.aggregate import Entry
from magicstick.appliance.decide import ApplianceObservation, decide
from magicstick.appliance.entries import HardwareEntry, InstanceEntry, ModelEntry
from magicstick.appliance.status import Phase
from magicstick.kube.kinds import CONFIG_MAP, ObjectKey
from magicstick.runtime.conditions import READY, conditions_of, find
from magicstick.why.causes import HARDWARE, Cause, Explanation, Hint, Subject, healthy, unhealthy
from magicstick.why.edges import catalog_places
from magicstick.why.flux import explain_source
from magicstick.why.operator import heard, lease_of, running
from magicstick.why.sight import Sight
from magicstick.why.subjects import unread


def explain_appliance(subject: Subject, sight: Sight) -> Explanation:
    """Everything that keeps the Appliance from being Ready, what it consists of first."""
    if blocked := sight.obstacle(subject):
        return blocked
    site = sight.facts.site
    if subject.key != ObjectKey(site.appliance_namespace, site.appliance_name):
        reconciled = f"{site.appliance_namespace}/{site.appliance_name}"
        sentence = f"is not the Appliance that is reconciled, which is {reconciled}"
        hint = Hint("Ask for that one.", "magicstick why appliance")
        return unhealthy(Cause(subject, sentence, hint=hint))
    if sight.appliance is None:
        hint = Hint("Apply the Appliance of this repository.", "kubectl apply -f manifests/appliance.yaml")
        return unhealthy(Cause(subject, f"does not exist in namespace {subject.namespace}", hint=hint))
    causes = tuple(_causes(subject, sight.appliance, sight))
    if causes:
        return unhealthy(*causes)
    return healthy(subject, f"is Ready: {_message(sight.appliance)}", notes=tuple(_notes(sight)))


def _causes(subject: Subject, o: ApplianceObservation, sight: Sight) -> Iterator[Cause]:
    if not o.known:
        because = (*unread((MODULE_ACTIVATION,), sight), *_catalogs(sight))
        yield Cause(subject, "cannot be judged, since not everything can be read", because)
        return
    if not o.catalogs_usable:
        told = f" (the operator reports {phase})" if (phase := o.appliance.status.get("phase")) else ""
        yield Cause(subject, f"cannot be judged without its catalogs{told}", _catalogs(sight))
        return
    plan = decide(o)
    if plan.status is None:
        sentence = "is being deleted: nothing is made for it any more"
        yield Cause(subject, sentence, hint=_look(subject), passing=True)
        return
    phase, behind = plan.status["phase"], tuple(_behind(o, sight))
    if phase != Phase.READY:
        note = "" if _reported(plan.status, o) else _unreported(sight)
        yield Cause(subject, f"is {phase}: {_message(o)}", behind, _look(subject), note=note)
    elif not _reported(plan.status, o):
        yield Cause(subject, "is Ready by now, which the operator has not reported yet", (lease_of(sight),))
    if o.problems:
        yield Cause(subject, "has a catalog that is not in order", _catalogs(sight))
    if running(sight) is False and phase == Phase.READY:
        yield Cause(subject, "has no operator that keeps it so", (lease_of(sight),))


def _behind(o: ApplianceObservation, sight: Sight) -> Iterator[Subject]:
    """What the status names, failures first."""
    yield from dict.fromkeys(_subject(each, sight) for each in (*o.entries.failed, *o.entries.waiting))


def _subject(entry: Entry, sight: Sight) -> Subject:
    match entry:
        case InstanceEntry():
            return sight.place(APP_INSTANCE, entry.name)
        case ModelEntry():
            return sight.place(MODEL_ACTIVATION, entry.name)
        case HardwareEntry():
            return Subject(HARDWARE, entry.module)
        case _:
            speaker = sight.facts.activation(entry.module)
            name = entry.module if speaker is None else speaker.metadata.name
            return sight.place(MODULE_ACTIVATION, name)


def _catalogs(sight: Sight) -> tuple[Subject, ...]:
    return tuple(Subject.of(CONFIG_MAP, place) for place in catalog_places(sight.settings))


def _message(o: ApplianceObservation) -> str:
    status = decide(o).status or {}
    ready = find(status.get("conditions", ()), READY) or {}
    return str(ready.get("message", ""))


def _reported(status: Mapping[str, object], o: ApplianceObservation) -> bool:
    """Whether the Appliance says in short what was decided; entries may differ by what was seen when."""
    live = o.appliance.status
    told = [find(conditions_of(each), READY) or {} for each in (status, live)]
    fields = ("status", "reason", "message", "observedGeneration")
    return status["phase"] == live.get("phase") and all(
        told[0].get(each) == told[1].get(each) for each in fields
    )


def _unreported(sight: Sight) -> str:
    return f"The operator has not reported this yet; it {heard(sight)}."


def _notes(sight: Sight) -> Iterator[str]:
    """What does not show in the status: a source that cannot be fetched leaves everything as it is."""
    given = sight.facts.source()
    if given is not None:
        source = explain_source(Subject(GIT_REPOSITORY, given.name, given.namespace), sight)
        if not source.healthy:
            yield f"{source.causes[0]}: what is installed stays as it is."


def _look(subject: Subject) -> Hint:
    return Hint("See its status.", subject.command("get", "-o", "yaml"))
