"""The resolution of a realtime model: shape, image, node and devices (spec: realtime §2 to §5).

Whether a model fits a chip is not judged here, and memory is only ever reported: estimates refuse nothing.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import msgspec

from magicstick.api.model_activation import FreeToken, LocalModel, Realtime, Vllm
from magicstick.api.quantity import QuantityError, parse
from magicstick.catalogs.compute_targets import ComputeTarget, RealtimeProfile
from magicstick.catalogs.modules import ModuleCatalog
from magicstick.kube.objects import Resource
from magicstick.models import memory, requirements
from magicstick.models.cpu import cpu_policy
from magicstick.models.hardware import NodeFacts
from magicstick.models.local_rules import Ground, check_profile
from magicstick.models.observation import Sharing
from magicstick.models.realtime.nodes import check_count, find_node, hold_of
from magicstick.models.resolved import Hold, ResolvedRealtime, Target, UnifiedMemory
from magicstick.models.targets import find_target
from magicstick.models.validation import refuse

ENGINE: Final = "VLLM"
TITLE: Final = "vLLM-Omni"
MOST: Final = 2**31 - 1
IMAGE_LIMIT: Final = 1024
NONCE_LIMIT: Final = 128
OF_OTHERS: Final = (
    *("preset", "artifact", "vllm", "freetoken", "args", "env", "cpuOffloading", "kvCacheType"),
    *("vram", "vramMi", "memoryRequiredMi", "maxOutputTokens"),
)
"""Settings of other runtimes; only what is empty is let pass."""

_SETTINGS: Final = "spec.local.realtime"
_NODE_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_MODEL: Final = re.compile(r"hf://[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*")
_IMAGE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*")
_PINNED: Final = re.compile(r".+@sha256:[0-9a-f]{64}")
_NONCE: Final = re.compile(r"[a-zA-Z0-9_-]+")
_MIB: Final = 2**20
_CUDA_MEMORY: Final = "nvidia.com/gpu.memory"
_DIGITS: Final = 9


def without_empty(activation: Resource) -> Resource:
    """The activation without empty settings of other runtimes, which mean the same as none.

    Objects older than the schema hold such of any form.
    """
    local = activation.spec.get("local")
    if not isinstance(local, Mapping):
        return activation
    kept = {name: value for name, value in local.items() if name not in OF_OTHERS or not _is_empty(value)}
    return msgspec.structs.replace(activation, spec={**activation.spec, "local": kept})


def resolve_realtime(ground: Ground, modules: ModuleCatalog, sharing: Sharing | None) -> ResolvedRealtime:
    """The model, or the first rule that it breaks.

    A model without an allocatable device is valid and says what is `missing`: it waits for its modules and
    for the device.

    Raises:
        RefusedError: it breaks a rule.
    """
    draft = _draft(ground)
    _check_model(ground, draft.wanted)
    _check_settings_of_others(ground.local)
    _check_amounts(draft.wanted, draft.profile)
    image = _image(draft.wanted, draft.profile)
    node = find_node(ground.hardware.nodes, draft.wanted.gpu_node)
    hold = hold_of(draft.profile.backend, draft.profile.resources, node, sharing)
    missing = check_count(hold, draft.wanted.gpu_count, node.name)
    _check_memory(draft.memory_mi, node)
    return _written_down(draft, image, node, hold, missing, modules)


@dataclass(frozen=True, slots=True)
class _Draft:
    """What is wanted, and what the catalog has for it."""

    ground: Ground
    wanted: Realtime
    profile: RealtimeProfile
    definition: ComputeTarget

    @property
    def memory_mi(self) -> int:
        """Host memory; where the model says nothing, the profile does."""
        if "system_memory_mi" in self.wanted.model_fields_set:
            return self.wanted.system_memory_mi
        return self.profile.default_system_memory_mi


def _draft(ground: Ground) -> _Draft:
    local, wanted = ground.local, ground.local.realtime
    if wanted is None:
        refuse(_SETTINGS, "must be an object with profile and gpuNode")
    if local.engine != ENGINE:
        refuse("spec.local.engine", f"must be left out, or {ENGINE}, for a realtime model")
    profile = _profile(ground, wanted.profile)
    if local.compute_target not in profile.compute_targets:
        offered = ", ".join(profile.compute_targets)
        refuse("spec.local.computeTarget", f"must be one of {offered} for the profile {wanted.profile}")
    check_profile(ground, wanted.profile)
    return _Draft(ground, wanted, profile, find_target(ground.targets, local.compute_target))


def _profile(ground: Ground, name: str) -> RealtimeProfile:
    engine = ground.targets.engines.get(ENGINE)
    profiles = {} if engine is None else engine.realtime_profiles
    if name not in profiles:
        invalid = ground.targets.invalid.get(f"engines.{ENGINE}.realtimeProfiles.{name}")
        if invalid:
            refuse(f"{_SETTINGS}.profile", f"has an invalid entry in the compute-target catalog ({invalid})")
        offered = f"one of {', '.join(profiles)}" if profiles else "in the catalog, which has none"
        refuse(f"{_SETTINGS}.profile", f"must be {offered}")
    return profiles[name]


# --- rules -------------------------------------------------------------------------------------------


def _check_model(ground: Ground, wanted: Realtime) -> None:
    local = ground.local
    if not _MODEL.fullmatch(local.url):
        refuse("spec.local.url", "must be hf://<organisation>/<model> for a realtime model")
    if local.model_type not in ("", "chat"):
        refuse("spec.local.modelType", "must be left out, or chat, for a realtime model")
    for name, count in (("minReplicas", local.min_replicas), ("maxReplicas", local.max_replicas)):
        if count not in (None, 1):
            refuse(f"spec.local.{name}", "must be left out, or 1, for a realtime model")
    if not _NODE_NAME.fullmatch(wanted.gpu_node):
        refuse(f"{_SETTINGS}.gpuNode", "must be the name of a node")
    if wanted.restart_nonce and not (
        len(wanted.restart_nonce) <= NONCE_LIMIT and _NONCE.fullmatch(wanted.restart_nonce)
    ):
        allowed = f"at most {NONCE_LIMIT} letters, digits, '-' and '_'"
        refuse(f"{_SETTINGS}.restartNonce", f"must be {allowed}")


def _check_settings_of_others(local: LocalModel) -> None:
    """What is left of them after `without_empty`; an object whose defaults the server filled in is empty."""
    given = {
        "preset": bool(local.preset),
        "artifact": bool(local.artifact),
        "vllm": local.vllm not in (None, Vllm()),
        "freetoken": local.freetoken not in (None, FreeToken()),
        "args": bool(local.args),
        "env": bool(local.env),
        "cpuOffloading": local.cpu_offloading is True,
        "kvCacheType": local.kv_cache_type is not None,
        "vram": local.vram is not None,
        "vramMi": local.vram_mi is not None,
        "memoryRequiredMi": local.memory_required_mi is not None,
        "maxOutputTokens": local.max_output_tokens is not None,
    }
    for name, is_given in given.items():
        if is_given:
            refuse(f"spec.local.{name}", "must be left out for a realtime model")


def _check_amounts(wanted: Realtime, profile: RealtimeProfile) -> None:
    if wanted.gpu_count not in profile.gpu_counts:
        offered = " or ".join(map(str, profile.gpu_counts))
        refuse(f"{_SETTINGS}.gpuCount", f"must be {offered} for the profile {wanted.profile}")
    for name, value in (
        ("systemMemoryMi", wanted.system_memory_mi),
        ("thinkerCpuOffloadGiB", wanted.thinker_cpu_offload_gi_b),
    ):
        if value > MOST:
            refuse(f"{_SETTINGS}.{name}", f"must be at most {MOST}")


def _image(wanted: Realtime, profile: RealtimeProfile) -> str:
    """The user's own, by any reference, or the catalog's by its digest."""
    own = wanted.runtime_image
    if own:
        if len(own) > IMAGE_LIMIT or "://" in own or not _IMAGE.fullmatch(own):
            refuse(
                f"{_SETTINGS}.runtimeImage", f"must be an image reference of at most {IMAGE_LIMIT} characters"
            )
        return own
    if not profile.image:
        refuse(f"{_SETTINGS}.runtimeImage", f"is required: the profile {wanted.profile} brings no image")
    if not _PINNED.fullmatch(profile.image):
        refuse(
            f"{_SETTINGS}.profile", "has an image in the compute-target catalog that is not pinned by digest"
        )
    return profile.image


def _check_memory(wanted_mi: int, node: NodeFacts) -> None:
    try:
        has_mi = math.floor(parse(node.allocatable.get("memory", "")).value / _MIB)
    except QuantityError:
        refuse(f"{_SETTINGS}.gpuNode", "names a node whose allocatable memory cannot be read")
    if wanted_mi > has_mi:
        refuse(f"{_SETTINGS}.systemMemoryMi", f"must be at most {has_mi}, what {node.name} can allocate")


# --- what comes of them ------------------------------------------------------------------------------


def _written_down(
    draft: _Draft, image: str, node: NodeFacts, hold: Hold, missing: str, modules: ModuleCatalog
) -> ResolvedRealtime:
    ground, local, wanted, profile = draft.ground, draft.ground.local, draft.wanted, draft.profile
    needed = requirements.required(modules, draft.definition.required_capabilities, requirements.ROUTING)
    return ResolvedRealtime(
        name=ground.name,
        namespace=ground.spec.target_namespace,
        modules=needed,
        requested_modules=requirements.requested(modules, needed),
        target=_target(draft, hold),
        engine_title=TITLE,
        url=local.url,
        vram_mi=_vram_mi(profile, node, wanted),
        memory_mi=draft.memory_mi,
        cpu=cpu_policy(ground.targets, ENGINE, draft.definition.kind, local.cpu_resources),
        context_window=local.context_window or profile.default_context_window,
        max_num_seqs=local.max_num_seqs or 1,
        profile=wanted.profile,
        accelerator=profile.backend,
        image=image,
        pinned=not wanted.runtime_image,
        node=node.name,
        node_uid=node.uid,
        hold=hold,
        missing=missing,
        gpu_count=wanted.gpu_count,
        gpu_memory_fraction=wanted.gpu_memory_fraction,
        thinker_offload_gib=wanted.thinker_cpu_offload_gi_b,
        deploy_config=profile.deploy_config,
        source_revision=profile.source_revision,
        restart_nonce=wanted.restart_nonce,
        unified_memory=_unified_memory(profile, node, draft.memory_mi),
    )


def _target(draft: _Draft, hold: Hold) -> Target:
    name = draft.ground.local.compute_target
    return Target(
        name=name,
        display_name=draft.definition.display_name or name,
        kind=draft.definition.kind,
        resource_names=draft.profile.resources,
        resource=hold.resource,
        allocatable=hold.slots,
    )


def _vram_mi(profile: RealtimeProfile, node: NodeFacts, wanted: Realtime) -> int:
    """What the runtime may take of its devices, in MiB; 0 where nobody says how much they have."""
    capacity: int | None = None
    if profile.backend == "cuda":
        text = node.labels.get(_CUDA_MEMORY, "")
        capacity = int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None
    elif profile.backend == "rocm":
        _, capacity = memory.allocation(node.evidence)
    share = Fraction(str(wanted.gpu_memory_fraction))
    return 0 if capacity is None else math.floor(capacity * share) * wanted.gpu_count


def _unified_memory(profile: RealtimeProfile, node: NodeFacts, memory_mi: int) -> UnifiedMemory | None:
    """One pool of the host, which is told once and counted once."""
    if profile.backend != "rocm" or not memory.is_unified(node):
        return None
    mode, _ = memory.allocation(node.evidence)
    return UnifiedMemory(node=node.name, pool_id=node.uid or node.name, mode=mode, memory_mi=memory_mi)


def _is_empty(value: object) -> bool:
    return value is None or value is False or value in ("", (), [], {})
