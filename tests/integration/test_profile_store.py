"""The profile store on a real API server: from an activation to what KubeAI runs with (case F08)."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from hack import yamls
from hack.bare import spread
from hack.devcluster import CONTROL_PLANE, DevCluster
from hack.devcluster.actors.helm import HelmActor
from hack.devcluster.actors.sources import SourceActor
from magicstick.models.kubeai_release import STORE_KEY, STORE_NAME
from magicstick.models.profile_store import REQUESTED_AT, REQUESTED_FOR
from tests.support.manifests import MANIFESTS
from tests.support.mirror import Object
from tests.support.model_scene import CPU, ModelScene, install_kinds, model_corner, model_scene
from tests.support.operator import operator
from tests.support.oracles import quiet
from tests.support.rights import grant
from tests.support.world import GROUP

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

OFFLOAD = {
    "computeTarget": "nvidia-gpu",
    "engine": "VLLM",
    "url": "hf://example/model",
    "vram": "12000Mi",
    "memoryRequiredMi": 16000,
    "cpuOffloading": True,
    "cpuOffloadMi": 8000,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """A control plane of our own, since KubeAI is there once for all corners."""
    with DevCluster.start(CONTROL_PLANE) as cluster:
        install_kinds(cluster)
        yield cluster


class Installation:
    """What KubeAI's objects say, through the player's mirror."""

    def __init__(self, scene: ModelScene) -> None:
        flux = scene.world.flux_namespace
        self._mirror = scene.kubeai.mirror
        self._stores = f"/api/v1/namespaces/{flux}/configmaps"
        self._releases = f"/apis/helm.toolkit.fluxcd.io/v2/namespaces/{flux}/helmreleases"

    @property
    def store(self) -> Object:
        return self._mirror.all(self._stores)[STORE_NAME]

    @property
    def release(self) -> Object:
        return self._mirror.all(self._releases)["kubeai"]

    @property
    def profiles(self) -> Mapping[str, Any]:
        document: Mapping[str, Any] = json.loads(self.store["data"][STORE_KEY])
        found: Mapping[str, Any] = document["resourceProfiles"]
        return found

    @property
    def requested_for(self) -> str:
        return str(self.release["metadata"].get("annotations", {}).get(REQUESTED_FOR, ""))

    @property
    def installed(self) -> bool:
        return "kubeai" in self._mirror.all(self._releases)

    @property
    def deployed(self) -> str:
        """The digest of the values that KubeAI was last deployed with; "" while it is not ready."""
        status = (self.release if self.installed else {}).get("status", {})
        ready = any(
            (each["type"], each["status"]) == ("Ready", "True") for each in status.get("conditions", ())
        )
        history = status.get("history") or [{}]
        return str(history[0].get("configDigest", "")) if ready else ""

    async def until_deployed(self, since: str = "") -> str:
        await self._mirror.until("Flux has deployed anew", lambda: self.deployed not in ("", since))
        return self.deployed

    async def until_profiles(self, count: int) -> None:
        await self._mirror.until(f"the store has {count} profiles", lambda: len(self.profiles) == count)

    async def until_asked(self, since: str = "") -> str:
        await self._mirror.until("the release is asked anew", lambda: self.requested_for != since)
        return self.requested_for


def store_writes(scene: ModelScene, mark: Any) -> list[tuple[str, str, str]]:
    """What the operator wrote of profiles and Models, in order."""
    concerned = {"configmaps", "helmreleases", "models"}
    writes = scene.world.cluster.audit("magicstick", mark)
    return [
        (each.verb, each.resource, each.name)
        for each in writes
        if each.is_write and each.resource in concerned
    ]


@pytest.mark.req("MS-004", "MS-005", "MS-139", "MS-148", "MS-154", "MS-155")
async def test_f08_a_profile_is_followed_until_kubeai_runs_with_it(cluster: DevCluster) -> None:
    mark = cluster.audit_mark()
    async with model_scene(cluster) as scene:
        here = Installation(scene)
        store, release = here.store, here.release
        await scene.activate("followed", local={**CPU, "memoryRequiredMi": 6145})
        await here.until_asked()
        await scene.mirror.until(
            "it waits for KubeAI",
            lambda: "KubeAI has not taken resource profile" in scene.status("followed").get("message", ""),
        )
        assert scene.reason("followed") == "WaitingForCpuProfile"
        await quiet(scene.world)
        assert scene.kubeai.model("followed") is None
        ((name, content),) = here.profiles.items()
        assert content["requests"] == {"cpu": "2000m", "memory": "6160Mi"}
        assert content["limits"] == {"cpu": "8000m", "memory": "9240Mi"}
        await scene.kubeai.take()
        model = await scene.kubeai.until_model("followed")
        assert model["spec"]["resourceProfile"] == f"{name}:1"
        await scene.until("followed", "WaitingForPod")
        assert here.release["spec"] == release["spec"]
        kept = {**here.release["metadata"]["annotations"]}
        assert kept.pop(REQUESTED_AT)
        assert kept.pop(REQUESTED_FOR)
        assert kept == release["metadata"].get("annotations", {})
        for field in ("labels", "annotations"):
            assert here.store["metadata"].get(field) == store["metadata"].get(field)
    assert store_writes(scene, mark)[:3] == [
        ("patch", "configmaps", STORE_NAME),
        ("patch", "helmreleases", "kubeai"),
        ("patch", "models", "followed"),
    ]


@pytest.mark.req("MS-130", "MS-136")
async def test_an_offloading_profile_is_in_the_store_before_there_is_a_gpu(cluster: DevCluster) -> None:
    async with model_scene(cluster) as scene:
        here = Installation(scene)
        await scene.activate("offloaded", local=OFFLOAD)
        await here.until_profiles(2)
        offloading = here.profiles["magicstick-nvidia-gpu-ram-16000"]
        assert offloading["requests"]["memory"] == offloading["limits"]["memory"] == "16000Mi"
        assert offloading["limits"]["nvidia.com/gpu"] == "1"
        await here.until_asked()


async def test_equal_models_share_a_profile_and_a_new_size_is_asked_for_anew(cluster: DevCluster) -> None:
    async with model_scene(cluster) as scene:
        here = Installation(scene)
        await scene.activate("twin-a", local=CPU)
        first = await here.until_asked()
        await scene.activate("twin-b", local=CPU)
        await scene.until("twin-b", "Starting", "WaitingForCpuProfile")
        await quiet(scene.world)
        assert (len(here.profiles), here.requested_for) == (1, first)
        await scene.activate("twin-b", local={**CPU, "memoryRequiredMi": 8192})
        await here.until_profiles(2)
        await here.until_asked(first)


async def test_a_restart_and_a_request_by_hand_lead_to_no_write(cluster: DevCluster) -> None:
    async with model_corner(cluster) as scene:
        here = Installation(scene)
        async with operator(scene.world, seams=scene.seams):
            await scene.activate("rested", local=CPU)
            await here.until_asked()
            await scene.until("rested", "Starting", "WaitingForCpuProfile")
            await quiet(scene.world)
        mark = cluster.audit_mark()
        by_hand = {"metadata": {"annotations": {REQUESTED_AT: "2030-01-01T00:00:00Z"}}}
        path = f"/apis/helm.toolkit.fluxcd.io/v2/namespaces/{scene.world.flux_namespace}/helmreleases/kubeai"
        await scene.world.client.merge(path, by_hand)
        async with operator(scene.world, seams=scene.seams):
            await quiet(scene.world)
            assert store_writes(scene, mark) == []
            assert here.release["metadata"]["annotations"][REQUESTED_AT] == "2030-01-01T00:00:00Z"


async def test_a_release_that_was_made_anew_is_asked_again(cluster: DevCluster) -> None:
    async with model_scene(cluster) as scene:
        here = Installation(scene)
        await scene.activate("renewed", local=CPU)
        asked = await here.until_asked()
        uid = here.release["metadata"]["uid"]
        path = f"/apis/helm.toolkit.fluxcd.io/v2/namespaces/{scene.world.flux_namespace}/helmreleases"
        await scene.world.delete(path, "kubeai")
        await scene.kubeai.install()
        await scene.kubeai.mirror.until(
            "the new release is asked", lambda: here.release["metadata"]["uid"] != uid and here.requested_for
        )
        assert here.requested_for == asked


async def test_a_store_that_somebody_emptied_is_filled_again(cluster: DevCluster) -> None:
    async with model_scene(cluster) as scene:
        here = Installation(scene)
        await scene.activate("emptied", local=CPU)
        await here.until_profiles(1)
        path = f"/api/v1/namespaces/{scene.world.flux_namespace}/configmaps/{STORE_NAME}"
        version = here.store["metadata"]["resourceVersion"]
        await scene.world.client.merge(path, {"data": {STORE_KEY: "broken"}})
        await scene.kubeai.mirror.until(
            "it is whole",
            lambda: (
                here.store["data"][STORE_KEY] != "broken"
                and here.store["metadata"]["resourceVersion"] != version
            ),
        )
        assert len(here.profiles) == 1


@pytest.mark.req("MS-132", "MS-150", "MS-154")
async def test_f08_flux_takes_the_store_because_it_is_asked_and_is_well_without_any_model(
    cluster: DevCluster,
) -> None:
    """The Helm player reads the store when the release changes or is asked to, and at no other time."""
    async with model_corner(cluster) as scene, HelmActor(scene.world.client).running():
        here = Installation(scene)
        async with SourceActor(scene.world.client).running():
            await as_shipped(scene)
            bare = await here.until_deployed()
            mark = cluster.audit_mark()
            async with operator(scene.world, seams=scene.seams):
                await quiet(scene.world)
                assert store_writes(scene, mark) == []
                await scene.activate("shipped", local=CPU)
                assert await here.until_deployed(bare) != bare
                assert len(here.profiles) == 1
                await quiet(scene.world)


async def as_shipped(scene: ModelScene) -> None:
    """KubeAI's release as the module ships it, in place of the player's."""
    flux = scene.world.flux_namespace
    await scene.world.delete(f"/apis/helm.toolkit.fluxcd.io/v2/namespaces/{flux}/helmreleases", "kubeai")
    await scene.kubeai.mirror.until("it is gone", lambda: not Installation(scene).installed)
    text = (MANIFESTS / "modules" / "kubeai" / "release.yaml").read_text().replace("flux-system", flux)
    for obj in yamls.load_all(text):
        await asyncio.to_thread(scene.world.cluster.rest.apply, obj)


@pytest.mark.req("MS-151")
async def test_the_operators_own_rights_suffice(cluster: DevCluster) -> None:
    async with model_corner(cluster) as scene:
        here = Installation(scene)
        token = await grant(scene.world)
        async with operator(scene.world, token=token, seams=scene.seams):
            await scene.activate("granted", local=CPU)
            await here.until_profiles(1)
            await here.until_asked()


@pytest.mark.slow
@pytest.mark.req("MS-153")
async def test_f08_many_sizes_make_few_writes_of_the_store(cluster: DevCluster) -> None:
    mark = cluster.audit_mark()
    async with model_scene(cluster) as scene:
        here = Installation(scene)

        async def activate(number: int) -> None:
            body = {
                "apiVersion": GROUP,
                "kind": "ModelActivation",
                "metadata": {"name": f"size-{number}"},
                "spec": {"type": "local", "local": {**CPU, "memoryRequiredMi": 16 * number}},
            }
            await scene.world.client.apply(f"{scene.path}/size-{number}", body, manager="user")

        await spread(range(1, 301), activate, concurrency=16)
        await here.until_profiles(300)
        await quiet(scene.world)
    writes = store_writes(scene, mark)
    assert writes.count(("patch", "configmaps", STORE_NAME)) <= 30
    assert not [name for _, resource, name in writes if resource == "models"]
