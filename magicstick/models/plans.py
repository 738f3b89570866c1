"""The parts that plans for models are made of: reports, and the steps on what serves a model."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from magicstick.api import labels
from magicstick.api.kinds import KUBEAI_MODEL
from magicstick.kube.kinds import CONFIG_MAP
from magicstick.kube.objects import Resource
from magicstick.models import kv_cache
from magicstick.models.kinds import DEPLOYMENT, SERVICE
from magicstick.models.observation import ModelObservation, Runtime
from magicstick.models.places import belongs
from magicstick.models.pods import pods_of
from magicstick.models.resolved import Backend, Resolved, ResolvedLocal
from magicstick.models.serving import direct_replicas, replicas
from magicstick.models.status import (
    CATALOG_PUBLISHED,
    RUNTIME_READY,
    ModelPhase,
    ModelReason,
    Outcome,
    Report,
    model_status,
)
from magicstick.runtime.conditions import conditions_of, is_true
from magicstick.runtime.plan import Delete, Finalizer, Plan, Step

_REMOVAL_ORDER: Final = (KUBEAI_MODEL, DEPLOYMENT, SERVICE, CONFIG_MAP)
"""The reverse of the order in which they are made."""


def report(
    o: ModelObservation,
    phase: ModelPhase,
    reason: str,
    message: str,
    steps: tuple[Step, ...] = (),
) -> Plan:
    """A plan that says what the model's state is, where nothing of its runtime is judged.

    A runtime that was fine and still is stays so: it is not taken from its users because something else
    is waited for.
    """
    serving = still_serving(o)
    told = Report(
        phase=phase,
        reason=reason,
        message=message,
        runtime_ready="True" if serving else "False",
        published="True" if serving and is_published(o) else "False",
        effective=serving,
        endpoint=o.status.runtime_endpoint if serving else "",
        pod_creation=_awaited(o),
        pod_recovery=None if serving else _attempts(o),
        memory_usage=o.check.memory_usage if serving else None,
        freetoken_stats=o.check.stats if serving else None,
    )
    return carry_out(o, told, steps)


def carry_out(
    o: ModelObservation, told: Report, steps: tuple[Step, ...] = (), *, outcome: str | None = None
) -> Plan:
    """A plan with this report, completed by what every state tells."""
    resolved = _resolved(o)
    complete = replace(
        told,
        message=standing(o) + told.message,
        resolved=resolved,
        profile=told.profile or _named_profile(o),
        requested_kv_cache_type=kv_cache.requested(o.activation.spec) if o.local else "",
        catalog_id="" if o.resolved is not None and resolved is None else o.name,
        model_ref=_model_ref(o, resolved),
        pod_recovery=_kept_recovery(o) if o.realtime else told.pod_recovery,
    )
    status = model_status(o.generation, complete)
    return Plan(outcome or told.phase, (*o.requests, *steps), finalizer(o), status, log={"model": o.name})


def kept(o: ModelObservation, reason: ModelReason, message: str) -> Plan:
    """A plan that leaves the status as it is; where there never was one, it says why not."""
    if o.activation.status.get("phase"):
        return Plan(Outcome.HELD, o.requests, finalizer(o))
    return report(o, ModelPhase.STARTING, reason, message)


def without_slot(o: ModelObservation, refused: str) -> Plan:
    """Without a slot of its GPU what serves a model must not run (spec: models §8.5, realtime §15)."""
    stands = [each for each in o.runtimes if belongs(each, o.resolved)]
    return report(o, ModelPhase.STARTING, ModelReason.WAITING_FOR_GPU_SHARING, refused, removal(stands))


def released() -> Plan:
    """The activation may go."""
    return Plan(Outcome.RELEASED, finalizer=Finalizer.REMOVE)


def finalizer(o: ModelObservation) -> Finalizer:
    """Ours is put on everything that may come to have a runtime, and on nothing that is dying."""
    if o.dying or labels.MODEL_FINALIZER in o.activation.metadata.finalizers:
        return Finalizer.KEEP
    return Finalizer.ADD


def removal(runtimes: Iterable[Runtime]) -> tuple[Step, ...]:
    """Deletes each, last made first; what is dying already is waited for."""
    found = sorted(runtimes, key=lambda each: (_REMOVAL_ORDER.index(each.kind), each.live.metadata.key))
    return tuple(
        Delete(each.kind, each.live.metadata.key, each.live.metadata.uid)
        for each in found
        if not each.live.metadata.dying
    )


def still_serving(o: ModelObservation) -> bool:
    """Whether a runtime that was reported fine at this generation is there and serves."""
    if not is_true(conditions_of(o.activation.status), RUNTIME_READY, o.generation):
        return False
    return any(_serves_now(o, each) for each in o.runtimes)


def is_published(o: ModelObservation) -> bool:
    """Whether the catalog lists the model; while nobody can tell, what was so at this generation holds."""
    if o.published is not None:
        return o.published
    return is_true(conditions_of(o.activation.status), CATALOG_PUBLISHED, o.generation)


def standing(o: ModelObservation) -> str:
    """How many replicas of which engine there are, as the beginning of a message; "" without a runtime."""
    if o.model is not None:
        ready, expected = replicas(o.model, o.pods or ())
        return f"{ready}/{expected} replicas of {_engine(o, o.model)} are ready. "
    deployment = next((each.live for each in o.runtimes if each.kind == DEPLOYMENT), None)
    if deployment is None:
        return ""
    return f"{direct_replicas(deployment)}/1 replicas of {_engine(o, deployment)} are ready. "


def _serves_now(o: ModelObservation, runtime: Runtime) -> bool:
    if runtime.kind == DEPLOYMENT:
        return direct_replicas(runtime.live) > 0
    return runtime.kind == KUBEAI_MODEL and replicas(runtime.live, o.pods or ())[0] > 0


def _model_ref(o: ModelObservation, resolved: Resolved | None) -> str:
    """What serves the model; that it is the realtime runtime does not depend on the rest of the spec."""
    if resolved is not None:
        return f"{resolved.backend}/{o.name}"
    return f"{Backend.REALTIME}/{o.name}" if o.realtime else ""


def _named_profile(o: ModelObservation) -> str:
    """The profile that the standing Model names."""
    named = None if o.model is None else o.model.spec.get("resourceProfile")
    return named if isinstance(named, str) else ""


def _resolved(o: ModelObservation) -> Resolved | None:
    return o.resolved if isinstance(o.resolved, Resolved) else None


def _engine(o: ModelObservation, live: Resource) -> str:
    resolved = _resolved(o)
    if isinstance(resolved, ResolvedLocal):
        return f"{resolved.engine_title} on {resolved.target.display_name}"
    return str(live.spec.get("engine") or live.metadata.labels.get(labels.ENGINE, "the engine"))


def _awaited(o: ModelObservation) -> Mapping[str, object] | None:
    """The timer goes on in a wait state: only a Pod, or the end of the Model, ends it."""
    stored = o.status.pod_creation
    if stored is None or o.model is None or pods_of(o.pods or (), o.model):
        return None
    return stored.model_dump(by_alias=True)


def _kept_recovery(o: ModelObservation) -> Mapping[str, object] | None:
    """KubeAI's timers do not apply to a realtime runtime: what they said is kept (spec: realtime §12)."""
    stored = o.status.pod_recovery
    return None if stored is None else stored.model_dump(by_alias=True)


def _attempts(o: ModelObservation) -> Mapping[str, object] | None:
    stored = o.status.pod_recovery
    return None if stored is None or o.model is None else stored.model_dump(by_alias=True)
