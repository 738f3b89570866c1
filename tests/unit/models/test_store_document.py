"""The profile store as a whole (spec: models §8.2; case F08; decision 15)."""

import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.kube.kinds import ObjectKey
from magicstick.models.kubeai_release import Profiles
from magicstick.models.resolved import DerivedProfile, Profile
from magicstick.models.store_document import (
    MAX_CHARACTERS,
    Claim,
    StoreDocument,
    derive,
    fits,
    is_generated,
)
from tests.support.resolution import CPU, chosen, resolved

NONE: frozenset[str] = frozenset()


def profile(number: int, size: int = 0) -> DerivedProfile:
    return DerivedProfile(f"magicstick-cpu-{number:020x}", {"number": number, "padding": "x" * size})


def claim(number: int, *profiles: DerivedProfile, age: int = 0) -> Claim:
    """The claim of the activation `number`; the greater its age, the older it is."""
    made = profiles or (profile(number),)
    return Claim(ObjectKey("ai-system", f"m{number:05}"), f"2026-01-01T{23 - age:02}:00:00Z", made)


def held(*profiles: DerivedProfile) -> dict[str, Profile]:
    return {each.name: each.content for each in profiles}


def document(
    claims: Iterable[Claim], current: Profiles | None = None, **more: frozenset[str]
) -> StoreDocument:
    return derive(claims, current or {}, more.get("referenced", NONE), more.get("lately", NONE))


def sizes(count: int) -> list[Claim]:
    """As many CPU models, each with a memory size of its own."""
    return [
        Claim(
            ObjectKey("ai-system", f"m{number:05}"),
            "2026-01-01T00:00:00Z",
            chosen(resolved({**CPU, "memoryRequiredMi": 16 * number})).derived,
        )
        for number in range(1, count + 1)
    ]


@pytest.mark.req("MS-152", "MS-153")
def test_three_thousand_sizes_stay_within_the_bound_and_are_the_same_in_any_order() -> None:
    claims = sizes(3000)
    made = document(claims)
    assert json.loads(made.text)["resourceProfiles"] == made.profiles
    assert len(made.text) <= MAX_CHARACTERS
    assert len(made.profiles) + len(made.left_out) == 3000
    random.Random(7).shuffle(claims)
    assert document(claims) == made
    assert document([*claims, *claims]).profiles == made.profiles


def test_who_does_not_fit_is_left_out_whole_the_youngest_first() -> None:
    half = MAX_CHARACTERS // 2
    old = claim(1, profile(1, half), age=9)
    young = claim(2, profile(2), profile(3, half), age=1)
    small = claim(4, age=0)
    made = document([young, small, old])
    assert made.profiles == held(profile(1, half), profile(4))
    assert made.left_out == (young.key,)


def test_what_models_name_is_never_dropped_for_what_somebody_wants() -> None:
    half = MAX_CHARACTERS // 2
    running = profile(1, half)
    made = document([claim(2, profile(2, half))], held(running), referenced=frozenset({running.name}))
    assert made.profiles == held(running)
    assert made.left_out == (ObjectKey("ai-system", "m00002"),)


def test_what_was_used_lately_makes_room_for_what_is_wanted() -> None:
    half = MAX_CHARACTERS // 2
    lately, wanted = profile(1, half), profile(2, half)
    current, recent = held(lately), frozenset({lately.name})
    assert document([], current, lately=recent).profiles == held(lately)
    assert document([claim(2, wanted)], current, lately=recent).profiles == held(wanted)
    assert document([claim(2)], current, lately=recent).profiles == held(lately, profile(2))


def test_what_nobody_needs_is_dropped_and_what_is_not_ours_stays() -> None:
    current = held(profile(1)) | {"handmade": {"requests": {"cpu": "1"}}}
    assert document([], current).profiles == {"handmade": {"requests": {"cpu": "1"}}}


def test_a_profile_that_changed_under_its_name_gets_its_new_content() -> None:
    name = "magicstick-nvidia-gpu-ram-16000"
    current = {name: {"old": 1}}
    fresh = claim(1, DerivedProfile(name, {"new": 1}))
    assert document([fresh], current).profiles == {name: {"new": 1}}
    assert document([fresh], current, referenced=frozenset({name})).profiles == {name: {"new": 1}}


@pytest.mark.parametrize(
    ("name", "generated"),
    [
        ("magicstick-cpu-0123456789abcdef0123", True),
        ("magicstick-nvidia-gpu-ram-16000", True),
        ("magicstick-amd-gpu-uma-ram-8192", True),
        ("magicstick-amd-gpu-dra-0123456789abcdef", True),
        ("magicstick-nvidia-gpu-sharing-0123456789abcdef", True),
        ("magicstick-cpu-0123", False),
        ("magicstick-nvidia-gpu", False),
        ("mine-ram-", False),
        ("-ram-5", False),
    ],
)
def test_only_generated_names_are_ours_to_drop(name: str, *, generated: bool) -> None:
    assert is_generated(name) is generated


def test_room_counts_only_what_is_missing() -> None:
    almost = held(profile(1, MAX_CHARACTERS - 200))
    length = len(document([], almost, referenced=frozenset(almost)).text)
    assert fits(almost, length, [profile(1, MAX_CHARACTERS - 200)])
    assert fits(almost, length, [profile(1, 9)])
    assert not fits(almost, length, [profile(2, 200)])


_NUMBERS = st.integers(0, 30)
_SIZES = st.sampled_from([0, 10, 100_000, 400_000])
_PROFILES = st.builds(profile, _NUMBERS, _SIZES)


@given(
    claims=st.lists(st.builds(claim, _NUMBERS, _PROFILES, age=st.integers(0, 9)), max_size=8),
    current=st.lists(_PROFILES, max_size=3),
    named=st.sets(_NUMBERS),
)
def test_the_store_is_bounded_whole_and_at_rest_once_it_is_as_derived(
    claims: list[Claim], current: list[DerivedProfile], named: set[int]
) -> None:
    before = held(*current)
    size = len(json.dumps({"resourceProfiles": before}, separators=(",", ":")))
    referenced = frozenset(name for name in before if int(name[-20:], 16) in named)
    made = document(claims, before, referenced=referenced)
    assert len(made.text) <= max(MAX_CHARACTERS, size)
    assert referenced <= made.profiles.keys()
    for each in claims:
        granted = all(one.name in made.profiles for one in each.profiles)
        assert granted or each.key in made.left_out
    again = document(claims, made.profiles, referenced=referenced)
    assert again.text == made.text


HASHED = """
import hashlib
from tests.unit.models.test_store_document import document, sizes
print(hashlib.sha256(document(sizes(60)).text.encode()).hexdigest())
"""


@pytest.mark.parametrize("seed", ["0", "1", "4711"])
def test_the_text_is_the_same_in_every_process(seed: str) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    told = subprocess.run(
        [sys.executable, "-c", HASHED], capture_output=True, text=True, check=True, env=environment
    )
    assert told.stdout.strip() == hashlib.sha256(document(sizes(60)).text.encode()).hexdigest()
