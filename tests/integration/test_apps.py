"""Instances on a real API server: from an AppInstance to its release and its guarded way in, and back."""

from collections.abc import Iterator

import pytest

from hack.devcluster import CONTROL_PLANE, DevCluster
from tests.support.instance_scene import install_kinds, instance_scene

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

NAME = "kubeopencode-demo"


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """A control plane of our own, since the kinds of applications come and go here."""
    with DevCluster.start(CONTROL_PLANE) as cluster:
        install_kinds(cluster)
        yield cluster


@pytest.mark.req("MS-016", "MS-100", "MS-111", "MS-176", "MS-211", "MS-212", "MS-234")
async def test_an_instance_goes_all_the_way_to_ready_and_then_rests(cluster: DevCluster) -> None:
    async with instance_scene(cluster) as scene:
        await scene.make(NAME, "kubeopencode")
        status = await scene.until(NAME, "Ready")
        assert {"kubeopencode", "litellm", "model-catalog"} == set(
            scene.world.mirror.all(scene.world.activations)
        )
        assert set(scene.mirror.all(scene.releases)) == {NAME}
        assert (status["kind"], status["name"], status["namespace"]) == (
            "HelmRelease",
            NAME,
            scene.world.namespace,
        )
        assert status["url"] == status["localURL"] == "https://demo.kubeopencode.magicstick.local/"
        assert status["publicURL"] == "https://demo.kubeopencode.magicstick.example.com/"
        assert (status["authentication"], status["requiredRole"]) == ("sso", "user")
        assert status["accessGuardReady"] is True
        assert len(scene.way_in(NAME)) == 7
        assert scene.open_routes() == set(scene.mirror.all(scene.routes))
        await scene.delete(NAME)
        await scene.until_gone(NAME)
        assert scene.way_in(NAME) == set()
        assert scene.release(NAME) is None
        assert scene.helm.uninstalled == [(scene.world.namespace, NAME)]
