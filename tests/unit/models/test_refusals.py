"""Every rule that refuses a model before anything of it is created (spec: models §15)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.catalogs.compute_targets import ComputeTarget, ComputeTargetCatalog
from magicstick.catalogs.modules import ModuleCatalog
from magicstick.catalogs.presets import PresetCatalog
from magicstick.models.hardware import Hardware
from magicstick.models.resolve import resolve
from magicstick.models.resolved import Reason, Refusal, ResolvedKubeAi
from tests.support.model_objects import activation
from tests.support.resolution import (
    AMD,
    CATALOGS,
    CPU,
    INTEL,
    NVIDIA,
    OLLAMA,
    node,
    outcome,
    refused,
    resolved,
)
from tests.support.shipped import PRESETS, TARGETS

OFFLOAD: Mapping[str, Any] = {**NVIDIA, "cpuOffloading": True, "memoryRequiredMi": 16000}
GPU_OLLAMA: Mapping[str, Any] = {**NVIDIA, **OLLAMA}

RULES: list[tuple[str, Mapping[str, Any], str, str]] = [
    ("1 engine", {**CPU, "engine": "Triton"}, "engine", "must be"),
    ("2 target", {**CPU, "computeTarget": "tpu"}, "computeTarget", "must be"),
    ("3 intel-gpu and OLlama", {**INTEL, **OLLAMA}, "engine", "VLLM on intel-gpu"),
    ("3 amd-gpu and FreeToken", {**AMD, "engine": "FreeToken"}, "engine", "VLLM, OLlama on amd-gpu"),
    ("3 cpu and FreeToken", {**CPU, "engine": "FreeToken"}, "engine", "VLLM, OLlama on cpu"),
    ("5 unknown preset", {**CPU, "preset": "nothing"}, "preset", "must be a preset of the catalog"),
    (
        "6 no variant for the engine",
        {"preset": "qwen352bvlembedding", "computeTarget": "amd-gpu"},
        "preset",
        "has none",
    ),
    (
        "8 unknown artifact",
        {"preset": "qwen3827b", "artifact": "int2"},
        "artifact",
        "must be one of awq-int4",
    ),
    ("8 artifact without a preset", {**CPU, "artifact": "bf16"}, "artifact", "must be left out"),
    (
        "10 another profile",
        {**NVIDIA, "resourceProfile": "mine:1"},
        "resourceProfile",
        "magicstick-nvidia-gpu:1",
    ),
    ("11 CPU is no object", {**CPU, "cpuResources": 3}, "cpuResources", "must be an object"),
    (
        "11 CPU with an unknown key",
        {**CPU, "cpuResources": {"cores": 3}},
        "cpuResources.cores",
        "no known field",
    ),
    (
        "11 CPU that is true",
        {**CPU, "cpuResources": {"requestMillicores": True}},
        "cpuResources.requestMillicores",
        "whole number",
    ),
    (
        "11 CPU request of none",
        {**CPU, "cpuResources": {"requestMillicores": 0}},
        "cpuResources.requestMillicores",
        "at least 1",
    ),
    (
        "11 negative CPU limit",
        {**CPU, "cpuResources": {"limitMillicores": -1}},
        "cpuResources.limitMillicores",
        "at least 0",
    ),
    (
        "11 CPU limit below the inherited request",
        {**CPU, "cpuResources": {"limitMillicores": 1000}},
        "cpuResources.limitMillicores",
        "at least requestMillicores",
    ),
    (
        "11 CPU request above the inherited limit",
        {**CPU, "cpuResources": {"requestMillicores": 9000}},
        "cpuResources.requestMillicores",
        "at least requestMillicores",
    ),
    ("12 vllm is no object", {**CPU, "vllm": "triton"}, "vllm", "must be an object"),
    ("12 vllm with an unknown key", {**CPU, "vllm": {"x": 1}}, "vllm.x", "no known field"),
    ("12 vllm on another engine", {**CPU, **OLLAMA, "vllm": {}}, "", "engine VLLM"),
    (
        "12 vision choice on another target",
        {**NVIDIA, "vllm": {"visionAttention": "triton"}},
        "vllm.visionAttention",
        "only amd-gpu can choose",
    ),
    (
        "12 vision choice that is not offered",
        {**AMD, "vllm": {"visionAttention": "magic"}},
        "vllm.visionAttention",
        "must be",
    ),
    ("13 KV type of another engine", {**CPU, "kvCacheType": "q8_0"}, "kvCacheType", "auto or fp8"),
    (
        "13 KV type of another engine",
        {**CPU, **OLLAMA, "kvCacheType": "fp8"},
        "kvCacheType",
        "f16, q8_0 or q4_0",
    ),
    ("13 KV type of no engine", {**CPU, "kvCacheType": "int3"}, "kvCacheType", "must be"),
    ("14 offloading that is text", {**NVIDIA, "cpuOffloading": "true"}, "cpuOffloading", "true or false"),
    ("14 offloading on CPU", {**CPU, "cpuOffloading": True}, "cpuOffloading", "only on nvidia-gpu"),
    (
        "14 offloading on AMD",
        {**AMD, "cpuOffloading": True, "memoryRequiredMi": 16000},
        "cpuOffloading",
        "only on nvidia-gpu",
    ),
    ("14 negative offload", {**OFFLOAD, "cpuOffloadMi": -1}, "cpuOffloadMi", "at least 0"),
    ("14 offload that is text", {**OFFLOAD, "cpuOffloadMi": "1"}, "cpuOffloadMi", "whole number"),
    ("14 risk that is text", {**OFFLOAD, "allowMemoryRisk": "true"}, "allowMemoryRisk", "true or false"),
    ("14 host memory below a unit", {**OFFLOAD, "memoryRequiredMi": 15}, "memoryRequiredMi", "at least 16"),
    (
        "14 no host memory, in spite of risk",
        {**NVIDIA, "cpuOffloading": True, "allowMemoryRisk": True},
        "memoryRequiredMi",
        "is required",
    ),
    (
        "14 too little host memory",
        {**OFFLOAD, "cpuOffloadMi": 9857},
        "memoryRequiredMi",
        "must be at least 16001",
    ),
    (
        "14 too little host memory for Ollama",
        {**GPU_OLLAMA, "cpuOffloading": True, "memoryRequiredMi": 4095},
        "memoryRequiredMi",
        "must be at least 4096",
    ),
    ("14 two replicas", {**OFFLOAD, "maxReplicas": 2, "allowMemoryRisk": True}, "maxReplicas", "must be 1"),
    ("15 FP8 on CPU", {**CPU, "kvCacheType": "fp8"}, "kvCacheType", "must not be fp8 on cpu"),
    ("15 FP8 on Intel", {**INTEL, "kvCacheType": "fp8"}, "kvCacheType", "must not be fp8 on intel-gpu"),
    ("16 no URL", {"computeTarget": "cpu"}, "url", "is required"),
    ("17 URL of another engine", {**CPU, "url": "ollama://qwen:1b"}, "url", "must be hf://"),
    ("17 URL of another engine", {**CPU, **OLLAMA, "url": "hf://a/b"}, "url", "must be ollama://"),
    ("17 URL without a reference", {**CPU, "url": "hf:///"}, "url", "must be hf://"),
    ("17 URL with a blank", {**CPU, "url": "hf://a/b c"}, "url", "without blanks"),
    ("18 accelerator without VRAM", {"computeTarget": "intel-gpu", "url": "hf://a/b"}, "vram", "is required"),
    ("19 CPU with VRAM", {**CPU, "vram": "4Gi"}, "vram", "must be left out on CPU"),
    ("19 CPU with VRAM in MiB", {**CPU, "vramMi": 4096}, "vramMi", "must be left out on CPU"),
    ("21 Ollama with arguments", {**CPU, **OLLAMA, "args": ["--x"]}, "args", "must be left out for OLlama"),
    (
        "22 realtime",
        {"realtime": {"profile": "p", "gpuNode": "n"}},
        "realtime.profile",
        "must be one of qwen3-omni",
    ),
    (
        "fewer replicas than the least",
        {**CPU, "minReplicas": 3, "maxReplicas": 2},
        "maxReplicas",
        "at least min",
    ),
    ("more than one by default", {**CPU, "minReplicas": 2}, "maxReplicas", "at least minReplicas"),
    ("more than KubeAI counts", {**CPU, "maxReplicas": 2**31}, "maxReplicas", "at most 2147483647"),
    ("no replica at all", {**CPU, "minReplicas": 0, "maxReplicas": 0}, "maxReplicas", "at least 1"),
    ("too many GPUs", {**NVIDIA, "args": ["-tp", "2"]}, "args", "at most 1 GPUs"),
    ("an environment that no container takes", {**CPU, "env": {"A=B": "c"}}, "env", "hold no '='"),
    (
        "a KV cache below the least",
        {**CPU, "kvCacheMemoryBytes": 1},
        "kvCacheMemoryBytes",
        "at least 67108864",
    ),
]


@pytest.mark.req("MS-354")
@pytest.mark.parametrize(
    ("local", "field", "problem"), [rule[1:] for rule in RULES], ids=[r[0] for r in RULES]
)
def test_a_model_that_breaks_a_rule_is_refused_with_its_field(
    local: Mapping[str, Any], field: str, problem: str
) -> None:
    refusal = refused(local)
    assert refusal.reason is Reason.INVALID_SPEC
    assert refusal.field == f"spec.local.{field}".rstrip(".")
    assert problem in refusal.problem
    assert refusal.message.startswith(refusal.field)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"engine": "OLlama", "computeTarget": "intel-gpu"}, {"preset": "nothing"}),
        ({"preset": "nothing"}, {"resourceProfile": "mine:1"}),
        ({"resourceProfile": "mine:1"}, {"cpuResources": {"limitMillicores": 1}}),
        ({"cpuResources": {"limitMillicores": 1}}, {"vllm": {"visionAttention": "triton"}}),
        ({"vllm": {"visionAttention": "triton"}}, {"kvCacheType": "f16"}),
        ({"kvCacheType": "f16"}, {"computeTarget": "nvidia-gpu", "cpuOffloading": True}),
        ({"cpuOffloading": True}, {"url": ""}),
        ({"url": ""}, {"vram": "1Gi"}),
        ({"vram": "1Gi"}, {"minReplicas": 2}),
    ],
)
def test_the_first_rule_in_the_order_of_the_specification_gives_the_message(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> None:
    alone = refused({**CPU, **first})
    assert refused({**CPU, **second, **first}) == alone


def test_a_rule_is_not_broken_by_what_is_allowed() -> None:
    for local in (
        {**CPU, "resourceProfile": "magicstick-vllm-cpu-memory:256"},
        {**CPU, "memoryRequiredMi": 6145, "resourceProfile": "magicstick-vllm-cpu-memory:385"},
        {**CPU, "cpuResources": {"limitMillicores": 0}},
        {**CPU, "cpuResources": {"requestMillicores": 500, "limitMillicores": 500}},
        {**CPU, "cpuOffloading": False},
        {**OFFLOAD, "cpuOffloadMi": 9856, "minReplicas": 0},
        {**OFFLOAD, "memoryRequiredMi": 100, "allowMemoryRisk": True},
        {**NVIDIA, "kvCacheType": "fp8"},
        {**AMD, "kvCacheType": "fp8"},
        {**CPU, "minReplicas": 0, "maxReplicas": 3},
        {**NVIDIA, "args": ["--tensor-parallel-size=1"]},
    ):
        assert isinstance(outcome(local), ResolvedKubeAi), local


@pytest.mark.req("MS-142")
@pytest.mark.parametrize("risk", [{}, {"allowMemoryRisk": False}, {"allowMemoryRisk": None}])
def test_without_accepted_risk_too_little_host_memory_is_refused(risk: Mapping[str, Any]) -> None:
    assert refused({**OFFLOAD, "memoryRequiredMi": 6143, **risk}).field == "spec.local.memoryRequiredMi"
    assert isinstance(outcome({**OFFLOAD, "memoryRequiredMi": 6144, **risk}), ResolvedKubeAi)


@pytest.mark.req("MS-143")
@pytest.mark.parametrize(
    ("broken", "field"),
    [
        ({"memoryRequiredMi": None}, "memoryRequiredMi"),
        ({"memoryRequiredMi": 0}, "memoryRequiredMi"),
        ({"computeTarget": "amd-gpu"}, "cpuOffloading"),
        ({"computeTarget": "intel-gpu"}, "cpuOffloading"),
        ({"maxReplicas": 2}, "maxReplicas"),
        ({"minReplicas": 2, "maxReplicas": 2}, "maxReplicas"),
    ],
)
def test_accepted_risk_waives_neither_budget_nor_target_nor_the_one_replica(
    broken: Mapping[str, Any], field: str
) -> None:
    assert refused({**OFFLOAD, "allowMemoryRisk": True, **broken}).field == f"spec.local.{field}"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"type": "remote"}, "spec.type"),
        ({"type": ["local"]}, "spec.type"),
        ({"type": 3, "local": 4}, "spec.type"),
    ],
)
def test_an_unknown_type_is_told_before_anything_else(spec: Mapping[str, Any], field: str) -> None:
    refusal = resolve(activation(spec=spec), CATALOGS, Hardware())
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.field) == (Reason.UNSUPPORTED_TYPE, field)


def test_a_missing_type_is_local() -> None:
    assert isinstance(resolve(activation(spec={"local": dict(CPU)}), CATALOGS, Hardware()), ResolvedKubeAi)


@pytest.mark.parametrize("name", ["x" * 41, "qwen2.5", "Demo", "demo-"])
def test_a_name_that_kubeai_cannot_serve_is_refused_with_the_limit(name: str) -> None:
    refusal = refused(CPU, name=name)
    assert (refusal.reason, refusal.field) == (Reason.INVALID_NAME, "metadata.name")
    assert "40 characters" in refusal.problem


def test_a_name_of_forty_characters_is_served() -> None:
    assert resolved(CPU, name="x" * 40).name == "x" * 40


def test_a_namespace_that_cannot_exist_is_refused() -> None:
    refusal = outcome(CPU, targetNamespace="Not.A.Label")
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.field) == (Reason.INVALID_SPEC, "spec.targetNamespace")


def test_a_capability_that_no_module_provides_is_told_after_the_rules_of_the_model() -> None:
    without = replace(CATALOGS, modules=ModuleCatalog({}))
    refusal = resolve(activation(local=dict(NVIDIA)), without, Hardware())
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.INVALID_TARGET
    assert "compute.gpu.nvidia" in refusal.message
    earlier = resolve(activation(local={"computeTarget": "nvidia-gpu"}), without, Hardware())
    assert isinstance(earlier, Refusal)
    assert earlier.reason is Reason.INVALID_SPEC


def test_a_broken_entry_of_a_catalog_is_named() -> None:
    broken = replace(CATALOGS, presets=PresetCatalog(PRESETS.presets, {"mine": "variants: must be a list"}))
    refusal = resolve(activation(local={**CPU, "preset": "mine"}), broken, Hardware())
    assert isinstance(refusal, Refusal)
    assert "variants: must be a list" in refusal.message
    targets = {name: each for name, each in TARGETS.targets.items() if name != "cpu"}
    catalog = ComputeTargetCatalog(TARGETS.engines, targets, {"targets.cpu": "kind: is required"})
    refusal = resolve(activation(local=dict(CPU)), replace(CATALOGS, targets=catalog), Hardware())
    assert isinstance(refusal, Refusal)
    assert "kind: is required" in refusal.message


@pytest.mark.parametrize(("engine", "is_resolved"), [("VLLM", True), ("OLlama", False)])
def test_a_target_wide_profile_stands_in_for_every_engine_but_ollama(
    engine: str, *, is_resolved: bool
) -> None:
    older = ComputeTarget.model_validate(
        {
            "kind": "cpu",
            "architectures": ["amd64"],
            "engines": ["VLLM", "OLlama"],
            "defaultResourceProfile": "old:4",
        }
    )
    catalog = replace(CATALOGS, targets=ComputeTargetCatalog(TARGETS.engines, {"cpu": older}))
    url = "hf://a/b" if engine == "VLLM" else "ollama://a"
    local = {"computeTarget": "cpu", "engine": engine, "url": url}
    model = resolve(activation(local=local), catalog, Hardware())
    if is_resolved:
        assert isinstance(model, ResolvedKubeAi)
        assert model.base_profile == "old:256"
    else:
        assert isinstance(model, Refusal)
        assert "has no resource profile on cpu" in model.message


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_FIELDS = st.sampled_from(
    [
        *("preset", "artifact", "url", "modelType", "features", "engine", "computeTarget", "resourceProfile"),
        *("vram", "vramMi", "memoryRequiredMi", "cpuOffloading", "cpuResources", "cpuOffloadMi", "args"),
        *("allowMemoryRisk", "contextWindow", "maxNumSeqs", "kvCacheType", "kvCacheMemoryBytes", "env"),
        *("minReplicas", "maxReplicas", "vllm", "freetoken", "realtime"),
    ]
)


@given(local=st.dictionaries(_FIELDS, _JSON, max_size=5), base=st.sampled_from([{}, CPU, NVIDIA, AMD, INTEL]))
def test_whatever_stands_in_a_spec_is_resolved_or_refused(
    local: Mapping[str, Any], base: Mapping[str, Any]
) -> None:
    model = outcome({**base, **local}, [node()])
    assert not isinstance(model, Refusal) or (model.field.startswith("spec") and model.problem)


def test_a_catalog_without_targets_says_so() -> None:
    empty = ComputeTargetCatalog.parse('{"schemaVersion":3,"engines":{},"targets":{}}')
    found = resolve(
        activation(spec={"type": "local", "local": CPU}), replace(CATALOGS, targets=empty), Hardware()
    )
    assert isinstance(found, Refusal)
    assert found.message == "spec.local.computeTarget must be in the catalog, which has none"
