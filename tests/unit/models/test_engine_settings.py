"""Arguments and environment of the engines, as they end in the Model (spec: models §7.1, §7.2)."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.api import labels
from magicstick.models import kv_cache
from magicstick.models.arguments import VllmArguments
from magicstick.models.flags import read_flags, without
from magicstick.models.parallelism import gpus_used
from tests.support.resolution import AMD, CPU, INTEL, NVIDIA, OLLAMA, amd_node, refused, resolved

WRAPPER = "/opt/magicstick/vllm-wrapper"
GPU_OLLAMA: Mapping[str, Any] = {**NVIDIA, **OLLAMA}


def ours(**changes: Any) -> VllmArguments:
    usual: dict[str, Any] = {
        "context_window": 4096,
        "max_num_seqs": None,
        "kv_cache_type": "auto",
        "kv_cache_bytes": None,
        "vision": None,
    }
    return VllmArguments(**{**usual, **changes})


# --- flags ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "left"),
    [
        (["--a=1", "--max-model-len=9", "--b"], ["--a=1", "--b"]),
        (["--max_model_len=9"], []),
        (["--max-model-len", "9", "x"], ["x"]),
        (["--max_model_len", "9"], []),
        (["--max-model-len", "--b", "c"], ["--b", "c"]),
        (["--max-model-len"], []),
        (["--max-model-len-more=9"], ["--max-model-len-more=9"]),
        (["--switch", "kept"], ["kept"]),
        (["--no_switch"], ["--no_switch"]),
        (["--limit-mm-per-prompt", '{"image": 1}'], ["--limit-mm-per-prompt", '{"image": 1}']),
        (["--max-model-len=", "x"], ["x"]),
    ],
)
def test_a_managed_flag_goes_in_every_spelling_and_takes_no_more_than_its_value(
    args: list[str], left: list[str]
) -> None:
    assert without(args, frozenset({"max-model-len"}), frozenset({"switch"})) == tuple(left)


@given(st.lists(st.text(max_size=6) | st.sampled_from(["--max-model-len", "--x", "-tp", "--a=b"])))
def test_reading_flags_loses_and_invents_nothing(args: list[str]) -> None:
    flags = list(read_flags(args, frozenset({"max-model-len", "-tp"})))
    assert [token for flag in flags for token in flag.tokens] == args


# --- arguments of vLLM ------------------------------------------------------------------------------


@pytest.mark.req("MS-350", "MS-351")
def test_ours_come_after_the_callers_in_the_order_of_the_specification() -> None:
    caller = ["--mine", "--kv-cache-dtype", "fp8_e5m2", "--max-num-seqs=9", "--no-calculate-kv-scales"]
    args = ours(max_num_seqs=2, kv_cache_type="fp8").after(caller)
    assert args == (
        "--mine",
        "--max-model-len=4096",
        "--max-num-seqs=2",
        "--kv-cache-dtype=fp8",
        "--calculate-kv-scales",
    )


def test_limits_of_the_caller_go_even_where_none_replaces_them() -> None:
    assert ours(context_window=None).after(["--max-model-len=1", "--max-num-seqs", "2"]) == (
        "--kv-cache-dtype=auto",
    )


def test_the_size_of_the_cache_is_ours_on_cpu_alone() -> None:
    caller = ["--kv-cache-memory-bytes=1"]
    assert ours().after(caller)[0] == "--kv-cache-memory-bytes=1"
    assert ours(kv_cache_bytes=7).after(caller)[-1] == "--kv-cache-memory-bytes=7"
    assert len(ours(kv_cache_bytes=7).after(caller)) == 3


def test_a_gpu_model_keeps_the_callers_size_of_the_cache() -> None:
    assert "--kv-cache-memory-bytes=1" in resolved({**NVIDIA, "args": ["--kv-cache-memory-bytes=1"]}).args


# --- vision attention -------------------------------------------------------------------------------

AOTRITON = "TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL"
FLASH = "FLASH_ATTENTION_TRITON_AMD_ENABLE"
CALLER: Mapping[str, Any] = {
    "args": ["--mm-encoder-attn-backend=MINE", "--attention-backend=TEXT"],
    "env": {AOTRITON: "0", FLASH: "0", "VLLM_ATTENTION_BACKEND": "TEXT"},
}


@pytest.mark.req("MS-367", "MS-368", "MS-370", "MS-372")
@pytest.mark.parametrize(
    ("choice", "backend", "env"),
    [
        ("auto", None, {}),
        ("aotriton", "TORCH_SDPA", {AOTRITON: "1"}),
        ("triton", "TRITON_ATTN", {}),
        ("flash-attn-triton", "FLASH_ATTN", {FLASH: "TRUE"}),
    ],
)
def test_an_explicit_vision_choice_owns_its_flag_and_all_opt_in_variables(
    choice: str, backend: str | None, env: Mapping[str, str]
) -> None:
    model = resolved({**AMD, **CALLER, "vllm": {"visionAttention": choice}}, [amd_node()])
    chosen = [each for each in model.args if "mm-encoder" in each]
    assert chosen == ([f"--mm-encoder-attn-backend={backend}"] if backend else [])
    assert {name: model.env[name] for name in (AOTRITON, FLASH) if name in model.env} == env
    assert "--attention-backend=TEXT" in model.args
    assert model.env["VLLM_ATTENTION_BACKEND"] == "TEXT"
    assert model.annotations[labels.VISION_ATTENTION] == choice


@pytest.mark.req("MS-371")
@pytest.mark.parametrize("block", [{}, {"vllm": {}}], ids=["no block", "an empty block"])
@pytest.mark.parametrize("target", [AMD, NVIDIA])
def test_a_vision_choice_that_is_left_out_leaves_arguments_and_environment_alone(
    target: Mapping[str, Any], block: Mapping[str, Any]
) -> None:
    model = resolved({**target, **CALLER, **block})
    assert model.args[:2] == ("--mm-encoder-attn-backend=MINE", "--attention-backend=TEXT")
    assert (model.env[AOTRITON], model.env[FLASH]) == ("0", "0")
    assert labels.VISION_ATTENTION not in model.annotations


@pytest.mark.req("MS-369")
@pytest.mark.parametrize("target", [CPU, NVIDIA, INTEL])
@pytest.mark.parametrize("choice", ["auto", "triton"])
def test_an_explicit_vision_choice_is_refused_where_the_catalog_does_not_offer_it(
    target: Mapping[str, Any], choice: str
) -> None:
    refusal = refused({**target, "vllm": {"visionAttention": choice}})
    assert refusal.field == "spec.local.vllm.visionAttention"


# --- environment ------------------------------------------------------------------------------------

NEVER = {
    "MAGICSTICK_VLLM_ACTIVE_THREAD_PERCENTAGE": "50",
    "MAGICSTICK_MPS_DEVICE": "0",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1G",
    "CUDA_MPS_PIPE_DIRECTORY": "/tmp/mps",  # noqa: S108 - the name of a variable's value, no file
    "MAGICSTICK_DRA_CLAIM": "theirs",
}


@pytest.mark.parametrize("local", [CPU, NVIDIA, {**CPU, **OLLAMA}, GPU_OLLAMA])
def test_how_a_gpu_is_shared_cannot_be_set_by_the_caller(local: Mapping[str, Any]) -> None:
    env = resolved({**local, "env": {**NEVER, "MINE": "1", "MAGICSTICK_ENGINE": "forged"}}).env
    assert not NEVER.keys() & env.keys()
    assert env["MINE"] == "1"
    assert env["MAGICSTICK_COMPUTE_TARGET"] == local["computeTarget"]
    assert env["MAGICSTICK_ENGINE"] == local.get("engine", "VLLM")


def test_vllm_on_a_gpu_runs_behind_the_wrapper_with_its_memory() -> None:
    env = resolved({**NVIDIA, "env": {"PYTHONPATH": "/mine", "VLLM_CPU_KVCACHE_SPACE": "4"}}).env
    assert env["PYTHONPATH"] == f"{WRAPPER}:/mine"
    assert env["MAGICSTICK_VLLM_WRAPPER_ENABLED"] == "true"
    assert env["MAGICSTICK_VLLM_VRAM_LIMIT"] == "8Gi"
    assert "VLLM_CPU_KVCACHE_SPACE" not in env
    assert "MAGICSTICK_CPU_OFFLOAD_MI" not in env


def test_vllm_on_cpu_gets_no_limit_of_gpu_memory() -> None:
    env = resolved({**CPU, "env": {"MAGICSTICK_VLLM_VRAM_LIMIT": "forged"}}).env
    assert "MAGICSTICK_VLLM_VRAM_LIMIT" not in env
    assert env["PYTHONPATH"] == WRAPPER


@pytest.mark.parametrize(
    ("written", "limit"),
    [
        ({"vram": "12Gi"}, "12Gi"),
        ({"vram": "12000Mi"}, "12000Mi"),
        ({"vram": "12000"}, "12000"),
        ({"vram": "24062M"}, "22948"),
        ({"vram": "15e9"}, "14306"),
        ({"vram": "1.5Gi"}, "1536"),
        ({"vramMi": 9000}, "9000"),
    ],
)
def test_the_wrapper_gets_gpu_memory_in_words_that_mean_the_same_to_it(
    written: Mapping[str, Any], limit: str
) -> None:
    local = {"computeTarget": "nvidia-gpu", "url": "hf://a/b", **written}
    assert resolved(local).env["MAGICSTICK_VLLM_VRAM_LIMIT"] == limit


@pytest.mark.req("MS-146")
@pytest.mark.parametrize(
    ("given", "mi"),
    [
        ({"cpuOffloading": True, "memoryRequiredMi": 16000, "cpuOffloadMi": 8000}, "8000"),
        ({"cpuOffloading": True, "memoryRequiredMi": 16000}, "0"),
        ({"cpuOffloading": False, "cpuOffloadMi": 8000}, "0"),
    ],
)
def test_vllm_is_told_what_it_may_offload(given: Mapping[str, Any], mi: str) -> None:
    assert resolved({**NVIDIA, **given}).env["MAGICSTICK_CPU_OFFLOAD_MI"] == mi


@pytest.mark.req("MS-352", "MS-353")
@pytest.mark.parametrize(
    ("given", "kind"), [({}, "f16"), ({"kvCacheType": "q8_0"}, "q8_0"), ({"kvCacheType": "q4_0"}, "q4_0")]
)
def test_ollama_gets_its_cache_type_and_always_flash_attention(given: Mapping[str, Any], kind: str) -> None:
    forged = {"OLLAMA_FLASH_ATTENTION": "0", "OLLAMA_KV_CACHE_TYPE": "f32", "OLLAMA_SCHED_SPREAD": "true"}
    model = resolved({**GPU_OLLAMA, **given, "env": forged, "contextWindow": 8192, "maxNumSeqs": 2})
    assert model.env["OLLAMA_KV_CACHE_TYPE"] == model.requested_kv_cache_type == kind
    assert model.env["OLLAMA_FLASH_ATTENTION"] == "1"
    assert model.env["OLLAMA_SCHED_SPREAD"] == "false"
    assert model.env["OLLAMA_MAX_LOADED_MODELS"] == "1"
    assert (model.env["OLLAMA_CONTEXT_LENGTH"], model.env["OLLAMA_NUM_PARALLEL"]) == ("8192", "2")
    assert model.args == ()


def test_ollama_keeps_the_callers_limits_where_the_model_has_none() -> None:
    env = resolved({**GPU_OLLAMA, "env": {"OLLAMA_CONTEXT_LENGTH": "5"}}).env
    assert env["OLLAMA_CONTEXT_LENGTH"] == "5"
    assert not env.keys() & {"MAGICSTICK_VLLM_WRAPPER_ENABLED", "PYTHONPATH", "OLLAMA_NUM_PARALLEL"}


LAYERS = {"LLAMA_ARG_N_GPU_LAYERS": "7", "LLAMA_ARG_FIT": "mine"}


@pytest.mark.req("MS-145")
@pytest.mark.parametrize(
    ("given", "fit"),
    [
        ({"cpuOffloading": True, "memoryRequiredMi": 8000, "ollamaGpuLayers": 3}, {"LLAMA_ARG_FIT": "on"}),
        ({"cpuOffloading": False}, {"LLAMA_ARG_FIT": "off", "LLAMA_ARG_N_GPU_LAYERS": "999"}),
        ({}, LAYERS),
    ],
)
def test_ollama_fits_layers_by_itself_or_not_at_all(given: Mapping[str, Any], fit: Mapping[str, str]) -> None:
    env = resolved({**GPU_OLLAMA, **given, "env": LAYERS}).env
    assert {name: value for name, value in env.items() if name.startswith("LLAMA_ARG_")} == fit
    assert "MAGICSTICK_CPU_OFFLOAD_MI" not in env


# --- KV cache ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("local", "written", "kind"),
    [
        (CPU, "Standard", "auto"),
        (CPU, " AUTO ", "auto"),
        (NVIDIA, "FP8", "fp8"),
        (GPU_OLLAMA, "standard", "f16"),
        (GPU_OLLAMA, "q8", "q8_0"),
        (GPU_OLLAMA, "Q4-0", "q4_0"),
        (GPU_OLLAMA, "q4", "q4_0"),
    ],
)
def test_cache_types_are_read_in_their_older_spellings(
    local: Mapping[str, Any], written: str, kind: str
) -> None:
    assert resolved({**local, "kvCacheType": written}).requested_kv_cache_type == kind


@pytest.mark.req("MS-348")
@pytest.mark.parametrize(
    ("local", "kind"),
    [
        ({}, "auto"),
        ({"engine": "ollama"}, "f16"),
        ({"engine": "OLlama", "kvCacheType": "q8"}, "q8_0"),
        ({"engine": "OLlama", "kvCacheType": "nonsense"}, "f16"),
        ({"engine": "OLlama", "kvCacheType": 8}, "f16"),
        ({"engine": "VLLM", "kvCacheType": "q8_0"}, "q8_0"),
        ({"engine": "FreeToken", "kvCacheType": "fp8"}, "auto"),
        ({"realtime": {}, "kvCacheType": "fp8"}, "auto"),
        ({"engine": ["x"]}, "auto"),
        ("nothing", "auto"),
    ],
)
def test_the_requested_cache_type_can_be_told_of_any_local_model(local: object, kind: str) -> None:
    assert kv_cache.requested({"local": local}) == kind


# --- parallelism ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "gpus"),
    [
        ([], 1),
        (["--tensor-parallel-size=2", "--pipeline_parallel_size", "3"], 6),
        (["-tp", "4", "-pp=2"], 8),
        (["--tensor-parallel-size=2", "--tensor-parallel-size=1"], 1),
        (["--tensor-parallel-size=two"], None),
        (["--tensor-parallel-size=0"], None),
        (["--tensor-parallel-size"], None),
        (["--tensor-parallel-size=\uff12"], None),
    ],
)
def test_the_gpus_that_arguments_spread_over(args: list[str], gpus: int | None) -> None:
    assert gpus_used(args) == gpus


def test_a_model_may_spread_over_what_its_profile_has_and_cpu_models_over_anything() -> None:
    assert resolved({**CPU, "args": ["-tp=2"]}).args[0] == "-tp=2"
    for wrong in (["-tp=2"], ["--pipeline-parallel-size", "2"], ["-tp=x"]):
        assert refused({**NVIDIA, "args": wrong}).field == "spec.local.args"
