"""What serves local models: KubeAI's release and stores, and FreeToken's descriptor.

Spec: platform §2.11, §2.12; models §4.3; gpu §8; companions §6.1.
"""

import hashlib
import json
import re
from typing import Any, Final

import pytest

from magicstick.api.quantity import to_mi
from tests.support.manifests import MANIFESTS, Object, objects, one
from tests.support.shipped import GPUS, TARGETS

KUBEAI: Final = MANIFESTS / "modules/kubeai"
RELEASE: Final[Object] = one(KUBEAI, "HelmRelease", "kubeai")["spec"]
VALUES: Final[Object] = RELEASE["values"]
PROFILES: Final[dict[str, Object]] = VALUES["resourceProfiles"]
LABEL: Final = "appliance.magicstick.dev"

# profile, image, requests, limits: CPU, memory, resource and its count; "-" where there is none
PROFILE_ROWS: Final = """
magicstick-nvidia-gpu          magicstick-vllm-nvidia   1    6Gi  nvidia.com/gpu     -  -    nvidia.com/gpu
magicstick-ollama-nvidia-gpu   magicstick-ollama-nvidia 500m 4Gi  nvidia.com/gpu     -  -    nvidia.com/gpu
magicstick-amd-gpu             magicstick-vllm-amd      1    8Gi  amd.com/gpu        -  -    amd.com/gpu
magicstick-ollama-amd-gpu      magicstick-ollama-amd    500m 4Gi  amd.com/gpu        -  -    amd.com/gpu
magicstick-intel-i915-gpu      magicstick-vllm-intel    1    8Gi  gpu.intel.com/i915 -  -    gpu.intel.com/i915
magicstick-intel-xe-gpu        magicstick-vllm-intel    1    8Gi  gpu.intel.com/xe   -  -    gpu.intel.com/xe
magicstick-vllm-cpu-memory     magicstick-vllm-cpu      -    16Mi -                  -  24Mi -
magicstick-ollama-cpu-memory   magicstick-ollama-cpu    -    16Mi -                  -  48Mi -
magicstick-vllm-cpu            magicstick-vllm-cpu      2    4Gi  -                  8  6Gi  -
magicstick-ollama-cpu          magicstick-ollama-cpu    2    2Gi  -                  8  6Gi  -
"""
ROWS: Final = [row.split() for row in PROFILE_ROWS.strip().splitlines()]

LINUX: Final = {"kubernetes.io/os": "linux"}
INTEL: Final = LINUX | {"intel.feature.node.kubernetes.io/gpu": "true"}
SELECTORS: Final[dict[str, dict[str, str]]] = {
    "magicstick-nvidia-gpu": {},
    "magicstick-ollama-nvidia-gpu": {},
    "magicstick-amd-gpu": LINUX
    | {
        f"{LABEL}/{name}": "true"
        for name in ("amd-gpu-eligible", "amd-vllm-eligible", "amd-vllm-runtime-ready")
    },
    "magicstick-ollama-amd-gpu": LINUX
    | {
        f"{LABEL}/{name}": "true"
        for name in ("amd-gpu-eligible", "amd-ollama-eligible", "amd-ollama-runtime-ready")
    },
    "magicstick-intel-i915-gpu": INTEL,
    "magicstick-intel-xe-gpu": INTEL,
}
"""Of the others: Linux alone."""


def quantities(cpu: str, memory: str, resource: str) -> dict[str, str]:
    named = {"cpu": cpu, "memory": memory} | ({resource: "1"} if resource != "-" else {})
    return {name: quantity for name, quantity in named.items() if quantity != "-"}


