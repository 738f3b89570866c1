"""The stage plan, and the files that a realtime runtime starts with (spec: realtime §6, §7)."""

import hashlib
import json
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.models.realtime.stages import bootstrap_text, files_hash, files_of, stage_plan
from magicstick.models.resolved import ResolvedRealtime
from tests.support.realtime_objects import realtime


def stages(**changes: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = stage_plan(realtime(**changes))["stages"]
    return found


def test_the_plan_names_its_base_its_sessions_and_three_stages() -> None:
    plan = stage_plan(realtime(max_num_seqs=3))
    assert (plan["base_config"], plan["session_mode"]) == ("qwen3_omni_duplex.yaml", "duplex")
    assert plan["duplex_session"] == {"max_sessions": 3}
    assert [each["stage_id"] for each in plan["stages"]] == [0, 1, 2]
    assert [each["max_num_seqs"] for each in plan["stages"]] == [3, 3, 3]
    assert [each.get("max_model_len") for each in plan["stages"]] == [8192, 8192, None]


@pytest.mark.parametrize(
    ("count", "devices", "utilization"),
    [(1, ["0", "0", "0"], [0.675, 0.18, 0.045]), (2, ["0", "1", "1"], [0.9, 0.72, 0.18])],
)
def test_the_vectors_at_nine_tenths(count: int, devices: list[str], utilization: list[float]) -> None:
    made = stages(gpu_count=count)
    assert [each["devices"] for each in made] == devices
    assert [each["gpu_memory_utilization"] for each in made] == utilization


@given(st.sampled_from([1, 2]), st.floats(min_value=0.01, max_value=1))
def test_e2_no_device_is_asked_for_more_than_the_fraction(count: int, fraction: float) -> None:
    taken: dict[str, float] = defaultdict(float)
    for stage in stages(gpu_count=count, gpu_memory_fraction=fraction):
        taken[stage["devices"]] += stage["gpu_memory_utilization"]
    assert len(taken) == count
    assert all(each <= fraction + 2e-6 for each in taken.values())


def test_e5_an_offload_concerns_the_thinker_alone() -> None:
    made = stages(thinker_offload_gib=12)
    assert made[0]["engine_extras"] == {"cpu_offload_gb": 12}
    assert not any("engine_extras" in each for each in made[1:])


def test_e6_without_an_offload_nothing_extra_is_set() -> None:
    assert not any("engine_extras" in each for each in stages())


def test_e15_rocm_is_eager_and_has_its_own_attention() -> None:
    made = stages(accelerator="rocm", thinker_offload_gib=2)
    assert [each["enforce_eager"] for each in made] == [True, True, True]
    assert [each.get("max_num_batched_tokens") for each in made] == [8192, 8192, None]
    assert made[0]["engine_extras"] == {"cpu_offload_gb": 2, "attention_backend": "TRITON_ATTN"}
    assert made[1]["engine_extras"] == {"attention_backend": "TRITON_ATTN"}
    assert "engine_extras" not in made[2]


@pytest.mark.parametrize(("context", "sequences", "tokens"), [(1, 8, 8), (4096, 1, 4096), (262144, 16, 8192)])
def test_e17_rocm_batches_at_least_a_token_of_each_sequence(
    context: int, sequences: int, tokens: int
) -> None:
    made = stages(accelerator="rocm", context_window=context, max_num_seqs=sequences)
    assert made[0]["max_num_batched_tokens"] == made[1]["max_num_batched_tokens"] == tokens


def test_e20_on_cpu_no_stage_names_a_device() -> None:
    for stage in stages(accelerator="cpu"):
        assert not {"devices", "gpu_memory_utilization"} & set(stage)


@pytest.mark.req("MS-079", "MS-082")
def test_the_config_map_holds_the_plan_and_the_bootstrap_and_nothing_else() -> None:
    content = files_of(realtime())
    assert set(content) == {"profile.json", "bootstrap.py"}
    plan = json.loads(content["profile.json"])
    assert plan == stage_plan(realtime())
    assert content["profile.json"] == json.dumps(plan, indent=2, sort_keys=True)
    compile(content["bootstrap.py"], "bootstrap.py", "exec")


@pytest.mark.req("MS-084")
def test_e21_the_hash_follows_every_byte_of_both_files() -> None:
    content = files_of(realtime())
    text = f"{content['profile.json']}\n{content['bootstrap.py']}"
    assert files_hash(content) == hashlib.sha256(text.encode()).hexdigest()
    changed = {**content, "bootstrap.py": content["bootstrap.py"] + "#"}
    other: ResolvedRealtime = realtime(context_window=4096)
    assert len({files_hash(content), files_hash(changed), files_hash(files_of(other))}) == 3


def test_the_shipped_bootstrap_is_read_as_it_is() -> None:
    assert bootstrap_text().startswith('"""Starts vLLM-Omni')
