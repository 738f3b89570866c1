"""Kinds that come and go are events: acted on at once, and never a reason to touch what is there."""

from collections.abc import Iterator

import pytest

from hack.devcluster import DevCluster
from magicstick.api.kinds import PALENA_MCP_SERVER
from magicstick.kube.informer import InformerState
from tests.support.faultproxy import Answer
from tests.support.operator import operator
from tests.support.palena_corner import DEFINITIONS, HALF, PalenaCorner, palena_control_plane
from tests.support.polling import until

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

GATEWAYS = "palenagateways"


@pytest.fixture
def palena_cluster() -> Iterator[DevCluster]:
    """A control plane for one test: definitions that go take what others made with them."""
    with palena_control_plane() as cluster:
        yield cluster


async def test_a_kind_of_our_own_that_is_not_served_is_waited_for_and_the_process_stays_ready(
    corner: PalenaCorner,
) -> None:
    name = PALENA_MCP_SERVER.crd_name
    body = await corner.client.get(f"{DEFINITIONS}/{name}")
    await corner.client.send("DELETE", f"{DEFINITIONS}/{name}")
    async with corner.operator() as running:
        caches = running.manager.caches
        assert caches.state(PALENA_MCP_SERVER) is InformerState.ABSENT
        await corner.gateway("gw")
        await corner.until_there("networkpolicies", "gw-palena-default-deny")
        definition = {key: body[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": {"name": name}}
        await corner.client.apply(f"{DEFINITIONS}/{name}", definition, manager="user")

        async def watched() -> bool:
            return caches.state(PALENA_MCP_SERVER) is InformerState.SYNCED

        await until("the kind is watched", watched)
        server = {
            "apiVersion": PALENA_MCP_SERVER.api_version,
            "kind": PALENA_MCP_SERVER.kind,
            "metadata": {"name": "web", "namespace": corner.namespace},
            "spec": {},
        }
        path = PALENA_MCP_SERVER.path(corner.namespace, "web")
        await corner.client.apply(path, server, manager="user")

        async def reported() -> bool:
            return "phase" in (await corner.client.get(path)).get("status", {})

        await until("the server has a status", reported)


async def test_definitions_that_cannot_be_read_are_an_error_and_nothing_is_touched(
    corner: PalenaCorner,
) -> None:
    await corner.gateway("gw")
    async with corner.operator():
        await corner.all_ready("gw")
    before = {plural: corner.mirror.all(corner.path(plural)) for plural in ("clusters", "litellminstances")}
    versions = {
        (plural, name): obj["metadata"]["resourceVersion"]
        for plural, found in before.items()
        for name, obj in found.items()
    }
    async with operator(corner.world, **HALF, wait=False) as running:
        with running.proxy.fault(
            Answer(403), when=lambda request: "customresourcedefinitions" in request.path
        ):
            await corner.until_phase(GATEWAYS, "gw", "Error", "DiscoveryFailed")
            gateway = corner.must(GATEWAYS, "gw")
            met = next(each for each in gateway["status"]["conditions"] if each["type"] == "PrerequisitesMet")
            assert met["status"] == "Unknown"
            assert gateway["status"]["database"]["clusterName"] == "gw-palena-pg", "what is known stays"
        await corner.until_phase(GATEWAYS, "gw", "Running")
    for (plural, name), version in versions.items():
        assert corner.must(plural, name)["metadata"]["resourceVersion"] == version
