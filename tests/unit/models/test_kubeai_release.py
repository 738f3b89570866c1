"""What KubeAI was installed with, and what it runs with (spec: models §8.2)."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from hack import yamls
from magicstick.kube.objects import Resource
from magicstick.models.kubeai_release import KubeAi, Running, running, stored_profiles
from tests.support.objects import resource
from tests.support.resolution import release_object, store_object

PROFILE = {"requests": {"cpu": "1"}}
READY = {
    "observedGeneration": 1,
    "conditions": [
        {"type": "Ready", "status": "True", "observedGeneration": 1, "reason": "UpgradeSucceeded"}
    ],
}
ROLLED_OUT = {
    "observedGeneration": 3,
    "replicas": 1,
    "updatedReplicas": 1,
    "readyReplicas": 1,
    "availableReplicas": 1,
}


def release(**status: Any) -> Resource:
    body = release_object()
    return resource(
        {
            "metadata": {"namespace": "flux-system", "name": "kubeai", "generation": 1},
            "spec": dict(body.spec),
            "status": {**READY, **status},
        }
    )


def suspended() -> Resource:
    return msgspec.structs.replace(release(), spec={**release().spec, "suspend": True})


def deployment(config: str = "kubeai-config", replicas: int = 1, **status: Any) -> Resource:
    volumes = [{"name": "other"}, {"name": "config", "configMap": {"name": config}}]
    return resource(
        {
            "metadata": {"namespace": "ai", "name": "kubeai", "generation": 3},
            "spec": {"replicas": replicas, "template": {"spec": {"volumes": volumes}}},
            "status": {**ROLLED_OUT, **status},
        }
    )


def config(text: str | None = None) -> Resource:
    held = yamls.dump({"resourceProfiles": {"p": PROFILE}}) if text is None else text
    metadata = {"namespace": "ai", "name": "kubeai-config"}
    return resource({"metadata": metadata, "data": {"system.yaml": held}})


def test_the_shipped_release_reads_the_store_and_has_every_base_profile() -> None:
    kubeai = KubeAi.of(release_object(), store_object())
    assert kubeai.reads_store
    assert kubeai.store == {}
    assert kubeai.installed is not None
    assert {"magicstick-nvidia-gpu", "magicstick-vllm-cpu-memory"} <= kubeai.installed.keys()


@pytest.mark.parametrize(
    "values_from",
    [
        [],
        [{"kind": "Secret", "name": "magicstick-offloading-profiles", "valuesKey": "values.json"}],
        [{"kind": "ConfigMap", "name": "another", "valuesKey": "values.json"}],
        [{"kind": "ConfigMap", "name": "magicstick-offloading-profiles"}],
        "text",
        [3],
    ],
)
def test_a_release_reads_the_store_only_by_kind_name_and_key(values_from: object) -> None:
    assert not KubeAi.of(release_object(valuesFrom=values_from), None).reads_store


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"resourceProfiles": []}', "{}", "[" * 100_000, '"x"'], ids=range(7)
)
def test_a_store_that_holds_something_else_holds_no_profiles(text: str) -> None:
    assert stored_profiles(store_object(text=text)) is None


def test_a_store_keeps_what_is_a_profile() -> None:
    assert stored_profiles(store_object(text='{"resourceProfiles": {"a": {"x": 1}, "b": 3}}')) == {
        "a": {"x": 1}
    }
    assert stored_profiles(None) is None


def test_kubeai_runs_with_its_configuration_once_flux_and_the_rollout_are_done() -> None:
    assert running(release(), deployment(), config()) == Running({"p": PROFILE})


PROGRESSING = {
    "conditions": [{"type": "Ready", "status": "Unknown", "reason": "Progressing", "message": "upgrade"}]
}
FAILED = {
    "conditions": [{"type": "Ready", "status": "False", "reason": "UpgradeFailed", "message": "no space"}]
}


@pytest.mark.req("MS-155")
@pytest.mark.parametrize(
    ("objects", "problem"),
    [
        ((None, deployment(), config()), "KubeAI is not installed."),
        ((release(), None, config()), "KubeAI is not installed."),
        ((release(**PROGRESSING), deployment(), config()), "is not finished: upgrade"),
        ((suspended(), deployment(), config()), "HelmRelease flux-system/kubeai is suspended: resume it."),
        ((release(observedGeneration=0), deployment(), config()), "is not finished"),
        ((release(**FAILED), deployment(), config()), "has failed: no space"),
        ((release(), deployment(observedGeneration=2), config()), "being restarted"),
        ((release(), deployment(observedGeneration=None), config()), "being restarted"),
        ((release(), deployment(updatedReplicas=0), config()), "being restarted"),
        ((release(), deployment(replicas=2), config()), "being restarted"),
        ((release(), deployment(availableReplicas=None), config()), "being restarted"),
        ((release(), deployment(replicas=0), config()), "being restarted"),
        ((release(), deployment("another"), config()), "does not read its configuration"),
        ((release(), deployment(), None), "does not exist, or holds no configuration"),
        ((release(), deployment(), config("- a")), "does not exist, or holds no configuration"),
        ((release(), deployment(), config("a: [")), "does not exist, or holds no configuration"),
        ((release(), deployment(), config("a: 2024-99-99")), "does not exist, or holds no configuration"),
        ((release(), deployment(), config("a: !!int x")), "does not exist, or holds no configuration"),
        ((release(), deployment(), config("a: !!bool x")), "does not exist, or holds no configuration"),
    ],
)
def test_until_then_there_is_a_reason(
    objects: tuple[Resource | None, Resource | None, Resource | None], problem: str
) -> None:
    assert problem in running(*objects).problem


@pytest.mark.parametrize(
    "spec", [{}, {"values": 3, "valuesFrom": {"a": 1}}, {"values": {"resourceProfiles": [1]}}]
)
def test_a_release_of_any_form_is_survived(spec: Mapping[str, Any]) -> None:
    odd = resource({"metadata": {"name": "kubeai"}, "spec": dict(spec)})
    assert KubeAi.of(odd, None) == KubeAi(installed={})
