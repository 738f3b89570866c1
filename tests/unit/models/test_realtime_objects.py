"""ConfigMap, Service and Deployment of a realtime model (spec: realtime §6, §16)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.api import labels
from magicstick.api.names import is_dns_label, is_label_value
from magicstick.catalogs.compute_targets import CpuPolicy
from magicstick.kube.kinds import CONFIG_MAP
from magicstick.models.kinds import DEPLOYMENT, SERVICE
from magicstick.models.objects import serves
from magicstick.models.places import realtime_name
from magicstick.models.pods import SELECTOR
from magicstick.models.realtime.objects import endpoint_of, runtime_objects
from magicstick.models.realtime.stages import files_hash, files_of
from magicstick.models.resolved import Hold, ResolvedRealtime
from tests.support import golden
from tests.support.model_objects import CPU, INTEL
from tests.support.objects import resource
from tests.support.realtime_objects import AMD_TARGET, GPU, OWN_IMAGE, amd_sharing, realtime

AMD: Any = {
    "accelerator": "rocm",
    "target": AMD_TARGET,
    "profile": "qwen3-omni-rocm",
    "image": OWN_IMAGE,
    "pinned": False,
}
ROCM = realtime(**AMD, hold=Hold(mode="exclusive", resource="amd.com/gpu", slots=1))
CLAIM = amd_sharing().claim
DRA = realtime(**AMD, hold=Hold(mode="dra-shared", resource="amd.com/gpu", slots=4, claim=CLAIM))
SLICED = realtime(hold=Hold(mode="time-slicing", resource=GPU, slots=4))
XPU = realtime(
    accelerator="xpu",
    target=INTEL,
    image=OWN_IMAGE,
    pinned=False,
    hold=Hold(mode="exclusive", resource="gpu.intel.com/xe", slots=1),
)
ON_CPU = realtime(
    accelerator="cpu",
    target=CPU,
    profile="qwen3-omni-cpu",
    image=OWN_IMAGE,
    pinned=False,
    hold=Hold(mode="cpu", slots=1),
    cpu=CpuPolicy(requestMillicores=2000, limitMillicores=8000),
)
PAIR = realtime("two-gpus", gpu_count=2, thinker_offload_gib=12, memory_mi=24576, restart_nonce="again")
ALL = (realtime(), PAIR, SLICED, ROCM, DRA, XPU, ON_CPU)


def deployment(model: ResolvedRealtime) -> dict[str, Any]:
    return runtime_objects(model)[2]


def pod(model: ResolvedRealtime) -> dict[str, Any]:
    found: dict[str, Any] = deployment(model)["spec"]["template"]["spec"]
    return found


def container(model: ResolvedRealtime) -> dict[str, Any]:
    (found,) = pod(model)["containers"]
    only: dict[str, Any] = found
    return only


def env(model: ResolvedRealtime) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container(model)["env"]}


@pytest.mark.parametrize(
    ("file", "model"),
    [
        ("cuda", realtime()),
        ("cuda-two-gpus", PAIR),
        ("cuda-time-slicing", SLICED),
        ("rocm", ROCM),
        ("rocm-claim", DRA),
        ("xpu", XPU),
        ("cpu", ON_CPU),
    ],
)
def test_the_deployment_is_as_its_golden_file(file: str, model: ResolvedRealtime) -> None:
    golden.check(f"models/realtime-{file}", deployment(model))


def test_config_map_and_service_are_as_their_golden_files() -> None:
    config, service, _ = runtime_objects(realtime())
    golden.check("models/realtime-service", service)
    # The bootstrap has tests of its own, and would be here twice.
    golden.check(
        "models/realtime-config-map", {**config, "data": {"profile.json": config["data"]["profile.json"]}}
    )


@pytest.mark.req("MS-045", "MS-079", "MS-082")
def test_three_objects_of_one_name_are_made_the_config_first() -> None:
    made = runtime_objects(realtime())
    assert [each["kind"] for each in made] == ["ConfigMap", "Service", "Deployment"]
    assert {each["metadata"]["name"] for each in made} == {"demo-realtime"}
    assert set(made[0]["data"]) == {"profile.json", "bootstrap.py"}
    assert [each["apiVersion"] for each in made] == [k.api_version for k in (CONFIG_MAP, SERVICE, DEPLOYMENT)]


@pytest.mark.req("MS-050")
def test_e1_the_old_pod_is_gone_before_the_new_one_starts_and_a_download_has_its_time() -> None:
    for model in ALL:
        spec = deployment(model)["spec"]
        assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
        probe = container(model)["startupProbe"]
        assert spec["progressDeadlineSeconds"] > probe["periodSeconds"] * probe["failureThreshold"] == 10800
        assert pod(model)["automountServiceAccountToken"] is False


@pytest.mark.req("MS-057")
def test_the_service_leads_straight_to_the_one_container() -> None:
    for model in ALL:
        _, service, made = runtime_objects(model)
        template = made["spec"]["template"]
        assert service["spec"]["ports"] == [
            {"name": "http", "protocol": "TCP", "port": 8000, "targetPort": "http"}
        ]
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
        assert [each["name"] for each in template["spec"]["containers"]] == ["vllm-omni"]
        assert "initContainers" not in template["spec"]
        assert container(model)["ports"] == [{"name": "http", "protocol": "TCP", "containerPort": 8000}]


@pytest.mark.req("MS-062")
def test_only_cuda_has_nvidias_runtime_class_and_devices() -> None:
    for model in ALL:
        on_cuda = model.accelerator == "cuda"
        assert pod(model).get("runtimeClassName") == ("nvidia" if on_cuda else None)
        assert env(model).get("NVIDIA_VISIBLE_DEVICES") == (None if on_cuda else "void")
        mounts = [each["mountPath"] for each in container(model)["volumeMounts"]]
        assert mounts == ["/etc/magicstick-realtime", "/root/.cache", "/dev/shm"]  # noqa: S108 - a mount


@pytest.mark.req("MS-054", "MS-081")
def test_its_pods_are_found_by_whoever_reads_logs_and_states_of_models() -> None:
    for model in ALL:
        found = deployment(model)["spec"]["template"]["metadata"]["labels"]
        assert f"app={found['app']}" == SELECTOR
        assert found["model"] == model.name


@pytest.mark.req("MS-080")
def test_e4_the_model_is_the_one_of_the_url_and_is_served_under_the_activations_name() -> None:
    said = env(realtime("talk", url="hf://example/text-only"))
    assert (said["MODEL_ID"], said["SERVED_MODEL_NAME"]) == ("example/text-only", "talk")
    assert said["HF_HOME"] == "/root/.cache/huggingface"
    assert set(said) == {"MODEL_ID", "SERVED_MODEL_NAME", "HF_HOME", "MAGICSTICK_PINNED_OFFLOAD_PATCH"}


@pytest.mark.req("MS-061", "MS-086")
def test_e13_an_image_of_the_users_own_is_run_as_it_is_and_never_repaired() -> None:
    assert env(realtime())["MAGICSTICK_PINNED_OFFLOAD_PATCH"] == "true"
    for model in (XPU, ON_CPU):
        assert container(model)["image"] == OWN_IMAGE
        assert env(model)["MAGICSTICK_PINNED_OFFLOAD_PATCH"] == "false"


def test_e5_memory_is_requested_and_limited_alike() -> None:
    found = container(PAIR)["resources"]
    assert found["requests"]["memory"] == found["limits"]["memory"] == "24Gi"
    assert found["requests"][GPU] == found["limits"][GPU] == "2"


@pytest.mark.parametrize(
    ("policy", "request_", "limit"),
    [((1500, 2500), "1500m", "2500m"), ((1500, 0), "1500m", None), ((1000, 0), "1", None)],
)
def test_e3_the_cpu_policy_changes_resources_and_not_the_plan(
    policy: tuple[int, int], request_: str, limit: str | None
) -> None:
    model = realtime(cpu=CpuPolicy(requestMillicores=policy[0], limitMillicores=policy[1]))
    found = container(model)["resources"]
    assert (found["requests"]["cpu"], found["limits"].get("cpu")) == (request_, limit)
    assert files_of(model) == files_of(realtime())


@pytest.mark.req("MS-067")
def test_e11_a_time_sliced_gpu_is_one_slot_without_a_claim() -> None:
    found = container(SLICED)["resources"]
    assert found["requests"][GPU] == found["limits"][GPU] == "1"
    assert "claims" not in found
    assert "resourceClaims" not in pod(SLICED)


@pytest.mark.req("MS-065")
def test_e18_a_shared_amd_gpu_is_bound_by_its_claim() -> None:
    assert pod(DRA)["resourceClaims"] == [{"name": "gpu", "resourceClaimName": CLAIM}]
    found = container(DRA)["resources"]
    assert found["claims"] == [{"name": "gpu"}]
    assert found["limits"] == {"memory": "16Gi"}
    assert pod(DRA)["tolerations"] == [{"key": "amd.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


@pytest.mark.req("MS-066")
def test_e18_the_admission_adapter_for_kubeais_pods_does_not_match_and_finds_nothing_to_do() -> None:
    template = deployment(DRA)["spec"]["template"]
    assert template["metadata"]["labels"][labels.MANAGED_BY] != "kubeai"
    found = container(DRA)["resources"]
    asked = {*found["requests"], *found["limits"]}
    assert asked == {"cpu", "memory"}


def test_e15_an_exclusive_amd_gpu_is_asked_for_by_its_resource() -> None:
    found = container(ROCM)["resources"]
    assert (found["requests"]["amd.com/gpu"], found["limits"]["amd.com/gpu"]) == ("1", "1")
    assert GPU not in found["requests"]
    assert not any("/dev/dri" in str(each) for each in pod(ROCM)["volumes"])


def test_e20_on_cpu_nothing_but_cpu_and_memory_is_asked_for() -> None:
    assert set(container(ON_CPU)["resources"]["requests"]) == {"cpu", "memory"}
    assert "tolerations" not in pod(ON_CPU)


def test_the_sharing_mode_is_a_label_and_never_selects() -> None:
    for model, mode in ((SLICED, "time-slicing"), (DRA, "dra-shared"), (ROCM, None), (ON_CPU, None)):
        config, service, made = runtime_objects(model)
        for each in (config, service, made, made["spec"]["template"]):
            assert each["metadata"]["labels"].get(labels.GPU_SHARING_MODE) == mode
        selector = {"app", "model", labels.RUNTIME_BACKEND}
        assert set(made["spec"]["selector"]["matchLabels"]) == set(service["spec"]["selector"]) == selector


@pytest.mark.req("MS-084")
def test_e21_what_rolls_the_pod_stands_on_its_template() -> None:
    for changes in ({"restart_nonce": "b"}, {"context_window": 4096}, {"thinker_offload_gib": 1}):
        before, after = (deployment(each)["spec"]["template"] for each in (realtime(), realtime(**changes)))
        assert before["metadata"]["annotations"] != after["metadata"]["annotations"]
    noted = deployment(realtime(restart_nonce="a"))
    assert (
        noted["metadata"]["annotations"]
        == noted["spec"]["template"]["metadata"]["annotations"]
        == {
            labels.RUNTIME_ENDPOINT: endpoint_of(realtime()),
            labels.REALTIME_SOURCE: "f" * 40,
            labels.REALTIME_CONFIG_HASH: files_hash(files_of(realtime())),
            labels.RESTART_NONCE: "a",
        }
    )
    assert deployment(realtime())["metadata"]["annotations"][labels.RESTART_NONCE] == ""


NAMES = st.from_regex(
    r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?){0,3}", fullmatch=True
)


@given(NAMES)
def test_f12_every_derived_name_is_legal_before_anything_is_written(name: str) -> None:
    made = realtime_name(name)
    assert is_dns_label(made)
    assert made[0].isalpha()
    assert made.endswith("-realtime")
    for body in runtime_objects(realtime(name)):
        metadata = body["metadata"]
        assert metadata["name"] == made
        assert all(is_label_value(value) for value in metadata["labels"].values())
        assert serves(resource(body), name)


@pytest.mark.parametrize(("name", "made"), [("demo", "demo-realtime"), ("a" * 54, f"{'a' * 54}-realtime")])
def test_a_name_that_fits_is_kept(name: str, made: str) -> None:
    assert realtime_name(name) == made
    assert len(made) <= 63


@pytest.mark.parametrize("pair", [("3b", "m-3b"), ("qwen2.5", "qwen2-5"), ("a" * 60 + "b", "a" * 60 + "c")])
def test_f12_distinct_activations_have_distinct_objects(pair: tuple[str, str]) -> None:
    assert len(set(map(realtime_name, pair))) == 2
