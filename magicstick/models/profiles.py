"""The resource profile of a KubeAI Model: derived step by step from one that KubeAI was installed with.

    base → (memory units | offloading | unified memory) → CPU scheduling

Each step starts from what the former made; the CPU policy is always last (spec: models §8). A derived
profile has a name that follows from its content, so equal requirements share one, and it is used once:
GPUs are never multiplied for the sake of memory.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from magicstick.api import labels
from magicstick.catalogs.compute_targets import CpuPolicy
from magicstick.models.kubeai_release import STORE_NAME, KubeAi, Running
from magicstick.models.resolved import (
    DerivedProfile,
    Profile,
    ProfileChoice,
    ProfileWait,
    ResolvedKubeAi,
    UnifiedMemory,
    WaitReason,
)
from magicstick.models.store_document import MAX_CHARACTERS, fits

NVIDIA_GPU: Final = "nvidia.com/gpu"
AMD_GPU: Final = "amd.com/gpu"
_HASH_LENGTH: Final = 20
_NUMBER: Final = re.compile(r"(?P<number>[0-9]+\.?[0-9]*|\.[0-9]+)(?P<suffix>[A-Za-z]*|[eE][+-]?[0-9]+)")


class _WaitingError(Exception):
    """A step cannot be made yet."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, slots=True)
class _Counted:
    """A profile under its name, and how many of it a Model takes."""

    name: str
    content: Profile
    count: int


def choose(model: ResolvedKubeAi, kubeai: KubeAi) -> ProfileChoice | ProfileWait:
    """The profile that the Model of `model` names; pure, and the same wherever it is asked.

    The store need not hold it yet: what has to be in the store follows from this very choice.
    """
    derived: list[DerivedProfile] = []
    try:
        base = _base(model.base_profile, kubeai)
        if model.cpu_offloading:
            derived.append(_offloading(base, model.memory_mi))
        elif _on_unified_memory(model):
            derived.append(_unified(base, model))
        source = _Counted(derived[-1].name, derived[-1].content, 1) if derived else base
        derived.append(_scheduled(source, model.cpu))
    except _WaitingError as waiting:
        return ProfileWait(WaitReason.CPU if derived else _first_reason(model), waiting.message)
    if not kubeai.reads_store:
        text = f"HelmRelease kubeai does not take its values from ConfigMap {STORE_NAME}."
        return ProfileWait(_first_reason(model), text)
    return ProfileChoice(tuple(derived))


def in_force(choice: ProfileChoice, kubeai: KubeAi, running: Running) -> str:
    """Why a Model cannot name its profile yet, as a sentence; "" once KubeAI runs with it.

    To be asked before a Model is created or is given another profile. A Model that names this profile
    already keeps running whatever KubeAI does, so it is not to be asked for one.
    """
    final = choice.derived[-1]
    if running.profiles.get(final.name) == final.content and not running.problem:
        return ""
    if kubeai.store is None:
        return f"ConfigMap {STORE_NAME} does not exist, or holds no profiles."
    if not fits(kubeai.store, kubeai.store_characters, choice.derived):
        return (
            f"ConfigMap {STORE_NAME} is full: {MAX_CHARACTERS} characters of profiles are the most that it "
            "holds. Give models memory and CPU of equal size, so that they share profiles."
        )
    if not all(kubeai.store.get(each.name) == each.content for each in choice.derived):
        return f"Resource profile {final.name} is not in ConfigMap {STORE_NAME} yet."
    if running.problem:
        return f"KubeAI has not taken resource profile {final.name} yet. {running.problem}"
    return f"KubeAI has not taken resource profile {final.name} yet: its release is to be made anew."


def profile_for(
    model: ResolvedKubeAi, kubeai: KubeAi, running: Running, named: str | None
) -> ProfileChoice | ProfileWait:
    """The profile that the Model may name now, or what it waits for.

    `named` is the one that an existing Model names; None without a Model.
    """
    choice = choose(model, kubeai)
    if isinstance(choice, ProfileWait) or choice.reference == named:
        return choice
    waiting = in_force(choice, kubeai, running)
    return ProfileWait(_first_reason(model), waiting) if waiting else choice


def content_hash(profile: Profile, length: int) -> str:
    """The beginning of the SHA-256 of a profile; of equal profiles the same, whatever the order of keys."""
    return hashlib.sha256(json.dumps(profile, sort_keys=True).encode()).hexdigest()[:length]


