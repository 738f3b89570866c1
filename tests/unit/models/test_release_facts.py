"""What the caches tell of KubeAI's installation, and which profile a Model may name because of it."""

import asyncio
from typing import Any

import msgspec
import pytest

from hack import yamls
from magicstick.api.kinds import HELM_RELEASE
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CONFIG_MAP, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.models.kinds import DEPLOYMENT
from magicstick.models.kubeai_release import PROFILES, Running
from magicstick.models.release_facts import (
    ReleaseFacts,
    Remembered,
    data_changed,
    release_changed,
    rollout_changed,
)
from magicstick.models.resolved import ProfileChoice, ProfileWait
from magicstick.modules.objects import Site
from magicstick.runtime.reads import Reads
from magicstick.runtime.reconciler import Declaration
from tests.support.objects import WIDGET, resource
from tests.support.resolution import CPU, chosen, release_object, resolved, store_object
from tests.support.runtime import FakeStores

CHOICE = chosen(resolved(CPU))
TAKEN = {each.name: each.content for each in CHOICE.derived}


def wakes(_old: object, _new: object) -> tuple[ObjectKey, ...]:
    return ()


def ready_release() -> Resource:
    ready = {"type": "Ready", "status": "True", "observedGeneration": 1}
    return msgspec.structs.replace(release_object(), status={"observedGeneration": 1, "conditions": [ready]})


def deployment(ready: int = 1) -> Resource:
    volumes = [{"name": "config", "configMap": {"name": "kubeai-config"}}]
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), ready)
    return resource(
        {
            "metadata": {"namespace": "ai", "name": "kubeai", "generation": 1},
            "spec": {"replicas": 1, "template": {"spec": {"volumes": volumes}}},
            "status": {"observedGeneration": 1, **counts},
        }
    )


def config(profiles: Any = None) -> Resource:
    metadata = {"namespace": "ai", "name": "kubeai-config"}
    text = yamls.dump({PROFILES: TAKEN if profiles is None else profiles})
    return resource({"metadata": metadata, "data": {"system.yaml": text}})


class Bench:
    """The facts over stores that hold an installation which runs with `CHOICE`."""

    def __init__(self) -> None:
        self.stores = FakeStores()
        reads = Reads(self.stores)
        self.facts = ReleaseFacts(reads, Site())
        edges = (*self.facts.base_edges(wakes), *self.facts.progress_edges(wakes))
        reads.declare(Declaration("test", WIDGET, edges, {}, frozenset()))
        self.stores.enter(HELM_RELEASE, InformerState.SYNCED, ready_release())
        self.stores.enter(DEPLOYMENT, InformerState.SYNCED, deployment())
        self.stores.enter(CONFIG_MAP, InformerState.SYNCED, store_object(TAKEN), config())

    def ask(self, named: str | None = None) -> ProfileChoice | ProfileWait | None:
        return self.facts.profile_for(resolved(CPU), named)


def test_a_profile_that_kubeai_runs_with_may_be_named() -> None:
    bench = Bench()
    assert bench.facts.blind() == ""
    assert bench.facts.running() == Running(TAKEN)
    assert bench.ask() == CHOICE


def test_until_then_the_model_waits_unless_it_names_it_already() -> None:
    bench = Bench()
    bench.stores.enter(DEPLOYMENT, InformerState.SYNCED, deployment(ready=0))
    wait = bench.ask()
    assert isinstance(wait, ProfileWait)
    assert "being restarted" in wait.message
    assert bench.ask(CHOICE.reference) == CHOICE


@pytest.mark.parametrize("kind", [HELM_RELEASE, CONFIG_MAP])
@pytest.mark.parametrize("state", [InformerState.FAILING, InformerState.SYNCING])
def test_what_cannot_be_read_is_not_known(kind: Any, state: InformerState) -> None:
    bench = Bench()
    bench.stores.enter(kind, state)
    assert bench.facts.blind() != ""
    assert bench.ask() is None
    assert bench.ask(CHOICE.reference) is None


def test_what_is_certainly_absent_is_waited_for() -> None:
    bench = Bench()
    bench.stores.enter(HELM_RELEASE, InformerState.ABSENT)
    wait = bench.ask()
    assert isinstance(wait, ProfileWait)
    assert "HelmRelease kubeai does not exist" in wait.message


def test_a_deployment_that_cannot_be_read_proves_nothing() -> None:
    bench = Bench()
    bench.stores.enter(DEPLOYMENT, InformerState.FAILING)
    wait = bench.ask()
    assert isinstance(wait, ProfileWait)
    assert "Deployment kubeai cannot be read now" in wait.message


def test_only_news_that_mean_something_wake() -> None:
    heard = msgspec.structs.replace(ready_release().metadata, resource_version="9")
    assert not release_changed(ready_release(), msgspec.structs.replace(ready_release(), metadata=heard))
    assert release_changed(ready_release(), release_object())
    assert release_changed(ready_release(), None)
    assert not rollout_changed(deployment(), deployment())
    assert rollout_changed(deployment(), deployment(ready=0))
    assert not data_changed(config(), config())
    assert data_changed(config(), config({}))
    assert data_changed(None, config())


def test_long_objects_are_read_once_for_all_models() -> None:
    seen: list[tuple[Resource | None, ...]] = []

    def length(*objects: Resource | None) -> int:
        seen.append(objects)
        return len(seen)

    remembered = Remembered(length)
    first, second = store_object(), store_object()
    assert [remembered(first), remembered(first), remembered(second), remembered(second)] == [1, 1, 2, 2]
    assert remembered(None) == 3


@pytest.mark.anyio
async def test_a_long_configuration_is_read_beside_the_event_loop_and_once() -> None:
    bench, many = Bench(), {f"profile-{number}": {"requests": {"cpu": "2"}} for number in range(1500)}
    bench.stores.enter(CONFIG_MAP, InformerState.SYNCED, store_object(TAKEN), config(many))
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    turning = asyncio.create_task(turn())
    await asyncio.gather(bench.facts.prepare(), bench.facts.prepare())
    turning.cancel()
    assert turns > 20, "the loop stood still"
    read = bench.facts.running().profiles
    assert len(read) == len(many)
    await bench.facts.prepare()
    assert bench.facts.running().profiles is read


@pytest.mark.anyio
async def test_what_was_prepared_for_an_earlier_configuration_is_not_taken_for_the_present_one() -> None:
    bench = Bench()
    many: dict[str, Any] = {f"profile-{number}": {"requests": {}} for number in range(1500)}
    bench.stores.enter(CONFIG_MAP, InformerState.SYNCED, store_object(TAKEN), config(many))
    await bench.facts.prepare()
    bench.stores.enter(CONFIG_MAP, InformerState.SYNCED, store_object(TAKEN), config())
    assert bench.facts.running() == Running(TAKEN)
