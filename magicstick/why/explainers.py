"""Which explainer speaks of which kind. A later kind is one more entry, with the edges that it declares."""

from collections.abc import Callable, Mapping
from typing import Final

from magicstick.api.kinds import (
    APP_INSTANCE,
    APPLIANCE,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    MODEL_ACTIVATION,
    MODULE_ACTIVATION,
    PALENA_KINDS,
)
from magicstick.kube.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, LEASE, NAMESPACE, NODE, Kind
from magicstick.why.appliances import explain_appliance
from magicstick.why.asking import NAMED_BY_MODULE, Question
from magicstick.why.causes import HARDWARE, MODULE, Explanation, Subject
from magicstick.why.cluster import explain_catalog, explain_definition, explain_namespace
from magicstick.why.flux import explain_kustomization, explain_source
from magicstick.why.hardware import explain_hardware, explain_node
from magicstick.why.modules import explain_activation, explain_module
from magicstick.why.operator import explain_lease, lease_of
from magicstick.why.palena import explain_palena
from magicstick.why.palena import place as palena_place
from magicstick.why.sight import Sight
from magicstick.why.subjects import module_subject
from magicstick.why.walk import Node, walk
from magicstick.why.workloads import explain_workload

EXPLAINERS: Final[Mapping[Kind, Callable[[Subject, Sight], Explanation]]] = {
    APPLIANCE: explain_appliance,
    MODULE_ACTIVATION: explain_activation,
    MODULE: explain_module,
    APP_INSTANCE: explain_workload,
    MODEL_ACTIVATION: explain_workload,
    HARDWARE: explain_hardware,
    NODE: explain_node,
    KUSTOMIZATION: explain_kustomization,
    GIT_REPOSITORY: explain_source,
    CONFIG_MAP: explain_catalog,
    CUSTOM_RESOURCE_DEFINITION: explain_definition,
    NAMESPACE: explain_namespace,
    LEASE: explain_lease,
    **dict.fromkeys(PALENA_KINDS, explain_palena),
}


def explain(subject: Subject, sight: Sight) -> Explanation:
    """What there is to say of one subject."""
    return EXPLAINERS[subject.kind](subject, sight)


def tree(subject: Subject, sight: Sight) -> tuple[Explanation, tuple[Node, ...]]:
    """What there is to say of a subject, and the trees of its causes."""
    return explain(subject, sight), walk(subject, lambda each: explain(each, sight), sight.graph.covers)


def subject_of(asked: Question, sight: Sight) -> Subject:
    """The object that a question means. A module may be called by any of its names."""
    site, name = sight.facts.site, asked.name
    if asked.kind == APPLIANCE:
        return Subject(APPLIANCE, name or site.appliance_name, site.appliance_namespace)
    if asked.kind == LEASE:
        return lease_of(sight)
    if asked.kind == HARDWARE:
        return Subject(HARDWARE, sight.facts.canonical(name))
    if asked.kind in PALENA_KINDS:
        return palena_place(asked.kind, name, sight, asked.namespace)
    if asked.kind not in NAMED_BY_MODULE:
        return sight.place(asked.kind, name)
    return _module(asked, sight)


def _module(asked: Question, sight: Sight) -> Subject:
    """The activation of this very name, or else what stands for the module that is called so."""
    exact = sight.place(MODULE_ACTIVATION, asked.name)
    if asked.kind == MODULE_ACTIVATION and sight.facts.activations.get(exact.key) is not None:
        return exact
    return module_subject(sight.facts.canonical(asked.name), sight)