def test_the_release_has_exactly_the_specified_profiles() -> None:
    assert list(PROFILES) == [row[0] for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_profile_is_as_specified(row: list[str]) -> None:
    name, image, *rest = row
    profile = PROFILES[name]
    vendor = {"nvidia-gpu": "nvidia.com/gpu", "amd-gpu": "amd.com/gpu"}.get("-".join(name.split("-")[-2:]))

    assert profile["imageName"] == image
    assert profile["requests"] == quantities(*rest[:3])
    assert profile["limits"] == quantities(*rest[3:])
    assert profile.get("nodeSelector", {}) == SELECTORS.get(name, LINUX)
    assert profile.get("tolerations", []) == (
        [{"key": vendor, "operator": "Equal", "value": "present", "effect": "NoSchedule"}] if vendor else []
    )
    assert profile.keys() <= {"imageName", "requests", "limits", "nodeSelector", "tolerations"}


@pytest.mark.parametrize("name", PROFILES)
def test_no_profile_requests_more_than_it_limits(name: str) -> None:
    requests, limits = PROFILES[name]["requests"], PROFILES[name]["limits"]

    for resource in requests.keys() & limits.keys() - {"cpu", "memory"}:
        assert requests[resource] == limits[resource]
    if "memory" in limits:
        assert to_mi(requests["memory"]) <= to_mi(limits["memory"])


def test_every_profile_that_the_compute_targets_name_is_there() -> None:
    named = {
        profile.partition(":")[0]
        for target in TARGETS.targets.values()
        for engine, profiles in target.engine_profiles.items()
        if engine != "FreeToken"  # runs without KubeAI
        for profile in [profiles.default_resource_profile, *profiles.resource_profiles_by_resource.values()]
    }

    assert named == PROFILES.keys() - {"magicstick-vllm-cpu", "magicstick-ollama-cpu"}


def test_every_image_that_a_profile_names_is_there_or_comes_from_the_runtime_images() -> None:
    images = {name for server in VALUES["modelServers"].values() for name in server["images"]}
    late = {
        reference["targetPath"].rpartition(".")[2]
        for reference in RELEASE["valuesFrom"]
        if ".images." in reference.get("targetPath", "")
    }

    assert {profile["imageName"] for profile in PROFILES.values()} == images | late
    assert not images & late


def test_the_images_are_those_of_the_specification_and_of_the_diagnostics() -> None:
    assert VALUES["modelServers"] == {
        "VLLM": {
            "images": {
                "magicstick-vllm-nvidia": "vllm/vllm-openai:v0.23.0",
                "magicstick-vllm-cpu": "vllm/vllm-openai-cpu:v0.23.0",
                "magicstick-vllm-intel": "vllm/vllm-openai-xpu:v0.26.0",
            }
        },
        "OLlama": {
            "images": {
                "magicstick-ollama-nvidia": "ollama/ollama:0.33.2",
                "magicstick-ollama-cpu": "ollama/ollama:0.33.2",
            }
        },
    }
    engines = GPUS.diagnostics["nvidia"].engines
    assert engines["VLLM"].image == VALUES["modelServers"]["VLLM"]["images"]["magicstick-vllm-nvidia"]
    assert engines["OLlama"].image == VALUES["modelServers"]["OLlama"]["images"]["magicstick-ollama-nvidia"]


def test_the_rest_of_the_values_is_as_specified() -> None:
    sections = {"modelServers", "modelServerPods", "resourceProfiles"}

    assert {key: value for key, value in VALUES.items() if key not in sections} == {
        "crds": {"enabled": True},
        "open-webui": {"enabled": False},
        "service": {"type": "ClusterIP"},
        "ingress": {"enabled": False},
        "modelRollouts": {"surge": 0},
    }


@pytest.mark.req("MS-286")
def test_what_is_written_at_run_time_comes_in_this_order_and_may_be_missing() -> None:
    assert [
        (each["name"], each["valuesKey"], each.get("targetPath"), each["optional"])
        for each in RELEASE["valuesFrom"]
    ] == [
        ("magicstick-offloading-profiles", "values.json", None, True),
        (
            "magicstick-gpu-runtime-images",
            "runtime-config-checksum",
            "podAnnotations.magicstick-gpu-runtime-images",
            True,
        ),
        ("magicstick-gpu-runtime-images", "vllm-amd", "modelServers.VLLM.images.magicstick-vllm-amd", True),
        ("magicstick-gpu-runtime-images", "ollama-amd", "modelServers.OLlama.images.magicstick-ollama-amd", True),
    ]  # fmt: skip
    assert {each["kind"] for each in RELEASE["valuesFrom"]} == {"ConfigMap"}


def pod_after(patches: list[Object], pod: dict[str, Any]) -> dict[str, Any]:
    """A Pod as KubeAI's patches leave it; the few operations that are used."""
    for patch in patches:
        *steps, last = patch["path"].strip("/").split("/")
        parent: Any = pod
        for step in steps:
            parent = parent[int(step)] if isinstance(parent, list) else parent[step]
        if patch["op"] == "add":
            assert last == "-"
            parent.append(patch["value"])
        else:
            assert patch["op"] == "replace"
            parent[int(last)] = patch["value"]
    return pod


def test_a_models_pod_gets_caches_wrapper_and_shared_memory_and_keeps_its_command() -> None:
    server = {"name": "server", "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}]}  # noqa: S108 - as KubeAI has it
    pod = pod_after(
        VALUES["modelServerPods"]["jsonPatches"],
        {"spec": {"volumes": [{"name": "dshm", "emptyDir": {}}], "containers": [server]}},
    )

    assert pod["spec"]["volumes"] == [
        {"name": "dshm", "emptyDir": {"medium": "Memory"}},
        {"name": "model-cache", "hostPath": {"path": "/root/.cache", "type": "DirectoryOrCreate"}},
        {"name": "magicstick-vllm-wrapper", "configMap": {"name": "magicstick-vllm-wrapper"}},
        {"name": "ollama-model-cache", "hostPath": {"path": "/root/.ollama", "type": "DirectoryOrCreate"}},
    ]
    (container,) = pod["spec"]["containers"]
    assert container == {
        "name": "server",
        "volumeMounts": [
            {"name": "dshm", "mountPath": "/dev/shm"},  # noqa: S108 - as KubeAI has it
            {"name": "model-cache", "mountPath": "/root/.cache"},
            {
                "name": "magicstick-vllm-wrapper",
                "mountPath": "/opt/magicstick/vllm-wrapper",
                "readOnly": True,
            },
            {"name": "ollama-model-cache", "mountPath": "/root/.ollama"},
        ],
    }


STORE: Final = one(KUBEAI, "ConfigMap", "magicstick-offloading-profiles", "flux-system")
IMAGES: Final = one(KUBEAI, "ConfigMap", "magicstick-gpu-runtime-images", "flux-system")


@pytest.mark.parametrize("store", [STORE, IMAGES], ids=lambda store: store["metadata"]["name"])
def test_a_change_of_a_store_reaches_the_release_at_once(store: Object) -> None:
    assert store["metadata"]["labels"] == {"reconcile.fluxcd.io/watch": "Enabled"}


def test_the_profile_store_begins_empty() -> None:
    assert {key: json.loads(text) for key, text in STORE["data"].items()} == {
        "values.json": {"resourceProfiles": {}}
    }


@pytest.mark.req("MS-287")
def test_before_any_validation_amd_models_run_the_catalogs_images() -> None:
    engines = GPUS.profiles["strix-halo"].engines
    vllm, ollama = engines["VLLM"].image, engines["OLlama"].image
    effective = json.dumps({"ollama-amd": ollama, "vllm-amd": vllm}, sort_keys=True)

    assert IMAGES["data"] == {
        "vllm-amd": vllm,
        "vllm-amd-source": vllm,
        "ollama-amd": ollama,
        "ollama-amd-source": ollama,
        "runtime-config-checksum": hashlib.sha256(effective.encode()).hexdigest(),
    }
    assert IMAGES["data"]["runtime-config-checksum"] == (
        "8fbf71866448205a07db32ee1dc212442ad60db14829fb2576f2d92736f1a999"
    )


FREETOKEN: Final = one(
    MANIFESTS / "modules/freetoken", "ConfigMap", "magicstick-freetoken-runtime", "ai-system"
)


def test_freetokens_descriptor_is_as_specified() -> None:
    digest = "sha256:190e0392b9ca24680db742765047063a46cda6a1accb20d9c2b2d72b1ee5042d"

    assert FREETOKEN["data"] == {
        "image": f"ghcr.io/qualityminds/magicstick-freetoken@{digest}",
        "imageDigest": digest,
        "imageSource": "ghcr.io/qualityminds/magicstick-freetoken:v0.1.3",
        "imageRevision": "1b076031631557236d1ea1074bd4584da303c378",
        "promotionState": "verified",
        "version": "0.1.3",
        "port": "1919",
        "healthPath": "/health",
        "upstream": "FreeToken v0.1.3",
    }
    assert FREETOKEN["metadata"]["labels"] == {
        "app.kubernetes.io/name": "freetoken",
        "app.kubernetes.io/component": "runtime-descriptor",
        "reconcile.fluxcd.io/watch": "Enabled",
    }


def test_freetokens_descriptor_is_all_that_the_module_applies() -> None:
    assert [obj for _, obj in objects(MANIFESTS / "modules/freetoken")] == [FREETOKEN]
    assert re.fullmatch(r"[0-9a-f]{40}", FREETOKEN["data"]["imageRevision"])
