"""What the model catalog lists, and whom its changes wake (spec: models §11)."""

import json
from typing import Any

import msgspec
import pytest

from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CONFIG_MAP, Kind
from magicstick.kube.store import DELETED, MODIFIED, Store
from magicstick.model_catalog.documents import DocumentSettings, catalog_document
from magicstick.models.catalog_facts import NAME, CatalogView, PublishedModels, changed, listed, news
from tests.support.catalog_objects import deployment
from tests.support.manifests import MANIFESTS, one


class Shelf:
    """The one store that is read, in a state that a test may set."""

    def __init__(self) -> None:
        self.catalogs: Store[CatalogView] = Store("configmaps")
        self.catalogs.replace([], 1)
        self.condition = InformerState.SYNCED
        self.versions = 100

    def store(self, kind: Kind, namespace: str | None = None, name: str | None = None) -> Store[Any]:
        assert (kind, namespace, name) == (CONFIG_MAP, "", NAME)
        return self.catalogs

    def state(self, kind: Kind, namespace: str | None = None, name: str | None = None) -> InformerState:
        assert (kind, namespace, name) == (CONFIG_MAP, "", NAME)
        return self.condition

    def subscribe_state(self, handler: object) -> None:
        """Nobody is told."""

    def put(self, text: str | None, namespace: str = "ai") -> None:
        self.versions += 1
        self.catalogs.event(MODIFIED, catalog(text, namespace, self.versions))

    def remove(self, namespace: str) -> None:
        self.versions += 1
        self.catalogs.event(DELETED, catalog(None, namespace, self.versions))


def catalog(text: str | None, namespace: str = "ai", version: int = 1) -> CatalogView:
    """The ConfigMap, decoded as from the server."""
    data = {"defaults.env": "x"} if text is None else {"catalog.json": text, "defaults.env": "x"}
    metadata = {"name": NAME, "namespace": namespace, "uid": namespace, "resourceVersion": str(version)}
    body = msgspec.json.encode({"metadata": metadata, "data": data})
    return msgspec.json.decode(body, type=CatalogView)


def listing(*entries: Any) -> str:
    return json.dumps({"hash": "h", "models": [{"id": e} if isinstance(e, str) else e for e in entries]})


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def models(shelf: Shelf) -> PublishedModels:
    return PublishedModels(shelf)


@pytest.mark.req("MS-361", "MS-366")
def test_a_model_is_published_when_an_entry_has_its_id_or_its_name(
    shelf: Shelf, models: PublishedModels
) -> None:
    assert models.published("demo", "ai") is False
    shelf.put(listing("demo", {"id": "x", "name": "named"}))
    answers = {each: models.published(each, "ai") for each in ("demo", "named", "x", "other", "dem", "")}
    assert answers == {"demo": True, "named": True, "x": True, "other": False, "dem": False, "": False}
    shelf.put(listing())
    assert models.published("demo", "ai") is False


@pytest.mark.parametrize("text", [None, "", "  ", '{"models": []}'])
def test_a_catalog_before_its_first_publication_lists_nothing(
    shelf: Shelf, models: PublishedModels, text: str | None
) -> None:
    shelf.put(text)
    assert models.published("demo", "ai") is False


@pytest.mark.parametrize("text", ["{", "[]", "7", "{}", '{"models": {}}', '{"models": null}', "[" * 100_000])
def test_a_catalog_that_cannot_be_read_tells_nothing(
    shelf: Shelf, models: PublishedModels, text: str
) -> None:
    shelf.put(text)
    assert models.published("demo", "ai") is None


def test_an_entry_that_is_none_costs_no_other_anything(shelf: Shelf, models: PublishedModels) -> None:
    shelf.put(listing(7, None, [], {}, {"id": 7}, {"id": None, "name": "demo"}))
    assert models.published("demo", "ai") is True


@pytest.mark.parametrize("state", [each for each in InformerState if each is not InformerState.SYNCED])
def test_what_cannot_be_read_now_is_not_absent(
    shelf: Shelf, models: PublishedModels, state: InformerState
) -> None:
    shelf.condition = state
    assert models.published("demo", "ai") is None
    shelf.put(listing("demo"))
    assert models.published("demo", "ai") is None


def test_the_catalog_of_the_models_namespace_counts_and_else_the_shipped_one(
    shelf: Shelf, models: PublishedModels
) -> None:
    shelf.put(listing("demo"))
    assert models.published("demo", "elsewhere") is True
    shelf.put(listing("other"), "elsewhere")
    assert models.published("demo", "elsewhere") is False
    assert models.published("other", "elsewhere") is True
    assert models.published("other", "ai") is False
    shelf.remove("elsewhere")
    assert models.published("demo", "elsewhere") is True


def test_a_catalog_is_read_once_for_all_models(
    shelf: Shelf, models: PublishedModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.put(listing("demo"))
    models.published("demo", "ai")
    monkeypatch.setattr("magicstick.models.catalog_facts.listed", lambda _: pytest.fail("read again"))
    assert models.published("demo", "ai") is True


# --- changes -------------------------------------------------------------------------------------------


def test_only_models_that_come_or_go_are_news() -> None:
    before, after = catalog(listing("a", "b")), catalog(listing("b", "c"))
    assert news(before, after) == frozenset({"a", "c"})
    assert news(before, catalog(listing("b", "a"))) == frozenset()


@pytest.mark.parametrize("other", [None, catalog("{")])
def test_a_catalog_that_comes_goes_or_cannot_be_read_concerns_all(other: CatalogView | None) -> None:
    assert news(other, catalog(listing("a"))) is None
    assert news(catalog(listing("a")), other) is None


def test_only_what_is_read_of_it_is_a_change() -> None:
    one = catalog(listing("a"))
    assert not changed(one, catalog(listing("a"), version=2))
    assert changed(one, catalog(listing("b")))
    assert changed(None, one)
    assert changed(one, None)


def test_the_shipped_catalog_is_read_and_lists_nothing() -> None:
    shipped = one(MANIFESTS / "modules" / "model-catalog", "ConfigMap", NAME)
    assert shipped["metadata"]["namespace"] == "ai"
    assert listed(msgspec.convert(shipped, CatalogView)) == frozenset()


def test_what_the_catalog_publishes_is_read_as_it_was_meant() -> None:
    """The two programs share no code, only this form."""
    stored = [deployment("demo", "1"), deployment("other", "2")]
    document = catalog_document(stored, DocumentSettings("http://litellm.example.local/v1"))
    assert listed(catalog(document.data["catalog.json"])) == frozenset({"demo", "other"})
