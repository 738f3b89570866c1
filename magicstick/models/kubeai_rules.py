"""The resolution of a model that KubeAI serves, with vLLM or Ollama."""

from dataclasses import dataclass
from typing import Final, Literal

from magicstick.api import labels
from magicstick.api.kinds import GROUP
from magicstick.api.model_activation import KvCacheType
from magicstick.catalogs.compute_targets import CpuPolicy
from magicstick.catalogs.modules import ModuleCatalog
from magicstick.models import kv_cache, memory, requirements
from magicstick.models.arguments import VllmArguments
from magicstick.models.cpu import cpu_policy
from magicstick.models.environment import Surroundings, ollama_environment, vllm_environment
from magicstick.models.local_rules import Ground, check_profile, check_url, target_of
from magicstick.models.offloading import check_offloading
from magicstick.models.parallelism import check_parallelism
from magicstick.models.presets import Settings, settings_of
from magicstick.models.resolved import ResolvedKubeAi, UnifiedMemory
from magicstick.models.targets import Place, find_place
from magicstick.models.validation import check_environment, check_model_name, refuse, replicas
from magicstick.models.vision import VisionChoice, vision_choice

Engine = Literal["VLLM", "OLlama"]

AMD: Final = "amd-gpu"
MEMORY_ARCHITECTURE: Final = f"{GROUP}/memory-architecture"
SHARED_POOL_ID: Final = f"{GROUP}/shared-pool-id"
ALLOCATION_MODE: Final = f"{GROUP}/gpu-allocation-mode"
ACCOUNTING_VERIFIED: Final = f"{GROUP}/memory-accounting-verified"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A model whose every rule was asked; what is left is to write it down."""

    ground: Ground
    engine: Engine
    place: Place
    settings: Settings
    profile: str
    """Base profile and count."""
    cpu: CpuPolicy
    vision: VisionChoice | None
    vram_mi: int
    replicas: tuple[int, int]
    unified: UnifiedMemory | None
    unified_problem: str

    @property
    def kv_cache_type(self) -> KvCacheType:
        return self.ground.local.kv_cache_type or kv_cache.usual(self.engine)

    @property
    def on_gpu(self) -> bool:
        return self.place.definition.kind == "gpu"

    @property
    def memory_mi(self) -> int:
        """Host memory that is reserved; 0 where the profile decides."""
        if self.unified is not None:
            return self.unified.memory_mi
        if not self.on_gpu:
            return memory.cpu_memory(self.settings, self.engine)
        return (self.settings.memory_required_mi or 0) if self.ground.local.cpu_offloading else 0


def resolve_kubeai(ground: Ground, engine: Engine, modules: ModuleCatalog) -> ResolvedKubeAi:
    """The model, or the first rule that it breaks.

    Raises:
        RefusedError: it breaks one.
    """
    local = ground.local
    place = find_place(ground.targets, local, ground.hardware)
    check_model_name(ground.name)
    settings = settings_of(ground.name, local, ground.presets, ground.hardware)
    profile = _profile(ground, place, settings, engine)
    cpu = cpu_policy(ground.targets, engine, place.definition.kind, local.cpu_resources)
    choice = vision_choice(ground.targets, local, local.compute_target)
    if problem := kv_cache.problem(local.kv_cache_type, engine, local.compute_target):
        refuse("spec.local.kvCacheType", problem)
    check_offloading(local, settings.memory_required_mi, profile)
    check_url(ground, settings.url)
    vram_mi = _vram(place, settings)
    _check_arguments(engine, place, settings, profile)
    least_and_most = replicas(local)
    check_environment(local.env)
    unified, problem = _unified(ground, place, settings, vram_mi)
    draft = _Draft(
        ground=ground,
        engine=engine,
        place=place,
        settings=settings,
        profile=profile,
        cpu=cpu,
        vision=choice,
        vram_mi=vram_mi,
        replicas=least_and_most,
        unified=unified,
        unified_problem=problem,
    )
    return _written_down(draft, modules)


# --- rules -------------------------------------------------------------------------------------------


def _profile(ground: Ground, place: Place, settings: Settings, engine: Engine) -> str:
    """The base profile; on CPU targets with the count of its memory units."""
    base = settings.resource_profile or place.resource_profile
    if place.definition.kind == "gpu":
        check_profile(ground, base)
        return base
    sized = memory.sized(base, memory.cpu_memory(settings, engine))
    check_profile(ground, base, sized)
    return sized


def _vram(place: Place, settings: Settings) -> int:
    """Accelerators need an amount to plan with, CPUs have none."""
    on_cpu = place.definition.kind == "cpu"
    if on_cpu and (settings.vram is not None or settings.vram_mi is not None):
        field = "vram" if settings.vram is not None else "vramMi"
        refuse(f"spec.local.{field}", "must be left out on CPU: memoryRequiredMi reserves memory there")
    vram_mi = memory.vram(settings)
    if not on_cpu and not vram_mi:
        refuse("spec.local.vram", "is required on GPU targets, for example 8Gi, unless a preset has it")
    return vram_mi


def _check_arguments(engine: Engine, place: Place, settings: Settings, profile: str) -> None:
    if engine == "OLlama" and settings.args:
        refuse("spec.local.args", "must be left out for OLlama, which takes its settings from elsewhere")
    if place.definition.kind == "gpu":
        check_parallelism(settings.args, profile)


def _unified(
    ground: Ground, place: Place, settings: Settings, vram_mi: int
) -> tuple[UnifiedMemory | None, str]:
    """The one memory of an AMD node and its GPU, if it has but one; or why there is no saying which."""
    if ground.local.compute_target != AMD or not any(map(memory.is_unified, place.nodes)):
        return None, ""
    if len(place.nodes) > 1:
        names = ", ".join(sorted(node.name for node in place.nodes))
        return None, f"A model on unified memory needs exactly one eligible node, and there are: {names}."
    host_mi = settings.memory_required_mi
    return memory.unified_memory(place.nodes[0], ground.local.engine, host_mi, vram_mi), ""


# --- what comes of them ------------------------------------------------------------------------------


def _written_down(draft: _Draft, modules: ModuleCatalog) -> ResolvedKubeAi:
    ground, settings = draft.ground, draft.settings
    capabilities = draft.place.definition.required_capabilities
    needed = requirements.required(modules, capabilities, requirements.KUBEAI)
    return ResolvedKubeAi(
        name=ground.name,
        namespace=ground.spec.target_namespace,
        modules=needed,
        requested_modules=requirements.requested(modules, needed),
        target=target_of(ground, draft.place),
        engine_title=ground.engine_title,
        url=settings.url,
        artifact=settings.artifact,
        precision=settings.precision,
        quantization=settings.quantization,
        vram_mi=draft.vram_mi,
        memory_mi=draft.memory_mi,
        cpu=draft.cpu,
        context_window=settings.context_window,
        max_output_tokens=settings.max_output_tokens,
        max_num_seqs=settings.max_num_seqs,
        requested_kv_cache_type=draft.kv_cache_type,
        engine=draft.engine,
        features=settings.kubeai_features,
        args=_args(draft),
        env=_env(draft),
        annotations=_annotations(draft),
        min_replicas=draft.replicas[0],
        max_replicas=draft.replicas[1],
        base_profile=draft.profile,
        cpu_offloading=ground.local.cpu_offloading,
        unified_memory=draft.unified,
        unified_problem=draft.unified_problem,
    )


def _args(draft: _Draft) -> tuple[str, ...]:
    settings = draft.settings
    if draft.engine == "OLlama":
        return ()
    on_cpu = settings.kv_cache_memory_bytes or kv_cache.DEFAULT_KV_CACHE_BYTES
    ours = VllmArguments(
        context_window=settings.context_window,
        max_num_seqs=settings.max_num_seqs,
        kv_cache_type=draft.kv_cache_type,
        kv_cache_bytes=None if draft.on_gpu else on_cpu,
        vision=draft.vision,
    )
    return ours.after(settings.args)


def _env(draft: _Draft) -> dict[str, str]:
    local, settings = draft.ground.local, draft.settings
    around = Surroundings(
        target=local.compute_target,
        on_gpu=draft.on_gpu,
        cpu_offloading=local.cpu_offloading,
        unified_memory=draft.unified is not None,
    )
    if draft.engine == "OLlama":
        return ollama_environment(
            local.env,
            around,
            kv_cache_type=draft.kv_cache_type,
            context_window=settings.context_window,
            max_num_seqs=settings.max_num_seqs,
        )
    return vllm_environment(
        local.env,
        around,
        vram_limit=memory.vram_limit(settings, draft.vram_mi),
        cpu_offload_mi=local.cpu_offload_mi or 0,
        vision=draft.vision,
    )


def _annotations(draft: _Draft) -> dict[str, str]:
    given = {
        labels.CONTEXT_WINDOW: draft.settings.context_window,
        labels.MAX_OUTPUT_TOKENS: draft.settings.max_output_tokens,
        labels.VISION_ATTENTION: None if draft.vision is None else draft.vision.value,
    }
    if draft.unified is not None:
        given |= {
            MEMORY_ARCHITECTURE: "unified",
            SHARED_POOL_ID: draft.unified.pool_id,
            ALLOCATION_MODE: draft.unified.mode,
            ACCOUNTING_VERIFIED: "false",
        }
    return {name: str(value) for name, value in given.items() if value is not None}
