"""The rules of the store, one by one; `test_store_properties` shows that they hold together."""

import sys
from collections.abc import Iterable
from functools import partial

import msgspec
import pytest

from magicstick.kube.errors import Gone
from magicstick.kube.kinds import ObjectKey
from magicstick.kube.objects import Resource
from magicstick.kube.store import ADDED, DELETED, MODIFIED, Store
from tests.support.objects import widget

A = ObjectKey("default", "a")
B = ObjectKey("default", "b")


class Heard:
    """A subscriber that remembers changes as (name, old version, new version)."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, str | None, str | None]] = []

    def __call__(self, old: Resource | None, new: Resource | None) -> None:
        some = new or old
        assert some is not None
        self.changes.append(
            (
                some.metadata.name,
                old.metadata.resource_version if old else None,
                new.metadata.resource_version if new else None,
            )
        )

    def take(self) -> list[tuple[str, str | None, str | None]]:
        changes, self.changes = self.changes, []
        return changes


def filled(*objects: Resource, version: int) -> tuple[Store[Resource], Heard]:
    store, heard = Store[Resource]("widgets"), Heard()
    store.replace(objects, version)
    store.subscribe(heard)
    heard.take()
    return store, heard


def versions(store: Store[Resource]) -> dict[str, str]:
    return {entry.metadata.name: entry.metadata.resource_version for entry in store.list()}


def test_an_empty_store_is_not_synced_until_a_list_is_complete() -> None:
    store = Store[Resource]()
    assert not store.synced
    relist = store.relist()
    relist.add(widget("a", 1))
    assert not store.synced
    relist.commit(2)
    assert store.synced
    assert store.resource_version == 2


def test_events_add_change_and_remove_entries() -> None:
    store, heard = filled(version=1)
    store.event(ADDED, widget("a", 2))
    store.event(MODIFIED, widget("a", 3))
    assert versions(store) == {"a": "3"}
    assert A in store
    assert len(store) == 1
    store.event(DELETED, widget("a", 4))
    assert store.list() == ()
    assert store.keys() == ()
    assert heard.take() == [("a", None, "2"), ("a", "2", "3"), ("a", "3", None)]
    assert store.resource_version == 4


def test_a_late_subscriber_is_told_what_there_is_first() -> None:
    store, _ = filled(widget("a", 1), widget("b", 2), version=3)
    late = Heard()
    store.subscribe(late)
    assert late.take() == [("a", None, "1"), ("b", None, "2")]


def test_the_same_version_again_tells_nobody() -> None:
    store, heard = filled(version=1)
    store.written(widget("a", 5))
    heard.take()
    store.event(MODIFIED, widget("a", 5))
    store.written(widget("a", 5))
    store.replace([widget("a", 5)], 6)
    assert heard.take() == []


def test_a_relist_tells_of_everything_that_changed_in_between() -> None:
    store, heard = filled(widget("a", 1), widget("b", 2), version=3)
    store.replace([widget("b", 7), widget("c", 6)], 8)
    assert heard.take() == [("b", "2", "7"), ("c", None, "6"), ("a", "1", None)]


def test_a_list_that_breaks_off_removes_nothing() -> None:
    store, heard = filled(widget("a", 1), widget("b", 2), version=3)
    relist = store.relist()
    relist.add(widget("b", 7))
    del relist
    assert versions(store) == {"a": "1", "b": "7"}
    assert store.resource_version == 3
    assert heard.take() == [("b", "2", "7")]


def test_a_write_is_seen_before_the_watch_tells_of_it() -> None:
    store, heard = filled(widget("a", 1), version=3)
    store.written(widget("a", 9))
    assert versions(store) == {"a": "9"}
    assert store.resource_version == 3
    store.event(MODIFIED, widget("a", 5))
    assert versions(store) == {"a": "9"}
    store.event(MODIFIED, widget("a", 9))
    store.event(MODIFIED, widget("b", 10))
    assert heard.take() == [("a", "1", "9"), ("b", None, "10")]


def test_a_write_outlives_a_list_that_was_asked_for_before_it() -> None:
    store, heard = filled(widget("a", 1), widget("b", 2), version=3)
    relist = store.relist()
    store.written(widget("a", 9))
    store.written(widget("c", 10))
    heard.take()
    relist.add(widget("a", 1))
    relist.add(widget("b", 2))
    relist.commit(8)
    assert versions(store) == {"a": "9", "b": "2", "c": "10"}
    assert heard.take() == []


def test_a_late_response_does_not_bring_back_what_the_watch_saw_deleted() -> None:
    store, _ = filled(widget("a", 1), version=3)
    store.event(DELETED, widget("a", 12))
    store.written(widget("a", 10))
    assert store.list() == ()


def test_a_late_response_does_not_take_back_a_newer_entry() -> None:
    store, heard = filled(widget("a", 1), version=3)
    store.written(widget("a", 9))
    store.written(widget("a", 8))
    assert versions(store) == {"a": "9"}
    assert heard.take() == [("a", "1", "9")]


def test_a_deletion_of_ours_is_not_undone_by_older_news() -> None:
    store, heard = filled(widget("a", 1), version=3)
    relist = store.relist()
    store.deleted(A, "uid-a")
    assert store.get(A) is None
    store.event(MODIFIED, widget("a", 5))
    relist.add(widget("a", 5))
    relist.commit(6)
    store.written(widget("a", 7))
    assert store.get(A) is None
    store.event(DELETED, widget("a", 8))
    store.event(ADDED, widget("a", 9, uid="successor"))
    assert versions(store) == {"a": "9"}
    assert heard.take() == [("a", "1", None), ("a", None, "9")]


def test_a_deletion_during_a_list_is_not_undone_by_events_after_it() -> None:
    store, _ = filled(widget("a", 1), version=3)
    relist = store.relist()
    relist.add(widget("a", 5))
    store.deleted(A, "uid-a")
    relist.commit(6)
    store.event(MODIFIED, widget("a", 7))
    assert store.get(A) is None


def test_a_deletion_of_ours_leaves_a_successor_alone() -> None:
    store, _ = filled(widget("a", 1, uid="successor"), version=3)
    store.deleted(A, "uid-a")
    assert versions(store) == {"a": "1"}


def test_a_late_deletion_event_leaves_a_successor_alone() -> None:
    store, _ = filled(widget("a", 1), version=3)
    store.written(widget("a", 9, uid="successor"))
    store.event(DELETED, widget("a", 8))
    assert versions(store) == {"a": "9"}


def test_deletions_that_arrive_while_a_list_streams_are_taken() -> None:
    store, heard = filled(widget("a", 1), widget("b", 2), version=3)
    relist = store.relist()
    relist.add(widget("a", 1))
    relist.add(widget("b", 2))
    relist.remove(widget("a", 9))
    relist.commit(10)
    assert versions(store) == {"b": "2"}
    assert heard.take() == [("a", "1", None)]


def test_a_write_after_a_deletion_that_arrived_while_a_list_streams_is_swept_only_if_older() -> None:
    store, _ = filled(widget("a", 1), version=3)
    relist = store.relist()
    relist.add(widget("a", 1))
    relist.remove(widget("a", 9))
    store.written(widget("a", 8, uid="lost"))
    store.written(widget("b", 12))
    relist.commit(10)
    assert versions(store) == {"b": "12"}


def test_a_change_that_arrives_while_a_list_streams_supersedes_the_item() -> None:
    store, heard = filled(widget("a", 50), widget("b", 51), version=52)
    relist = store.relist()
    relist.add(widget("a", 20))
    relist.add(widget("b", 21))
    relist.add(widget("a", 55))
    relist.remove(widget("b", 30))
    relist.commit(60)
    assert versions(store) == {"a": "55"}
    assert heard.take() == [("a", "50", "55"), ("b", "51", None)]


def test_a_deletion_of_ours_that_the_watch_has_told_is_forgotten() -> None:
    store, _ = filled(widget("a", 1), version=3)
    store.deleted(A, "uid-a")
    store.event(DELETED, widget("a", 4))
    assert store._ledger.dead == set()


def test_a_deletion_of_ours_that_a_list_confirms_is_forgotten() -> None:
    store, _ = filled(widget("a", 1), version=3)
    store.deleted(A, "uid-a")
    store.replace([], 5)
    assert store._ledger.dead == set()


def test_a_write_followed_by_our_deletion_is_not_awaited_from_the_watch() -> None:
    store, _ = filled(version=3)
    store.written(widget("a", 5))
    store.deleted(A, "uid-a")
    store.replace([], 4)
    store.bookmark(9)
    assert store.list() == ()


def test_a_list_from_a_lost_history_replaces_everything() -> None:
    store, heard = filled(widget("a", 50), widget("b", 60), widget("d", 10), version=90)
    store.written(widget("c", 99))
    store.deleted(ObjectKey("default", "d"), "uid-d")
    heard.take()
    store.replace([widget("a", 20), widget("d", 10)], 40)
    assert versions(store) == {"a": "20", "d": "10"}
    assert store.resource_version == 40
    assert sorted(heard.take()) == [
        ("a", "50", "20"),
        ("b", "60", None),
        ("c", "99", None),
        ("d", None, "10"),
    ]


def test_a_list_without_what_we_wrote_before_it_was_asked_for_is_from_a_lost_history() -> None:
    store, heard = filled(widget("a", 50), version=60)
    store.written(widget("a", 75))
    store.written(widget("b", 80))
    store.replace([widget("a", 50)], 70)
    assert versions(store) == {"a": "50"}
    store.bookmark(90)
    assert heard.take() == [("a", "50", "75"), ("b", None, "80"), ("a", "75", "50"), ("b", "80", None)]


def test_a_list_with_what_we_deleted_before_it_was_asked_for_is_from_a_lost_history() -> None:
    store, heard = filled(widget("a", 50), version=60)
    store.deleted(A, "uid-a")
    store.replace([widget("a", 50)], 70)
    assert versions(store) == {"a": "50"}
    assert heard.take() == [("a", "50", None), ("a", None, "50")]


def test_what_a_broken_list_brought_does_not_outlive_a_lost_history() -> None:
    store, _ = filled(version=10)
    store.relist().add(widget("a", 50))
    store.replace([], 20)
    assert store.list() == ()


def test_a_lost_history_is_noticed_by_a_watch_that_goes_back() -> None:
    store, heard = filled(widget("a", 1), version=50)
    with pytest.raises(Gone):
        store.event(MODIFIED, widget("a", 40))
    with pytest.raises(Gone):
        store.bookmark(49)
    assert versions(store) == {"a": "1"}
    assert heard.take() == []


@pytest.mark.parametrize("other", [56, 70])
def test_a_lost_history_is_noticed_by_a_watch_that_passes_a_write_of_ours(other: int) -> None:
    store, _ = filled(version=50)
    store.written(widget("a", 55))
    with pytest.raises(Gone):
        store.event(ADDED, widget("b", other))
    store.replace([widget("b", other)], other)
    assert versions(store) == {"b": str(other)}


def test_a_bookmark_advances_the_version_alone() -> None:
    store, heard = filled(widget("a", 1), version=3)
    store.bookmark(30)
    assert store.resource_version == 30
    assert heard.take() == []


def test_a_kind_that_goes_leaves_an_empty_store_and_tells_of_no_deletion() -> None:
    store, heard = filled(widget("a", 1), version=3)
    store.index("all", lambda _: ["x"])
    store.withdraw()
    assert not store.synced
    assert store.list() == ()
    assert store.by_index("all", "x") == ()
    assert heard.take() == []


def test_a_kind_that_returns_tells_the_difference_to_what_was_known() -> None:
    store, heard = filled(widget("a", 1), widget("b", 2), widget("c", 3), version=4)
    store.withdraw()
    store.replace([widget("b", 2), widget("c", 20), widget("d", 21)], 30)
    assert versions(store) == {"b": "2", "c": "20", "d": "21"}
    assert heard.take() == [("c", "3", "20"), ("d", None, "21"), ("a", "1", None)]


def test_a_kind_that_returns_with_lower_versions_is_taken_as_it_is() -> None:
    store, _ = filled(widget("a", 100), version=200)
    store.withdraw()
    store.replace([widget("a", 5, uid="successor")], 6)
    assert versions(store) == {"a": "5"}


def test_content_that_changed_under_the_same_version_is_taken_from_a_list() -> None:
    store, _ = filled(widget("a", 1, spec={"size": 1}), version=3)
    store.replace([widget("a", 1, spec={"size": 1, "colour": "red"})], 4)
    entry = store.get(A)
    assert entry is not None
    assert entry.spec == {"size": 1, "colour": "red"}


def test_a_version_that_is_no_number_is_an_error_not_a_guess() -> None:
    store, _ = filled(version=1)
    odd = widget("a", "2-abc")
    for take in (partial(store.event, ADDED), store.relist().add, store.written):
        with pytest.raises(ValueError, match="invalid literal"):
            take(odd)
    assert store.list() == ()


def test_a_subscriber_that_raises_harms_neither_the_store_nor_the_others() -> None:
    store = Store[Resource]()
    before, after = Heard(), Heard()

    def fails(old: Resource | None, new: Resource | None) -> None:
        raise RuntimeError("a bug in a reconciler")

    for handler in (before, fails, after):
        store.subscribe(handler)
    store.event(ADDED, widget("a", 1))
    store.replace([widget("b", 2)], 3)
    expected = [("a", None, "1"), ("b", None, "2"), ("a", "1", None)]
    assert before.changes == expected
    assert after.changes == expected
    assert versions(store) == {"b": "2"}


# --- indexes -------------------------------------------------------------------------------------


def by_colour(obj: Resource) -> Iterable[str]:
    return obj.metadata.labels.get("colour", "").split("+")


def names(objects: Iterable[Resource]) -> list[str]:
    return [obj.metadata.name for obj in objects]


def test_an_index_follows_every_change() -> None:
    store, _ = filled(widget("a", 1, labels={"colour": "red"}), version=2)
    store.index("colour", by_colour)
    store.event(ADDED, widget("b", 3, labels={"colour": "red+blue"}))
    assert names(store.by_index("colour", "red")) == ["a", "b"]
    store.event(MODIFIED, widget("a", 4, labels={"colour": "blue"}))
    assert names(store.by_index("colour", "red")) == ["b"]
    assert names(store.by_index("colour", "blue")) == ["b", "a"]
    store.event(DELETED, widget("b", 5))
    assert names(store.by_index("colour", "red")) == []
    assert names(store.by_index("colour", "blue")) == ["a"]


def test_an_index_gives_the_entry_as_it_is_now() -> None:
    store, _ = filled(widget("a", 1, labels={"colour": "red"}), version=2)
    store.index("colour", by_colour)
    store.event(MODIFIED, widget("a", 3, labels={"colour": "red"}))
    assert [entry.metadata.resource_version for entry in store.by_index("colour", "red")] == ["3"]


def test_a_change_asks_an_index_about_the_changed_entry_alone() -> None:
    store, _ = filled(*(widget(f"w{n}", n) for n in range(1, 101)), version=200)
    asked: list[str] = []

    def function(obj: Resource) -> Iterable[str]:
        asked.append(obj.metadata.name)
        return ()

    store.index("asked", function)
    asked.clear()
    store.event(MODIFIED, widget("w7", 201))
    assert set(asked) == {"w7"}


def test_an_index_function_that_raises_leaves_only_its_entry_out() -> None:
    store, _ = filled(version=1)

    def function(obj: Resource) -> Iterable[str]:
        return [obj.metadata.labels["colour"]]

    store.index("colour", function)
    store.event(ADDED, widget("a", 2))
    store.event(ADDED, widget("b", 3, labels={"colour": "red"}))
    assert names(store.list()) == ["a", "b"]
    assert names(store.by_index("colour", "red")) == ["b"]
    store.event(MODIFIED, widget("a", 4, labels={"colour": "red"}))
    assert names(store.by_index("colour", "red")) == ["b", "a"]


def test_an_index_name_stands_for_one_function() -> None:
    store = Store[Resource]()
    store.index("colour", by_colour)
    store.index("colour", by_colour)
    with pytest.raises(ValueError, match="colour"):
        store.index("colour", lambda _: ())
    with pytest.raises(KeyError):
        store.by_index("shape", "round")


def test_a_list_survives_content_that_nests_too_deep_to_be_compared() -> None:
    def nested() -> object:
        value: object = 1
        for _ in range(sys.getrecursionlimit()):
            value = {"a": value}
        return value

    one, again = (msgspec.structs.replace(widget("a", 5), spec={"free": nested()}) for _ in range(2))
    store, heard = filled(one, version=5)
    store.replace([again], 6)
    assert store.get(A) is again
    assert not heard.take()
