"""The resource profile of a Model, from the one that KubeAI was installed with (spec: models §8)."""

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.api import quantity
from magicstick.models.kubeai_release import KubeAi, Running
from magicstick.models.profiles import choose, content_hash, in_force, multiplied, profile_for
from magicstick.models.resolved import Profile, ProfileChoice, ProfileWait, WaitReason
from magicstick.models.store_document import MAX_CHARACTERS
from tests.support.resolution import (
    AMD,
    CPU,
    INTEL,
    KUBEAI,
    NVIDIA,
    OLLAMA,
    amd_node,
    chosen,
    release_object,
    resolved,
    store_object,
)

OFFLOAD: Mapping[str, Any] = {
    **NVIDIA,
    "vram": "12000Mi",
    "memoryRequiredMi": 16000,
    "cpuOffloading": True,
    "cpuOffloadMi": 8000,
}


def installed(name: str) -> Profile:
    profiles = KUBEAI.installed
    assert profiles is not None
    return profiles[name]


def section(profile: Profile, name: str) -> dict[str, str]:
    found = profile.get(name, {})
    assert isinstance(found, Mapping)
    return dict(found)


def value(text: str) -> Fraction:
    return quantity.parse(text).value


def final(local: Mapping[str, Any]) -> Profile:
    return chosen(resolved(local)).derived[-1].content


# --- CPU scheduling ---------------------------------------------------------------------------------


@pytest.mark.req("MS-005", "MS-006")
def test_the_example_of_the_specification() -> None:
    choice = chosen(resolved({**CPU, "memoryRequiredMi": 6145}))
    (derived,) = choice.derived
    assert derived.content == {
        "imageName": "magicstick-vllm-cpu",
        "requests": {"cpu": "2000m", "memory": "6160Mi"},
        "limits": {"cpu": "8000m", "memory": "9240Mi"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
    }
    assert derived.name == f"magicstick-cpu-{content_hash(derived.content, 20)}"
    assert choice.reference == f"{derived.name}:1"


BASES = [
    (CPU, "magicstick-vllm-cpu-memory", 256),
    ({**CPU, **OLLAMA}, "magicstick-ollama-cpu-memory", 128),
    (NVIDIA, "magicstick-nvidia-gpu", 1),
    ({**NVIDIA, **OLLAMA}, "magicstick-ollama-nvidia-gpu", 1),
    (AMD, "magicstick-amd-gpu", 1),
    (INTEL, "magicstick-intel-i915-gpu", 1),
]


@pytest.mark.req("MS-006", "MS-007", "MS-008")
@pytest.mark.parametrize(("local", "base", "count"), BASES)
@pytest.mark.parametrize("limit_m", [0, 9000])
def test_the_policy_changes_nothing_but_cpu(
    local: Mapping[str, Any], base: str, count: int, limit_m: int
) -> None:
    source = installed(base)
    made = final({**local, "cpuResources": {"requestMillicores": 1500, "limitMillicores": limit_m}})
    assert section(made, "requests").pop("cpu") == "1500m"
    assert section(made, "limits").get("cpu") == ("9000m" if limit_m else None)
    for name in ("requests", "limits"):
        before, after = section(source, name), section(made, name)
        assert before.keys() - {"cpu"} == after.keys() - {"cpu"}
        for resource in before.keys() - {"cpu"}:
            assert value(str(after[resource])) == value(str(before[resource])) * count
    rest = source.keys() - {"requests", "limits"}
    assert {name: made[name] for name in rest} == {name: source[name] for name in rest}
    assert made.keys() == source.keys()


@pytest.mark.req("MS-009")
@given(mi=st.integers(16, 2**20))
def test_edge_17_cpu_does_not_grow_with_memory(mi: int) -> None:
    made = final({**CPU, "memoryRequiredMi": mi})
    assert (section(made, "requests")["cpu"], section(made, "limits")["cpu"]) == ("2000m", "8000m")
    units = -(-mi // 16)
    assert value(section(made, "requests")["memory"]) == units * 16 * 2**20
    assert value(section(made, "limits")["memory"]) == units * 24 * 2**20


@pytest.mark.req("MS-152")
def test_equal_requirements_share_a_profile_and_others_do_not() -> None:
    def name(**local: Any) -> str:
        return chosen(resolved({**CPU, **local})).derived[-1].name

    assert name(memoryRequiredMi=6145) == name(memoryRequiredMi=6160, contextWindow=7)
    assert name(memoryRequiredMi=6145) != name(memoryRequiredMi=6161)
    assert name() != name(cpuResources={"requestMillicores": 2001})


@given(
    number=st.decimals(0, 10**30, allow_nan=False, places=9),
    count=st.integers(1, 10**12),
    suffix=st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "Gi", "e3", "E2", "e-2"]),
)
def test_multiplying_a_quantity_is_exact_and_keeps_its_suffix(
    number: Decimal, count: int, suffix: str
) -> None:
    product = multiplied(f"{number:f}{suffix}", count)
    assert isinstance(product, str)
    assert product.endswith(suffix)
    assert Fraction(product.removesuffix(suffix)) == Fraction(number) * count


