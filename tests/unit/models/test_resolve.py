"""What a valid model resolves to: target, preset, memory, CPU, modules (spec: models §4 to §6)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from magicstick.api import labels
from magicstick.catalogs.presets import PresetCatalog
from magicstick.models.hardware import Hardware, NodeFacts
from magicstick.models.resolve import resolve
from magicstick.models.resolved import Refusal, ResolvedKubeAi
from tests.support.model_objects import activation
from tests.support.resolution import (
    AMD,
    CATALOGS,
    CPU,
    INTEL,
    NVIDIA,
    OLLAMA,
    amd_node,
    node,
    refused,
    resolved,
    resolved_external,
)

GIB = 1024


# --- CPU and memory of CPU models --------------------------------------------------------------------


@pytest.mark.req("MS-001")
@pytest.mark.parametrize(
    ("local", "request_m", "limit_m"),
    [
        (CPU, 2000, 8000),
        ({**CPU, **OLLAMA}, 2000, 8000),
        (NVIDIA, 1000, 0),
        (AMD, 1000, 0),
        ({**NVIDIA, **OLLAMA}, 500, 0),
    ],
)
def test_cpu_is_the_catalogs_for_engine_and_kind_of_target(
    local: Mapping[str, Any], request_m: int, limit_m: int
) -> None:
    cpu = resolved(local).cpu
    assert (cpu.request_millicores, cpu.limit_millicores) == (request_m, limit_m)


@pytest.mark.req("MS-002")
@pytest.mark.parametrize(
    ("given", "request_m", "limit_m"),
    [
        ({"requestMillicores": 3000}, 3000, 8000),
        ({"limitMillicores": 4000}, 2000, 4000),
        ({"limitMillicores": 0}, 2000, 0),
        ({"requestMillicores": 1, "limitMillicores": 1}, 1, 1),
        ({}, 2000, 8000),
    ],
)
def test_each_given_field_of_cpu_replaces_its_default_alone(
    given: Mapping[str, Any], request_m: int, limit_m: int
) -> None:
    cpu = resolved({**CPU, "cpuResources": given}).cpu
    assert (cpu.request_millicores, cpu.limit_millicores) == (request_m, limit_m)


@pytest.mark.req("MS-223")
def test_a_vllm_model_on_cpu_reserves_4096_mib_by_default() -> None:
    model = resolved(CPU)
    assert (model.memory_mi, model.base_profile) == (4096, "magicstick-vllm-cpu-memory:256")


@pytest.mark.req("MS-224")
def test_an_ollama_model_on_cpu_reserves_2048_mib_by_default() -> None:
    model = resolved({**CPU, **OLLAMA})
    assert (model.memory_mi, model.base_profile) == (2048, "magicstick-ollama-cpu-memory:128")


@pytest.mark.req("MS-127", "MS-128")
@pytest.mark.parametrize(("mi", "units"), [(16, 1), (17, 2), (4096, 256), (6145, 385), (131072, 8192)])
@pytest.mark.parametrize(
    ("engine", "profile"),
    [({}, "magicstick-vllm-cpu-memory"), (OLLAMA, "magicstick-ollama-cpu-memory")],
)
def test_edge_16_memory_is_counted_in_units_of_16_mib_of_the_engines_own_profile(
    engine: Mapping[str, Any], profile: str, mi: int, units: int
) -> None:
    model = resolved({**CPU, **engine, "memoryRequiredMi": mi})
    assert (model.base_profile, model.memory_mi) == (f"{profile}:{units}", units * 16)


def test_edge_23_a_cpu_preset_on_arm64() -> None:
    model = resolved({"preset": "qwen2505bcpu", "computeTarget": "cpu"}, [node(architecture="arm64")])
    assert model.base_profile == "magicstick-vllm-cpu-memory:256"
    assert "MAGICSTICK_VLLM_VRAM_LIMIT" not in model.env
    assert model.args[-1] == "--kv-cache-memory-bytes=536870912"
    given = {"preset": "qwen2505bcpu", "computeTarget": "cpu", "kvCacheMemoryBytes": 104857600}
    assert resolved(given, [node(architecture="arm64")]).args[-1] == "--kv-cache-memory-bytes=104857600"


# --- presets ----------------------------------------------------------------------------------------


def test_edge_22_a_gpu_preset_with_its_arguments_in_order() -> None:
    model = resolved({"preset": "qwen3827b", "computeTarget": "nvidia-gpu"})
    assert model.url == "hf://cyankiwi/Qwen3.8-27B-AWQ-INT4"
    assert (model.artifact, model.precision, model.quantization) == ("awq-int4", "int4", "awq")
    assert (model.vram_mi, model.base_profile) == (24062, "magicstick-nvidia-gpu:1")
    assert model.annotations == {labels.CONTEXT_WINDOW: "20000", labels.MAX_OUTPUT_TOKENS: "8192"}
    parsers = ("--reasoning-parser=qwen3", "--enable-auto-tool-choice", "--tool-call-parser=qwen3_coder")
    limits = ("--max-model-len=20000", "--max-num-seqs=1")
    assert model.args == ("--tensor-parallel-size=1", *parsers, *limits, "--kv-cache-dtype=auto")
    fp8 = resolved({"preset": "qwen3827b", "computeTarget": "nvidia-gpu", "kvCacheType": "fp8"})
    assert fp8.args[-2:] == ("--kv-cache-dtype=fp8", "--calculate-kv-scales")
    assert fp8.requested_kv_cache_type == "fp8"


def test_an_activation_named_like_a_preset_inherits_it() -> None:
    model = resolved({"computeTarget": "nvidia-gpu"}, name="qwen3827b")
    assert model.artifact == "awq-int4"


def test_a_preset_that_is_inherited_by_name_and_does_not_fit_is_told_by_the_name() -> None:
    refusal = refused(CPU, name="qwen352bvlembedding")
    assert refusal.field == "metadata.name"
    assert "is that of a preset, which must have exactly one variant for VLLM on cpu" in refusal.problem


def test_the_preset_that_is_named_wins_over_the_activations_name() -> None:
    model = resolved({"computeTarget": "cpu", "preset": "qwen2505bcpu"}, name="qwen3827b")
    assert model.url == "hf://Qwen/Qwen2.5-0.5B-Instruct"


def test_edge_20_an_artifact_makes_the_catalog_own_the_url_and_unknown_keys_have_no_effect() -> None:
    forged = {"preset": "qwen3827b", "computeTarget": "nvidia-gpu", "url": "hf://evil/model", "surprise": 1}
    assert resolved(forged) == resolved({"preset": "qwen3827b", "computeTarget": "nvidia-gpu"})
    other = resolved({**forged, "artifact": "fp8"})
    assert (other.url, other.vram_mi, other.precision) == ("hf://Qwen/Qwen3.8-27B-FP8", 40960, "fp8")


def without_artifacts() -> PresetCatalog:
    text = """{"presets": {"old": {"type": "embedding", "url": "hf://a/old", "vram": "4Gi", "args": ["--x"],
               "contextWindow": 100, "maxNumSeqs": 2}}}"""
    return PresetCatalog.parse(text)


def test_edge_21_a_preset_without_artifacts_lets_the_url_be_chosen_and_has_no_artifact() -> None:
    older = replace(CATALOGS, presets=without_artifacts())
    local = {"preset": "old", "url": "hf://a/new", "computeTarget": "nvidia-gpu"}
    model = resolve(activation(local=local), older, Hardware())
    assert isinstance(model, ResolvedKubeAi)
    assert (model.url, model.vram_mi, model.features) == ("hf://a/new", 4096, ("TextEmbedding",))
    refusal = resolve(activation(local={**local, "artifact": "bf16"}), older, Hardware())
    assert isinstance(refusal, Refusal)
    assert refusal.field == "spec.local.artifact"


@pytest.mark.parametrize("target", ["cpu", "amd-gpu", "intel-gpu"])
def test_rule_9_an_older_preset_is_for_nvidia_alone(target: str) -> None:
    older = replace(CATALOGS, presets=without_artifacts())
    refusal = resolve(activation(local={"preset": "old", "computeTarget": target}), older, Hardware())
    assert isinstance(refusal, Refusal)
    assert refusal.field == "spec.local.preset"


def test_a_models_own_words_replace_those_of_its_preset_whole() -> None:
    preset = {"preset": "qwen3827b", "computeTarget": "nvidia-gpu"}
    own = {
        "args": ["--mine"],
        "contextWindow": 4096,
        "maxNumSeqs": 3,
        "maxOutputTokens": 7,
        "features": ["X"],
    }
    model = resolved({**preset, **own})
    assert model.args == ("--mine", "--max-model-len=4096", "--max-num-seqs=3", "--kv-cache-dtype=auto")
    assert (model.features, model.max_output_tokens) == (("X",), 7)
    assert resolved({**preset, "args": []}).args[0] == "--max-model-len=20000"


def test_fields_are_also_read_in_the_older_spelling() -> None:
    model = resolved({**CPU, "context_window": 5, "max_output_tokens": 6, "max_num_seqs": 7})
    assert (model.context_window, model.max_output_tokens, model.max_num_seqs) == (5, 6, 7)


@pytest.mark.parametrize(
    ("own", "vram_mi", "limit"),
    [
        ({"vramMi": 9000}, 9000, "9000"),
        ({"vram": "9Gi"}, 9216, "9Gi"),
        ({"vram": "9Gi", "vramMi": 1}, 9216, "9Gi"),
        ({}, 24062, "24062Mi"),
    ],
)
def test_what_a_model_says_of_gpu_memory_replaces_all_that_its_preset_says(
    own: Mapping[str, Any], vram_mi: int, limit: str
) -> None:
    model = resolved({"preset": "qwen3827b", "computeTarget": "nvidia-gpu", **own})
    assert (model.vram_mi, model.env["MAGICSTICK_VLLM_VRAM_LIMIT"]) == (vram_mi, limit)


def test_an_architecture_that_no_node_has_leaves_no_variant() -> None:
    preset = {"preset": "qwen352bvlembedding", "computeTarget": "nvidia-gpu"}
    assert resolved(preset).features == ("TextEmbedding",)
    assert resolved(preset, [node("a", architecture="arm64"), node("b")]).artifact == "awq-int4"
    refusal = refused(preset, [node(architecture="arm64")])
    assert "nodes of the architecture arm64" in refusal.message


@pytest.mark.parametrize(
    ("local", "features"),
    [
        (CPU, ("TextGeneration",)),
        ({**CPU, "modelType": "embedding"}, ("TextEmbedding",)),
        ({**CPU, "modelType": "embedding", "features": ["Reranking"]}, ("Reranking",)),
        ({**CPU, "features": []}, ("TextGeneration",)),
    ],
)
def test_features_follow_the_type_where_they_are_not_given(
    local: Mapping[str, Any], features: tuple[str, ...]
) -> None:
    assert resolved(local).features == features


@pytest.mark.parametrize("spelling", ["vllm", "VLLM", " Vllm ", ""])
def test_engines_are_read_in_any_case(spelling: str) -> None:
    assert resolved({**CPU, "engine": spelling}).engine == "VLLM"


# --- nodes ------------------------------------------------------------------------------------------


@pytest.mark.req("MS-320")
@pytest.mark.parametrize(
    ("allocatable", "profile", "resource", "count"),
    [
        ({"gpu.intel.com/xe": "2"}, "magicstick-intel-xe-gpu:1", "gpu.intel.com/xe", 2),
        ({"gpu.intel.com/i915": "1"}, "magicstick-intel-i915-gpu:1", "gpu.intel.com/i915", 1),
        (
            {"gpu.intel.com/i915": "4", "gpu.intel.com/xe": "1"},
            "magicstick-intel-xe-gpu:1",
            "gpu.intel.com/xe",
            1,
        ),
        (
            {"gpu.intel.com/xe": "0", "gpu.intel.com/i915": "1"},
            "magicstick-intel-i915-gpu:1",
            "gpu.intel.com/i915",
            1,
        ),
        ({}, "magicstick-intel-i915-gpu:1", None, 0),
    ],
)
def test_edge_24_the_published_resource_decides_the_intel_profile(
    allocatable: Mapping[str, str], profile: str, resource: str | None, count: int
) -> None:
    model = resolved(INTEL, [node(allocatable=allocatable)])
    assert model.base_profile == profile
    assert (model.target.resource, model.target.allocatable) == (resource, count)


XE = {"gpu.intel.com/xe": "1"}


@pytest.mark.parametrize(
    "unfit",
    [
        node("other", ready=False, allocatable=XE),
        node("other", schedulable=False, allocatable=XE),
        node("other", architecture="arm64", allocatable=XE),
        node("other", labels={"kubernetes.io/os": "windows"}, allocatable=XE),
    ],
    ids=["not ready", "cordoned", "architecture", "label"],
)
def test_a_node_that_the_model_could_not_run_on_decides_nothing(unfit: NodeFacts) -> None:
    nodes = [node(allocatable={"gpu.intel.com/i915": "1"}), unfit]
    assert resolved(INTEL, nodes).base_profile == "magicstick-intel-i915-gpu:1"


@pytest.mark.req("MS-318")
@pytest.mark.parametrize(
    ("local", "nodes", "resource"),
    [
        (NVIDIA, [node(allocatable={"nvidia.com/gpu": "2", "amd.com/gpu": "9"})], "nvidia.com/gpu"),
        (AMD, [amd_node()], "amd.com/gpu"),
        (INTEL, [node(allocatable={"gpu.intel.com/xe": "1"})], "gpu.intel.com/xe"),
        (INTEL, [node(allocatable={"gpu.intel.com/i915": "1"})], "gpu.intel.com/i915"),
    ],
)
def test_each_target_counts_its_own_resource(
    local: Mapping[str, Any], nodes: list[NodeFacts], resource: str
) -> None:
    target = resolved(local, nodes).target
    assert (target.resource, target.allocatable > 0) == (resource, True)


@pytest.mark.parametrize(
    ("text", "count"),
    [("2", 2), ("2k", 2000), ("1e1", 10), ("0", 0), ("-1", 0), ("500m", 0), ("many", 0), ("", 0)],
)
def test_devices_are_counted_in_the_whole_grammar_of_quantities(text: str, count: int) -> None:
    assert resolved(NVIDIA, [node(allocatable={"nvidia.com/gpu": text})]).target.allocatable == count


def test_nvidia_gpus_count_on_every_ready_node_and_by_allocatable_alone() -> None:
    """Decision 25, which settles edge 26."""
    two = {"nvidia.com/gpu": "2"}
    nodes = [node("a", allocatable=two), node("b"), node("c", schedulable=False, allocatable=two)]
    assert resolved(NVIDIA, [*nodes, node("d", ready=False, allocatable=two)]).target.allocatable == 4


def test_an_amd_node_must_be_eligible_for_the_engine() -> None:
    vllm_only = {
        "appliance.magicstick.dev/amd-gpu-eligible": "true",
        "appliance.magicstick.dev/amd-vllm-eligible": "true",
    }
    one = node(labels=vllm_only, allocatable={"amd.com/gpu": "1"})
    assert resolved(AMD, [one]).target.allocatable == 1
    assert resolved({**AMD, **OLLAMA}, [one]).target.allocatable == 0


@pytest.mark.req("MS-319")
def test_cpu_models_look_at_no_device() -> None:
    assert resolved(CPU, [node(allocatable={"nvidia.com/gpu": "8"})]).target == resolved(CPU).target


# --- modules ----------------------------------------------------------------------------------------


@pytest.mark.req("MS-221")
def test_edge_27_an_external_model_needs_routing_alone() -> None:
    model = resolved_external({"type": "external", "external": {"model": "openai/x"}})
    assert model.modules == model.requested_modules == ("litellm", "model-catalog")
    assert model.external.model == "openai/x"


@pytest.mark.req("MS-222")
def test_a_cpu_model_needs_kubeai_and_routing() -> None:
    model = resolved(CPU)
    assert model.modules == model.requested_modules == ("kubeai", "litellm", "model-catalog")


@pytest.mark.req("MS-225")
@pytest.mark.parametrize(("local", "provider"), [(NVIDIA, "gpu"), (AMD, "amd-gpu"), (INTEL, "intel-gpu")])
def test_edge_28_an_accelerator_model_also_needs_its_vendor_but_does_not_request_it(
    local: Mapping[str, Any], provider: str
) -> None:
    model = resolved(local)
    assert model.modules == (provider, "kubeai", "litellm", "model-catalog")
    assert model.requested_modules == ("kubeai", "litellm", "model-catalog")
