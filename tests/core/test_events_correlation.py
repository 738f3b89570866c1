"""Which Events are worth writing, by client-go's numbers."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from magicstick.runtime.correlation import (
    BURST,
    COMBINED,
    REFILL_S,
    SIMILAR,
    WINDOW_S,
    Correlator,
    Happening,
    Verdict,
)


def correlator(remembered: int = 4096) -> Correlator:
    numbers = itertools.count(1)
    return Correlator(lambda: f"event-{next(numbers)}", remembered)


def happening(note: str = "it happened", *, uid: str = "uid-1", reason: str = "Reason") -> Happening:
    return Happening(uid, "Normal", reason, note)


def test_what_happens_first_is_a_new_event() -> None:
    assert correlator().judge(happening(), 0) == Verdict("event-1", "it happened", 1)


def test_the_same_again_continues_the_series() -> None:
    judge = correlator().judge
    judge(happening(), 0)
    assert judge(happening(), 60) == Verdict("event-1", "it happened", 2)
    assert judge(happening(), 120) == Verdict("event-1", "it happened", 3)


def test_the_same_after_the_window_is_a_new_event() -> None:
    judge = correlator().judge
    judge(happening(), 0)
    assert judge(happening(), WINDOW_S + 1) == Verdict("event-2", "it happened", 1)


def test_other_objects_reasons_and_messages_have_series_of_their_own() -> None:
    judge = correlator().judge
    others = (happening(), happening(uid="uid-2"), happening(reason="Other"), happening("else"))
    assert [verdict.times for other in others if (verdict := judge(other, 0))] == [1, 1, 1, 1]


def test_over_ten_different_messages_of_one_reason_become_one_series() -> None:
    judge = correlator().judge
    verdicts = [judge(happening(f"attempt {number}"), 0) for number in range(SIMILAR + 3)]
    assert [verdict.times for verdict in verdicts if verdict] == [1] * SIMILAR + [1, 2, 3]
    assert verdicts[SIMILAR] == Verdict("event-11", f"{COMBINED}attempt {SIMILAR}", 1)
    assert verdicts[-1] == Verdict("event-11", f"{COMBINED}attempt {SIMILAR + 2}", 3)


def test_messages_are_no_longer_combined_after_a_calm_window() -> None:
    judge = correlator().judge
    for number in range(SIMILAR + 1):
        judge(happening(f"attempt {number}"), 0)
    verdict = judge(happening("calm again"), WINDOW_S + 1)
    assert verdict is not None
    assert verdict.note == "calm again"


def test_an_object_may_have_a_burst_and_then_one_event_per_refill() -> None:
    judge = correlator().judge
    assert all(judge(happening(reason=f"Reason{number}"), 0) for number in range(BURST))
    assert judge(happening(reason="TooMuch"), 0) is None
    assert judge(happening(reason="TooMuch"), REFILL_S - 1) is None
    assert judge(happening(reason="Refilled"), REFILL_S) is not None
    assert judge(happening(reason="TooMuch"), REFILL_S) is None


def test_the_flood_of_one_object_does_not_silence_another() -> None:
    judge = correlator().judge
    for number in range(2 * BURST):
        judge(happening(reason=f"Reason{number}"), 0)
    assert judge(happening(uid="uid-2"), 0) is not None


def test_what_was_not_written_still_counts() -> None:
    judge = correlator().judge
    for _ in range(BURST + 5):
        judge(happening(), 0)
    verdict = judge(happening(), REFILL_S)
    assert verdict is not None
    assert verdict.times == BURST + 6


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3), st.integers(0, 400)), max_size=300))
def test_memory_is_bounded_and_names_are_never_shared(script: list[tuple[int, int, int]]) -> None:
    judged, now, owner = correlator(remembered=10), 0, dict[str, str]()
    for uid, reason, pause in script:
        now += pause
        verdict = judged.judge(happening(uid=f"uid-{uid}", reason=f"Reason{reason}"), now)
        if verdict is not None:
            assert owner.setdefault(verdict.name, f"{uid}/{reason}") == f"{uid}/{reason}"
    assert max(len(judged._buckets), len(judged._similar), len(judged._series)) <= 10
