"""Labels that come and go (F18): when they count, and when they are lost."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.gpu.sightings import DETECTION_SETTLE_S, LOSS_HOLD_S, Motion, Sightings
from tests.support.gpu_objects import AMD, NVIDIA, node
from tests.support.module_world import FixedClock


class Stand:
    """Sightings of one label, on a clock that a test moves."""

    def __init__(self, *nodes: str) -> None:
        self.clock = FixedClock()
        self.sightings = Sightings(self.clock)
        self.sightings.watch([NVIDIA], [node(name, NVIDIA) for name in nodes])

    def label(self, name: str = "n1") -> None:
        self.sightings.changed(node(name), node(name, NVIDIA))

    def unlabel(self, name: str = "n1") -> None:
        self.sightings.changed(node(name, NVIDIA), node(name))

    def delete(self, name: str = "n1") -> None:
        self.sightings.changed(node(name, NVIDIA), None)

    def after(self, seconds: float) -> list[str]:
        """The nodes on which it counts, so much later."""
        self.clock.passed_s += seconds
        self.sightings.look()
        return list(self.sightings.counted(NVIDIA))


def test_a_label_counts_once_it_stood_for_a_moment() -> None:
    there = Stand("n1")
    assert there.after(DETECTION_SETTLE_S - 0.01) == []
    assert there.after(0.01) == ["n1"]


def test_an_interruption_begins_the_wait_anew() -> None:
    there = Stand("n1")
    there.after(2.5)
    there.unlabel()
    there.label()
    assert there.after(2.5) == []
    assert there.after(0.5) == ["n1"]


@pytest.mark.req("MS-109")
def test_a_label_is_lost_once_it_was_gone_for_long() -> None:
    there = Stand("n1")
    there.after(3)
    there.unlabel()
    assert there.after(LOSS_HOLD_S - 0.01) == ["n1"]
    assert there.after(0.01) == []


@pytest.mark.req("MS-109")
def test_a_label_that_returns_in_time_was_never_lost() -> None:
    there = Stand("n1")
    there.after(3)
    for _ in range(5):
        there.unlabel()
        assert there.after(59) == ["n1"]
        there.label()
        assert there.after(0.5) == ["n1"]


@pytest.mark.req("MS-109")
def test_a_node_that_is_replaced_under_its_name_is_held() -> None:
    there = Stand("n1")
    there.after(3)
    there.delete()
    assert there.after(20) == ["n1"]
    assert not there.sightings.counted(NVIDIA)["n1"].there
    there.sightings.changed(None, node("n1", uid="another"))
    assert there.after(20) == ["n1"]
    assert there.sightings.counted(NVIDIA)["n1"].node.metadata.uid == "another"
    there.label()
    assert there.after(3) == ["n1"]
    assert there.sightings.counted(NVIDIA)["n1"].standing


def test_a_node_that_stays_away_is_forgotten() -> None:
    there = Stand("n1")
    there.after(3)
    there.delete()
    assert there.after(60) == []
    assert not there.sightings.follows("n1")


def test_one_node_of_several_loses_its_label() -> None:
    there = Stand("n1", "n2")
    there.after(3)
    there.unlabel("n2")
    assert there.after(4) == ["n1", "n2"]
    sights = there.sightings.counted(NVIDIA)
    assert (sights["n1"].missing, sights["n2"].missing) == (False, True)
    assert (sights["n1"].standing, sights["n2"].standing) == (True, False)
    assert there.after(60) == ["n1"]


def test_a_flap_is_neither_standing_nor_missing() -> None:
    there = Stand("n1")
    there.after(3)
    for second in range(60):
        (there.unlabel if second % 2 else there.label)()
        there.after(1)
        sight = there.sightings.counted(NVIDIA)["n1"]
        assert not sight.missing
        assert second < 2 or not sight.standing


@pytest.mark.req("MS-107")
def test_a_flap_of_a_label_that_never_stood_does_not_count() -> None:
    there = Stand()
    for second in range(60):
        (there.unlabel if second % 2 else there.label)()
        assert there.after(1) == []


def test_a_flap_between_two_looks_is_noticed() -> None:
    there = Stand("n1")
    there.clock.passed_s += 2.9
    there.unlabel()
    there.label()
    assert there.after(0.2) == []


def test_only_a_look_changes_what_counts_and_tells_so_once() -> None:
    there = Stand("n1")
    there.clock.passed_s += 10
    assert not there.sightings.counted(NVIDIA)
    assert there.sightings.look()
    assert not there.sightings.look()
    assert list(there.sightings.counted(NVIDIA)) == ["n1"]


def test_what_is_on_its_way() -> None:
    there = Stand("n1")
    seen = [there.sightings.motion]
    for seconds in (3, 0, 3, 57):
        if seconds == 0:
            there.unlabel()
        there.after(seconds)
        seen.append(there.sightings.motion)
    assert seen == [Motion.SETTLING, Motion.NONE, Motion.SETTLING, Motion.HOLDING, Motion.NONE]


def test_what_settles_right_after_a_look_is_on_its_way_until_the_next() -> None:
    """Between the two somebody asks whether to come back; no answer but yes may be given."""
    there = Stand("n1")
    assert there.after(DETECTION_SETTLE_S - 0.001) == []
    there.clock.passed_s += 0.002
    moving = [there.sightings.motion]
    assert there.after(0) == ["n1"]
    moving.append(there.sightings.motion)

    there.unlabel()
    there.after(LOSS_HOLD_S - 0.001)
    there.clock.passed_s += 0.002
    moving.append(there.sightings.motion)
    assert moving == [Motion.SETTLING, Motion.NONE, Motion.HOLDING]


def test_nodes_without_the_label_leave_no_trace() -> None:
    there = Stand()
    for number in range(1000):
        there.sightings.changed(None, node(f"n{number}", AMD))
    assert not any(there.sightings.follows(f"n{number}") for number in range(1000))
    assert there.after(3) == []


def test_a_look_costs_nothing_for_nodes_at_rest_however_many() -> None:
    there = Stand(*(f"n{number}" for number in range(2000)))
    there.after(3)
    before = there.sightings.counted(NVIDIA)
    there.after(60)
    assert there.sightings.counted(NVIDIA) is before
    there.sightings.changed(node("n7", NVIDIA), heartbeat := node("n7", NVIDIA))
    assert not there.sightings.look()
    after = there.sightings.counted(NVIDIA)
    assert list(after) == list(before)
    assert [name for name in after if after[name] is not before[name]] == ["n7"]
    assert after["n7"].node is heartbeat


def test_after_a_restart_what_counted_counts_at_once() -> None:
    there = Stand("n1", "n2")
    there.sightings.recall(NVIDIA, [node("n1", NVIDIA)])
    assert there.after(0) == ["n1", "n2"]
    assert not there.sightings.counted(NVIDIA)["n1"].standing


def test_after_a_restart_what_counted_and_is_missing_is_held_anew() -> None:
    there = Stand()
    there.sightings.recall(NVIDIA, [node("n1")])
    assert there.after(59) == ["n1"]
    assert there.sightings.counted(NVIDIA)["n1"].missing
    assert there.after(1) == []


def test_a_label_that_is_followed_no_more_is_forgotten_and_a_new_one_found() -> None:
    there = Stand("n1")
    there.after(3)
    there.sightings.watch([AMD], [node("n1", NVIDIA), node("n2", AMD)])
    there.clock.passed_s += 3
    there.sightings.look()
    assert not there.sightings.counted(NVIDIA)
    assert list(there.sightings.counted(AMD)) == ["n2"]


def test_labels_that_stay_followed_keep_their_memory() -> None:
    there = Stand("n1")
    there.after(3)
    there.unlabel()
    there.sightings.watch([NVIDIA, AMD], [node("n1")])
    assert there.after(10) == ["n1"]


@dataclass
class Model:
    """The same in the plainest words: the times at which the label came and went."""

    present: bool = False
    since: float = 0.0
    counted: bool = False

    def advance(self, now: float) -> bool:
        passed_s = now - self.since
        if self.present:
            self.counted = self.counted or passed_s >= DETECTION_SETTLE_S
        else:
            self.counted = self.counted and passed_s < LOSS_HOLD_S
        return self.counted


steps = st.lists(st.tuples(st.sampled_from(["label", "unlabel", "delete", "look"]), st.integers(0, 100)))


@given(steps)
def test_it_is_what_the_times_say_whatever_happens(events: list[tuple[str, int]]) -> None:
    there, model = Stand(), Model()
    for event, seconds in events:
        there.clock.passed_s += seconds
        # Between two looks nothing is lost but what was due: look right before each event, as timers do.
        there.sightings.look()
        model.advance(there.clock.passed_s)
        if event != "look":
            getattr(there, event)()
            present = event == "label"
            if present != model.present:
                model.present, model.since = present, there.clock.passed_s
        assert (there.after(0) == ["n1"]) == model.advance(there.clock.passed_s)
