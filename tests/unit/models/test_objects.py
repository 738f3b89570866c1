"""What is made of a resolved model: the KubeAI Model, and FreeToken's Deployment and Service."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.api import labels
from magicstick.api.model_activation import FreeTokenAdvanced
from magicstick.api.names import is_dns_label, is_label_value
from magicstick.catalogs.compute_targets import CpuPolicy
from magicstick.models.freetoken_objects import deployment, endpoint, service
from magicstick.models.freetoken_runtime import FreeTokenRuntime
from magicstick.models.objects import kubeai_model, serves
from magicstick.models.places import freetoken_name
from magicstick.models.resolved import ResolvedFreeToken
from tests.support import golden
from tests.support.model_objects import DIGEST, NVIDIA, PROFILE, freetoken, kubeai, ollama
from tests.support.objects import resource

RUNTIME = FreeTokenRuntime(f"registry.example.com/freetoken@{DIGEST}", 1919, "0.1.3")
FULL = freetoken(
    max_num_seqs=4,
    max_output_tokens=1024,
    restart_nonce="again",
    advanced=FreeTokenAdvanced.model_validate(
        {
            "cacheType": "radix",
            "kvReserveTokens": 1,
            "moeCacheSize": 0,
            "maxPrefillLength": 2,
            "cudaGraphMaxBatchSize": 3,
            "cpuThreads": 4,
            "expertLoad": "serial",
            "dtype": "bfloat16",
        }
    ),
)
LONGEST = "a" * 40


@pytest.mark.parametrize(
    ("file", "model", "profile"),
    [
        ("vllm-cpu", kubeai(), f"{PROFILE}:1"),
        (
            "vllm-nvidia",
            kubeai(
                "gpu",
                target=NVIDIA,
                args=(
                    "--tensor-parallel-size=1",
                    "--max-num-seqs=2",
                    "--kv-cache-dtype=fp8",
                    "--calculate-kv-scales",
                ),
                env={
                    "MAGICSTICK_COMPUTE_TARGET": "nvidia-gpu",
                    "MAGICSTICK_ENGINE": "VLLM",
                    "MAGICSTICK_VLLM_VRAM_LIMIT": "12Gi",
                    "MAGICSTICK_VLLM_WRAPPER_ENABLED": "true",
                    "PYTHONPATH": "/opt/magicstick/vllm-wrapper",
                },
                annotations={labels.CONTEXT_WINDOW: "20000", labels.MAX_OUTPUT_TOKENS: "1024"},
            ),
            f"{PROFILE}:1",
        ),
        ("ollama-cpu", ollama("small"), f"{PROFILE}:1"),
        ("longest-name", kubeai(LONGEST, annotations={}), f"{PROFILE}:1"),
    ],
)
def test_a_kubeai_model_is_as_its_golden_file(file: str, model: Any, profile: str) -> None:
    golden.check(f"models/{file}", kubeai_model(model, profile))


def test_freetokens_objects_are_as_their_golden_files() -> None:
    golden.check("models/freetoken-deployment", deployment(FULL, RUNTIME))
    golden.check("models/freetoken-service", service(FULL, RUNTIME))
    least = freetoken(cpu=CpuPolicy(requestMillicores=500), context_window=None)
    golden.check("models/freetoken-deployment-least", deployment(least, RUNTIME))


def test_a_model_carries_no_owner_no_replicas_and_no_annotations_that_nobody_gave() -> None:
    body = kubeai_model(kubeai(annotations={}), "x:1")
    assert "ownerReferences" not in body["metadata"]
    assert "annotations" not in body["metadata"]
    assert set(body["spec"]) == {
        "features",
        "url",
        "engine",
        "resourceProfile",
        "minReplicas",
        "maxReplicas",
        "env",
        "args",
    }


@pytest.mark.req("MS-372")
def test_the_requested_vision_policy_is_an_annotation_of_the_model() -> None:
    body = kubeai_model(kubeai(annotations={labels.VISION_ATTENTION: "triton"}), "x:1")
    assert body["metadata"]["annotations"] == {labels.VISION_ATTENTION: "triton"}


@pytest.mark.req("MS-010")
def test_freetokens_container_carries_the_cpu_policy_itself() -> None:
    for policy, limit in (
        (CpuPolicy(requestMillicores=4000, limitMillicores=8000), "8"),
        (CpuPolicy(requestMillicores=4000), None),
    ):
        resources = container(freetoken(cpu=policy))["resources"]
        assert resources["requests"]["cpu"] == "4"
        assert resources["limits"].get("cpu") == limit
        assert resources["requests"]["memory"] == resources["limits"]["memory"] == "64Gi"
        assert resources["requests"]["nvidia.com/gpu"] == resources["limits"]["nvidia.com/gpu"] == "2"


def test_a_new_nonce_rolls_the_pod_and_nothing_sets_which_devices_are_seen() -> None:
    made = [deployment(freetoken(restart_nonce=nonce), RUNTIME)["spec"]["template"] for nonce in ("a", "b")]
    assert made[0] != made[1]
    names = [each["name"] for each in container(FULL)["env"]]
    assert names == sorted(names)
    assert not {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"} & set(names)


def container(model: ResolvedFreeToken) -> dict[str, Any]:
    found: dict[str, Any] = deployment(model, RUNTIME)["spec"]["template"]["spec"]["containers"][0]
    return found


NAMES = st.from_regex(
    r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?){0,3}", fullmatch=True
)


@given(NAMES)
def test_f12_every_derived_name_is_legal_before_anything_is_written(name: str) -> None:
    model = freetoken(name)
    made = freetoken_name(name)
    assert is_dns_label(made)
    assert made[0].isalpha()
    assert made.endswith("-freetoken")
    for body in (deployment(model, RUNTIME), service(model, RUNTIME)):
        assert all(is_label_value(value) for value in body["metadata"]["labels"].values())
        assert (
            body["metadata"]["annotations"].get(labels.FULL_NAME, body["metadata"]["labels"]["model"]) == name
        )
    assert endpoint(model, RUNTIME) == f"http://{made}.ai.svc.cluster.local:1919/v1"


@pytest.mark.parametrize("pair", [("3b", "m-3b"), ("qwen2.5", "qwen2-5"), ("a" * 60 + "b", "a" * 60 + "c")])
def test_f12_distinct_activations_have_distinct_objects(pair: tuple[str, str]) -> None:
    assert len(set(map(freetoken_name, pair))) == 2


def test_the_name_that_a_runtime_serves_is_the_activations_own() -> None:
    env = {each["name"]: each["value"] for each in container(freetoken("qwen2.5-omni"))["env"]}
    assert env["MAGICSTICK_FREETOKEN_SERVED_MODEL_NAME"] == "qwen2.5-omni"
    assert env["MAGICSTICK_FREETOKEN_MODEL"] == "example/moe"


@pytest.mark.parametrize(
    "body", [kubeai_model(kubeai(), "x:1"), deployment(FULL, RUNTIME), service(FULL, RUNTIME)]
)
def test_what_we_make_is_known_again(body: dict[str, Any]) -> None:
    made = resource(body)
    assert serves(made, "demo")
    assert not serves(made, "other")
