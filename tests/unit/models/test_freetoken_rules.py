"""Models of FreeToken: which node, which models, how much of what (spec: models §13)."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from magicstick.models.hardware import NodeFacts
from tests.support.resolution import node, outcome, refused, resolved_freetoken

CARD: Mapping[str, Any] = {
    "vendorId": "10DE",
    "deviceId": "2684",
    "name": "A card",
    "driverVersion": "580.65.06",
    "memoryTotalMi": 24564,
}
LABELS = {
    "kubernetes.io/arch": "amd64",
    "nvidia.com/gpu.count": "2",
    "nvidia.com/gpu.replicas": "1",
    "nvidia.com/gpu.compute.major": "8",
    "nvidia.com/gpu.compute.minor": "9",
    "nvidia.com/gpu.memory": "24564",
}
SETTINGS: Mapping[str, Any] = {"gpuMemoryMi": 20000, "systemMemoryMi": 32768}
MODEL: Mapping[str, Any] = {
    "engine": "FreeToken",
    "computeTarget": "nvidia-gpu",
    "url": "hf://Qwen/Qwen3-30B-A3B",
    "freetoken": SETTINGS,
}
VISION = "hf://Qwen/Qwen3-VL-8B-Instruct"


def gpu_node(
    name: str = "node-1",
    *,
    labels: Mapping[str, str | None] | None = None,
    cards: Sequence[Mapping[str, Any]] | None = None,
    gpus: str = "2",
    allocatable: Mapping[str, str] | None = None,
) -> NodeFacts:
    merged = {key: value for key, value in {**LABELS, **(labels or {})}.items() if value is not None}
    return node(
        name,
        labels=merged,
        allocatable={"nvidia.com/gpu": gpus, **(allocatable or {})},
        evidence={"displayDevices": [CARD, CARD] if cards is None else cards},
    )


def freetoken(**changes: Any) -> dict[str, Any]:
    return {**MODEL, "freetoken": {**SETTINGS, **changes}}


def test_a_model_runs_on_whole_gpus_of_the_only_eligible_node() -> None:
    model = resolved_freetoken(freetoken(gpuCount=2, gpuMemoryMi=40001), [gpu_node(), node("other")])
    assert (model.node, model.gpu_count) == ("node-1", 2)
    assert (model.gpu_memory_mi, model.vram_per_gpu_mi, model.memory_mi) == (40001, 20000, 32768)
    assert model.modules == ("gpu", "freetoken", "litellm", "model-catalog")
    assert model.requested_modules == ("freetoken", "litellm", "model-catalog")
    assert model.node_selector == {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    assert (model.cpu.request_millicores, model.cpu.limit_millicores) == (4000, 8000)
    assert model.requested_kv_cache_type == "auto"


def test_without_an_allocatable_gpu_the_model_is_valid_and_has_no_node_yet() -> None:
    for nodes in ([], [node()], [gpu_node(gpus="0")]):
        model = resolved_freetoken(MODEL, nodes)
        assert (model.node, model.target.allocatable) == ("", 0)


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"labels": {"nvidia.com/gpu.replicas": "4"}}, "time-slicing"),
        ({"gpus": "8"}, "time-slicing"),
        ({"labels": {"nvidia.com/mig.config": "all-1g.5gb"}}, "MIG"),
        ({"allocatable": {"nvidia.com/mig-1g.5gb": "2"}}, "MIG"),
        ({"labels": {"nvidia.com/gpu.product": "A100-MIG-1g.5gb"}}, "MIG"),
        ({"labels": {"nvidia.com/gpu.compute.minor": "0"}}, "compute capability 8.0"),
        ({"labels": {"nvidia.com/gpu.compute.minor": None}}, "compute capability 8.0"),
        ({"labels": {"nvidia.com/gpu.compute.major": None}}, "compute capability unknown"),
        ({"cards": [CARD]}, "1 of its 2 GPUs"),
        ({"cards": [CARD, {**CARD, "vendorId": "1002"}]}, "1 of its 2 GPUs"),
        ({"cards": [CARD, {**CARD, "deviceId": "", "name": ""}]}, "not identified"),
        ({"cards": [CARD, {**CARD, "name": "Another"}]}, "several kinds"),
        ({"cards": [CARD, {**CARD, "driverVersion": "550.1"}]}, "driver of version 580"),
        ({"cards": [CARD, {**CARD, "driverVersion": None}]}, "driver of version 580"),
    ],
)
def test_edge_35_a_node_that_is_not_eligible_is_refused_with_its_cause(
    changed: dict[str, Any], cause: str
) -> None:
    refusal = refused(MODEL, [gpu_node(**changed)])
    assert refusal.field == "spec.local.freetoken.gpuDevice"
    assert "node-1 " in refusal.problem
    assert cause in refusal.problem


def test_at_most_three_causes_are_told() -> None:
    nodes = [gpu_node(f"node-{number}", cards=[]) for number in range(5)]
    assert refused(MODEL, nodes).problem.count("inventory") == 3


@pytest.mark.parametrize(
    ("device", "problem"),
    [
        ("node:other", "must be one of node:node-1"),
        ("node-1", "must be one of node:node-1"),
        ("node:a b", "must be node:<node>"),
        ("n" * 257, "at most 256"),
    ],
)
def test_a_device_must_name_an_eligible_node(device: str, problem: str) -> None:
    refusal = refused(freetoken(gpuDevice=device), [gpu_node(), node("other")])
    assert refusal.field == "spec.local.freetoken.gpuDevice"
    assert problem in refusal.problem


def test_of_several_eligible_nodes_one_must_be_named() -> None:
    nodes = [gpu_node("a"), gpu_node("b")]
    assert "is required" in refused(MODEL, nodes).problem
    assert resolved_freetoken(freetoken(gpuDevice="node:b"), nodes).node == "b"


@pytest.mark.parametrize(
    ("local", "field", "problem"),
    [
        ({**MODEL, "url": "hf://example/model"}, "url", "catalog lists for FreeToken"),
        ({**MODEL, "url": f"hf://{'x' * 257}"}, "url", "at most 256"),
        ({**MODEL, "url": "ollama://x"}, "url", "must be hf://"),
        (
            {**MODEL, "url": VISION, "freetoken": {**SETTINGS, "gpuCount": 2}},
            "freetoken.gpuCount",
            "must be 1",
        ),
        ({**MODEL, "freetoken": {"systemMemoryMi": 1000}}, "freetoken.gpuMemoryMi", "is required"),
        ({**MODEL, "freetoken": {"gpuMemoryMi": 1000}}, "freetoken.systemMemoryMi", "is required"),
        (freetoken(gpuCount=3), "freetoken.gpuCount", "at most 2"),
        (freetoken(gpuCount=2, gpuMemoryMi=300), "freetoken.gpuMemoryMi", "at least 256 for each"),
        (freetoken(gpuMemoryMi=24565), "freetoken.gpuMemoryMi", "at most 24564"),
        (freetoken(systemMemoryMi=65537), "freetoken.systemMemoryMi", "at most 65536"),
        (freetoken(restartNonce="n" * 129), "freetoken.restartNonce", "at most 128"),
        (freetoken(advanced={"cacheType": "x"}), "freetoken.advanced.cacheType", "must be"),
        (freetoken(surprise=1), "freetoken.surprise", "no known field"),
        ({**MODEL, "cpuOffloading": True}, "cpuOffloading", "left out for FreeToken"),
        ({**MODEL, "kvCacheType": "auto"}, "kvCacheType", "left out for FreeToken"),
        ({**MODEL, "args": ["--x"]}, "args", "left out for FreeToken"),
        ({**MODEL, "env": {"A": "b"}}, "env", "left out for FreeToken"),
        ({**MODEL, "maxReplicas": 2}, "maxReplicas", "must be 1 for FreeToken"),
        ({**MODEL, "minReplicas": 0}, "maxReplicas", "must be 1 for FreeToken"),
        ({**MODEL, "resourceProfile": "mine:1"}, "resourceProfile", "magicstick-freetoken-nvidia-gpu:1"),
    ],
)
def test_what_freetoken_cannot_do_is_refused_with_its_field(
    local: Mapping[str, Any], field: str, problem: str
) -> None:
    refusal = refused(local, [gpu_node()])
    assert refusal.field == f"spec.local.{field}"
    assert problem in refusal.problem


@pytest.mark.parametrize(
    ("cards", "label", "largest"),
    [
        ([CARD, {**CARD, "memoryTotalMi": 16000}], "24564", 16000),
        ([CARD, {**CARD, "memoryTotalMi": None}], "24564", 24564),
        ([CARD, CARD], "20000", 20000),
        ([CARD, CARD], None, 24564),
    ],
)
def test_the_smallest_gpu_by_whoever_reports_it_bounds_the_memory(
    cards: list[Mapping[str, Any]], label: str | None, largest: int
) -> None:
    one = gpu_node(cards=cards, labels={"nvidia.com/gpu.memory": label})
    assert resolved_freetoken(freetoken(gpuMemoryMi=largest), [one]).gpu_memory_mi == largest
    assert refused(freetoken(gpuMemoryMi=largest + 1), [one]).field == "spec.local.freetoken.gpuMemoryMi"


def test_memory_that_nobody_reports_cannot_be_checked() -> None:
    unknown = [{**CARD, "memoryTotalMi": None}] * 2
    one = gpu_node(cards=unknown, labels={"nvidia.com/gpu.memory": None})
    assert "nobody reports" in refused(MODEL, [one]).problem


@pytest.mark.parametrize("cards", [None, "x", [1], [{}], {"a": 1}])
def test_an_inventory_of_any_form_is_survived(cards: object) -> None:
    one = node(labels=LABELS, allocatable={"nvidia.com/gpu": "2"}, evidence={"displayDevices": cards})
    assert "0 of its 2 GPUs" in refused(MODEL, [one]).problem


def test_a_model_that_the_catalog_lists_is_found_in_any_case() -> None:
    assert not hasattr(outcome({**MODEL, "url": "hf://QWEN/QWEN3-30B-a3b"}, [gpu_node()]), "problem")
