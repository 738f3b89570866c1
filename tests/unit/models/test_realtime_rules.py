"""Which realtime models are taken, and what they are resolved to (spec: realtime §2 to §5, §16)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from magicstick.api import labels
from magicstick.api.model_activation import Realtime
from magicstick.catalogs.compute_targets import ComputeTargetCatalog
from magicstick.models.hardware import NodeFacts
from magicstick.models.observation import Sharing
from magicstick.models.realtime.nodes import slot_problem
from magicstick.models.realtime.rules import OF_OTHERS
from magicstick.models.resolved import Reason
from tests.support.realtime_objects import (
    GPU,
    IMAGE,
    NODE,
    OWN_IMAGE,
    PROFILES,
    amd_sharing,
    cuda_node,
    nvidia_sharing,
    rocm_node,
    shared_gtt,
    wish,
)
from tests.support.resolution import CATALOGS, LINUX, node, outcome, refused, resolved_realtime
from tests.support.shipped import TARGETS

NODES = [cuda_node()]


def with_profile(**changes: Any) -> Any:
    """The shipped catalogs, with another profile for CUDA."""
    engine = TARGETS.engines["VLLM"]
    profile = engine.realtime_profiles["qwen3-omni"].model_copy(update=changes)
    other = engine.model_copy(update={"realtime_profiles": {"qwen3-omni": profile}})
    return replace(CATALOGS, targets=ComputeTargetCatalog({"VLLM": other}, TARGETS.targets))


# --- what is taken ---------------------------------------------------------------------------------


def test_e1_defaults_are_those_of_the_profile() -> None:
    model = resolved_realtime(wish(), NODES)
    assert (model.gpu_count, model.context_window, model.max_num_seqs) == (1, 8192, 1)
    assert (model.memory_mi, model.gpu_memory_fraction, model.thinker_offload_gib) == (16384, 0.9, 0)
    assert (model.image, model.pinned, model.deploy_config) == (IMAGE, True, "qwen3_omni_duplex.yaml")
    assert (model.cpu.request_millicores, model.cpu.limit_millicores) == (1000, 0)
    assert (model.hold.mode, model.hold.resource, model.missing) == ("exclusive", GPU, "")
    assert model.requested_kv_cache_type == "auto"


def test_a_profile_decides_what_a_model_does_not_say() -> None:
    catalogs = with_profile(default_system_memory_mi=4096, default_context_window=100)
    model = resolved_realtime(wish(), NODES, catalogs=catalogs)
    assert (model.memory_mi, model.context_window) == (4096, 100)
    said = wish(systemMemoryMi=8192, local={"contextWindow": 7})
    model = resolved_realtime(said, NODES, catalogs=catalogs)
    assert (model.memory_mi, model.context_window) == (8192, 7)


@pytest.mark.req("MS-047", "MS-049")
@pytest.mark.parametrize(
    ("target", "found", "provider"),
    [
        ("nvidia-gpu", cuda_node(), "gpu"),
        ("amd-gpu", rocm_node(), "amd-gpu"),
        ("intel-gpu", node(allocatable={"gpu.intel.com/xe": "1"}), "intel-gpu"),
    ],
)
def test_an_accelerator_needs_its_provider_and_the_routing_and_never_kubeai(
    target: str, found: NodeFacts, provider: str
) -> None:
    model = resolved_realtime(wish(target), [found])
    assert model.modules == (provider, "litellm", "model-catalog")
    assert model.requested_modules == ("litellm", "model-catalog")


@pytest.mark.req("MS-048", "MS-049")
def test_a_model_on_cpu_needs_the_routing_alone() -> None:
    model = resolved_realtime(wish("cpu"), [node()])
    assert model.modules == model.requested_modules == ("litellm", "model-catalog")
    assert (model.cpu.request_millicores, model.cpu.limit_millicores) == (2000, 8000)
    assert (model.hold.mode, model.hold.resource, model.vram_mi) == ("cpu", None, 0)


@pytest.mark.req("MS-060")
@pytest.mark.parametrize("url", ["hf://example/omni-AWQ-4bit", "hf://example/text-only", "hf://0/a_b.c-d"])
def test_e4_any_repository_is_taken(url: str) -> None:
    assert resolved_realtime(wish(local={"url": url}), NODES).url == url


@pytest.mark.req("MS-059", "MS-060")
@pytest.mark.parametrize(
    "marks",
    [
        {"nvidia.com/cuda.driver.major": "570"},
        {f"{GPU}.compute.major": "7"},
        {f"{GPU}.product": "A100-MIG-1g.5gb", "nvidia.com/mig.config": "all-1g.5gb"},
        {},
    ],
)
def test_e10_no_chip_driver_or_architecture_is_asked_for(marks: dict[str, str]) -> None:
    found = node(NODE, labels=marks, allocatable={GPU: "1"}, architecture="riscv64")
    assert resolved_realtime(wish(), [found]).missing == ""


@pytest.mark.req("MS-059")
def test_e16_an_amd_node_without_labels_or_evidence_gives_what_it_has() -> None:
    model = resolved_realtime(wish("amd-gpu", gpuCount=2), [rocm_node(2)])
    assert (model.hold.mode, model.hold.most, model.gpu_count, model.vram_mi) == ("exclusive", 2, 2, 0)
    assert model.unified_memory is None


@pytest.mark.req("MS-064")
@pytest.mark.parametrize(
    ("settings", "local"),
    [
        ({"thinkerCpuOffloadGiB": 32, "systemMemoryMi": 102400}, {}),
        ({"systemMemoryMi": 4096}, {}),
        ({"gpuMemoryFraction": 1}, {}),
        ({}, {"contextWindow": 262144, "maxNumSeqs": 16}),
    ],
)
def test_e19_no_estimate_keeps_a_model_from_being_deployed(
    settings: dict[str, Any], local: dict[str, Any]
) -> None:
    assert resolved_realtime(wish(local=local, **settings), NODES).missing == ""


@pytest.mark.req("MS-061")
@pytest.mark.parametrize("target", ["cpu", "intel-gpu", "amd-gpu", "nvidia-gpu"])
def test_e13_an_image_of_the_users_own_is_taken_as_it_is(target: str) -> None:
    nodes = {
        "cpu": node(),
        "intel-gpu": node(allocatable={"gpu.intel.com/i915": "1"}),
        "amd-gpu": rocm_node(),
        "nvidia-gpu": cuda_node(),
    }
    model = resolved_realtime(wish(target, runtimeImage=OWN_IMAGE), [nodes[target]])
    assert (model.image, model.pinned) == (OWN_IMAGE, False)


@pytest.mark.parametrize("published", ["gpu.intel.com/xe", "gpu.intel.com/i915"])
def test_e20_intel_uses_the_resource_that_the_node_gives_out(published: str) -> None:
    assert (
        resolved_realtime(wish("intel-gpu"), [node(allocatable={published: "1"})]).hold.resource == published
    )


def test_e3_cpu_settings_overlay_the_defaults_of_the_target() -> None:
    for wanted, expected in (
        ({"requestMillicores": 1500, "limitMillicores": 2500}, (1500, 2500)),
        ({"limitMillicores": 0}, (1000, 0)),
        ({"limitMillicores": 3000}, (1000, 3000)),
    ):
        cpu = resolved_realtime(wish(local={"cpuResources": wanted}), NODES).cpu
        assert (cpu.request_millicores, cpu.limit_millicores) == expected


@pytest.mark.parametrize("field", OF_OTHERS)
@pytest.mark.parametrize("empty", [None, "", [], {}, False])
def test_an_empty_setting_of_another_runtime_means_the_same_as_none(field: str, empty: object) -> None:
    assert resolved_realtime(wish(local={field: empty}), NODES) == resolved_realtime(wish(), NODES)


def test_defaults_that_the_server_filled_in_are_no_setting_of_another_runtime() -> None:
    filled = {"gpuCount": 1, "memoryStrategy": "auto"}
    assert resolved_realtime(wish(local={"freetoken": filled}), NODES).profile == "qwen3-omni"


# --- what is refused -------------------------------------------------------------------------------

REFUSED: list[tuple[Mapping[str, Any], str, str]] = [
    (wish(local={"engine": "OLlama"}), "engine", "or VLLM"),
    (wish(local={"engine": "FreeToken"}), "engine", "or VLLM"),
    (wish(local={"computeTarget": "amd-gpu"}), "computeTarget", "must be one of nvidia-gpu"),
    (wish(local={"url": "file://x"}), "url", "must be hf://"),
    (wish(local={"url": "hf://only"}), "url", "must be hf://"),
    (wish(local={"url": "hf://a/b/c"}), "url", "must be hf://"),
    (wish(local={"url": "hf://-a/b"}), "url", "must be hf://"),
    (wish(local={"url": ""}), "url", "must be hf://"),
    (wish(local={"modelType": "embedding"}), "modelType", "or chat"),
    (wish(local={"minReplicas": 0}), "minReplicas", "or 1"),
    (wish(local={"maxReplicas": 2}), "maxReplicas", "or 1"),
    (wish(local={"contextWindow": 0}), "contextWindow", "at least 1"),
    (wish(local={"contextWindow": True}), "contextWindow", "whole number"),
    (wish(local={"maxNumSeqs": 0}), "maxNumSeqs", "at least 1"),
    (wish(local={"maxNumSeqs": True}), "maxNumSeqs", "whole number"),
    (wish(local={"resourceProfile": "mine:1"}), "resourceProfile", "qwen3-omni"),
    (wish(local={"preset": "qwen354b"}), "preset", "left out"),
    (wish(local={"artifact": "bf16"}), "artifact", "left out"),
    (wish(local={"vllm": {"visionAttention": "auto"}, "engine": "VLLM"}), "vllm", "left out"),
    (wish(local={"freetoken": {"gpuCount": 2}}), "freetoken", "left out"),
    (wish(local={"args": ["--x"]}), "args", "left out"),
    (wish(local={"env": {"A": "b"}}), "env", "left out"),
    (wish(local={"cpuOffloading": True}), "cpuOffloading", "left out"),
    (wish(local={"kvCacheType": "auto"}), "kvCacheType", "left out"),
    (wish(local={"vram": "8Gi"}), "vram", "left out"),
    (wish(local={"vramMi": 8192}), "vramMi", "left out"),
    (wish(local={"memoryRequiredMi": 8192}), "memoryRequiredMi", "left out"),
    (wish(local={"maxOutputTokens": 10}), "maxOutputTokens", "left out"),
    (wish(local={"cpuResources": {"limitMillicores": 500}}), "cpuResources.limitMillicores", "at least"),
    (wish(local={"cpuResources": {"requestMillicores": True}}), "cpuResources.requestMillicores", "whole"),
    (wish(local={"cpuResources": {"cores": 1}}), "cpuResources.cores", "no known field"),
    (wish(local={"realtime": None}), "realtime", "must be an object"),
    (wish(local={"realtime": {}}), "realtime.profile", ""),
    (wish(local={"realtime": {"profile": "qwen3-omni"}}), "realtime.gpuNode", ""),
    (wish(local={"realtime": True}), "realtime", "must be an object"),
    (wish(profile="other"), "realtime.profile", "must be one of qwen3-omni"),
    (wish(gpuNode="Node"), "realtime.gpuNode", "name of a node"),
    (wish(gpuNode="a" * 254), "realtime.gpuNode", "name of a node"),
    (wish(gpuNode="elsewhere"), "realtime.gpuNode", "no longer available"),
    (wish(gpuCount=3), "realtime.gpuCount", "1 or 2"),
    (wish(gpuCount=True), "realtime.gpuCount", "whole number"),
    (wish("cpu", gpuCount=2), "realtime.gpuCount", "must be 1"),
    (wish(systemMemoryMi=999999), "realtime.systemMemoryMi", "must be at most 131072"),
    (wish(systemMemoryMi=0), "realtime.systemMemoryMi", "at least 1"),
    (wish(systemMemoryMi=True), "realtime.systemMemoryMi", "whole number"),
    (wish(systemMemoryMi=2**31), "realtime.systemMemoryMi", "at most 2147483647"),
    (wish(gpuMemoryFraction=0), "realtime.gpuMemoryFraction", "greater than 0"),
    (wish(gpuMemoryFraction=1.01), "realtime.gpuMemoryFraction", "at most 1"),
    (wish(gpuMemoryFraction=True), "realtime.gpuMemoryFraction", "number"),
    (wish(thinkerCpuOffloadGiB=-1), "realtime.thinkerCpuOffloadGiB", "at least 0"),
    (wish(thinkerCpuOffloadGiB=True), "realtime.thinkerCpuOffloadGiB", "whole number"),
    (wish(thinkerCpuOffloadGiB=2**31), "realtime.thinkerCpuOffloadGiB", "at most 2147483647"),
    (wish(surprise=1), "realtime.surprise", "no known field"),
    (wish(runtimeImage="a b"), "realtime.runtimeImage", "image reference"),
    (wish(runtimeImage="a;b"), "realtime.runtimeImage", "image reference"),
    (wish(runtimeImage="https://example.com/a"), "realtime.runtimeImage", "image reference"),
    (wish(runtimeImage=7), "realtime.runtimeImage", ""),
    (wish(runtimeImage="a" * 1025), "realtime.runtimeImage", ""),
    (wish("cpu", runtimeImage=""), "realtime.runtimeImage", "is required"),
    (wish(restartNonce="a b"), "realtime.restartNonce", "letters, digits"),
    (wish(restartNonce="a" * 129), "realtime.restartNonce", ""),
]


@pytest.mark.req("MS-051")
@pytest.mark.parametrize(
    ("local", "field", "problem"), REFUSED, ids=[f"{n}-{r[1]}" for n, r in enumerate(REFUSED)]
)
def test_e8_e9_e14_what_is_wrong_is_refused_with_its_field(
    local: Mapping[str, Any], field: str, problem: str
) -> None:
    target = str(local["computeTarget"])
    found = refused(local, [node(allocatable={"memory": "128Gi"}) if target == "cpu" else cuda_node()])
    assert (found.reason, found.field) == (Reason.INVALID_SPEC, f"spec.local.{field}")
    assert problem in found.problem


def test_e9_a_fraction_that_is_no_number_is_none_of_the_schemas_either() -> None:
    """JSON cannot carry it, so it can only come from a program."""
    block = {"profile": "qwen3-omni", "gpuNode": NODE, "gpuMemoryFraction": float("nan")}
    with pytest.raises(ValidationError, match="gpuMemoryFraction"):
        Realtime.model_validate(block)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"ready": False}, "not Ready"),
        ({"schedulable": False}, "takes no new Pods"),
    ],
)
@pytest.mark.parametrize("target", ["cpu", "nvidia-gpu"])
def test_a_node_that_takes_no_pods_is_not_available(
    target: str, changes: dict[str, Any], problem: str
) -> None:
    found = refused(wish(target), [node(allocatable={GPU: "1"}, **changes)])
    assert found.field == "spec.local.realtime.gpuNode"
    assert problem in found.problem


@pytest.mark.req("MS-058")
def test_a_node_must_run_linux() -> None:
    windows = replace(cuda_node(), labels={"kubernetes.io/os": "windows"})
    assert "Linux" in refused(wish(), [windows]).problem
    assert "Linux" in refused(wish(), [replace(cuda_node(), labels={})]).problem


def test_a_catalog_image_without_a_digest_is_never_deployed() -> None:
    for image in ("vllm/vllm-omni:v1", "vllm/vllm-omni@sha256:short", "@sha256:" + "a" * 64):
        found = refused(wish(), NODES, catalogs=with_profile(image=image))
        assert "digest" in found.problem
    found = refused(wish(), NODES, catalogs=with_profile(image=""))
    assert "is required" in found.problem


def test_a_profile_that_is_wrong_in_the_catalog_says_so() -> None:
    catalog = ComputeTargetCatalog(
        TARGETS.engines, TARGETS.targets, {"engines.VLLM.realtimeProfiles.mine": "gpuCounts: is required"}
    )
    found = refused(wish(profile="mine"), NODES, catalogs=replace(CATALOGS, targets=catalog))
    assert "gpuCounts: is required" in found.problem


@pytest.mark.parametrize(
    ("memory", "fits", "breaks"),
    [
        ("16Gi", 16384, 16385),
        ("17179869183", 16383, 16384),
        ("17179869184000m", 16384, 16385),
        ("20G", 19073, 19074),
    ],
)
def test_memory_is_compared_with_the_whole_mib_of_the_node(memory: str, fits: int, breaks: int) -> None:
    nodes = [replace(cuda_node(), allocatable={GPU: "1", "memory": memory})]
    assert resolved_realtime(wish(systemMemoryMi=fits), nodes).memory_mi == fits
    assert f"at most {fits}" in refused(wish(systemMemoryMi=breaks), nodes).problem


@pytest.mark.parametrize("allocatable", [{GPU: "1"}, {GPU: "1", "memory": "lots"}])
def test_a_node_whose_memory_cannot_be_read_is_refused(allocatable: dict[str, str]) -> None:
    found = refused(wish(), [NodeFacts(name=NODE, labels=LINUX, allocatable=allocatable)])
    assert "memory cannot be read" in found.problem


# --- devices ---------------------------------------------------------------------------------------


@pytest.mark.req("MS-058")
@pytest.mark.parametrize(
    ("target", "nodes"),
    [
        ("nvidia-gpu", [node(allocatable={GPU: "0"})]),
        ("nvidia-gpu", [node()]),
        ("nvidia-gpu", [node(labels={f"{GPU}.replicas": "4"})]),
        ("amd-gpu", [node()]),
        ("intel-gpu", [node(allocatable={"gpu.intel.com/xe": "0"})]),
    ],
)
def test_e10_a_node_without_a_device_is_waited_for_and_no_fault_of_the_spec(
    target: str, nodes: Sequence[NodeFacts]
) -> None:
    model = resolved_realtime(wish(target), nodes)
    assert "no allocatable GPU resource for this backend" in model.missing


@pytest.mark.req("MS-067", "MS-068")
@pytest.mark.parametrize(
    "found",
    [
        node(labels={f"{GPU}.replicas": "4", f"{GPU}.count": "1"}, allocatable={GPU: "4"}),
        node(labels={f"{GPU}.count": "1"}, allocatable={GPU: "4"}),
        node(labels={f"{GPU}.replicas": "4"}, allocatable={GPU: "4"}),
        node(labels={f"{GPU}.replicas": "4"}, allocatable={GPU: "2"}),
        node(labels={f"{GPU}.replicas": "4"}),
    ],
)
def test_e11_a_time_sliced_node_gives_one_slot_and_never_two_gpus(found: NodeFacts) -> None:
    model = resolved_realtime(wish(), [found])
    assert (model.hold.mode, model.hold.most, model.gpu_count) == ("time-slicing", 1, 1)
    refusal = refused(wish(gpuCount=2), [found])
    assert refusal.field == "spec.local.realtime.gpuCount"
    assert "one slot" in refusal.problem


def test_more_gpus_than_the_node_has_are_refused() -> None:
    assert "at most 1" in refused(wish(gpuCount=2), [cuda_node(1)]).problem
    fewer = node(labels={f"{GPU}.count": "4"}, allocatable={GPU: "1"})
    assert "at most 1" in refused(wish(gpuCount=2), [fewer]).problem
    assert "at most 1" in refused(wish("amd-gpu", gpuCount=2), [rocm_node(1)]).problem
    assert resolved_realtime(wish(gpuCount=2), [node(allocatable={GPU: "2"})]).gpu_count == 2


@given(st.text(max_size=12), st.text(max_size=12), st.text(max_size=12))
def test_labels_of_any_form_break_nothing(count: str, replicas: str, memory: str) -> None:
    marks = {f"{GPU}.count": count, f"{GPU}.replicas": replicas, f"{GPU}.memory": memory}
    resolved_realtime(wish(), [node(labels=marks, allocatable={GPU: "1"})])


@pytest.mark.req("MS-065")
def test_e18_a_claim_is_bound_where_the_sharing_has_one_for_exactly_this_node() -> None:
    model = resolved_realtime(wish("amd-gpu"), [rocm_node(dra=True)], sharing=amd_sharing())
    assert (model.hold.mode, model.hold.claim) == ("dra-shared", amd_sharing().claim)
    assert (model.hold.device, model.hold.resource, model.missing) == ("0000:c4:00.0", "amd.com/gpu", "")
    assert slot_problem(model, amd_sharing()) == ""


@pytest.mark.parametrize(
    "sharing",
    [
        None,
        amd_sharing(node_uid="another"),
        amd_sharing(node="another"),
        amd_sharing(claim=""),
        amd_sharing(slots=0),
        amd_sharing(phase="Switching"),
        amd_sharing(mode="exclusive"),
    ],
)
def test_e18_without_a_ready_claim_of_this_node_nothing_is_bound(sharing: Sharing | None) -> None:
    model = resolved_realtime(wish("amd-gpu"), [rocm_node(dra=True)], sharing=sharing)
    assert "ready ResourceClaim" in model.missing
    refusal = refused(wish("amd-gpu", gpuCount=2), [rocm_node(dra=True)], sharing=sharing)
    assert "one slot" in refusal.problem


@pytest.mark.parametrize(
    ("sharing", "problem"),
    [
        (nvidia_sharing(node_uid="another"), "not set up on node"),
        (nvidia_sharing(node="another"), "not set up on node"),
        (nvidia_sharing(refused="waiting for a slot (maximum 4)"), "maximum 4"),
        (nvidia_sharing(mode="exclusive", node=""), "not set up on node"),
        (nvidia_sharing(), ""),
        (None, ""),
    ],
)
def test_e12_a_slot_of_managed_sharing_is_one_of_this_very_node(
    sharing: Sharing | None, problem: str
) -> None:
    found = slot_problem(resolved_realtime(wish(), NODES, sharing=sharing), sharing)
    assert (problem in found) if problem else found == ""


def test_an_exclusive_amd_gpu_needs_no_slot() -> None:
    model = resolved_realtime(wish("amd-gpu"), [rocm_node()], sharing=amd_sharing(mode="exclusive", node=""))
    assert slot_problem(model, amd_sharing(mode="exclusive", node="")) == ""


# --- reported memory -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fraction", "count", "expected"), [(0.9, 1, 22118), (0.9, 2, 44236), (1, 1, 24576), (0.29, 1, 7127)]
)
def test_reported_gpu_memory_is_a_share_of_what_the_label_says(
    fraction: float, count: int, expected: int
) -> None:
    model = resolved_realtime(wish(gpuMemoryFraction=fraction, gpuCount=count), NODES)
    assert model.vram_mi == expected
    assert resolved_realtime(wish(), [node(allocatable={GPU: "1"})]).vram_mi == 0


def test_a_share_is_exact_where_binary_fractions_are_not() -> None:
    found = node(labels={f"{GPU}.memory": "100"}, allocatable={GPU: "1"})
    assert resolved_realtime(wish(gpuMemoryFraction=0.29), [found]).vram_mi == 29


@pytest.mark.req("MS-063")
def test_e15_shared_memory_of_host_and_gpu_is_one_pool() -> None:
    model = resolved_realtime(wish("amd-gpu"), [rocm_node(evidence=shared_gtt())])
    assert (model.vram_mi, model.memory_mi) == (92160, 16384)
    assert model.unified_memory is not None
    assert (model.unified_memory.pool_id, model.unified_memory.mode) == (f"uid-{NODE}", "shared-gtt")


def test_evidence_that_contradicts_itself_reports_no_gpu_memory() -> None:
    doubtful = {**shared_gtt(), "gpuAccessibleMi": 1}
    model = resolved_realtime(wish("amd-gpu"), [rocm_node(evidence=doubtful)])
    assert model.vram_mi == 0
    assert model.unified_memory is not None
    assert model.unified_memory.mode == "unknown"


@pytest.mark.req("MS-046")
def test_the_block_alone_decides_what_serves_the_model() -> None:
    assert outcome(wish(), NODES).__class__.__name__ == "ResolvedRealtime"
    plain = {key: value for key, value in wish(local={"vram": "8Gi"}).items() if key != "realtime"}
    assert outcome(plain, NODES).__class__.__name__ == "ResolvedKubeAi"


def test_every_target_has_a_profile_that_is_resolved_for_it() -> None:
    profiles = TARGETS.engines["VLLM"].realtime_profiles
    assert {name: profiles[profile].compute_targets for name, profile in PROFILES.items()} == {
        name: (name,) for name in TARGETS.targets
    }
    assert set(profiles) == set(PROFILES.values())
    assert labels.AMD_DRA_READY in rocm_node(dra=True).labels
