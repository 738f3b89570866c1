"""Builders of the Deployment and the Service of a FreeToken model (spec: models §13)."""

from typing import Any, Final

from magicstick.api import labels
from magicstick.api.names import label_value
from magicstick.api.quantity import parse
from magicstick.models.freetoken_runtime import FreeTokenRuntime
from magicstick.models.kinds import DEPLOYMENT, SERVICE
from magicstick.models.objects import own_labels
from magicstick.models.places import freetoken_name
from magicstick.models.pods import MODEL_LABEL
from magicstick.models.resolved import ResolvedFreeToken

Object = dict[str, Any]

GPU: Final = "nvidia.com/gpu"
HOSTNAME: Final = "kubernetes.io/hostname"
BACKEND: Final = "freetoken"
PROGRAM: Final = "/usr/local/bin/magicstick-freetoken"
HOME: Final = "/var/lib/freetoken"
GROUP_ID: Final = 10001
PREFIX: Final = "MAGICSTICK_FREETOKEN"


def endpoint(model: ResolvedFreeToken, runtime: FreeTokenRuntime) -> str:
    """Address of the runtime's API within the cluster."""
    host = f"{freetoken_name(model.name)}.{model.namespace}.svc.cluster.local"
    return f"http://{host}:{runtime.port}/v1"


def service(model: ResolvedFreeToken, runtime: FreeTokenRuntime) -> Object:
    """The Service in front of the one Pod."""
    return {
        "apiVersion": SERVICE.api_version,
        "kind": SERVICE.kind,
        "metadata": _metadata(model, runtime),
        "spec": {
            "type": "ClusterIP",
            "selector": _selector(model),
            "ports": [{"name": "http", "protocol": "TCP", "port": runtime.port, "targetPort": "http"}],
        },
    }


def deployment(model: ResolvedFreeToken, runtime: FreeTokenRuntime) -> Object:
    """One Pod with whole GPUs of one node; a new restart nonce rolls it."""
    return {
        "apiVersion": DEPLOYMENT.api_version,
        "kind": DEPLOYMENT.kind,
        "metadata": _metadata(model, runtime),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": _selector(model)},
            "template": {
                "metadata": {"labels": _labels(model), "annotations": _annotations(model, runtime)},
                "spec": _pod(model, runtime),
            },
        },
    }


def _metadata(model: ResolvedFreeToken, runtime: FreeTokenRuntime) -> Object:
    return {
        "name": freetoken_name(model.name),
        "namespace": model.namespace,
        "labels": _labels(model),
        "annotations": _annotations(model, runtime),
    }


def _selector(model: ResolvedFreeToken) -> dict[str, str]:
    return {"app": "model", MODEL_LABEL: label_value(model.name), labels.RUNTIME_BACKEND: BACKEND}


def _labels(model: ResolvedFreeToken) -> dict[str, str]:
    return {**_selector(model), labels.NAME: BACKEND, **own_labels(model, model.engine)}


def _annotations(model: ResolvedFreeToken, runtime: FreeTokenRuntime) -> dict[str, str]:
    annotations = {
        labels.RUNTIME_ENDPOINT: endpoint(model, runtime),
        labels.FREETOKEN_VERSION: runtime.version,
        labels.FREETOKEN_GPU_COUNT: str(model.gpu_count),
    }
    if model.restart_nonce:
        annotations[labels.RESTART_NONCE] = model.restart_nonce
    if label_value(model.name) != model.name:
        annotations[labels.FULL_NAME] = model.name
    return annotations


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
        "ports": [{"name": "http", "protocol": "TCP", "containerPort": runtime.port}],
        "env": [{"name": name, "value": value} for name, value in sorted(_environment(model).items())],
        "resources": _resources(model),
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


def _resources(model: ResolvedFreeToken) -> Object:
    """The CPU policy directly, without a profile of KubeAI's (spec: models §8.6).

    Quantities are spelled as the API server stores them, so that nothing differs from what stands there.
    """
    cpu = model.cpu
    whole = {"memory": _canonical(f"{model.memory_mi}Mi"), GPU: str(model.gpu_count)}
    limits = {"cpu": _canonical(f"{cpu.limit_millicores}m")} if cpu.limit_millicores > 0 else {}
    return {
        "requests": {"cpu": _canonical(f"{cpu.request_millicores}m"), **whole},
        "limits": {**limits, **whole},
    }


def _canonical(quantity: str) -> str:
    return str(parse(quantity))


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
