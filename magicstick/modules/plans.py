"""The parts that plans for modules are made of: reports, and the steps on Kustomizations."""

from collections.abc import Iterable, Mapping
from typing import Final

from magicstick.api import labels
from magicstick.api.kinds import KUSTOMIZATION, MODULE_ACTIVATION
from magicstick.api.parse import InvalidSpec
from magicstick.kube.objects import Resource
from magicstick.modules.flux import suspended
from magicstick.modules.objects import auto_activation, kustomization, live_variables, resumed
from magicstick.modules.observation import ModuleObservation
from magicstick.modules.parameters import parameter_problem, substitutions
from magicstick.modules.status import ModulePhase, Outcome, module_status
from magicstick.runtime.conditions import cut
from magicstick.runtime.plan import Apply, Create, Delete, Finalizer, Plan, Step

LOGGED_CHARACTERS: Final = 253
"""Of what a user calls a module, which may be anything up to a megabyte."""


def report(
    o: ModuleObservation,
    phase: ModulePhase,
    reason: str,
    message: str,
    kustomization_name: str = "",
    steps: tuple[Step, ...] = (),
) -> Plan:
    """A plan that says what the module's state is."""
    status = module_status(o.generation, phase, reason, message, kustomization_name)
    return Plan(phase, steps, finalizer(o), status, log={"module": cut(o.module, LOGGED_CHARACTERS)})


def kept(o: ModuleObservation, reason: str, message: str, steps: tuple[Step, ...] = ()) -> Plan:
    """A plan that leaves the status as it is; where there never was one, it says why not."""
    if not o.activation.status.get("phase"):
        return report(o, ModulePhase.RECONCILING, reason, message, steps=steps)
    return Plan(Outcome.HELD, steps, finalizer(o))


def released() -> Plan:
    """The activation may go."""
    return Plan(Outcome.RELEASED, finalizer=Finalizer.REMOVE)


def finalizer(o: ModuleObservation) -> Finalizer:
    """Ours is put on whatever may come to have a Kustomization, and on nothing that is dying."""
    metadata = o.activation.metadata
    manages = o.definition is not None and not o.definition.static and not o.speaker
    if manages and not metadata.dying and labels.MODULE_FINALIZER not in metadata.finalizers:
        return Finalizer.ADD
    return Finalizer.KEEP


def given_parameters(o: ModuleObservation) -> Mapping[str, object]:
    """The parameters that the user gave; none where the spec cannot be read."""
    return {} if isinstance(o.spec, InvalidSpec) else o.spec.parameters


def invalid_parameter(o: ModuleObservation) -> str:
    """What is wrong with the first parameter that cannot be substituted; "" when nothing is."""
    return "" if o.definition is None else parameter_problem(o.definition, given_parameters(o))


def create_needs(o: ModuleObservation) -> tuple[Step, ...]:
    """Make the activations that this module needs and that do not exist."""
    return tuple(Create(MODULE_ACTIVATION, auto_activation(module, o.site)) for module in o.needs)


def apply_kustomization(o: ModuleObservation, *, suspend: bool) -> tuple[Step, ...]:
    """Make the module's Kustomization what it should be; () without an entry or a source.

    While a parameter is invalid, the values that the live object has stay.
    """
    if o.definition is None or o.source is None:
        return ()
    variables = substitutions(o.definition, given_parameters(o))
    if o.live is not None and invalid_parameter(o):
        variables = live_variables(o.live)
    body = kustomization(
        o.module,
        o.definition,
        o.site,
        source=o.source,
        depends_on=[each.flux_name for each in o.dependencies if each.exists and each.flux_name],
        variables=variables,
        suspend=suspend,
    )
    return (Apply(KUSTOMIZATION, body),)


def removal(kustomizations: Iterable[Resource]) -> tuple[Step, ...]:
    """The next step in the removal of each: resume it, or else delete it; nothing once it is dying."""
    return tuple(
        Apply(KUSTOMIZATION, resumed(each))
        if suspended(each)
        else Delete(KUSTOMIZATION, each.metadata.key, each.metadata.uid)
        for each in kustomizations
        if not each.metadata.dying
    )
