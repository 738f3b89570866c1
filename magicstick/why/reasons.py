"""What stands behind each reason that the decision about a module gives."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from magicstick.api.kinds import APPLIANCE, KUSTOMIZATION, MODULE_ACTIVATION
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION
from magicstick.modules.facts import State
from magicstick.modules.flux import suspended
from magicstick.modules.observation import Dependency, ModuleObservation
from magicstick.modules.status import ModulePhase, ModuleReason
from magicstick.why.causes import MODULE, Cause, Hint, Subject
from magicstick.why.operator import lease_of
from magicstick.why.sight import Sight
from magicstick.why.subjects import catalog_subject, module_subject, not_in_catalog, unread

Explainer = Callable[[Cause, ModuleObservation, Sight], Cause]
"""Completes a cause whose sentence is the phase and message of the status."""


def complete(cause: Cause, reason: str, o: ModuleObservation, sight: Sight) -> Cause:
    """Where it comes from, or what to do. A reason that is not in the table is Flux's own."""
    return EXPLAINERS.get(reason, by_flux)(cause, o, sight)


def by_flux(cause: Cause, o: ModuleObservation, sight: Sight) -> Cause:
    """What Flux says; or what the operator has to write first."""
    if o.live is None:
        sentence = f"waits for the operator, which is to create Kustomization {o.flux_name}"
        return replace(cause, sentence=sentence, because=(lease_of(sight),))
    if suspended(o.live) and not o.live.metadata.dying:
        sentence = f"waits for the operator, which is to resume Kustomization {o.flux_name}"
        return replace(cause, sentence=sentence, because=(lease_of(sight),))
    # Flux's words stand at the Kustomization.
    failed = cause.sentence.startswith(f"is {ModulePhase.DEGRADED}")
    sentence = "is Degraded: its Kustomization failed" if failed else "waits for its Kustomization"
    return replace(cause, sentence=sentence, because=(sight.place(KUSTOMIZATION, o.flux_name),))


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
    going = [each.metadata.name for each in o.generated if each.metadata.dying]
    if not going:
        return replace(cause, sentence="is to be removed by the operator", because=(lease_of(sight),))
    return replace(cause, because=tuple(sight.place(KUSTOMIZATION, name) for name in going))


def _disabled(cause: Cause, _o: ModuleObservation, _sight: Sight) -> Cause:
    hint = Hint("Switch it on.", cause.subject.patch({"enabled": True}))
    return replace(cause, sentence="is switched off (spec.enabled is false)", hint=hint)


def _unknown(cause: Cause, o: ModuleObservation, sight: Sight) -> Cause:
    if o.entry is not None and o.entry.problem:
        return replace(cause, because=(catalog_subject(sight),))
    unknown = not_in_catalog(Subject(MODULE, o.module), sight)
    return replace(cause, sentence=f"asks for module {o.module}, which {unknown.sentence}", hint=unknown.hint)


def _deletable(cause: Cause, _o: ModuleObservation, _sight: Sight) -> Cause:
    return replace(cause, hint=Hint("Delete it.", cause.subject.command("delete")))


def _editable(cause: Cause, _o: ModuleObservation, _sight: Sight) -> Cause:
    return replace(cause, hint=Hint("Correct the field.", cause.subject.command("edit")))


def _cycle(cause: Cause, _o: ModuleObservation, sight: Sight) -> Cause:
    text = "Take one `requires` out of the circle, in the catalog's source where it has one."
    return replace(cause, hint=Hint(text, catalog_subject(sight).command("edit")))


def _foreign(cause: Cause, o: ModuleObservation, sight: Sight) -> Cause:
    place = sight.place(KUSTOMIZATION, o.flux_name)
    look = place.command("get", "-o", "yaml", "--show-managed-fields")
    return replace(cause, hint=Hint("See who made it before you remove it.", look))


def unavailable(cause: Cause, o: ModuleObservation, sight: Sight) -> Cause:
    """What is needed for a decision cannot be read here; the operator may see more, and reports it."""
    if o.entry is None:
        sentence = "cannot be judged without a module catalog"
        return replace(cause, sentence=f"{sentence}{reported(o)}", because=(catalog_subject(sight),))
    unclear = [each for each in o.dependencies if each.readiness.state is State.UNKNOWN]
    if unclear and not o.blind:
        told = "; ".join(f"module {each.module} {each.readiness.why}" for each in unclear)
        because = tuple(module_subject(each.module, sight) for each in unclear)
        return replace(cause, sentence=f"cannot be judged now: {told}", because=because, passing=True)
    sentence = f"cannot be judged, since not everything can be read{reported(o)}"
    return replace(cause, sentence=sentence, because=tuple(unread(READ, sight)))


def reported(o: ModuleObservation) -> str:
    """What the operator says, as the end of a sentence; "" where it never said anything."""
    phase = o.activation.status.get("phase")
    return f" (the operator reports {phase})" if phase else ""


READ: Final = (MODULE_ACTIVATION, KUSTOMIZATION, APPLIANCE, CUSTOM_RESOURCE_DEFINITION)
"""What a decision about a module needs."""

EXPLAINERS: Final[Mapping[str, Explainer]] = {
    ModuleReason.WAITING_FOR_MODULES: _missing_modules,
    ModuleReason.WAITING_FOR_CRD: _missing_definitions,
    ModuleReason.CATALOG_UNAVAILABLE: unavailable,
    ModuleReason.API_UNAVAILABLE: unavailable,
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
