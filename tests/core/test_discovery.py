"""Which kinds count as served, by their definitions."""

from collections.abc import Iterable

import msgspec
import pytest

from magicstick.kube.discovery import CrdView, Discovery
from magicstick.kube.kinds import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    EVENT,
    LEASE,
    NODE,
    POD,
    Kind,
    ObjectKey,
)
from magicstick.kube.store import Store

WIDGET = Kind("example.com", "v1", "Widget", "widgets")
NEXT = Kind("example.com", "v2", "Widget", "widgets")
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
NAME = "widgets.example.com"


def definition(
    version: int,
    *,
    name: str = NAME,
    served: Iterable[str] = ("v1",),
    established: str | None = "True",
    dying: bool = False,
    labels: dict[str, str] | None = None,
    kind: str = "Widget",
) -> CrdView:
    """A definition as the server sends it, with much that does not matter here."""
    conditions = [{"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "…"}]
    if established is not None:
        conditions.append({"type": "Established", "status": established, "reason": "InitialNamesAccepted"})
    versions = [
        {
            "name": name_,
            "served": name_ in served,
            "storage": name_ == "v1",
            "schema": {"x": {"type": "object"}},
        }
        for name_ in ("v1", "v2")
    ]
    metadata = {"name": name, "uid": "u", "resourceVersion": str(version), "labels": labels or {}}
    if dying:
        metadata["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    body = {
        "metadata": metadata,
        "spec": {"group": "example.com", "names": {"plural": "widgets", "kind": kind}, "versions": versions},
        "status": {"conditions": conditions, "storedVersions": ["v1"]},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=CrdView)


class World:
    """A store of definitions, its discovery, and what a subscriber heard."""

    def __init__(self, *definitions: CrdView, synced: bool = True) -> None:
        self.store = Store[CrdView]("definitions")
        self.discovery = Discovery(self.store)
        self.heard: list[str] = []
        if synced:
            self.store.replace(definitions, 10)
        self.discovery.subscribe(self.heard.append)
        self.heard.clear()


def test_a_definition_that_is_established_serves_its_versions() -> None:
    discovery = World(definition(5)).discovery
    assert discovery.is_served(WIDGET)
    assert not discovery.is_served(NEXT)
    assert discovery.established(NAME) is True


@pytest.mark.parametrize("established", [None, "False", "Unknown"])
def test_a_definition_that_is_not_established_serves_nothing(established: str | None) -> None:
    discovery = World(definition(5, established=established)).discovery
    assert not discovery.is_served(WIDGET)
    assert discovery.established(NAME) is False


def test_a_version_that_is_not_served_is_absent_though_the_definition_is_there() -> None:
    discovery = World(definition(5, served=["v2"])).discovery
    assert not discovery.is_served(WIDGET)
    assert discovery.is_served(NEXT)


def test_a_definition_that_is_being_removed_serves_nothing_any_more() -> None:
    assert not World(definition(5, dying=True)).discovery.is_served(WIDGET)


def test_a_definition_without_status_serves_nothing_yet() -> None:
    bare = msgspec.convert({"metadata": {"name": NAME, "resourceVersion": "5"}}, CrdView)
    assert not World(bare).discovery.is_served(WIDGET)


def test_a_kind_without_definition_is_absent() -> None:
    discovery = World(definition(5, name="gadgets.example.com")).discovery
    assert not discovery.is_served(WIDGET)
    assert discovery.established(NAME) is False


def test_built_in_kinds_are_always_served() -> None:
    discovery = World(synced=False).discovery
    for kind in (CONFIG_MAP, POD, NODE, EVENT, LEASE, DEPLOYMENT, CUSTOM_RESOURCE_DEFINITION):
        assert discovery.is_served(kind)


def test_nothing_is_known_before_the_definitions_are() -> None:
    discovery = World(synced=False).discovery
    assert not discovery.is_served(WIDGET)
    assert discovery.established(NAME) is None


def test_nothing_is_known_while_the_definitions_cannot_be_listed_any_more() -> None:
    world = World(definition(5))
    world.store.withdraw()
    assert world.discovery.established(NAME) is None
    assert not world.discovery.is_served(WIDGET)


def test_a_definition_that_comes_goes_and_returns_is_heard_each_time() -> None:
    world = World()
    world.store.event("ADDED", definition(11, established=None))
    assert world.heard == []  # it serves nothing yet
    world.store.event("MODIFIED", definition(12))
    assert world.heard == [NAME]
    world.store.event("DELETED", definition(13))
    assert world.heard == [NAME, NAME]
    assert not world.discovery.is_served(WIDGET)
    world.store.event("ADDED", definition(14))
    assert world.discovery.is_served(WIDGET)
    assert len(world.heard) == 3


def test_a_version_that_stops_being_served_is_heard() -> None:
    world = World(definition(5, served=["v1", "v2"]))
    world.store.event("MODIFIED", definition(11, served=["v2"]))
    assert world.heard == [NAME]


def test_a_change_that_answers_nothing_differently_is_not_heard() -> None:
    world = World(definition(5))
    world.store.event("MODIFIED", definition(11, labels={"a": "b"}))
    assert world.heard == []


def test_a_subscriber_hears_of_what_is_there_already() -> None:
    store = Store[CrdView]()
    store.replace([definition(5)], 10)
    heard: list[str] = []
    Discovery(store).subscribe(heard.append)
    assert heard == [NAME]


def test_the_view_carries_no_schema() -> None:
    """A few hundred definitions with schemas weigh tens of mebibytes."""
    assert len(msgspec.json.encode(definition(5))) < 600
    assert definition(5).metadata.key == ObjectKey("", NAME)
