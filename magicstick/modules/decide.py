"""The decision about one module (spec: modules-and-apps §7).

A list of rules in the order of the specification's table; the first that has something to say decides.
Each is pure, total, and speaks of the next steps only: after a write everything is observed anew.

What holds throughout:
    - Kustomizations are deleted only for a disabled or deleted module, and under a name that the module
      no longer has; a waiting module is suspended instead.
    - A suspended Kustomization is resumed before it is deleted, since Flux prunes nothing otherwise.
    - What cannot be read changes nothing.
    - An activation that is being deleted causes no creation.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from magicstick.api.kinds import KUSTOMIZATION
from magicstick.api.parse import InvalidSpec
from magicstick.kube.errors import ApiError, NameConflict, NamespaceTerminating, Rejected
from magicstick.kube.objects import Resource
from magicstick.modules.facts import State, is_ours
from magicstick.modules.flux import FluxState, Verdict, verdict
from magicstick.modules.observation import Dependency, ModuleObservation
from magicstick.modules.plans import (
    apply_kustomization,
    create_needs,
    finalizer,
    invalid_parameter,
    kept,
    released,
    removal,
    report,
)
from magicstick.modules.status import STALLED, ModulePhase, ModuleReason, Outcome
from magicstick.runtime.conditions import READY, find
from magicstick.runtime.plan import Plan, Step

Rule = Callable[[ModuleObservation], Plan | None]


def decide(o: ModuleObservation) -> Plan:
    """What to do next for the module of this activation, and the status that it has now."""
    for rule in RULES:
        plan = rule(o)
        if plan is not None:
            return plan
    return _wanted(o)


def decide_failure(o: ModuleObservation, error: ApiError) -> Plan:
    """What to report after a step failed; an error that says nothing of the object keeps its status."""
    match error:
        case NameConflict():
            return report(o, ModulePhase.DEGRADED, ModuleReason.KUSTOMIZATION_CONFLICT, error.message)
        case Rejected():
            message = f"The API server refused a write for module {o.module}: {error.message}"
            return report(o, ModulePhase.DEGRADED, ModuleReason.API_REJECTED, message, o.standing)
        case NamespaceTerminating():
            message = f"Namespace {o.site.flux_namespace} is being deleted or does not exist: {error.message}"
            return report(o, ModulePhase.RECONCILING, ModuleReason.WAITING_FOR_NAMESPACE, message, o.standing)
        case _:
            return kept(o, ModuleReason.API_UNAVAILABLE, error.message)


# --- the rules -----------------------------------------------------------------------------------


def _not_ours(o: ModuleObservation) -> Plan | None:
    return None if o.ours else Plan(Outcome.NOT_OURS)


def _not_knowable(o: ModuleObservation) -> Plan | None:
    """Without a catalog, or blind, nothing is generated, removed or released."""
    if o.entry is None:
        return kept(o, ModuleReason.CATALOG_UNAVAILABLE, "There is no usable module catalog yet.")
    return kept(o, ModuleReason.API_UNAVAILABLE, f"{o.blind}.") if o.blind else None


def _leaving_duplicate(o: ModuleObservation) -> Plan | None:
    """The module stays with the activation that speaks for it."""
    return released() if o.speaker and _dying(o) else None


def _unknown_module(o: ModuleObservation) -> Plan | None:
    """What is installed of it stays, since a catalog edit must not remove anything."""
    if o.definition is not None:
        return None
    if _dying(o):
        return _remove(o) or released()
    problem = o.entry.problem if o.entry is not None else ""
    why = (
        f"has an invalid entry in the module catalog: {problem}"
        if problem
        else "is not in the module catalog"
    )
    return report(
        o, ModulePhase.DEGRADED, ModuleReason.UNKNOWN_MODULE, f"Module {o.module} {why}.", o.standing
    )


def _static_module(o: ModuleObservation) -> Plan | None:
    if o.definition is None or not o.definition.static:
        return None
    if _dying(o):
        return released()
    message = f"Module {o.module} belongs to the Flux graph in Git and is always on. Delete this activation."
    return report(o, ModulePhase.DEGRADED, ModuleReason.STATIC_MODULE, message)


def _duplicate(o: ModuleObservation) -> Plan | None:
    if not o.speaker:
        return None
    message = f"ModuleActivation {o.speaker} speaks for module {o.module}. Delete one of the two."
    return report(o, ModulePhase.DEGRADED, ModuleReason.DUPLICATE_MODULE, message)


def _leaving(o: ModuleObservation) -> Plan | None:
    return (_remove(o) or released()) if _dying(o) else None


def _invalid_spec(o: ModuleObservation) -> Plan | None:
    if not isinstance(o.spec, InvalidSpec):
        return None
    return report(o, ModulePhase.DEGRADED, ModuleReason.INVALID_SPEC, f"{o.spec}.", o.standing)


def _disabled(o: ModuleObservation) -> Plan | None:
    if isinstance(o.spec, InvalidSpec) or o.spec.enabled:
        return None
    message = f"Module {o.module} is switched off."
    return _remove(o) or report(o, ModulePhase.DISABLED, ModuleReason.DISABLED, message)


def _dependency_cycle(o: ModuleObservation) -> Plan | None:
    if o.entry is None or not o.entry.cycle:
        return None
    message = f"The module catalog has a dependency cycle: {', '.join(o.entry.cycle)}."
    return report(o, ModulePhase.DEGRADED, ModuleReason.DEPENDENCY_CYCLE, message, o.standing)


def _flux_not_served(o: ModuleObservation) -> Plan | None:
    if o.flux_served:
        return None
    message = f"Waiting for CustomResourceDefinition {KUSTOMIZATION.crd_name}, which Flux brings."
    return report(o, ModulePhase.WAITING_FOR_CRD, ModuleReason.WAITING_FOR_CRD, message)


def _foreign_kustomization(o: ModuleObservation) -> Plan | None:
    if o.live is None or is_ours(o.live):
        return None
    message = (
        f"Kustomization {o.live.metadata.key} exists and was not made by the operator, which leaves it "
        f"alone. Remove it to have module {o.module} installed."
    )
    return report(o, ModulePhase.DEGRADED, ModuleReason.KUSTOMIZATION_CONFLICT, message)


def _missing_dependency(o: ModuleObservation) -> Plan | None:
    """Nothing is created for a waiting module; what exists stays, suspended."""
    missing = [each for each in o.dependencies if each.readiness.state is State.NOT_READY]
    if not missing or o.source is None:
        return None
    suspend = apply_kustomization(o, suspend=True) if _present(o.live) else ()
    return report(
        o,
        ModulePhase.WAITING_FOR_MODULES,
        ModuleReason.WAITING_FOR_MODULES,
        _missing_message(missing),
        o.flux_name,
        (*create_needs(o), *suspend),
    )


def _unclear_dependency(o: ModuleObservation) -> Plan | None:
    """What is not known now is not missing: the module stays as it is."""
    for each in o.dependencies:
        if each.readiness.state is State.UNKNOWN:
            return kept(o, ModuleReason.API_UNAVAILABLE, f"Module {each.module} {each.readiness.why}.")
    if o.source is None:
        return kept(o, ModuleReason.API_UNAVAILABLE, "The Appliance, which names the source, cannot be read.")
    return None


def _invalid_parameter(o: ModuleObservation) -> Plan | None:
    problem = invalid_parameter(o)
    if not problem:
        return None
    return report(o, ModulePhase.DEGRADED, ModuleReason.INVALID_PARAMETER, f"{problem}.", o.standing)


RULES: Final[tuple[Rule, ...]] = (
    _not_ours,
    _not_knowable,
    _leaving_duplicate,
    _unknown_module,
    _static_module,
    _duplicate,
    _leaving,
    _invalid_spec,
    _disabled,
    _dependency_cycle,
    _flux_not_served,
    _foreign_kustomization,
    _missing_dependency,
    _unclear_dependency,
    _invalid_parameter,
)
"""Where none decides, the module is wanted and everything that it needs is there (`_wanted`)."""


# --- a module that may run -----------------------------------------------------------------------


def _wanted(o: ModuleObservation) -> Plan:
    if o.live is not None and o.live.metadata.dying:
        message = f"Kustomization {o.flux_name} is being deleted; it is created again once it is gone."
        return _waiting_for_flux(o, message)
    steps = apply_kustomization(o, suspend=False)
    if o.live is None:
        return _waiting_for_flux(o, f"Kustomization {o.flux_name} is being created.", steps)
    said = verdict(o.live)
    match said.state:
        case FluxState.READY:
            return _applied(o, said, steps)
        case FluxState.FAILED:
            reason = said.reason or ModuleReason.KUSTOMIZATION_NOT_READY
            message = said.message or f"Flux could not apply Kustomization {o.flux_name}."
            return report(o, ModulePhase.DEGRADED, reason, message, o.flux_name, steps)
        case _ if _last_word_holds(o, said):
            return Plan(str(o.activation.status["phase"]), steps, finalizer(o))
        case _:
            news = said.message if said.current else ""
            return _waiting_for_flux(o, news or f"Flux has not applied {o.flux_name} yet.", steps)


def _applied(o: ModuleObservation, said: Verdict, steps: tuple[Step, ...]) -> Plan:
    """Flux is done. What is left is what it does not check, and names that the module had before."""
    if o.missing_crds is None:
        return kept(o, ModuleReason.API_UNAVAILABLE, "CustomResourceDefinitions cannot be read now.", steps)
    if o.missing_crds:
        message = f"Waiting for CustomResourceDefinitions: {', '.join(o.missing_crds)}"
        return report(
            o, ModulePhase.WAITING_FOR_CRD, ModuleReason.WAITING_FOR_CRD, message, o.flux_name, steps
        )
    former = [each for each in o.generated if each.metadata.name != o.flux_name]
    message = said.message or f"Kustomization {o.flux_name} is applied."
    return report(
        o,
        ModulePhase.READY,
        ModuleReason.KUSTOMIZATION_READY,
        message,
        o.flux_name,
        (*steps, *removal(former)),
    )


def _waiting_for_flux(o: ModuleObservation, message: str, steps: tuple[Step, ...] = ()) -> Plan:
    return report(
        o,
        ModulePhase.RECONCILING,
        ModuleReason.WAITING_FOR_KUSTOMIZATION,
        message,
        o.flux_name,
        steps,
    )


def _last_word_holds(o: ModuleObservation, said: Verdict) -> bool:
    """Whether what we reported last still stands while Flux looks again.

    Flux is at work at each interval, and at each retry of a failure; only its next verdict is news.
    """
    status = o.activation.status
    about_this = (o.generation, o.flux_name)
    if not said.current or (status.get("observedGeneration"), status.get("kustomization")) != about_this:
        return False
    if status.get("phase") == ModulePhase.READY:
        return said.state is FluxState.CHECKING
    return status.get("phase") == ModulePhase.DEGRADED and _reported_reason(status) not in STALLED


def _reported_reason(status: Mapping[str, object]) -> str:
    conditions = status.get("conditions")
    listed = conditions if isinstance(conditions, list | tuple) else ()
    ready = find((each for each in listed if isinstance(each, Mapping)), READY)
    return str(ready.get("reason")) if ready is not None else ""


# --- shared --------------------------------------------------------------------------------------


def _dying(o: ModuleObservation) -> bool:
    return o.activation.metadata.dying


def _present(kustomization: Resource | None) -> bool:
    return kustomization is not None and not kustomization.metadata.dying


def _remove(o: ModuleObservation) -> Plan | None:
    """Removal in progress; None once nothing of ours is left."""
    if not o.generated:
        return None
    message = f"Kustomization {o.standing} is being deleted; Flux removes what it had installed."
    return report(o, ModulePhase.REMOVING, ModuleReason.REMOVING, message, o.standing, removal(o.generated))


def _missing_message(missing: Sequence[Dependency]) -> str:
    names = ", ".join(each.module for each in missing)
    why = "; ".join(f"{each.module} {each.readiness.why}" for each in missing)
    return f"Waiting for modules: {names} ({why})"
