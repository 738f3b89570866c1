"""Which Pods KubeAI makes of a Model, as values (spec: models §4.3, §8.1)."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hack import yamls
from hack.devcluster.actors.following import Object
from hack.devcluster.actors.kubeai_chart import Config, configuration, installed
from hack.devcluster.actors.kubeai_pods import (
    HASH_LABEL,
    UnknownProfileError,
    bounded,
    is_ready,
    multiplied,
    patched,
    pod_for,
    pod_plan,
)
from tests.support.manifests import MANIFESTS

STAMP = "2026-01-01T00:00:{:02d}Z"


def shipped_values() -> Object:
    """Of the release that we ship."""
    documents = yamls.load_all((MANIFESTS / "modules" / "kubeai" / "release.yaml").read_text())
    values: Object = next(each["spec"]["values"] for each in documents if each["kind"] == "HelmRelease")
    return values


SHIPPED = Config.of(configuration(shipped_values()))


def model(profile: str = "magicstick-vllm-cpu-memory:256", **spec: Any) -> dict[str, Any]:
    meta = {"name": "demo", "namespace": "ai", "uid": "1"}
    common = {"engine": "VLLM", "url": "hf://a/b", "features": ["TextGeneration"], "resourceProfile": profile}
    return {"metadata": meta, "spec": {**common, **spec}}


@pytest.mark.parametrize(
    ("quantity", "count", "expected"),
    [
        ("16Mi", 256, "4096Mi"),
        ("24Mi", 385, "9240Mi"),
        ("500m", 2, "1000m"),
        ("1", 3, "3"),
        ("0.5Gi", 3, "1.5Gi"),
        ("0.5", 2, "1"),
        (2, 2, "4"),
    ],
)
def test_every_quantity_is_multiplied_by_the_count(quantity: object, count: int, expected: str) -> None:
    assert multiplied({"memory": quantity}, count) == {"memory": expected}


def test_a_gpu_is_multiplied_like_everything_else() -> None:
    container = pod_for(model("magicstick-nvidia-gpu:2"), SHIPPED)["spec"]["containers"][0]
    assert container["resources"] == {
        "requests": {"cpu": "2", "memory": "12Gi", "nvidia.com/gpu": "2"},
        "limits": {"nvidia.com/gpu": "2"},
    }
    assert container["image"] == "vllm/vllm-openai:v0.23.0"


@pytest.mark.parametrize(
    ("profile", "complaint"),
    [
        ("unknown:1", "resource profile not found: 'unknown'"),
        ("magicstick-nvidia-gpu", "should match <name>:<multiple>"),
        ("magicstick-nvidia-gpu:two", "should match <name>:<multiple>"),
        ("", "should match <name>:<multiple>"),
    ],
)
def test_a_profile_that_it_does_not_know_is_refused(profile: str, complaint: str) -> None:
    with pytest.raises(UnknownProfileError, match=complaint):
        pod_for(model(profile), SHIPPED)


def test_a_quantity_that_cannot_be_read_is_refused() -> None:
    config = Config(profiles={"odd": {"requests": {"memory": "lots"}}})
    with pytest.raises(UnknownProfileError, match="quantities must match"):
        pod_for(model("odd:1"), config)


def test_the_patches_of_our_release_fit_and_one_that_does_not_is_ignored() -> None:
    volumes = [each["name"] for each in pod_for(model(), SHIPPED)["spec"]["volumes"]]
    assert volumes == ["dshm", "model-cache", "magicstick-vllm-wrapper", "ollama-model-cache"]
    spec = {"volumes": [{"name": "dshm"}]}
    fits = {"op": "add", "path": "/spec/priority", "value": 1}
    assert patched(spec, [fits]) == {**spec, "priority": 1}
    for misfit in (
        {"op": "replace", "path": "/spec/volumes/3", "value": {}},
        {"op": "remove", "path": "/spec/nothing"},
        {"op": "add", "path": "/spec/a/b", "value": 1},
        {"op": "move", "path": "/spec/volumes", "from": "/spec"},
    ):
        assert patched(spec, [fits, misfit]) == spec, "all or nothing"
    assert patched(spec, [{"op": "remove", "path": "/spec/volumes/0"}]) == {"volumes": []}


def test_a_configuration_changes_the_template_of_the_deployment_and_nothing_else_does() -> None:
    def checksum(values: Object) -> str:
        deployment = next(each for each in installed(values, "ai") if each["kind"] == "Deployment")
        template: dict[str, Any] = deployment["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    values = shipped_values()
    more = {**values, "resourceProfiles": {**values["resourceProfiles"], "new": {}}}
    assert checksum(values) == checksum({**values, "ingress": {"enabled": True}})
    assert checksum(values) != checksum(more)


@pytest.mark.parametrize("text", ["- a", "resourceProfiles: 3", "a: [", "modelServers: {VLLM: 1}"])
def test_what_is_no_configuration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no configuration of KubeAI"):
        Config.of(text)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, 0),
        ({"minReplicas": 1}, 1),
        ({"minReplicas": 1, "replicas": 0}, 1),
        ({"replicas": 5, "maxReplicas": 3}, 3),
        ({"replicas": 2, "maxReplicas": 3}, 2),
        ({"replicas": 5}, 5),
        ({"autoscalingDisabled": True, "minReplicas": 1}, None),
        ({"autoscalingDisabled": True, "minReplicas": 1, "replicas": 0}, 0),
    ],
)
def test_replicas_are_kept_within_their_bounds(spec: dict[str, Any], expected: int | None) -> None:
    assert bounded(model(**spec)) == expected


def pod(number: int, digest: str, *, ready: bool) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"pod-{number}",
            "labels": {HASH_LABEL: digest},
            "creationTimestamp": STAMP.format(number % 60),
        },
        "spec": {"nodeName": "node-0"},
        "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


def test_of_ready_pods_one_at_a_time_is_replaced() -> None:
    wanted = pod_for(model(), SHIPPED)
    plan = pod_plan(model(replicas=2), wanted, [pod(1, "old", ready=True), pod(2, "old", ready=True)], 0)
    assert ([each["metadata"]["name"] for each in plan.delete], plan.create) == (["pod-2"], 1)
    digest = wanted["metadata"]["labels"][HASH_LABEL]
    plan = pod_plan(model(replicas=2), wanted, [pod(1, "old", ready=True), pod(3, digest, ready=False)], 0)
    assert plan == type(plan)(), "it waits until all are ready"


def test_pods_that_are_not_ready_are_replaced_at_once() -> None:
    wanted = pod_for(model(), SHIPPED)
    plan = pod_plan(model(replicas=2), wanted, [pod(1, "old", ready=False), pod(2, "old", ready=False)], 0)
    assert (len(plan.delete), plan.create) == (2, 2)


def test_with_a_surge_the_new_one_comes_first() -> None:
    wanted = pod_for(model(), SHIPPED)
    plan = pod_plan(model(replicas=1), wanted, [pod(1, "old", ready=True)], 1)
    assert (plan.delete, plan.create) == ((), 1)


@given(
    replicas=st.integers(0, 4),
    surge=st.integers(0, 2),
    stale=st.lists(st.booleans(), max_size=4),
    fresh=st.lists(st.booleans(), max_size=4),
)
def test_from_any_state_it_ends_with_so_many_pods_all_of_them_new(
    replicas: int, surge: int, stale: list[bool], fresh: list[bool]
) -> None:
    wanted, numbers = pod_for(model(), SHIPPED), itertools.count()
    digest = wanted["metadata"]["labels"][HASH_LABEL]
    pods = [pod(next(numbers), "old", ready=ready) for ready in stale]
    pods += [pod(next(numbers), digest, ready=ready) for ready in fresh]
    most = max(len(pods), replicas + surge)
    for _ in range(40):
        plan = pod_plan(model(replicas=replicas), wanted, pods, surge)
        gone = [each["metadata"]["name"] for each in plan.delete]
        assert len(gone) == len(set(gone))
        kept = [each for each in pods if each["metadata"]["name"] not in gone]
        made = [pod(next(numbers), digest, ready=False) for _ in range(plan.create)]
        pods = kept + made
        assert len(pods) <= most
        if not gone and not made:
            if all(map(is_ready, pods)):
                break
            pods = [pod(next(numbers), each["metadata"]["labels"][HASH_LABEL], ready=True) for each in pods]
    assert [each["metadata"]["labels"][HASH_LABEL] for each in pods] == [digest] * replicas
