"""Why a module is not ready: its activation, and what the reconciler decides about it.

The decision is asked of the caches, as the operator does, and never carried out. Where the status that the
operator wrote says that a write was refused, that is the cause: a decision does not know of it.
"""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Final

from magicstick.api import labels
from magicstick.api.kinds import APPLIANCE, KUSTOMIZATION, MODULE_ACTIVATION
from magicstick.catalogs.modules import ModuleDefinition
from magicstick.kube.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, NAMESPACE, ObjectKey
from magicstick.modules.activations import belongs_to
from magicstick.modules.decide import decide
from magicstick.modules.facts import State
from magicstick.modules.flux import suspended
from magicstick.modules.objects import auto_activation
from magicstick.modules.observation import Dependency, ModuleObservation
from magicstick.modules.reconciler import observe
from magicstick.modules.status import HEALTHY, ModulePhase, ModuleReason, Outcome
from magicstick.runtime.conditions import READY, conditions_of, find
from magicstick.runtime.plan import Plan
from magicstick.runtime.status import same_meaning
from magicstick.why.causes import (
    HARDWARE,
    MODULE,
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
from magicstick.why.sight import Sight

ANY: Final = "*"
"""In place of a name, where all objects of a kind are meant."""
ACCOUNT: Final = labels.OPERATOR
"""The operator's service account."""

Status = Mapping[str, object]
Explainer = Callable[[Cause, ModuleObservation, Sight], Cause]
"""Completes a cause whose sentence is the message of the status."""


# --- modules, with and without an activation -----------------------------------------------------


def module_subject(module: str, sight: Sight) -> Subject:
    """What stands for a module: its activation, the Kustomization of a static one, or the module itself."""
    definition = sight.facts.catalog.modules.get(module) if sight.facts.catalog is not None else None
    if definition is not None and definition.static:
        return sight.place(KUSTOMIZATION, sight.facts.flux_name(module) or module)
    activation = sight.facts.activation(module)
    if activation is not None:
        return Subject.of(MODULE_ACTIVATION, activation.metadata.key)
    return Subject(MODULE, module)


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
        return unhealthy(_not_in_catalog(subject, sight))
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


def catalog_subject(sight: Sight) -> Subject:
    """The ConfigMap of the module catalog."""
    settings = sight.settings
    return Subject(CONFIG_MAP, settings.module_catalog_name, settings.module_catalog_namespace)


def _not_in_catalog(subject: Subject, sight: Sight) -> Cause:
    catalog = sight.facts.catalog
    known = sorted(catalog.modules) if catalog is not None else []
    near = get_close_matches(subject.name, known, n=1)
    text = f"Did you mean {near[0]}? " if near else ""
    place = catalog_subject(sight)
    look = place.command("get", "-o", "yaml")
    return Cause(subject, "is not in the module catalog", hint=Hint(f"{text}See what the catalog has.", look))


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


def _decided(
    subject: Subject, o: ModuleObservation, status: Mapping[str, object], sight: Sight
) -> Explanation:
    """By the status that the decision asks for, and by whether the operator has written it."""
    phase, message = str(status["phase"]), str(status["message"])
    reported = same_meaning(status, o.activation.status)
    if phase in HEALTHY and not reported:
        sentence = f"is {phase} by now, which the operator has not reported yet"
        return unhealthy(Cause(subject, sentence, (lease_of(sight),)))
    cause = _complete(Cause(subject, f"is {phase}: {message}"), _reason(status), o, sight)
    if phase == ModulePhase.READY:
        return healthy(subject, f"is Ready: {message}", notes=_notes(sight))
    if phase in HEALTHY:
        return healthy(subject, cause.sentence, cause, notes=_notes(sight))
    if not reported and lease_of(sight) not in cause.because:
        note = f"The operator has not reported this yet; it {heard(sight)}."
        cause = replace(cause, note=note)
    return unhealthy(cause)


def _notes(sight: Sight) -> tuple[str, ...]:
    if running(sight) is not False:
        return ()
    return (f"The operator does not run (it {heard(sight)}): changes have no effect.",)


def _complete(cause: Cause, reason: str, o: ModuleObservation, sight: Sight) -> Cause:
    """Where it comes from, or what to do, by the reason. One that is not in the table is Flux's own."""
    return EXPLAINERS.get(reason, _by_flux)(cause, o, sight)


def _reason(status: Status) -> str:
    ready = find(conditions_of(status), READY)
    return str(ready.get("reason")) if ready is not None else ""


# --- by reason -----------------------------------------------------------------------------------


def _by_flux(cause: Cause, o: ModuleObservation, sight: Sight) -> Cause:
    """What Flux says; or what the operator has to write first."""
    if o.live is None or (suspended(o.live) and not o.live.metadata.dying):
        return replace(cause, because=(lease_of(sight),))
    return replace(cause, because=(sight.place(KUSTOMIZATION, o.flux_name),))


def _missing_modules(cause: Cause, o: ModuleObservation, sight: Sight) -> Cause:
    missing = [each for each in o.dependencies if each.readiness.state is State.NOT_READY]
    sentence = f"waits for {_listed(missing)}"
    made = [lease_of(sight)] if any(each.module in o.needs for each in missing) else []
    others = [module_subject(each.module, sight) for each in missing if each.module not in o.needs]
    return replace(cause, sentence=sentence, because=(*others, *made))


def _listed(missing: list[Dependency]) -> str:
    told = [f"{each.module}, which {each.readiness.why}" for each in missing]
    return f"module {told[0]}" if len(told) == 1 else f"modules: {'; '.join(told)}"


def _missing_definitions(cause: Cause, o: ModuleObservation, _sight: Sight) -> Cause:
    names = (KUSTOMIZATION.crd_name,) if not o.flux_served else o.missing_crds or ()
    return replace(cause, because=tuple(Subject(CUSTOM_RESOURCE_DEFINITION, name) for name in names))


def _removing(cause: Cause, o: ModuleObservation, sight: Sight) -> Cause:
    going = tuple(
        sight.place(KUSTOMIZATION, each.metadata.name) for each in o.generated if each.metadata.dying
    )
    return replace(cause, because=going or (lease_of(sight),))


def _disabled(cause: Cause, _o: ModuleObservation, _sight: Sight) -> Cause:
    hint = Hint("Switch it on.", cause.subject.patch({"enabled": True}))
    return replace(cause, sentence="is switched off (spec.enabled is false)", hint=hint)


def _unknown(cause: Cause, o: ModuleObservation, sight: Sight) -> Cause:
    if o.entry is not None and o.entry.problem:
        return replace(cause, because=(catalog_subject(sight),))
    unknown = _not_in_catalog(Subject(MODULE, o.module), sight)
    return replace(cause, sentence=f"asks for module {o.module}, which {unknown.sentence}", hint=unknown.hint)


def _deletable(cause: Cause, _o: ModuleObservation, _sight: Sight) -> Cause:
    return replace(cause, hint=Hint("Delete it.", cause.subject.command("delete")))


def _editable(cause: Cause, _o: ModuleObservation, _sight: Sight) -> Cause:
    return replace(cause, hint=Hint("Correct the field.", cause.subject.command("edit")))


def _cycle(cause: Cause, _o: ModuleObservation, sight: Sight) -> Cause:
    place = catalog_subject(sight)
    words = ("edit", "configmap", place.name)
    hint = Hint(
        "Take one `requires` out of the circle, in the catalog's source where it has one.",
        kubectl(*words, namespace=place.namespace),
    )
    return replace(cause, hint=hint)


def _foreign(cause: Cause, o: ModuleObservation, sight: Sight) -> Cause:
    place = sight.place(KUSTOMIZATION, o.flux_name)
    words = ("get", "kustomization", place.name, "-o", "yaml", "--show-managed-fields")
    hint = Hint("See who made it before you remove it.", kubectl(*words, namespace=place.namespace))
    return replace(cause, hint=hint)


EXPLAINERS: Final[Mapping[str, Explainer]] = {
    ModuleReason.WAITING_FOR_MODULES: _missing_modules,
    ModuleReason.WAITING_FOR_CRD: _missing_definitions,
    ModuleReason.REMOVING: _removing,
    ModuleReason.DISABLED: _disabled,
    ModuleReason.UNKNOWN_MODULE: _unknown,
    ModuleReason.STATIC_MODULE: _deletable,
    ModuleReason.DUPLICATE_MODULE: _deletable,
    ModuleReason.INVALID_PARAMETER: _editable,
    ModuleReason.INVALID_SPEC: _editable,
    ModuleReason.DEPENDENCY_CYCLE: _cycle,
    ModuleReason.KUSTOMIZATION_CONFLICT: _foreign,
}
"""What stands behind a reason. Whatever is not here comes from Flux, with Flux's own reason."""


# --- what no status tells ------------------------------------------------------------------------


def _without_status(subject: Subject, o: ModuleObservation, plan: Plan, sight: Sight) -> Explanation:
    """A plan that leaves the status alone: why."""
    match plan.outcome:
        case Outcome.NOT_OURS:
            return unhealthy(_not_ours(subject, o, sight))
        case Outcome.RELEASED:
            return unhealthy(_released(subject, o, sight))
        case Outcome.HELD:
            return unhealthy(_held(subject, o, sight))
        case ModulePhase.READY:
            return healthy(subject, "is Ready, and Flux is looking at it again", notes=_notes(sight))
        case _:
            said = str(o.activation.status.get("message", ""))
            return unhealthy(_by_flux(Cause(subject, f"is {plan.outcome}: {said}"), o, sight))


def _not_ours(subject: Subject, o: ModuleObservation, sight: Sight) -> Cause:
    site, reference = sight.facts.site, o.activation.spec["applianceRef"]
    other = ObjectKey(str(reference.get("namespace", site.appliance_namespace)), str(reference.get("name")))
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


def _held(subject: Subject, o: ModuleObservation, sight: Sight) -> Cause:
    """What is needed for a decision cannot be read here; the operator may see more."""
    sentence = "cannot be judged"
    if o.entry is None:
        return Cause(subject, f"{sentence} without a module catalog", (catalog_subject(sight),))
    unclear = [each for each in o.dependencies if each.readiness.state is State.UNKNOWN]
    if not o.blind and unclear:
        told = "; ".join(f"module {each.module} {each.readiness.why}" for each in unclear)
        because = tuple(module_subject(each.module, sight) for each in unclear)
        return Cause(subject, f"{sentence} now: {told}", because, passing=True)
    return Cause(subject, f"{sentence}: not everything can be read", tuple(_unread(sight)))


def _unread(sight: Sight) -> Iterator[Subject]:
    """Subjects of the kinds that cannot be read."""
    for kind in (MODULE_ACTIVATION, KUSTOMIZATION, APPLIANCE, CUSTOM_RESOURCE_DEFINITION):
        if not sight.known(kind):
            yield sight.place(kind, ANY)


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
            text = "Grant the right, or correct what the message names. This lists the operator's rights."
            return replace(cause, hint=Hint(text, _rights("--list", sight)))
        case ModuleReason.API_UNAVAILABLE:
            text = "Grant the operator the right to read. This lists the rights that it has."
            return replace(cause, hint=Hint(text, _rights("--list", sight)))
        case _:
            return None


# --- commands ------------------------------------------------------------------------------------


def _rights(what: str, sight: Sight) -> str:
    site = sight.facts.site
    user = f"--as=system:serviceaccount:{site.appliance_namespace}:{ACCOUNT}"
    return kubectl("auth", "can-i", what, user, namespace=site.flux_namespace)


def _activate(module: str, sight: Sight) -> str:
    made = auto_activation(module, sight.facts.site)
    body = {**made, "metadata": {name: made["metadata"][name] for name in ("name", "namespace")}}
    return f"echo {shlex.quote(json.dumps(body))} | kubectl apply -f -"
