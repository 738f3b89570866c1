"""Why an instance or a model is not ready: the modules that it needs, and what its own status says."""

from collections.abc import Iterator, Mapping

from magicstick.api.kinds import APP_INSTANCE
from magicstick.kube.objects import Resource
from magicstick.models.requirements import FREETOKEN, KUBEAI, ROUTING, required
from magicstick.models.validation import RefusedError
from magicstick.modules.activations import belongs_to, enabled
from magicstick.modules.facts import State
from magicstick.runtime.conditions import READY, conditions_of, find, is_true
from magicstick.why.causes import Cause, Explanation, Hint, Subject, healthy, kubectl, unhealthy
from magicstick.why.deletion import held_by_finalizers
from magicstick.why.operator import lease_of
from magicstick.why.sight import Sight
from magicstick.why.subjects import module_subject

DEFAULT_TARGET = "nvidia-gpu"
"""Compute target of a local model that names none (spec: modules-and-apps §4)."""


def explain_workload(subject: Subject, sight: Sight) -> Explanation:
    """By its modules, then by its own conditions."""
    if blocked := sight.obstacle(subject):
        return blocked
    live = sight.find(subject)
    if live is None:
        look = kubectl("get", subject.kind.plural, namespace=subject.namespace)
        hint = Hint("See what there is.", look)
        return unhealthy(Cause(subject, f"does not exist in namespace {subject.namespace}", hint=hint))
    if live.metadata.dying:
        return unhealthy(held_by_finalizers(subject, live, "what it had made is removed"))
    if enabled(live) is False:
        hint = Hint("Switch it on.", subject.patch({"enabled": True}))
        sentence = "is switched off (spec.enabled is false)"
        return healthy(subject, sentence, Cause(subject, sentence, hint=hint))
    return _reported(subject, live, sight)


def _reported(subject: Subject, live: Resource, sight: Sight) -> Explanation:
    current = live.status.get("observedGeneration") == live.metadata.generation
    conditions = conditions_of(live.status)
    if current and is_true(conditions, READY, live.metadata.generation):
        return healthy(subject, f"is {live.status.get('phase', 'Ready')}: {live.status.get('message', '')}")
    if waiting := tuple(_unready_modules(subject, live, sight)):
        listed = ", ".join(each.name for each in waiting)
        return unhealthy(Cause(subject, f"needs modules that are not ready: {listed}", waiting))
    if not current:
        return unhealthy(Cause(subject, "is new or has changed, and has no status yet", (lease_of(sight),)))
    ready = find(conditions, READY) or {}
    reason = f" ({ready['reason']})" if ready.get("reason") else ""
    message = live.status.get("message") or ready.get("message", "")
    hint = Hint("See its conditions.", subject.command("describe"))
    sentence = f"is {live.status.get('phase', 'not ready')}{reason}: {message}"
    return unhealthy(Cause(subject, sentence, hint=hint))


def _unready_modules(subject: Subject, live: Resource, sight: Sight) -> Iterator[Subject]:
    if not belongs_to(live, sight.facts.site):
        return
    needs = _application_modules if subject.kind == APP_INSTANCE else _model_modules
    for module in dict.fromkeys(sight.facts.canonical(each) for each in needs(live, sight)):
        if sight.facts.readiness(module).state is State.NOT_READY:
            yield module_subject(module, sight)


def _application_modules(live: Resource, sight: Sight) -> tuple[str, ...]:
    catalog = sight.catalogs.applications
    name = str(live.spec.get("application"))
    definition = catalog.applications.get(name) if catalog is not None else None
    return definition.required_modules if definition is not None else ()


def _model_modules(live: Resource, sight: Sight) -> tuple[str, ...]:
    """What a model needs by its spec (spec: modules-and-apps §4); nothing where that cannot be told."""
    targets, modules, local = sight.catalogs.compute_targets, sight.facts.catalog, live.spec.get("local")
    if live.spec.get("type", "local") != "local":
        return ROUTING
    if targets is None or modules is None or not isinstance(local, Mapping):
        return ()
    target = targets.targets.get(str(local.get("computeTarget") or DEFAULT_TARGET))
    if target is None:
        return ()
    try:
        return required(modules, target.required_capabilities, _serving(local))
    except RefusedError:
        return ()


def _serving(local: Mapping[str, object]) -> tuple[str, ...]:
    if local.get("realtime") is not None:
        return ROUTING
    return FREETOKEN if str(local.get("engine")).casefold() == "freetoken" else KUBEAI
