"""What a model's status can say: phases, reasons, outcomes, and the status built from them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from magicstick.models.resolved import (
    Hold,
    Reason,
    Resolved,
    ResolvedExternal,
    ResolvedFreeToken,
    ResolvedKubeAi,
    ResolvedRealtime,
    UnifiedMemory,
)
from magicstick.runtime.conditions import Condition, State, condition, cut, summarise

Status = dict[str, Any]

RUNTIME_READY: Final = "RuntimeReady"
"""True once a replica and the engine's own checks are there at this generation: it may be published."""
CATALOG_PUBLISHED: Final = "CatalogPublished"
"""Whether the model catalog lists the model; Unknown while nobody can tell."""


class ModelPhase(StrEnum):
    """`status.phase` of a ModelActivation (spec: models §9)."""

    READY = "Ready"
    """The model is served, and the model catalog has published it."""
    DISABLED = "Disabled"
    """The model is switched off and nothing of it is left."""
    REMOVING = "Removing"
    """The model is disabled or deleted, and what served it is going."""
    STARTING = "Starting"
    """The runtime is on its way, or something that it needs is."""
    RECONCILING = "Reconciling"
    """The runtime is fine and not published yet; or a fact that the decision needs is not known yet."""
    WAITING_FOR_MODULES = "WaitingForModules"
    """A required module is not ready; what runs for the model already is left alone."""
    WAITING_FOR_GPU = "WaitingForGPU"
    """No Ready node has an allocatable device of the compute target."""
    WAITING_FOR_CRD = "WaitingForCRD"
    """The server serves no KubeAI Models."""
    WAITING_FOR_NAMESPACE = "WaitingForNamespace"
    """The target namespace does not exist, or is being deleted."""
    WAITING_FOR_POD = "WaitingForPod"
    """KubeAI has not made a Pod yet."""
    WAITING_FOR_RUNTIME = "WaitingForRuntime"
    """There is no usable description of the FreeToken runtime."""
    DEGRADED = "Degraded"
    """The model does not work as asked; the reason says who has to do what."""


HEALTHY: Final = frozenset({ModelPhase.READY, ModelPhase.DISABLED})
"""Phases in which the condition Ready is True."""

IN_PROGRESS: Final = frozenset(ModelPhase) - HEALTHY - {ModelPhase.DEGRADED}
"""Phases that end by themselves: the condition Reconciling is there meanwhile."""


class ModelReason(StrEnum):
    """`reason` of a model's conditions, beside those of refusals and of profiles (spec: models §9)."""

    REMOVING = "Removing"
    DISABLED = "Disabled"
    MODEL_CACHE_MAINTENANCE = "ModelCacheMaintenance"
    """A host clears the model cache: no runtime is started meanwhile."""
    UNSUPPORTED_ENGINE = "UnsupportedEngine"
    """No part of this operator serves such a runtime."""
    GPU_SHARING_BLOCKED = "GpuSharingBlocked"
    WAITING_FOR_GPU_SHARING = "WaitingForGpuSharing"
    FREETOKEN_REQUIRES_WHOLE_GPU = "FreeTokenRequiresWholeGpu"
    WAITING_FOR_MODULES = "WaitingForModules"
    WAITING_FOR_GPU = "WaitingForGPU"
    RETIRING_PREVIOUS_RUNTIME = "RetiringPreviousRuntime"
    """What served the model before is going, so that two do not serve it at once."""
    WAITING_FOR_CRD = "WaitingForCRD"
    WAITING_FOR_NAMESPACE = "WaitingForNamespace"
    NAME_CONFLICT = "NameConflict"
    """An object of the name that ours would have exists and is not ours; it is not touched."""
    RECOVERING_TERMINAL_POD = "RecoveringTerminalModelPod"
    POD_RECOVERY_BACKOFF = "ModelPodRecoveryBackoff"
    POD_RECOVERY_EXHAUSTED = "ModelPodRecoveryExhausted"
    WAITING_FOR_MODEL_POD = "WaitingForModelPod"
    SCALED_TO_ZERO = "ScaledToZero"
    """`minReplicas` is 0 and KubeAI wants no replica now."""
    POD_CREATION_STALLED = "ModelPodCreationStalled"
    UNSCHEDULABLE = "Unschedulable"
    OOM_KILLED = "ModelRuntimeOOMKilled"
    STARTUP_FAILED = "ModelContainerStartupFailed"
    CRASH_LOOP = "ModelRuntimeCrashLoop"
    WAITING_FOR_REPLICA = "WaitingForReadyReplica"
    WAITING_FOR_ALIAS = "WaitingForOllamaAlias"
    CATALOG_READY = "CatalogReady"
    WAITING_FOR_CATALOG = "WaitingForCatalog"
    WAITING_FOR_FREETOKEN = "WaitingForFreeTokenRuntime"
    FREETOKEN_UNVERIFIED = "FreeTokenRuntimeImageUnverified"
    FREETOKEN_DEPLOYMENT_FAILED = "FreeTokenDeploymentFailed"
    FREETOKEN_HEALTH_FAILED = "FreeTokenHealthFailed"
    WAITING_FOR_FREETOKEN_POD = "WaitingForFreeTokenPod"
    WAITING_FOR_FREETOKEN_HEALTH = "WaitingForFreeTokenHealth"
    WAITING_FOR_REALTIME_POD = "WaitingForRealtimePod"
    WAITING_FOR_REALTIME_HEALTH = "WaitingForRealtimeHealth"
    REALTIME_READY = "RealtimeRuntimeReady"
    REALTIME_POD_FAILED = "RealtimePodFailed"
    REALTIME_DEPLOYMENT_FAILED = "RealtimeDeploymentFailed"
    REALTIME_PERMISSION_DENIED = "RealtimePermissionDenied"
    REALTIME_API_REJECTED = "RealtimeApiRejected"
    REALTIME_API_UNAVAILABLE = "RealtimeApiUnavailable"
    """A request that the runtime needs got no answer; it is made again."""
    PERMISSION_DENIED = "RuntimePermissionDenied"
    API_REJECTED = "RuntimeApiRejected"
    API_UNAVAILABLE = "RuntimeApiUnavailable"
    """Something that the decision needs could not be read or written, and there was no status before."""
    CATALOG_UNAVAILABLE = "CatalogUnavailable"
    """There never was a good copy of a catalog since the start, and there was no status before."""


