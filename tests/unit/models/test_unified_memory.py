"""Models on nodes whose GPU has no memory of its own (spec: gpu §7, models §8.4)."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.models.memory import allocation
from magicstick.models.profiles import choose
from magicstick.models.resolved import ProfileWait, WaitReason
from tests.support.resolution import AMD, CPU, KUBEAI, NVIDIA, OLLAMA, amd_node, chosen, node, resolved

SHARED: Mapping[str, Any] = {
    "memoryArchitecture": "unified",
    "gpuAllocationMode": "shared-gtt",
    "gpuCapacitySource": "kfd-topology",
    "gpuCapacityMi": 90000,
    "gpuAccessibleMi": 96000,
    "firmwareReservedMi": 98304,
}
RESERVED: Mapping[str, Any] = {
    **SHARED,
    "gpuAllocationMode": "firmware-reserved",
    "gpuCapacityMi": 98304,
}


@pytest.mark.parametrize(
    ("evidence", "found"),
    [
        (SHARED, ("shared-gtt", 90000)),
        (RESERVED, ("firmware-reserved", 98304)),
        ({**SHARED, "gpuCapacityMi": 96000}, ("shared-gtt", 96000)),
        ({**SHARED, "gpuCapacityMi": 96001}, ("unknown", None)),
        ({**RESERVED, "gpuCapacityMi": 98305}, ("unknown", None)),
        ({**RESERVED, "gpuAccessibleMi": 98305}, ("unknown", None)),
        ({**RESERVED, "gpuAccessibleMi": 98304}, ("firmware-reserved", 98304)),
        ({**RESERVED, "gpuAccessibleMi": None}, ("firmware-reserved", 98304)),
        ({**SHARED, "gpuCapacityMi": 5, "firmwareReservedMi": 90000}, ("shared-gtt", 5)),
        ({**SHARED, "gpuCapacitySource": "guess"}, ("unknown", None)),
        ({**SHARED, "gpuAllocationMode": "unknown"}, ("unknown", None)),
        ({**SHARED, "gpuAllocationMode": ["x"]}, ("unknown", None)),
        ({**SHARED, "gpuCapacityMi": 0}, ("unknown", None)),
        ({**SHARED, "gpuCapacityMi": True}, ("unknown", None)),
        ({**SHARED, "gpuCapacityMi": "90000"}, ("unknown", None)),
        ({**SHARED, "gpuAccessibleMi": None}, ("unknown", None)),
        ({}, ("unknown", None)),
    ],
)
def test_where_the_memory_comes_from_counts_only_where_measurements_agree(
    evidence: Mapping[str, Any], found: tuple[str, int | None]
) -> None:
    assert allocation(evidence) == found


@given(
    st.dictionaries(
        st.sampled_from(sorted(SHARED)),
        st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["shared-gtt", "kfd-topology", ""]),
    )
)
def test_an_accepted_amount_is_never_above_its_bound(evidence: Mapping[str, Any]) -> None:
    mode, capacity = allocation(evidence)
    bounds = {"shared-gtt": "gpuAccessibleMi", "firmware-reserved": "firmwareReservedMi"}
    assert (capacity is None) == (mode == "unknown")
    assert capacity is None or 0 < capacity <= evidence[bounds[mode]]


@pytest.mark.req("MS-294", "MS-295")
@pytest.mark.parametrize(
    ("engine", "evidence", "own", "memory_mi", "mode"),
    [
        ({}, SHARED, {"vram": "4Gi"}, 8192, "shared-gtt"),
        ({}, SHARED, {"vram": "40Gi"}, 40960, "shared-gtt"),
        ({}, SHARED, {"vram": "40Gi", "memoryRequiredMi": 50000}, 50000, "shared-gtt"),
        ({}, RESERVED, {"vram": "40Gi"}, 8192, "firmware-reserved"),
        ({}, RESERVED, {"vram": "40Gi", "memoryRequiredMi": 9000}, 9000, "firmware-reserved"),
        ({}, {"memoryArchitecture": "unified"}, {"vram": "40Gi"}, 40960, "unknown"),
        (OLLAMA, SHARED, {"vram": "1Gi"}, 4096, "shared-gtt"),
    ],
)
def test_one_pool_is_requested_for_host_and_gpu_together(
    engine: Mapping[str, Any], evidence: Mapping[str, Any], own: Mapping[str, Any], memory_mi: int, mode: str
) -> None:
    model = resolved({**AMD, **engine, **own}, [amd_node(evidence=evidence)])
    unified = model.unified_memory
    assert unified is not None
    assert (unified.node, unified.pool_id, unified.mode) == ("node-1", "uid-node-1", mode)
    assert unified.memory_mi == model.memory_mi == memory_mi
    prefix = "appliance.magicstick.dev"
    assert model.annotations == {
        f"{prefix}/memory-architecture": "unified",
        f"{prefix}/shared-pool-id": "uid-node-1",
        f"{prefix}/gpu-allocation-mode": mode,
        f"{prefix}/memory-accounting-verified": "false",
    }
    assert model.env["MAGICSTICK_MEMORY_ARCHITECTURE"] == "unified"


def test_ollama_on_unified_memory_never_uses_vulkan() -> None:
    model = resolved({**AMD, **OLLAMA, "env": {"OLLAMA_VULKAN": "true"}}, [amd_node(evidence=SHARED)])
    assert model.env["OLLAMA_VULKAN"] == "false"


@pytest.mark.parametrize("local", [AMD, NVIDIA, CPU])
def test_memory_is_not_unified_unless_a_node_of_the_target_says_so(local: Mapping[str, Any]) -> None:
    unfit = node("other", evidence=SHARED)
    model = resolved(local, [amd_node(), unfit])
    assert (model.unified_memory, model.unified_problem) == (None, "")
    assert "MAGICSTICK_MEMORY_ARCHITECTURE" not in model.env


def test_the_profile_requests_the_pool_without_a_limit_on_such_nodes_alone() -> None:
    model = resolved({**AMD, "vram": "40Gi"}, [amd_node(evidence=SHARED)])
    unified, final = chosen(model).derived
    assert unified.name == "magicstick-amd-gpu-uma-ram-40960"
    assert unified.content["requests"] == {"cpu": "1", "memory": "40960Mi", "amd.com/gpu": "1"}
    assert unified.content["limits"] == {"amd.com/gpu": "1"}
    selector = unified.content["nodeSelector"]
    assert isinstance(selector, Mapping)
    assert selector["appliance.magicstick.dev/gpu-memory-architecture"] == "unified"
    assert selector["appliance.magicstick.dev/amd-gpu-eligible"] == "true"
    assert final.content == {**unified.content, "requests": {**unified.content["requests"], "cpu": "1000m"}}


def test_two_candidates_are_waited_out_since_nobody_can_say_which_pool_is_used() -> None:
    model = resolved(AMD, [amd_node("a", evidence=SHARED), amd_node("b")])
    wait = choose(model, KUBEAI)
    assert isinstance(wait, ProfileWait)
    assert wait.reason is WaitReason.UNIFIED_MEMORY
    assert "exactly one eligible node" in wait.message
    assert "a, b" in wait.message