def test_whole_numbers_are_multiplied_as_what_they_are() -> None:
    assert multiplied(2, 3) == 6
    assert multiplied("100", 3) == "300"
    assert (multiplied("1.5Gi", 2), multiplied(".5", 3), multiplied("2.", 2)) == ("3Gi", "1.5", "4")


@pytest.mark.parametrize("text", ["many", "", "1 Gi", None, 1.5, True, ["1"], "1Gi2"])
def test_what_is_no_quantity_cannot_be_multiplied(text: object) -> None:
    with pytest.raises(ValueError, match="no quantity"):
        multiplied(text, 2)


def test_a_profile_with_something_that_is_no_quantity_is_waited_out() -> None:
    broken = KubeAi({"magicstick-vllm-cpu-memory": {"requests": {"memory": "much"}}}, reads_store=True)
    wait = choose(resolved(CPU), broken)
    assert isinstance(wait, ProfileWait)
    assert wait.reason is WaitReason.CPU
    assert "requests that are no quantities" in wait.message


# --- offloading -------------------------------------------------------------------------------------


@pytest.mark.req("MS-130", "MS-133", "MS-134", "MS-135", "MS-136", "MS-137")
@pytest.mark.parametrize(
    ("engine", "base", "cpu"),
    [({}, "magicstick-nvidia-gpu", "1000m"), (OLLAMA, "magicstick-ollama-nvidia-gpu", "500m")],
)
def test_edge_31_chosen_host_memory_is_requested_and_limited_beside_one_gpu(
    engine: Mapping[str, Any], base: str, cpu: str
) -> None:
    offloading, scheduled = chosen(resolved({**OFFLOAD, **engine})).derived
    source = installed(base)
    assert offloading.name == f"{base}-ram-16000"
    assert section(offloading.content, "requests") == {**section(source, "requests"), "memory": "16000Mi"}
    assert section(offloading.content, "limits") == {"memory": "16000Mi", "nvidia.com/gpu": "1"}
    assert offloading.content["tolerations"] == source["tolerations"]
    assert offloading.content["imageName"] == source["imageName"]
    assert section(scheduled.content, "requests") == {
        "cpu": cpu,
        "memory": "16000Mi",
        "nvidia.com/gpu": "1",
    }


@pytest.mark.req("MS-003")
def test_edge_18_the_cpu_policy_comes_after_offloading_and_keeps_everything_else() -> None:
    offloading, scheduled = chosen(resolved(OFFLOAD)).derived

    def rest(profile: Profile) -> dict[str, object]:
        parts = {name: section(profile, name) for name in ("requests", "limits")}
        for each in parts.values():
            each.pop("cpu", None)
        return {**profile, **parts}

    assert rest(scheduled.content) == rest(offloading.content)
    assert choose(resolved(OFFLOAD), KUBEAI) == choose(resolved(OFFLOAD), KUBEAI)


@pytest.mark.req("MS-131")
@pytest.mark.parametrize("given", [{}, {"cpuOffloading": False}, {"memoryRequiredMi": 16000}])
def test_without_explicit_offloading_memory_changes_no_gpu_profile(given: Mapping[str, Any]) -> None:
    assert chosen(resolved({**NVIDIA, **given})) == chosen(resolved(NVIDIA))


@pytest.mark.req("MS-140", "MS-141")
def test_accepted_risk_changes_what_is_refused_and_nothing_else() -> None:
    enough = resolved({**OFFLOAD, "memoryRequiredMi": 14144})
    risky = resolved({**OFFLOAD, "memoryRequiredMi": 14144, "allowMemoryRisk": True})
    assert enough == risky
    assert chosen(enough) == chosen(risky)
    tiny = resolved({**OFFLOAD, "memoryRequiredMi": 100, "allowMemoryRisk": True})
    assert section(chosen(tiny).derived[0].content, "limits")["memory"] == "100Mi"


