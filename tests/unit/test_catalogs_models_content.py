"""What is shipped in the catalogs of compute targets, presets and GPUs: the rows of the specification."""

import re

import pytest

from magicstick.api.quantity import vram_mi
from magicstick.catalogs.presets import Variant
from tests.support.shipped import GPUS, MODULES, PRESETS, TARGETS

# preset: context, CPU of vLLM, vLLM on nvidia, amd, intel, Ollama everywhere; the first artifact is the default
PRESET_ROWS = {
    "qwen2505bcpu": (2048, "bf16 4096", "bf16 4096, awq-int4 2048, gptq-int4 2048, gptq-int8 2048", "bf16 4096", "bf16 4096, gptq-int4 2048, gptq-int8 2048", "q4-k-m 2048, q8-0 2048, fp16 3072"),
    "qwen3508b": (32768, "bf16 4096", "bf16 4096", "bf16 4096", "bf16 4096", "q8-0 3072, bf16 4096"),
    "qwen352b": (32768, "bf16 8192", "bf16 8192", "bf16 8192", "bf16 8192", "q4-k-m 4096, q8-0 5120, bf16 7168"),
    "qwen354b": (32768, "bf16 14336", "bf16 14336", "bf16 14336", "bf16 14336", "q4-k-m 6144, q8-0 8192, bf16 12288"),
    "qwen359b": (32768, "bf16 25600", "awq-int4 16384, bf16 25600", "bf16 25600", "bf16 25600", "q4-k-m 10240, q8-0 16384, bf16 24576"),
    "qwen3527b": (16384, "bf16 65536", "gptq-int4 40960, fp8 40960, bf16 65536", "bf16 65536, fp8 40960", "gptq-int4 40960, bf16 65536", "q4-k-m 24576, q8-0 40960, bf16 65536"),
    "qwen3535b": (16384, "bf16 81920", "gptq-int4 32768, fp8 49152, bf16 81920", "bf16 81920, fp8 49152", "gptq-int4 32768, bf16 81920", "q4-k-m 30720, q8-0 49152, bf16 81920"),
    "qwen3627b": (16384, "bf16 65536", "fp8 40960, bf16 65536", "bf16 65536, fp8 40960", "bf16 65536", "q4-k-m 24576, q8-0 40960, bf16 65536"),
    "qwen3635b": (16384, "bf16 81920", "awq-int4 32768, fp8 49152, bf16 81920", "bf16 81920, fp8 49152", "bf16 81920", "q4-k-m 30720, q8-0 49152, bf16 81920"),
    "qwen3827b": (20000, "bf16 65536", "awq-int4 24062, fp8 40960, bf16 65536", "bf16 65536, fp8 40960", "bf16 65536", "q4-k-m 24576, q8-0 40960, bf16 65536"),
}  # fmt: skip

KV_CACHE_BYTES = {
    "qwen2505bcpu": 2**29,
    "qwen3508b": 2**30,
    "qwen352b": 2**30,
    "qwen354b": 2**30,
    "qwen359b": 2**30,
}
QWEN3_ARGS = ("--reasoning-parser=qwen3", "--enable-auto-tool-choice", "--tool-call-parser=qwen3_coder")


@pytest.mark.parametrize(
    ("engine", "kind", "request_millicores", "limit_millicores"),
    [
        ("VLLM", "cpu", 2000, 8000),
        ("VLLM", "gpu", 1000, 0),
        ("OLlama", "cpu", 2000, 8000),
        ("OLlama", "gpu", 500, 0),
        ("FreeToken", "gpu", 4000, 8000),
    ],
)
def test_an_engine_has_the_cpu_defaults_of_the_specification(
    engine: str, kind: str, request_millicores: int, limit_millicores: int
) -> None:
    policy = getattr(TARGETS.engines[engine].cpu_defaults, kind)

    assert (policy.request_millicores, policy.limit_millicores) == (request_millicores, limit_millicores)


@pytest.mark.parametrize(
    ("target", "engine", "profile"),
    [
        ("cpu", "VLLM", "magicstick-vllm-cpu-memory:256"),
        ("cpu", "OLlama", "magicstick-ollama-cpu-memory:128"),
        ("nvidia-gpu", "VLLM", "magicstick-nvidia-gpu:1"),
        ("nvidia-gpu", "OLlama", "magicstick-ollama-nvidia-gpu:1"),
        ("nvidia-gpu", "FreeToken", "magicstick-freetoken-nvidia-gpu:1"),
        ("amd-gpu", "VLLM", "magicstick-amd-gpu:1"),
        ("amd-gpu", "OLlama", "magicstick-ollama-amd-gpu:1"),
        ("intel-gpu", "VLLM", "magicstick-intel-i915-gpu:1"),
    ],
)
def test_a_target_offers_its_engines_with_their_profiles(target: str, engine: str, profile: str) -> None:
    assert engine in TARGETS.targets[target].engines
    assert TARGETS.targets[target].engine_profiles[engine].default_resource_profile == profile