STALLED: Final = frozenset(
    {
        *Reason,
        ModelReason.UNSUPPORTED_ENGINE,
        ModelReason.FREETOKEN_REQUIRES_WHOLE_GPU,
        ModelReason.NAME_CONFLICT,
        ModelReason.POD_RECOVERY_EXHAUSTED,
        ModelReason.PERMISSION_DENIED,
        ModelReason.API_REJECTED,
        ModelReason.REALTIME_PERMISSION_DENIED,
        ModelReason.REALTIME_API_REJECTED,
    }
)
"""Reasons that only a person can end: the condition Stalled is there meanwhile."""


class Outcome(StrEnum):
    """How a pass over a model ended, where it did not end in a phase."""

    NOT_OURS = "NotOurs"
    """The activation belongs to another Appliance; it is left alone, its status included."""
    HELD = "Held"
    """Something needed is not known; nothing was changed."""
    RELEASED = "Released"
    """The activation is being deleted and nothing of the model is left: our finalizer goes."""
    RECORDED = "Recorded"
    """A recovery attempt was written down; the deletion that it announces follows at once."""
    DUE_1 = "DueIn1s"
    DUE_2 = "DueIn2s"
    DUE_5 = "DueIn5s"
    DUE_10 = "DueIn10s"
    """A timer of the model runs out before the next resync would look at it."""


DUE_S: Final[Mapping[Outcome, float]] = {
    Outcome.DUE_10: 10.0,
    Outcome.DUE_5: 5.0,
    Outcome.DUE_2: 2.0,
    Outcome.DUE_1: 1.0,
}
"""Delays, longest first, in which a timer is approached."""


