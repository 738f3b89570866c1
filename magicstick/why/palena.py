"""Why an object of Palena is not ready: the objects it refers to, the kinds it needs, and its own status."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from magicstick.api.kinds import (
    CNPG_CLUSTER,
    LANGFUSE_INSTANCE,
    LITELLM_INSTANCE,
    LITELLM_MODEL,
    LITELLM_VIRTUAL_KEY,
    PALENA_GATEWAY,
    PALENA_MCP_SERVER,
    PALENA_MODEL,
    PALENA_OBSERVABILITY,
    PALENA_UI,
)
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, Kind
from magicstick.kube.objects import Resource
from magicstick.runtime.conditions import READY, conditions_of, find, is_true
from magicstick.why.causes import Cause, Explanation, Hint, Subject, healthy, kubectl, unhealthy
from magicstick.why.deletion import held_by_finalizers
from magicstick.why.operator import lease_of
from magicstick.why.sight import Sight

REFERRED: Final[Mapping[Kind, tuple[Kind, ...]]] = {
    PALENA_GATEWAY: (),
    PALENA_MODEL: (PALENA_GATEWAY,),
    PALENA_UI: (PALENA_GATEWAY, PALENA_MCP_SERVER),
    PALENA_OBSERVABILITY: (PALENA_GATEWAY,),
    PALENA_MCP_SERVER: (),
}
"""Which of Palena's kinds each refers to."""

NEEDED: Final[Mapping[Kind, tuple[Kind, ...]]] = {
    PALENA_GATEWAY: (CNPG_CLUSTER, LITELLM_INSTANCE),
    PALENA_MODEL: (LITELLM_MODEL,),
    PALENA_UI: (LITELLM_VIRTUAL_KEY,),
    PALENA_OBSERVABILITY: (LANGFUSE_INSTANCE, LITELLM_INSTANCE, CNPG_CLUSTER),
    PALENA_MCP_SERVER: (),
}
"""Which foreign kinds each may need; what it really needs its status tells."""

CRD_MISSING: Final = "CRDMissing"

MADE_BY_OTHERS: Final[Mapping[Kind, tuple[tuple[str, Kind, tuple[str, str]], ...]]] = {
    PALENA_GATEWAY: (
        ("Cluster", CNPG_CLUSTER, ("database", "clusterName")),
        ("Instance", LITELLM_INSTANCE, ("litellmInstanceRef", "name")),
        ("Migration", LITELLM_INSTANCE, ("litellmInstanceRef", "name")),
    ),
    PALENA_OBSERVABILITY: (("Instance", LANGFUSE_INSTANCE, ("langfuseInstanceRef", "name")),),
}
"""How reasons begin that are another operator's; its kind, and where the status has the object's name."""

OF_PODS: Final = frozenset({"StatefulSetNotReady", "DeploymentNotReady"})
"""Reasons that are those of Pods."""


def explain_palena(subject: Subject, sight: Sight) -> Explanation:
    """By what it refers to, then by its own conditions."""
    if blocked := sight.obstacle(subject):
        return blocked
    live = sight.find(subject)
    if live is None:
        hint = Hint("See what there is.", kubectl("get", subject.kind.plural, "--all-namespaces"))
        return unhealthy(Cause(subject, "does not exist", hint=hint))
    if live.metadata.dying:
        return unhealthy(held_by_finalizers(subject, live, "what was made for it is removed"))
    return _reported(subject, live, sight)


def place(kind: Kind, name: str, sight: Sight, namespace: str = "") -> Subject:
    """The object of this name, in this namespace or else wherever it is; of several the first not ready."""
    if namespace:
        return Subject(kind, name, namespace)
    found = [each for each in sight.stores.store(kind).list() if each.metadata.name == name]
    found.sort(key=lambda each: (_ready(each), each.metadata.namespace))
    return Subject(kind, name, found[0].metadata.namespace if found else "")


def _ready(live: Resource) -> bool:
    return is_true(conditions_of(live.status), READY, live.metadata.generation)


def _reported(subject: Subject, live: Resource, sight: Sight) -> Explanation:
    phase, message = live.status.get("phase", ""), live.status.get("message", "")
    if live.status.get("observedGeneration") != live.metadata.generation:
        return unhealthy(Cause(subject, "is new or has changed, and has no status yet", (lease_of(sight),)))
    if _ready(live):
        return healthy(subject, f"is {phase or 'Ready'}: {message}")
    ready = find(conditions_of(live.status), READY) or {}
    reason = ready.get("reason", "")
    sentence = f"is {phase or 'not ready'}{f' ({reason})' if reason else ''}: {message}"
    if links := (*_missing(subject, reason, sight), *_unready(subject, live, sight)):
        return unhealthy(Cause(subject, sentence, links))
    return unhealthy(Cause(subject, sentence, hint=_nearest(subject, reason, live.status)))


def _nearest(subject: Subject, reason: str, status: Mapping[str, Any]) -> Hint:
    """Where more is to be seen: at an object of another operator's, the Pods, or else the conditions."""
    for beginning, kind, (block, field) in MADE_BY_OTHERS.get(subject.kind, ()):
        name = (status.get(block) or {}).get(field)
        if reason.startswith(beginning) and name:
            # By its full name: other groups have kinds of the same.
            command = kubectl("describe", kind.crd_name, name, namespace=subject.namespace)
            return Hint(f"See what the operator of {kind.kind} {name} says of it.", command)
    if reason in OF_PODS:
        chosen = f"app.kubernetes.io/instance={subject.name}"
        return Hint("See its Pods.", kubectl("get", "pods", "-l", chosen, namespace=subject.namespace))
    return Hint("See its conditions.", subject.command("describe"))


def _missing(subject: Subject, reason: str, sight: Sight) -> Iterator[Subject]:
    """The definitions that are not there, where that is what it waits for."""
    if reason != CRD_MISSING or not sight.known(CUSTOM_RESOURCE_DEFINITION):
        return
    for kind in NEEDED[subject.kind]:
        definition = Subject(CUSTOM_RESOURCE_DEFINITION, kind.crd_name)
        if sight.find(definition) is None:
            yield definition


def _unready(subject: Subject, live: Resource, sight: Sight) -> Iterator[Subject]:
    """What it refers to and is not ready."""
    for kind in REFERRED[subject.kind]:
        for reference in _references(kind, live.spec):
            name, namespace = reference.get("name"), reference.get("namespace")
            target = Subject(kind, str(name), str(namespace or subject.namespace))
            found = sight.find(target) if sight.known(kind) else None
            if found is None or not _ready(found):
                yield target


def _references(kind: Kind, spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    one, many = ("gatewayRef", "gatewayRefs") if kind == PALENA_GATEWAY else ("", "mcpServerRefs")
    entries = [spec.get(one), *(spec.get(many) or ())]
    yield from (each for each in entries if isinstance(each, Mapping) and each.get("name"))