def test_each_target_has_a_profile_for_exactly_its_engines_and_a_module_for_its_capability() -> None:
    provided = {each for module in MODULES.modules.values() for each in module.provides_capabilities}
    for key, target in TARGETS.targets.items():
        assert set(target.engine_profiles) == set(target.engines), key
        assert set(target.engines) <= set(TARGETS.engines), key
        assert set(target.required_capabilities) <= provided, key
        assert target.node_selector["kubernetes.io/os"] == "linux"
        for profile in target.engine_profiles.values():
            assert set(profile.resource_profiles_by_resource) <= set(target.resource_names), key


def test_intel_prefers_xe_and_each_of_its_resources_has_a_profile_of_its_own() -> None:
    intel = TARGETS.targets["intel-gpu"]

    assert intel.resource_names == ("gpu.intel.com/xe", "gpu.intel.com/i915")
    assert intel.engine_profiles["VLLM"].resource_profiles_by_resource == {
        "gpu.intel.com/xe": "magicstick-intel-xe-gpu:1",
        "gpu.intel.com/i915": "magicstick-intel-i915-gpu:1",
    }


def test_amd_nodes_must_be_eligible_for_the_engine_as_well() -> None:
    prefix = "appliance.magicstick.dev"
    amd = TARGETS.targets["amd-gpu"]

    assert amd.node_selector[f"{prefix}/amd-gpu-eligible"] == "true"
    assert amd.engine_profiles["VLLM"].node_selector == {f"{prefix}/amd-vllm-eligible": "true"}
    assert amd.engine_profiles["OLlama"].node_selector == {f"{prefix}/amd-ollama-eligible": "true"}


def test_vision_attention_has_its_four_choices_for_amd_alone() -> None:
    vision = TARGETS.engines["VLLM"].deployment_settings.vision_attention

    assert vision is not None
    assert (vision.default, vision.compute_targets, vision.runtime_version) == (
        "triton",
        ("amd-gpu",),
        "0.26.0",
    )
    assert {option.value: (option.backend, option.env) for option in vision.options} == {
        "auto": (None, {}),
        "aotriton": ("TORCH_SDPA", {"TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL": "1"}),
        "triton": ("TRITON_ATTN", {}),
        "flash-attn-triton": ("FLASH_ATTN", {"FLASH_ATTENTION_TRITON_AMD_ENABLE": "TRUE"}),
    }
    assert all(option.label and option.description for option in vision.options)


def test_realtime_profiles_are_as_specified_and_a_shipped_image_is_pinned_by_digest() -> None:
    profiles = TARGETS.engines["VLLM"].realtime_profiles

    assert {
        key: (p.backend, p.compute_targets, p.resources, p.gpu_counts) for key, p in profiles.items()
    } == {
        "qwen3-omni": ("cuda", ("nvidia-gpu",), ("nvidia.com/gpu",), (1, 2)),
        "qwen3-omni-rocm": ("rocm", ("amd-gpu",), ("amd.com/gpu",), (1, 2)),
        "qwen3-omni-xpu": ("xpu", ("intel-gpu",), ("gpu.intel.com/xe", "gpu.intel.com/i915"), (1, 2)),
        "qwen3-omni-cpu": ("cpu", ("cpu",), (), (1,)),
    }
    assert {key for key, profile in profiles.items() if profile.image} == {"qwen3-omni"}
    assert re.fullmatch(r"vllm/vllm-omni@sha256:[0-9a-f]{64}", profiles["qwen3-omni"].image)
    for profile in profiles.values():
        assert (profile.default_context_window, profile.default_system_memory_mi) == (8192, 16384)
        assert profile.deploy_config == "qwen3_omni_duplex.yaml"


