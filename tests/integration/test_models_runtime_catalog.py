"""What the model catalog publishes decides whether a model is Ready (spec: models §11)."""

from collections.abc import Iterator

import pytest

from hack.devcluster import CONTROL_PLANE, DevCluster
from magicstick.models.catalog_facts import NAME as MODEL_CATALOG
from magicstick.runtime.conditions import find
from tests.support.kubeai import SPACE
from tests.support.model_scene import (
    ModelScene,
    install_kinds,
    model_corner,
    publish,
    publish_text,
    whole_scene,
)
from tests.support.operator import operator
from tests.support.oracles import told
from tests.support.rights import grant, grant_where_models_run, user
from tests.support.world import AGENT

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

EXTERNAL = {"model": "openai/x"}
CATALOG = f"/api/v1/namespaces/{SPACE}/configmaps"
FORBIDDEN = 403


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """A control plane of our own, since the catalog is there once for all corners."""
    with DevCluster.start(CONTROL_PLANE) as cluster:
        install_kinds(cluster)
        yield cluster


def published(scene: ModelScene, name: str) -> object:
    return (find(scene.status(name).get("conditions", ()), "CatalogPublished") or {}).get("status")


@pytest.mark.req("MS-361", "MS-366")
async def test_a_model_is_ready_while_the_catalog_lists_it(cluster: DevCluster) -> None:
    async with whole_scene(cluster) as scene:
        await scene.activate("listed", kind="external", external=EXTERNAL)
        await scene.activate("other", kind="external", external=EXTERNAL)
        await scene.until("listed", "Reconciling", "WaitingForCatalog")
        assert published(scene, "listed") == "False"
        await publish(scene, "listed", "somebody-elses")
        await scene.until("listed", "Ready", "CatalogReady")
        assert published(scene, "listed") == "True"
        await scene.until("other", "Reconciling", "WaitingForCatalog")
        await publish(scene, "other")
        await scene.until("other", "Ready")
        await scene.until("listed", "Reconciling", "WaitingForCatalog")


async def test_a_catalog_that_cannot_be_read_takes_nothing_back_and_gives_nothing(
    cluster: DevCluster,
) -> None:
    async with whole_scene(cluster) as scene:
        await scene.activate("before", kind="external", external=EXTERNAL)
        await publish(scene, "before")
        await scene.until("before", "Ready")
        await publish_text(scene, "{")
        await scene.activate("after", kind="external", external=EXTERNAL)
        status = await scene.until("after", "Reconciling", "WaitingForCatalog")
        assert "cannot be read" in status["message"]
        assert published(scene, "after") == "Unknown"
        await scene.rest()
        await scene.until("before", "Ready")
        await publish(scene, "after")
        await scene.until("after", "Ready")
        await scene.until("before", "Reconciling", "WaitingForCatalog")


async def test_a_catalog_that_is_gone_lists_nothing(cluster: DevCluster) -> None:
    async with whole_scene(cluster) as scene:
        await scene.activate("gone", kind="external", external=EXTERNAL)
        await publish(scene, "gone")
        await scene.until("gone", "Ready")
        await scene.world.delete(CATALOG, MODEL_CATALOG)
        await scene.until("gone", "Reconciling", "WaitingForCatalog")
        await publish(scene, "gone")
        await scene.until("gone", "Ready")


async def test_a_catalog_in_the_models_own_namespace_counts_before_the_shipped_one(
    cluster: DevCluster,
) -> None:
    async with whole_scene(cluster) as scene:
        space = scene.world.namespace
        await scene.activate("apart", kind="external", targetNamespace=space, external=EXTERNAL)
        status = await scene.until("apart", "Reconciling", "WaitingForCatalog")
        assert "namespace ai alone" in status["message"]
        await publish(scene, "apart")
        await scene.until("apart", "Ready")
        await publish(scene, namespace=space)
        await scene.until("apart", "Reconciling", "WaitingForCatalog")
        await publish(scene, "apart", namespace=space)
        await scene.until("apart", "Ready")


@pytest.mark.req("MS-011")
async def test_the_operators_own_rights_suffice_to_read_the_catalog(cluster: DevCluster) -> None:
    mark = cluster.audit_mark()
    async with model_corner(cluster) as scene:
        await publish(scene, "granted")
        token = await grant(scene.world)
        await grant_where_models_run(scene.world)
        async with operator(scene.world, token=token):
            await scene.activate("granted", kind="external", external=EXTERNAL)
            await scene.until("granted", "Ready")
            await publish(scene)
            await scene.until("granted", "Reconciling", "WaitingForCatalog")
            await scene.rest()
    asked = [each for each in cluster.audit(AGENT, mark) if each.user == user(scene.world)]
    # The namespace of the gateway brings its own rights, and is not here.
    denied = [each for each in asked if each.code == FORBIDDEN and each.namespace != "identity-system"]
    assert told(denied) == []
