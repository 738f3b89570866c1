"""The resolution of a model that FreeToken serves: whole NVIDIA GPUs of one node (spec: models §13)."""

import re
from typing import Final

from magicstick.api.model_activation import FreeToken
from magicstick.catalogs.compute_targets import RuntimeCapabilities
from magicstick.catalogs.modules import ModuleCatalog
from magicstick.models import requirements
from magicstick.models.cpu import cpu_policy
from magicstick.models.freetoken_nodes import GpuNode, choose_node
from magicstick.models.local_rules import Ground, check_profile, check_url, target_of
from magicstick.models.presets import Settings, settings_of
from magicstick.models.resolved import ResolvedFreeToken, Target
from magicstick.models.targets import Place, find_place
from magicstick.models.validation import refuse, replicas

VENDOR: Final = "nvidia"
LEAST_PER_GPU_MI: Final = 256
MODEL_ID_LIMIT: Final = 256
NONCE_LIMIT: Final = 128
_SETTINGS: Final = "spec.local.freetoken"


def resolve_freetoken(ground: Ground, modules: ModuleCatalog) -> ResolvedFreeToken:
    """The model, or the first rule that it breaks.

    Without an allocatable device no node is chosen yet: the model waits for its modules and for GPUs.

    Raises:
        RefusedError: it breaks one.
    """
    local = ground.local
    place = find_place(ground.targets, local, ground.hardware)
    capabilities = _capabilities(ground)
    settings = settings_of(ground.name, local, ground.presets, ground.hardware)
    check_profile(ground, settings.resource_profile or place.resource_profile)
    cpu_policy(ground.targets, "FreeToken", "gpu", local.cpu_resources)
    _check_fields_of_others(ground, settings)
    check_url(ground, settings.url)
    if replicas(local) != (1, 1):
        refuse("spec.local.maxReplicas", "must be 1 for FreeToken, and minReplicas too")
    wanted = local.freetoken or FreeToken()
    _check_own_fields(wanted)
    _check_model(settings.url.removeprefix("hf://"), wanted, capabilities)
    target, node = target_of(ground, place), ""
    if target.allocatable:
        chosen = choose_node(place.nodes, capabilities, wanted)
        _check_limits(chosen, wanted)
        node = chosen.name
    return _written_down(ground, place, settings, target, node, modules)


# --- rules -------------------------------------------------------------------------------------------


def _capabilities(ground: Ground) -> RuntimeCapabilities:
    definition = ground.targets.engines.get("FreeToken")
    capabilities = definition.capabilities if definition is not None else None
    if capabilities is None or VENDOR not in capabilities.supported_vendors:
        refuse("spec.local.engine", f"has no capabilities for {VENDOR} in the compute-target catalog")
    return capabilities


def _check_fields_of_others(ground: Ground, settings: Settings) -> None:
    """What only KubeAI's engines know."""
    local = ground.local
    given = {
        "cpuOffloading": local.cpu_offloading is True,
        "kvCacheType": local.kv_cache_type is not None,
        "args": bool(settings.args),
        "env": bool(local.env),
        "vllm": local.vllm is not None,
    }
    for name, is_given in given.items():
        if is_given:
            refuse(f"spec.local.{name}", "must be left out for FreeToken")


def _check_own_fields(wanted: FreeToken) -> None:
    for name, amount_mi in (
        ("gpuMemoryMi", wanted.gpu_memory_mi),
        ("systemMemoryMi", wanted.system_memory_mi),
    ):
        if amount_mi is None:
            refuse(f"{_SETTINGS}.{name}", "is required: an amount of memory in MiB")
    if len(wanted.restart_nonce) > NONCE_LIMIT:
        refuse(f"{_SETTINGS}.restartNonce", f"must have a length of at most {NONCE_LIMIT}")
    if (wanted.gpu_memory_mi or 0) // wanted.gpu_count < LEAST_PER_GPU_MI:
        refuse(f"{_SETTINGS}.gpuMemoryMi", f"must be at least {LEAST_PER_GPU_MI} for each GPU")


def _check_model(model: str, wanted: FreeToken, capabilities: RuntimeCapabilities) -> None:
    """Only models that FreeToken is known to run; the catalog's patterns are anchored as it wants them."""
    if len(model) > MODEL_ID_LIMIT:
        refuse("spec.local.url", f"must name a model with at most {MODEL_ID_LIMIT} characters")
    if not _matches(model, capabilities.model_id_matchers):
        refuse("spec.local.url", "must name a model that the compute-target catalog lists for FreeToken")
    if wanted.gpu_count > 1 and _matches(model, capabilities.tensor_parallel_unsupported_model_id_matchers):
        refuse(f"{_SETTINGS}.gpuCount", "must be 1 for this model, which cannot be spread over several GPUs")


def _matches(model: str, patterns: tuple[str, ...]) -> bool:
    return any(re.search(pattern, model, re.IGNORECASE) for pattern in patterns)


def _check_limits(node: GpuNode, wanted: FreeToken) -> None:
    """What is asked for must be there on the node."""
    if wanted.gpu_count > node.gpus:
        refuse(f"{_SETTINGS}.gpuCount", f"must be at most {node.gpus}, the GPUs of {node.name}")
    per_gpu_mi = (wanted.gpu_memory_mi or 0) // wanted.gpu_count
    if node.vram_mi is None:
        refuse(f"{_SETTINGS}.gpuMemoryMi", f"cannot be checked: nobody reports the GPU memory of {node.name}")
    if per_gpu_mi > node.vram_mi:
        refuse(
            f"{_SETTINGS}.gpuMemoryMi",
            f"must be at most {node.vram_mi} for each GPU of {node.name}, and is {per_gpu_mi}",
        )
    if (wanted.system_memory_mi or 0) > node.memory_mi:
        refuse(
            f"{_SETTINGS}.systemMemoryMi", f"must be at most {node.memory_mi}, what {node.name} can allocate"
        )


# --- what comes of them ------------------------------------------------------------------------------


def _written_down(
    ground: Ground, place: Place, settings: Settings, target: Target, node: str, modules: ModuleCatalog
) -> ResolvedFreeToken:
    wanted = ground.local.freetoken or FreeToken()
    gpu_memory_mi = wanted.gpu_memory_mi or 0
    needed = requirements.required(modules, place.definition.required_capabilities, requirements.FREETOKEN)
    return ResolvedFreeToken(
        name=ground.name,
        namespace=ground.spec.target_namespace,
        modules=needed,
        requested_modules=requirements.requested(modules, needed),
        target=target,
        engine_title=ground.engine_title,
        url=settings.url,
        artifact=settings.artifact,
        precision=settings.precision,
        quantization=settings.quantization,
        vram_mi=gpu_memory_mi,
        memory_mi=wanted.system_memory_mi or 0,
        cpu=cpu_policy(ground.targets, "FreeToken", "gpu", ground.local.cpu_resources),
        context_window=settings.context_window,
        max_output_tokens=settings.max_output_tokens,
        max_num_seqs=settings.max_num_seqs,
        node=node,
        gpu_count=wanted.gpu_count,
        gpu_memory_mi=gpu_memory_mi,
        vram_per_gpu_mi=gpu_memory_mi // wanted.gpu_count,
        node_selector=place.node_selector,
        memory_strategy=wanted.memory_strategy,
        restart_nonce=wanted.restart_nonce,
        advanced=wanted.advanced,
    )
