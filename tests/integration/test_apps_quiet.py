"""An appliance of three hundred served instances: at rest, and when one of them changes or goes."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pytest

from hack.bare import BareClient
from hack.bench import app_objects as objects
from hack.bench.app_players import AppPlayers
from hack.bench.app_world import activate_modules, furnish_apps, make_instances, playing
from hack.bench.apps import CALM, subject
from hack.bench.objects import ACTIVATIONS, FLUX_NAMESPACE, KUSTOMIZATIONS
from hack.bench.passes import passes
from hack.bench.process import Operator, operator
from hack.bench.world import OPERATOR_AGENT, World
from hack.devcluster import CONTROL_PLANE, DevCluster
from hack.devcluster.audit import AuditRecord
from tests.support.oracles import told

pytestmark = [pytest.mark.anyio, pytest.mark.cluster, pytest.mark.slow]

COUNT = 300
CONVERGE_S = 600.0
CHANGE_S = 30.0
REST_S = 60.0
WRITTEN_BY_US = (
    objects.INSTANCES,
    objects.RELEASES,
    *objects.WAY_IN,
    ACTIVATIONS,
    KUSTOMIZATIONS,
    f"/api/v1/namespaces/{FLUX_NAMESPACE}/configmaps",
)
Versions = Mapping[tuple[str, str], str]
"""The resourceVersion of each object by collection and name."""


@dataclass(frozen=True)
class Served:
    """The instances, whoever acts on them, and the operator."""

    world: World
    players: AppPlayers
    operator: Operator

    async def versions(self) -> Versions:
        """Of everything that the operator ever writes."""
        return {
            (path, item["metadata"]["name"]): item["metadata"]["resourceVersion"]
            for path in WRITTEN_BY_US
            for item in (await self.world.client.get(path))["items"]
        }

    async def looked_at(self) -> float:
        """How often instances have been looked at, once nothing more happens."""
        return await passes(self.operator, "instances")


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """A control plane of our own: what else is on it would have to be at rest too."""
    with DevCluster.start(CONTROL_PLANE) as cluster:
        yield cluster


@pytest.fixture(scope="module")
async def furnished(cluster: DevCluster) -> AsyncIterator[tuple[World, AppPlayers]]:
    """Everything that instances need, save a running operator."""
    async with BareClient(cluster.url, cluster.ca_file, cluster.admin_token) as client:
        await furnish_apps(cluster, client)
        async with playing(client) as players:
            yield World(cluster, client), players


@pytest.fixture(scope="module")
async def served(
    furnished: tuple[World, AppPlayers], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Served]:
    """All instances, Ready and at rest, under an operator that looks at nothing by the clock alone."""
    world, players = furnished
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    async with operator(world.cluster.kubeconfig, log, environment=dict(CALM)) as running:
        await activate_modules(world)
        await make_instances(world.client, COUNT)
        await players.until_ready(COUNT, CONVERGE_S)
        await world.quiet()
        yield Served(world, players, running)


def changed(before: Versions, after: Versions) -> set[str]:
    """Names of the objects that came, went or were written."""
    keys = before.keys() | after.keys()
    return {name for path, name in keys if before.get((path, name)) != after.get((path, name))}


def own_objects(name: str, versions: Versions) -> set[str]:
    """An instance, its release and all of its way in, by what they are called."""
    return {each for path, each in versions if each == name or each.startswith(f"{name}-")}


def own_writes(writes: Sequence[AuditRecord], name: str) -> list[AuditRecord]:
    """Those that are about an instance. All others are what is told of the Appliance, which has it as a part."""
    others = [each for each in writes if subject(each) != name]
    assert {subject(each) for each in others} <= {"local"}, told(others)
    assert {each.resource for each in others} <= {"appliances", "events"}, told(others)
    return [each for each in writes if subject(each) == name]


async def test_one_note_on_what_is_made_for_an_instance_has_one_instance_looked_at(served: Served) -> None:
    name, note = objects.instance_name(7), {"metadata": {"annotations": {"example.com/note": "seen"}}}
    for place in (f"{objects.ROUTES}/{name}-local", f"{objects.RELEASES}/{name}"):
        before = await served.looked_at()
        await served.world.client.merge(place, note)
        assert await served.looked_at() - before == 1, place


async def test_one_changed_instance_has_its_own_objects_written_and_no_others(served: Served) -> None:
    name = objects.instance_name(5)
    before, mark = await served.versions(), served.world.cluster.audit_mark()
    changes = {"spec": {"access": {"role": "admin"}, "values": {"model": "openai/other"}}}
    await served.world.client.merge(f"{objects.INSTANCES}/{name}", changes)
    await served.players.until(lambda seen: name not in seen.ready, "it is changed", CHANGE_S)
    await served.players.until_ready(COUNT, CHANGE_S)
    await served.world.quiet()

    after = await served.versions()
    assert name in changed(before, after)
    assert changed(before, after) <= own_objects(name, after)
    assert own_writes(served.world.writes(mark), name)


async def test_one_deleted_instance_takes_its_own_objects_along_and_touches_no_others(served: Served) -> None:
    name = objects.instance_name(0)
    before, mark = await served.versions(), served.world.cluster.audit_mark()
    own = own_objects(name, before)
    assert len(own) == 8, "the instance and its release have one name, and its way in has seven objects"
    await served.world.client.send("DELETE", f"{objects.INSTANCES}/{name}")
    await served.players.until(lambda seen: name not in seen.present, "it is gone", CHANGE_S)
    await served.world.quiet()

    assert changed(before, await served.versions()) == own
    writes = own_writes(served.world.writes(mark), name)
    assert {each.resource for each in writes if each.verb == "delete"} == {
        "helmreleases",
        "httproutes",
        "referencegrants",
        "securitypolicies",
    }


@pytest.fixture
async def resting(
    served: Served, furnished: tuple[World, AppPlayers], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Served]:
    """The same under an operator as it is shipped, which looks at everything every 20 s."""
    world, players = furnished
    await served.operator.stop()
    log = tmp_path_factory.mktemp("operator") / "resting.log"
    async with operator(world.cluster.kubeconfig, log) as running:
        await world.quiet()
        yield Served(world, players, running)


def expected_at_rest(record: AuditRecord) -> bool:
    """Watches end and start again, and the lease is renewed."""
    return record.verb == "watch" or record.resource == "leases"


async def test_three_hundred_served_instances_cost_watches_and_the_lease(resting: Served) -> None:
    looked_at = await resting.looked_at()
    before, mark = await resting.versions(), resting.world.cluster.audit_mark()
    await asyncio.sleep(REST_S)  # three resyncs; that nothing happens can only be seen by looking

    asked = list(resting.world.cluster.audit(OPERATOR_AGENT, mark))
    assert any(record.resource == "leases" for record in asked), "the operator does not run"
    assert not (busy := [record for record in asked if not expected_at_rest(record)]), told(busy)
    after = await resting.versions()
    assert after == before
    assert await passes(resting.operator, "instances", still_s=0.0) - looked_at >= 2 * (COUNT - 1)
    assert sum(path == objects.INSTANCES for path, _ in after) >= COUNT - 1