def due(left_s: float, otherwise: str, resync_s: float) -> str:
    """The outcome whose delay is the longest that does not pass a timer with `left_s` seconds left.

    `otherwise` where the resync comes before the timer does. The timer's end itself is looked at within
    a second.
    """
    if left_s >= resync_s:
        return otherwise
    return next((outcome for outcome, delay_s in DUE_S.items() if delay_s <= left_s), Outcome.DUE_1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The state of a model, as far as its status differs from one state to another."""

    phase: ModelPhase
    reason: str
    message: str
    resolved: Resolved | None = None
    """None where nothing is resolved: resolved fields are empty then (spec: models §3.2)."""
    requested_kv_cache_type: str = ""
    """What a model that is not resolved asks for: a local one always says."""
    catalog_id: str = ""
    model_ref: str = ""
    profile: str = ""
    """`name:count` of the profile that the Model names."""
    runtime_ready: State = "False"
    published: State = "False"
    effective: bool = False
    """Whether a replica is Ready, so that the KV cache is what was asked for."""
    endpoint: str = ""
    pod_creation: Mapping[str, object] | None = None
    pod_recovery: Mapping[str, object] | None = None
    memory_usage: Mapping[str, object] | None = None
    freetoken_stats: Mapping[str, object] | None = None


def model_status(generation: int, report: Report) -> Status:
    """The complete status of a ModelActivation, still without transition times.

    What is left out is removed, since the whole status is applied at once; nulls need not be written.
    """
    status: Status = {
        "observedGeneration": generation,
        "phase": report.phase.value,
        "modelRef": report.model_ref,
        "catalogId": report.catalog_id,
        **_resolved(report),
        "runtimeEndpoint": report.endpoint,
        "memoryUsage": report.memory_usage,
        "freeTokenStats": report.freetoken_stats,
        "podCreation": report.pod_creation,
        "podRecovery": report.pod_recovery,
        "message": cut(report.message),
        "conditions": _conditions(generation, report),
    }
    return {name: value for name, value in status.items() if value is not None}


_PUBLISHED: Final[Mapping[State, str]] = {
    "True": "CatalogReady",
    "False": "NotPublished",
    "Unknown": "CatalogUnreadable",
}


def _conditions(generation: int, report: Report) -> list[Condition]:
    reason, message = report.reason, report.message
    summary = summarise(
        "True" if report.phase in HEALTHY else "False",
        reason,
        message,
        generation,
        reconciling=report.phase in IN_PROGRESS,
        stalled=report.phase is ModelPhase.DEGRADED and reason in STALLED,
    )
    serves = "RuntimeReady" if report.runtime_ready == "True" else reason
    return [
        *summary,
        condition(RUNTIME_READY, report.runtime_ready, serves, message, generation),
        condition(CATALOG_PUBLISHED, report.published, _PUBLISHED[report.published], message, generation),
    ]


_UNRESOLVED: Final[Mapping[str, object]] = {
    "computeTarget": "",
    "engine": "",
    "artifact": "",
    "precision": "",
    "quantization": "",
    "effectiveKvCacheType": "",
    "vramRequiredMi": 0,
    "memoryRequiredMi": 0,
    "cpuOffloading": False,
    "memoryArchitecture": "",
    "sharedPoolId": "",
    "gpuAllocationMode": "",
}


def _resolved(report: Report) -> Status:
    """The fields that tell what the model was resolved to, each of them always present."""
    fields = {
        **_UNRESOLVED,
        "requestedKvCacheType": report.requested_kv_cache_type,
        "resolvedResourceProfile": report.profile,
    }
    model = report.resolved
    if model is None:
        return fields
    if isinstance(model, ResolvedExternal):
        return fields | {"computeTarget": "external", "engine": "external"}
    fields |= {
        "computeTarget": model.target.name,
        "engine": model.engine,
        "artifact": model.artifact,
        "precision": model.precision,
        "quantization": model.quantization,
        "requestedKvCacheType": model.requested_kv_cache_type,
        "effectiveKvCacheType": model.requested_kv_cache_type if report.effective else "",
        "vramRequiredMi": model.vram_mi,
        "memoryRequiredMi": model.memory_mi,
        "cpuResources": {
            "requestMillicores": model.cpu.request_millicores,
            "limitMillicores": model.cpu.limit_millicores,
        },
    }
    match model:
        case ResolvedFreeToken():
            return fields | _of_freetoken(model)
        case ResolvedRealtime():
            return fields | _of_realtime(model)
        case ResolvedKubeAi():
            return fields | {"cpuOffloading": model.cpu_offloading is True} | _unified(model.unified_memory)


def _unified(shared: UnifiedMemory | None) -> Status:
    if shared is None:
        return {}
    return {
        "memoryArchitecture": "unified",
        "sharedPoolId": shared.pool_id,
        "gpuAllocationMode": shared.mode,
    }


def _of_freetoken(model: ResolvedFreeToken) -> Status:
    return {
        "gpuSharing": {
            "mode": "exclusive",
            "node": model.node,
            "wholeGpuCount": model.gpu_count,
            "tensorParallelSize": model.gpu_count,
            "vramMiPerDevice": model.vram_per_gpu_mi,
        }
    }


def _of_realtime(model: ResolvedRealtime) -> Status:
    told = {"resolvedResourceProfile": model.profile, **_unified(model.unified_memory)}
    if model.hold.mode == "cpu":
        return told
    held = {"mode": model.hold.mode, "node": model.node, "memoryIsolation": False}
    return {**told, "gpuSharing": {**held, **_held(model.hold, model.gpu_count)}}


def _held(hold: Hold, gpu_count: int) -> Status:
    """What of a device the runtime has: a slot, a share by its claim, or all of it."""
    match hold.mode:
        case "time-slicing":
            return {"slotCount": 1}
        case "dra-shared":
            return {"claimName": hold.claim, "device": hold.device}
        case _:
            return {"wholeGpuCount": gpu_count}