def multiplied(quantity: object, count: int) -> object:
    """`count` times a quantity, exactly, with its suffix.

    Raises:
        ValueError: it is no quantity.
    """
    if type(quantity) is int:
        return quantity * count
    match = _NUMBER.fullmatch(quantity) if isinstance(quantity, str) else None
    if match is None:
        raise ValueError("no quantity")
    whole, _, part = match["number"].partition(".")
    digits = str(int(whole + part) * count).rjust(len(part) + 1, "0")
    split = len(digits) - len(part)
    return f"{digits[:split]}.{digits[split:]}".rstrip("0").rstrip(".") + match["suffix"]


# --- steps -------------------------------------------------------------------------------------------


def _first_reason(model: ResolvedKubeAi) -> WaitReason:
    if model.cpu_offloading:
        return WaitReason.OFFLOADING
    return WaitReason.UNIFIED_MEMORY if _on_unified_memory(model) else WaitReason.CPU


def _on_unified_memory(model: ResolvedKubeAi) -> bool:
    return model.unified_memory is not None or bool(model.unified_problem)


def _base(reference: str, kubeai: KubeAi) -> _Counted:
    name, _, count = reference.rpartition(":")
    if kubeai.installed is None:
        raise _WaitingError("HelmRelease kubeai does not exist, so its resource profiles are not known.")
    content = kubeai.installed.get(name)
    if content is None:
        raise _WaitingError(f"KubeAI was installed without a resource profile {name}.")
    return _Counted(name, content, int(count))


def _offloading(base: _Counted, memory_mi: int) -> DerivedProfile:
    """Request and limit of host memory are what was chosen; CPU and tolerations stay (spec: models §8.3)."""
    _require_one(base, NVIDIA_GPU)
    memory = {"memory": f"{memory_mi}Mi"}
    content = {
        **base.content,
        "requests": {**_quantities(base.content, "requests"), **memory},
        "limits": {**_quantities(base.content, "limits"), **memory, NVIDIA_GPU: "1"},
    }
    return DerivedProfile(f"{base.name}-ram-{memory_mi}", content)


def _unified(base: _Counted, model: ResolvedKubeAi) -> DerivedProfile:
    """One pool for host and GPU: it is requested, and not limited (spec: gpu §7)."""
    unified: UnifiedMemory | None = model.unified_memory
    if unified is None:
        raise _WaitingError(model.unified_problem)
    _require_one(base, AMD_GPU)
    limits = {name: each for name, each in _quantities(base.content, "limits").items() if name != "memory"}
    selector = base.content.get("nodeSelector")
    content = {
        **base.content,
        "nodeSelector": {
            **(selector if isinstance(selector, Mapping) else {}),
            labels.GPU_MEMORY_ARCHITECTURE: "unified",
        },
        "requests": {**_quantities(base.content, "requests"), "memory": f"{unified.memory_mi}Mi"},
        "limits": limits,
    }
    return DerivedProfile(f"{base.name}-uma-ram-{unified.memory_mi}", content)


def _scheduled(source: _Counted, cpu: CpuPolicy) -> DerivedProfile:
    """The same for one count, with this CPU request and limit in place of whatever it had.

    So CPU does not grow with the memory units of a profile (spec: models §8.6).
    """
    content = {
        **source.content,
        "requests": {**_times(source, "requests"), "cpu": f"{cpu.request_millicores}m"},
    }
    limits = _times(source, "limits")
    if cpu.limit_millicores:
        limits["cpu"] = f"{cpu.limit_millicores}m"
    if limits or "limits" in source.content:
        content["limits"] = limits
    return DerivedProfile(f"magicstick-cpu-{content_hash(content, _HASH_LENGTH)}", content)


def _times(source: _Counted, section: str) -> dict[str, object]:
    """A section for one count, without CPU."""
    quantities = _quantities(source.content, section)
    try:
        return {
            name: each if source.count == 1 else multiplied(each, source.count)
            for name, each in quantities.items()
            if name != "cpu"
        }
    except ValueError:
        raise _WaitingError(
            f"Resource profile {source.name} of KubeAI has {section} that are no quantities."
        ) from None


def _quantities(profile: Profile, section: str) -> Mapping[str, object]:
    quantities = profile.get(section)
    return quantities if isinstance(quantities, Mapping) else {}


def _require_one(base: _Counted, resource: str) -> None:
    wanted = _quantities(base.content, "requests").get(resource)
    if base.count != 1 or str(wanted) != "1":
        raise _WaitingError(
            f"Resource profile {base.name} of KubeAI does not request exactly one {resource}."
        )