@pytest.mark.parametrize(
    ("model", "served"),
    [
        ("deepseek-ai/deepseek-v4-flash-0731", True),
        ("qwen/qwen3.6-35b-a3b", True),
        ("qwen/qwen3.5-35b-a3b-fp8", True),
        ("qwen/qwen3.8-27b", True),
        ("radixark/qwen3.8-flash-next-nvfp4", True),
        ("openai/gpt-oss-120b", True),
        ("google/gemma-4-12b-it", True),
        ("nvidia/gemma-4-31b-it-nvfp4", True),
        ("nvidia/minimax-m2.5-nvfp4", True),
        ("qwen/qwen3-vl-8b-instruct", True),
        ("qwen/qwen3.7-27b", False),
        ("qwen/qwen3.8-27b-extra", False),
        ("someone/qwen3.8-27b", False),
        ("openai/gpt-ossx20b", False),
        ("qwen/qwen3x8-27b", False),
    ],
)
def test_freetoken_serves_exactly_the_listed_models(model: str, served: bool) -> None:  # noqa: FBT001 - a case
    capabilities = TARGETS.engines["FreeToken"].capabilities

    assert capabilities is not None
    assert any(re.search(pattern, model) for pattern in capabilities.model_id_matchers) is served
    for pattern in capabilities.model_id_matchers:
        assert pattern.startswith("^")
        assert pattern.endswith("$")


def test_freetoken_models_for_one_device_are_a_part_of_those_it_serves() -> None:
    capabilities = TARGETS.engines["FreeToken"].capabilities

    assert capabilities is not None
    alone = capabilities.tensor_parallel_unsupported_model_id_matchers
    assert [bool(re.search(alone[0], f"qwen/qwen3-vl-{size}-instruct")) for size in ("8b", "30b-a3b")] == [
        True
    ] * 2
    assert capabilities.supported_compute_capabilities == ("8.6", "8.9", "12.0")
    assert (capabilities.minimum_nvidia_driver_major, capabilities.required_cuda_major) == (580, 13)


def artifacts(variant: Variant) -> str:
    return ", ".join(
        f"{each.id} {each.memory_required_mi if each.vram_mi is None else each.vram_mi}"
        for each in variant.artifacts
    )


@pytest.mark.parametrize("preset", PRESET_ROWS)
def test_a_chat_preset_is_as_specified(preset: str) -> None:
    context, *columns, ollama = PRESET_ROWS[preset]
    variants = {each.id: each for each in PRESETS.presets[preset].variants}

    assert [artifacts(variants[f"vllm-{target}"]) for target in ("cpu", "nvidia", "amd", "intel")] == columns
    assert [artifacts(variants[f"ollama-{target}"]) for target in ("cpu", "nvidia", "amd")] == [ollama] * 3
    assert len(variants) == len(columns) + 3
    for variant in variants.values():
        assert (variant.context_window, variant.max_num_seqs) == (context, 1)
        assert variant.max_output_tokens == (1024 if preset == "qwen2505bcpu" else 8192)
        assert variant.features == ("TextGeneration",)


@pytest.mark.parametrize("preset", PRESET_ROWS)
def test_vllm_takes_its_arguments_in_order(preset: str) -> None:
    context = PRESET_ROWS[preset][0]
    cache = KV_CACHE_BYTES.get(preset, 2**31)
    qwen3 = () if preset == "qwen2505bcpu" else QWEN3_ARGS
    size = (f"--max-model-len={context}", "--max-num-seqs=1")

    for variant in PRESETS.presets[preset].variants:
        if variant.engine != "VLLM":
            assert variant.args == ()
            assert variant.kv_cache_memory_bytes is None
        elif variant.compute_target == "cpu":
            assert variant.args == (*size, f"--kv-cache-memory-bytes={cache}", *qwen3)
            assert variant.kv_cache_memory_bytes == cache
        else:
            assert variant.args == ("--tensor-parallel-size=1", *size, *qwen3)
            assert variant.kv_cache_memory_bytes is None


ALL_VARIANTS = [
    pytest.param(variant, id=f"{key}-{variant.id}")
    for key, preset in PRESETS.presets.items()
    for variant in preset.variants
]


@pytest.mark.parametrize("variant", ALL_VARIANTS)
def test_a_variant_fits_its_target_and_its_default_artifact(variant: Variant) -> None:
    target = TARGETS.targets[variant.compute_target]
    default = variant.artifacts[0]

    assert variant.engine in target.engines
    assert set(variant.architectures) <= set(target.architectures)
    assert variant.default_artifact == default.id
    assert (variant.memory_required_mi, variant.vram_mi) == (default.memory_required_mi, default.vram_mi)
    assert variant.url.startswith(TARGETS.engines[variant.engine].url_scheme)
    if variant.compute_target == "cpu":
        name = target.engine_profiles[variant.engine].default_resource_profile.split(":")[0]
        assert variant.resource_profile == f"{name}:{(default.memory_required_mi or 0) // 16}"
    elif variant.compute_target == "intel-gpu":
        assert variant.resource_profile is None
    else:
        assert variant.resource_profile == target.engine_profiles[variant.engine].default_resource_profile


