from dataclasses import replace

import pytest

from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CONFIG_MAP, NODE, Kind
from magicstick.kube.objects import MetadataOnly, Resource
from magicstick.kube.scope import Scope
from magicstick.runtime.reads import ReadNotDeclaredError, Reads
from magicstick.runtime.reconciler import Declaration, Edge
from tests.support.objects import GADGET, WIDGET
from tests.support.runtime import DECLARATION, FakeStores, gadget_wakes_widget


def edge(kind: Kind, **scope: str) -> Edge[Resource]:
    return Edge(kind, gadget_wakes_widget, "for the test", **scope)  # type: ignore[arg-type] # scope's names


def declaring(*edges: Edge[Resource]) -> Declaration:
    return replace(DECLARATION, edges=edges)


@pytest.fixture
def stores() -> FakeStores:
    return FakeStores()


def test_own_kind_and_kinds_of_edges_can_be_read(stores: FakeStores) -> None:
    reads = Reads(stores, DECLARATION)
    assert reads.store(WIDGET) is stores.store(WIDGET)
    assert reads.store(GADGET) is stores.store(GADGET)
    assert reads.state(GADGET) is InformerState.SYNCED


def test_reading_what_no_edge_covers_is_refused_although_it_is_watched(stores: FakeStores) -> None:
    Reads(stores, declaring(edge(NODE)))
    reads = Reads(stores, DECLARATION)
    with pytest.raises(ReadNotDeclaredError, match="widget: reads nodes"):
        reads.store(NODE)
    with pytest.raises(ReadNotDeclaredError):
        reads.state(NODE)


def test_the_only_declared_place_of_a_kind_needs_no_name(stores: FakeStores) -> None:
    reads = Reads(stores, declaring(edge(CONFIG_MAP, namespace="default", name="settings")))
    assert reads.store(CONFIG_MAP) is stores.store(CONFIG_MAP, "default", "settings")
    assert reads.store(CONFIG_MAP, "default", "settings") is stores.store(CONFIG_MAP, "default", "settings")


def test_another_place_of_a_declared_kind_is_refused(stores: FakeStores) -> None:
    reads = Reads(stores, declaring(edge(CONFIG_MAP, namespace="default", name="settings")))
    with pytest.raises(ReadNotDeclaredError):
        reads.store(CONFIG_MAP, "default", "other")
    with pytest.raises(ReadNotDeclaredError):
        reads.store(CONFIG_MAP, "default")


def test_of_several_places_of_a_kind_one_has_to_be_named(stores: FakeStores) -> None:
    edges = (edge(CONFIG_MAP, namespace="default", name=name) for name in ("a", "b"))
    reads = Reads(stores, declaring(*edges))
    assert reads.store(CONFIG_MAP, "default", "b") is stores.store(CONFIG_MAP, "default", "b")
    with pytest.raises(ReadNotDeclaredError):
        reads.store(CONFIG_MAP)


def test_a_kind_is_taken_in_the_view_in_which_it_is_watched(stores: FakeStores) -> None:
    stores.watch(Scope(NODE), MetadataOnly)
    assert Reads(stores, declaring(edge(NODE))).store(NODE) is stores.store(NODE)


def test_two_views_of_one_place_are_refused(stores: FakeStores) -> None:
    stores.watch(Scope(NODE), MetadataOnly)
    with pytest.raises(ValueError, match="another view"):
        Reads(stores, declaring(replace(edge(NODE), view=Resource)))


def test_shared_reads_allow_what_any_of_their_declarations_covers(stores: FakeStores) -> None:
    reads = Reads(stores, DECLARATION)
    reads.declare(declaring(edge(NODE)))
    assert reads.store(NODE) is stores.store(NODE)
    assert reads.store(GADGET) is stores.store(GADGET)


def test_only_states_of_declared_kinds_are_told(stores: FakeStores) -> None:
    Reads(stores, declaring(edge(NODE)))
    told: list[Kind] = []
    Reads(stores, DECLARATION).subscribe_state(lambda kind, _: told.append(kind))
    stores.enter(NODE, InformerState.FAILING)
    stores.enter(GADGET, InformerState.FAILING)
    assert told == [GADGET]


@pytest.mark.parametrize("state", list(InformerState))
def test_only_a_kind_whose_first_list_is_on_its_way_is_waited_for(
    stores: FakeStores, state: InformerState
) -> None:
    reads = Reads(stores, DECLARATION)
    stores.enter(GADGET, state)
    assert [scope.kind for scope in reads.syncing] == ([GADGET] if state is InformerState.SYNCING else [])