@pytest.mark.parametrize(
    "base",
    [
        {"requests": {"cpu": "1"}},
        {"requests": {"nvidia.com/gpu": "2"}},
        {"requests": None},
    ],
)
def test_offloading_needs_a_profile_of_exactly_one_gpu(base: Profile) -> None:
    wait = choose(resolved(OFFLOAD), KubeAi({"magicstick-nvidia-gpu": base}, reads_store=True))
    assert isinstance(wait, ProfileWait)
    assert wait.reason is WaitReason.OFFLOADING
    assert "exactly one nvidia.com/gpu" in wait.message


# --- what is waited for -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("local", "reason"), [(CPU, WaitReason.CPU), (NVIDIA, WaitReason.CPU), (OFFLOAD, WaitReason.OFFLOADING)]
)
@pytest.mark.parametrize(
    ("kubeai", "message"),
    [
        (KubeAi(), "HelmRelease kubeai does not exist"),
        (KubeAi({}, reads_store=True), "installed without a resource profile magicstick-"),
    ],
)
def test_without_a_base_profile_the_model_waits(
    local: Mapping[str, Any], reason: WaitReason, kubeai: KubeAi, message: str
) -> None:
    wait = choose(resolved(local), kubeai)
    assert isinstance(wait, ProfileWait)
    assert wait.reason is reason
    assert message in wait.message


def test_edge_32_a_release_that_does_not_read_the_store_is_waited_out() -> None:
    kubeai = KubeAi.of(release_object(valuesFrom=[]), store_object())
    for local, reason in ((CPU, WaitReason.CPU), (OFFLOAD, WaitReason.OFFLOADING)):
        wait = choose(resolved(local), kubeai)
        assert isinstance(wait, ProfileWait)
        assert wait.reason is reason
        assert "does not take its values from ConfigMap" in wait.message


# --- in force ---------------------------------------------------------------------------------------


def progress(choice: ProfileChoice, *, stored: bool, taken: bool, problem: str = "") -> str:
    profiles = {each.name: each.content for each in choice.derived}
    kubeai = KubeAi(KUBEAI.installed, reads_store=True, store=profiles if stored else {})
    return in_force(choice, kubeai, Running(profiles if taken else {}, problem))


@pytest.mark.req("MS-155")
def test_a_profile_is_in_force_once_kubeai_runs_with_exactly_it() -> None:
    choice = chosen(resolved(CPU))
    name = choice.derived[-1].name
    assert progress(choice, stored=True, taken=True) == ""
    assert progress(choice, stored=False, taken=False) == (
        f"Resource profile {name} is not in ConfigMap magicstick-offloading-profiles yet."
    )
    assert "has not taken resource profile" in progress(choice, stored=True, taken=False)
    restarting = progress(choice, stored=True, taken=True, problem="KubeAI is being restarted.")
    assert restarting.endswith("KubeAI is being restarted.")
    other = Running({name: {**choice.derived[-1].content, "imageName": "another"}})
    kubeai = KubeAi(KUBEAI.installed, reads_store=True, store={name: choice.derived[-1].content})
    assert in_force(choice, kubeai, other) != ""


def test_a_store_that_is_missing_or_full_is_told_as_such() -> None:
    choice = chosen(resolved(CPU))
    nothing = KubeAi(KUBEAI.installed, reads_store=True, store=None)
    assert "does not exist" in in_force(choice, nothing, Running())
    full = KubeAi(KUBEAI.installed, reads_store=True, store={}, store_characters=MAX_CHARACTERS - 100)
    assert "is full: 750000 characters" in in_force(choice, full, Running())


def test_a_model_that_names_the_profile_already_is_not_held_up() -> None:
    model = resolved(CPU)
    choice = chosen(model)
    down = Running(problem="KubeAI is being restarted.")
    assert profile_for(model, KUBEAI, down, choice.reference) == choice
    for named in (None, "magicstick-vllm-cpu-memory:256"):
        wait = profile_for(model, KUBEAI, down, named)
        assert isinstance(wait, ProfileWait)
        assert wait.reason is WaitReason.CPU
    offload = profile_for(resolved(OFFLOAD), KUBEAI, down, None)
    assert isinstance(offload, ProfileWait)
    assert offload.reason is WaitReason.OFFLOADING


def test_unified_memory_waits_under_its_own_reason() -> None:
    shared = amd_node(evidence={"memoryArchitecture": "unified"})
    wait = profile_for(resolved(AMD, [shared]), KUBEAI, Running(), None)
    assert isinstance(wait, ProfileWait)
    assert wait.reason is WaitReason.UNIFIED_MEMORY
