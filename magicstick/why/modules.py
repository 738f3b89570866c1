"""Why a module is not ready: its activation, and what the reconciler decides about it.

The decision is asked of the caches, as the operator does, and never carried out. Where the status that the
operator wrote says that a write was refused, that is the cause: a decision does not know of it.
"""

import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from magicstick.api import labels
from magicstick.api.kinds import MODULE_ACTIVATION
from magicstick.catalogs.modules import ModuleDefinition
from magicstick.kube.kinds import NAMESPACE, ObjectKey
from magicstick.modules.activations import belongs_to
from magicstick.modules.decide import decide
from magicstick.modules.objects import auto_activation
from magicstick.modules.observation import ModuleObservation
from magicstick.modules.reconciler import observe
from magicstick.modules.status import HEALTHY, ModulePhase, ModuleReason, Outcome
from magicstick.runtime.conditions import READY, conditions_of, find
from magicstick.runtime.plan import Plan
from magicstick.runtime.status import same_meaning
from magicstick.why.causes import (
    HARDWARE,
    Cause,
    Explanation,
    Hint,
    Subject,
    healthy,
    kubectl,
    unhealthy,
)
from magicstick.why.deletion import held_by_finalizers
from magicstick.why.operator import heard, lease_of, running
from magicstick.why.reasons import EXPLAINERS, by_flux, complete, unavailable
from magicstick.why.sight import Sight
from magicstick.why.subjects import catalog_subject, not_in_catalog

ACCOUNT: Final = labels.OPERATOR
"""The operator's service account."""

Status = Mapping[str, object]


# --- modules, with and without an activation -----------------------------------------------------


def explain_module(subject: Subject, sight: Sight) -> Explanation:
    """Why a module has no activation."""
    if blocked := sight.obstacle(sight.place(MODULE_ACTIVATION, subject.name)):
        return unhealthy(*(replace(each, subject=subject) for each in blocked.causes))
    catalog, place = sight.facts.catalog, catalog_subject(sight)
    if catalog is None:
        return unhealthy(Cause(subject, "cannot be judged without a module catalog", (place,)))
    if subject.name in catalog.invalid:
        return unhealthy(Cause(subject, "has an invalid entry in the module catalog", (place,)))
    definition = catalog.modules.get(subject.name)
    if definition is None:
        return unhealthy(not_in_catalog(subject, sight))
    return unhealthy(_not_activated(subject, definition, sight))


def _not_activated(subject: Subject, definition: ModuleDefinition, sight: Sight) -> Cause:
    taken = sight.facts.activations.get(sight.key(subject.name))
    others = (taken, *sight.facts.activations_of(subject.name))
    other = next((each for each in others if each is not None), None)
    if other is None and definition.hardware is not None:
        hardware = Subject(HARDWARE, subject.name)
        return Cause(subject, "has no activation: it comes with the hardware", (hardware,))
    if other is None:
        return Cause(subject, "has no activation", hint=Hint("Activate it.", _activate(subject.name, sight)))
    standing, module = Subject.of(MODULE_ACTIVATION, other.metadata.key), sight.facts.module_of(other)
    meant = f"module {module}" if belongs_to(other, sight.facts.site) else "another Appliance"
    hint = Hint("Remove that one, if nobody needs it.", standing.command("get", "-o", "yaml"))
    return Cause(subject, f"has no activation, and cannot get one: {standing} is of {meant}", hint=hint)


# --- activations ---------------------------------------------------------------------------------


def explain_activation(subject: Subject, sight: Sight) -> Explanation:
    """Why a module is not as its activation asks for."""
    if blocked := sight.obstacle(subject):
        return blocked
    activation = sight.facts.activations.get(subject.key)
    if activation is None:
        sentence = f"does not exist in namespace {subject.namespace}"
        return unhealthy(Cause(subject, sentence, hint=Hint("Create it.", _activate(subject.name, sight))))
    o = observe(activation, sight.facts)
    plan = decide(o)
    refused = None if plan.outcome in HEALTHY else _refused(subject, o, sight)
    if plan.status is None:
        return _without_status(subject, o, plan, sight) if refused is None else unhealthy(refused)
    decided = _decided(subject, o, plan.status, sight)
    if refused is None:
        return decided
    # Before anything was asked of Flux, the decision tells the cause; after that, the write that failed does.
    before_flux = _reason(plan.status) in EXPLAINERS
    return unhealthy(*decided.causes, refused) if before_flux else unhealthy(refused)