@pytest.mark.parametrize("variant", ALL_VARIANTS)
def test_an_artifact_says_the_same_in_every_field(variant: Variant) -> None:
    for artifact in variant.artifacts:
        on_cpu = variant.compute_target == "cpu"
        assert (artifact.memory_required_mi is not None, artifact.vram is None) == (on_cpu, on_cpu)
        if artifact.vram is not None:
            assert vram_mi(artifact.vram) == artifact.vram_mi
        assert artifact.url.startswith(TARGETS.engines[variant.engine].url_scheme)
        assert artifact.format == ("GGUF" if variant.engine == "OLlama" else "safetensors")
        assert (artifact.quantization is None) == (artifact.precision in {"bf16", "fp16"})
        assert artifact.bits == {"bf16": 16, "fp16": 16, "fp8": 8, "int8": 8, "int4": 4}[artifact.precision]
        assert bool(artifact.compatibility_note) == (artifact.precision == "fp8")
        is_default_of_vllm = variant.engine == "VLLM" and artifact.id == variant.default_artifact
        assert (artifact.budget_mi is not None) == is_default_of_vllm


@pytest.mark.parametrize(
    ("preset", "target", "artifact", "url"),
    [
        ("qwen2505bcpu", "vllm-nvidia", "awq-int4", "hf://Qwen/Qwen2.5-0.5B-Instruct-AWQ"),
        ("qwen2505bcpu", "vllm-intel", "gptq-int8", "hf://Qwen/Qwen2.5-0.5B-Instruct-GPTQ-Int8"),
        ("qwen2505bcpu", "ollama-cpu", "q4-k-m", "ollama://qwen2.5:0.5b-instruct-q4_K_M"),
        ("qwen3508b", "ollama-amd", "q8-0", "ollama://qwen3.5:0.8b-q8_0"),
        ("qwen359b", "vllm-nvidia", "awq-int4", "hf://cyankiwi/Qwen3.5-9B-AWQ-4bit"),
        ("qwen3535b", "ollama-nvidia", "bf16", "ollama://qwen3.5:35b-a3b-bf16"),
        ("qwen3635b", "vllm-amd", "fp8", "hf://Qwen/Qwen3.6-35B-A3B-FP8"),
        ("qwen3827b", "vllm-nvidia", "awq-int4", "hf://cyankiwi/Qwen3.8-27B-AWQ-INT4"),
        ("qwen3827b", "vllm-cpu", "bf16", "hf://Qwen/Qwen3.8-27B"),
    ],
)
def test_artifacts_are_where_they_are_published(preset: str, target: str, artifact: str, url: str) -> None:
    (variant,) = [each for each in PRESETS.presets[preset].variants if each.id == target]

    assert {each.id: each.url for each in variant.artifacts}[artifact] == url


def test_the_embedding_preset_is_for_nvidia_on_amd64_alone() -> None:
    preset = PRESETS.presets["qwen352bvlembedding"]
    (variant,) = preset.variants

    assert (preset.type, variant.features) == ("embedding", ("TextEmbedding",))
    assert (variant.compute_target, variant.architectures) == ("nvidia-gpu", ("amd64",))
    assert variant.args == (
        "--runner=pooling",
        "--convert=embed",
        "--trust-remote-code",
        "--quantization=compressed-tensors",
        "--limit-mm-per-prompt",
        '{"image": 1}',
        "--max-model-len=4096",
    )
    assert (variant.max_num_seqs, variant.max_output_tokens) == (None, None)
    assert artifacts(variant) == "awq-int4 5120"


def test_the_presets_are_those_of_the_specification() -> None:
    assert list(PRESETS.presets) == [*PRESET_ROWS, "qwen352bvlembedding"]


def test_gpu_profiles_and_diagnostics_are_as_specified() -> None:
    profile = GPUS.profiles["strix-halo"]

    assert list(GPUS.profiles) == ["strix-halo"]
    assert (profile.version, profile.vendor, profile.pci_devices) == ("1", "amd", ("1002:1586",))
    assert (profile.expected_architecture, profile.memory_architecture) == ("gfx1151", "unified")
    assert profile.experimental
    assert {key: (test.image, test.test_model) for key, test in profile.engines.items()} == {
        "OLlama": ("ollama/ollama:0.33.2-rocm", "qwen3:0.6b"),
        "VLLM": ("vllm/vllm-openai-rocm:v0.26.0", "Qwen/Qwen3-0.6B"),
    }
    assert {
        key: (test.image, test.test_model) for key, test in GPUS.diagnostics["nvidia"].engines.items()
    } == {
        "OLlama": ("ollama/ollama:0.33.2", "qwen3:0.6b"),
        "VLLM": ("vllm/vllm-openai:v0.23.0", "Qwen/Qwen3-0.6B"),
    }
