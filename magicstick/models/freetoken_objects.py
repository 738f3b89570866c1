"""Builders of the Deployment and the Service of a FreeToken model (spec: models §13)."""

from typing import Final

from magicstick.api import labels
from magicstick.models.direct_objects import (
    HOSTNAME,
    DirectRuntime,
    container_port,
    environment,
    resources,
)
from magicstick.models.freetoken_runtime import FreeTokenRuntime
from magicstick.models.objects import Object
from magicstick.models.places import freetoken_name
from magicstick.models.resolved import ResolvedFreeToken

GPU: Final = "nvidia.com/gpu"
BACKEND: Final = "freetoken"
PROGRAM: Final = "/usr/local/bin/magicstick-freetoken"
HOME: Final = "/var/lib/freetoken"
GROUP_ID: Final = 10001
PREFIX: Final = "MAGICSTICK_FREETOKEN"


def endpoint(model: ResolvedFreeToken, runtime: FreeTokenRuntime) -> str:
    """Address of the runtime's API within the cluster."""
    return _direct(model, runtime).endpoint


def service(model: ResolvedFreeToken, runtime: FreeTokenRuntime) -> Object:
    """The Service in front of the one Pod."""
    direct = _direct(model, runtime)
    return direct.service(direct.all_annotations)


def deployment(model: ResolvedFreeToken, runtime: FreeTokenRuntime) -> Object:
    """One Pod with whole GPUs of one node; a new restart nonce rolls it."""
    return _direct(model, runtime).deployment(_pod(model, runtime))


def _direct(model: ResolvedFreeToken, runtime: FreeTokenRuntime) -> DirectRuntime:
    annotations = {
        labels.FREETOKEN_VERSION: runtime.version,
        labels.FREETOKEN_GPU_COUNT: str(model.gpu_count),
    }
    if model.restart_nonce:
        annotations[labels.RESTART_NONCE] = model.restart_nonce
    return DirectRuntime(
        model=model,
        backend=BACKEND,
        name=freetoken_name(model.name),
        port=runtime.port,
        labels={labels.ENGINE: model.engine.lower()},
        annotations=annotations,
    )


def _pod(model: ResolvedFreeToken, runtime: FreeTokenRuntime) -> Object:
    return {
        "runtimeClassName": "nvidia",
        "nodeSelector": {**model.node_selector, HOSTNAME: model.node},
        "securityContext": {"fsGroup": GROUP_ID, "fsGroupChangePolicy": "OnRootMismatch"},
        "tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [_container(model, runtime)],
        "volumes": [{"name": "runtime-cache", "emptyDir": {}}],
    }


def _container(model: ResolvedFreeToken, runtime: FreeTokenRuntime) -> Object:
    return {
        "name": BACKEND,
        "image": runtime.image,
        "imagePullPolicy": "IfNotPresent",
        "ports": [container_port(runtime.port)],
        "env": environment(_environment(model)),
        "resources": resources(model, {GPU: model.gpu_count}),
        "volumeMounts": [{"name": "runtime-cache", "mountPath": HOME}],
        "startupProbe": _probe("health-live", period_s=5, failures=24),
        "livenessProbe": _probe("health-live", period_s=20, failures=6),
        "readinessProbe": _probe("health-ready", period_s=5, failures=12),
    }


def _probe(command: str, *, period_s: int, failures: int) -> Object:
    return {
        "exec": {"command": [PROGRAM, command]},
        "periodSeconds": period_s,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _environment(model: ResolvedFreeToken) -> dict[str, str]:
    """What the runtime is told. Which devices it sees is the device plugin's business alone."""
    advanced = model.advanced
    given: dict[str, object] = {
        "MODEL": model.url.removeprefix("hf://"),
        "SERVED_MODEL_NAME": model.name,
        "VRAM_BUDGET_MI": model.gpu_memory_mi,
        "GPU_COUNT": model.gpu_count,
        "MOE_STRATEGY": model.memory_strategy,
        "CONTEXT_LENGTH": model.context_window,
        "MAX_RUNNING_REQUESTS": model.max_num_seqs,
        "MAX_OUTPUT_TOKENS": model.max_output_tokens,
        "CACHE_TYPE": advanced.cache_type,
        "KV_RESERVE_TOKENS": advanced.kv_reserve_tokens,
        "MOE_CACHE_SIZE": advanced.moe_cache_size,
        "MAX_PREFILL_LENGTH": advanced.max_prefill_length,
        "CUDA_GRAPH_MAX_BS": advanced.cuda_graph_max_batch_size,
        "MOE_CPU_THREADS": advanced.cpu_threads,
        "EXPERT_LOAD": advanced.expert_load,
        "DTYPE": advanced.dtype,
    }
    own = {f"{PREFIX}_{name}": str(value) for name, value in given.items() if value is not None}
    return {
        **own,
        "FREETOKEN_HOME": HOME,
        "HOME": HOME,
        "HF_HOME": f"{HOME}/huggingface",
        "XDG_CACHE_HOME": f"{HOME}/cache",
    }