def _decided(subject: Subject, o: ModuleObservation, status: Status, sight: Sight) -> Explanation:
    """By the status that the decision asks for, and by whether the operator has written it."""
    phase, message = str(status["phase"]), str(status["message"])
    reported = same_meaning(status, o.activation.status)
    if phase == ModulePhase.READY and not reported:
        sentence = "is Ready by now, which the operator has not reported yet"
        return unhealthy(Cause(subject, sentence, (lease_of(sight),)))
    cause = complete(Cause(subject, f"is {phase}: {message}"), _reason(status), o, sight)
    if phase == ModulePhase.READY:
        return healthy(subject, f"is Ready: {message}", notes=_notes(sight))
    if phase in HEALTHY:
        return healthy(subject, cause.sentence, cause, notes=_notes(sight))
    blind = _reason(status) in (ModuleReason.API_UNAVAILABLE, ModuleReason.CATALOG_UNAVAILABLE)
    if not reported and not blind and lease_of(sight) not in cause.because:
        note = f"The operator has not reported this yet; it {heard(sight)}."
        cause = replace(cause, note=note)
    return unhealthy(cause)


def _notes(sight: Sight) -> tuple[str, ...]:
    if running(sight) is not False:
        return ()
    return (f"The operator does not run (it {heard(sight)}): changes have no effect.",)


def _reason(status: Status) -> str:
    ready = find(conditions_of(status), READY)
    return str(ready.get("reason")) if ready is not None else ""


# --- what no status tells ------------------------------------------------------------------------


def _without_status(subject: Subject, o: ModuleObservation, plan: Plan, sight: Sight) -> Explanation:
    """A plan that leaves the status alone: why."""
    match plan.outcome:
        case Outcome.NOT_OURS:
            return unhealthy(_not_ours(subject, o, sight))
        case Outcome.RELEASED:
            return unhealthy(_released(subject, o, sight))
        case Outcome.HELD:
            return unhealthy(unavailable(Cause(subject, "cannot be judged"), o, sight))
        case ModulePhase.READY:
            return healthy(subject, "is Ready, and Flux is looking at it again", notes=_notes(sight))
        case _:
            said = str(o.activation.status.get("message", ""))
            return unhealthy(by_flux(Cause(subject, f"is {plan.outcome}: {said}"), o, sight))


def _not_ours(subject: Subject, o: ModuleObservation, sight: Sight) -> Cause:
    site, reference = sight.facts.site, o.activation.spec["applianceRef"]
    other = ObjectKey(
        str(reference.get("namespace", site.appliance_namespace)),
        str(reference.get("name", site.appliance_name)),
    )
    ours = ObjectKey(site.appliance_namespace, site.appliance_name)
    patch = subject.patch({"applianceRef": {"name": ours.name, "namespace": ours.namespace}})
    hint = Hint("Have it belong to this Appliance, if it is meant to.", patch)
    sentence = f"belongs to Appliance {other}, and the one that is reconciled is {ours}: it is left alone"
    return Cause(subject, sentence, hint=hint)


def _released(subject: Subject, o: ModuleObservation, sight: Sight) -> Cause:
    if labels.MODULE_FINALIZER in o.activation.metadata.finalizers:
        sentence = "is being deleted, nothing of its module is left, and the operator is to let it go"
        return Cause(subject, sentence, (lease_of(sight),))
    return held_by_finalizers(subject, o.activation, "nothing of its module is left")


def _refused(subject: Subject, o: ModuleObservation, sight: Sight) -> Cause | None:
    """What the operator reports of writes that it tried, for the present generation."""
    status = o.activation.status
    if status.get("observedGeneration") != o.generation:
        return None
    phase, message, site = status.get("phase"), status.get("message", ""), sight.facts.site
    cause = Cause(subject, f"is {phase}: {message}")
    match _reason(status):
        case ModuleReason.WAITING_FOR_NAMESPACE:
            return replace(cause, because=(Subject(NAMESPACE, site.flux_namespace),))
        case ModuleReason.API_REJECTED:
            return replace(cause, hint=_rights("Grant the right, or correct what the message names.", sight))
        case ModuleReason.API_UNAVAILABLE:
            return replace(cause, hint=_rights("Grant the operator the right to read.", sight))
        case _:
            return None


# --- commands ------------------------------------------------------------------------------------


def _rights(text: str, sight: Sight) -> Hint:
    site = sight.facts.site
    user = f"--as=system:serviceaccount:{site.appliance_namespace}:{ACCOUNT}"
    look = kubectl("auth", "can-i", "--list", user, namespace=site.flux_namespace)
    return Hint(f"{text} This lists the operator's rights.", look)


def _activate(module: str, sight: Sight) -> str:
    made = auto_activation(module, sight.facts.site)
    body = {**made, "metadata": {name: made["metadata"][name] for name in ("name", "namespace")}}
    return f"echo {shlex.quote(json.dumps(body))} | kubectl apply -f -"
