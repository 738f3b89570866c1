"""An appliance of a thousand served models at rest: what the operator asks, and that it changes nothing."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest

from hack.bare import BareClient
from hack.bench import model_objects as objects
from hack.bench.model_objects import Sort
from hack.bench.model_players import RELEASES, ModelPlayers
from hack.bench.model_world import activate_models, activate_modules, furnish_models, playing
from hack.bench.objects import ACTIVATIONS as MODULE_ACTIVATIONS
from hack.bench.objects import FLUX_NAMESPACE, KUSTOMIZATIONS
from hack.bench.process import operator
from hack.bench.world import OPERATOR_AGENT, World
from hack.devcluster import CONTROL_PLANE, DevCluster
from hack.devcluster.audit import AuditRecord
from tests.support.oracles import told

pytestmark = [pytest.mark.anyio, pytest.mark.cluster, pytest.mark.slow]

MODELS = 1000
REPLICAS = 5
"""Of every sort of model that may have several: 3,200 Pods in all."""
PODS = 3000
CONVERGE_S = 900.0
REST_S = 60.0
POLLS = range(2, 5)
"""How often each Pod of an Ollama model is asked in that time: every 20 s, give or take what is jittered."""
WRITTEN_BY_US = (
    objects.ACTIVATIONS,
    objects.MODELS,
    objects.PODS,
    MODULE_ACTIVATIONS,
    KUSTOMIZATIONS,
    RELEASES,
    f"/api/v1/namespaces/{FLUX_NAMESPACE}/configmaps",
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """A control plane of our own: what else is on it would have to be at rest too."""
    with DevCluster.start(CONTROL_PLANE) as cluster:
        yield cluster


@pytest.fixture
async def world(cluster: DevCluster) -> AsyncIterator[World]:
    """Everything that models need, save a running operator."""
    async with BareClient(cluster.url, cluster.ca_file, cluster.admin_token) as client:
        await furnish_models(cluster, client)
        yield World(cluster, client)


async def versions(client: BareClient) -> Mapping[tuple[str, str], str]:
    """The resourceVersion of everything that the operator ever writes, by collection and name."""
    return {
        (path, item["metadata"]["name"]): item["metadata"]["resourceVersion"]
        for path in WRITTEN_BY_US
        for item in (await client.get(path))["items"]
    }


def expected_at_rest(record: AuditRecord) -> bool:
    """Watches end and start again, and the lease is renewed."""
    return record.verb == "watch" or record.resource == "leases"


async def serve(world: World, players: ModelPlayers) -> None:
    """All models, Ready and at rest."""
    await activate_modules(world)
    await activate_models(world.client, MODELS, replicas=REPLICAS)
    await players.until_ready(MODELS, CONVERGE_S)
    await world.quiet()


@pytest.mark.req("MS-355", "MS-358")
async def test_a_thousand_served_models_cost_watches_the_lease_and_polls_of_ollama(
    world: World, tmp_path: Path
) -> None:
    async with (
        playing(world.client) as players,
        operator(world.cluster.kubeconfig, tmp_path / "operator.log"),
    ):
        await serve(world, players)
        before, mark = await versions(world.client), world.cluster.audit_mark()
        players.ollama.forget()
        await asyncio.sleep(REST_S)  # three resyncs; that nothing happens can only be seen by looking

        asked = list(world.cluster.audit(OPERATOR_AGENT, mark))
        assert any(record.resource == "leases" for record in asked), "the operator does not run"
        assert not (busy := [record for record in asked if not expected_at_rest(record)]), told(busy)
        assert await versions(world.client) == before
        assert sum(path == objects.PODS for path, _ in before) >= PODS

        polls = players.ollama.polls
        assert len(polls) == REPLICAS * objects.count_of(MODELS, Sort.CPU_OLLAMA)
        assert all(count in POLLS for count in polls.values()), polls.most_common(3)
        assert players.ollama.others == []
