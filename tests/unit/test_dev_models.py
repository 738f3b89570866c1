"""What `make dev` does for models, and when: the examples need a namespace, the catalog its module."""

import base64
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast

import pytest

from hack.dev import models
from hack.dev.models import ModelStage, master_key
from hack.dev.view import Picture, Row
from hack.devcluster import DevCluster
from hack.devcluster.rest import ApiError

SPACE = "/api/v1/namespaces/ai"
EXAMPLE: dict[str, Any] = {"kind": "ModelActivation", "metadata": {"name": "demo"}}
WAITING = Picture(None, (Row("model-catalog", "Reconciling", "", "", None),), ())
READY = Picture(None, (Row("model-catalog", "Ready", "", "", None),), ())


class Cluster:
    """Has these objects, and remembers what was applied."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.applied: list[object] = []
        self.broken = False

    @property
    def rest(self) -> "Cluster":
        return self

    def get(self, path: str) -> dict[str, Any]:
        if self.broken:
            raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, "no")
        if path not in self.objects:
            raise ApiError(HTTPStatus.NOT_FOUND, "not there")
        return self.objects[path]

    def apply(self, objects: list[object]) -> None:
        self.applied += objects

    def has_key(self, text: str) -> None:
        data = {models.KEY: base64.b64encode(text.encode()).decode()}
        self.objects[models.KEY_SECRET] = {"data": data}


class Catalog:
    """In the place of the process."""

    def __init__(self, _cluster: object, _directory: Path, key: str) -> None:
        self.key = key


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(models, "ModelCatalog", Catalog)
    return Cluster()


def stage_of(cluster: Cluster) -> ModelStage:
    return ModelStage(cast("DevCluster", cluster), Path(), [EXAMPLE], lambda _: None)


def test_examples_are_applied_once_and_not_before_their_namespace_is_there(cluster: Cluster) -> None:
    stage = stage_of(cluster)
    stage.go_on(WAITING)
    assert cluster.applied == []
    cluster.objects[SPACE] = {}
    stage.go_on(WAITING)
    stage.go_on(WAITING)
    assert cluster.applied == [EXAMPLE]


def test_the_catalog_starts_once_with_its_module_and_the_key(cluster: Cluster) -> None:
    stage = stage_of(cluster)
    stage.go_on(READY)
    assert stage.catalog is None, "there is no key"
    cluster.has_key("k")
    stage.go_on(WAITING)
    assert stage.catalog is None, "its module is not Ready"
    stage.go_on(READY)
    started = stage.catalog
    assert cast("Catalog", started).key == "k"
    stage.go_on(READY)
    assert stage.catalog is started


def test_a_secret_without_its_key_is_no_key_and_a_failed_read_is_no_absence(cluster: Cluster) -> None:
    assert master_key(cast("DevCluster", cluster)) == ""
    cluster.objects[models.KEY_SECRET] = {"data": None}
    assert master_key(cast("DevCluster", cluster)) == ""
    cluster.broken = True
    with pytest.raises(ApiError):
        master_key(cast("DevCluster", cluster))
