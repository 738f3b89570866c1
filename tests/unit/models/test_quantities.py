"""Amounts of GPU memory as people write them, and what each means (case F13, decision 16)."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.models.memory import UNIT_MI
from magicstick.models.offloading import offload_deficit_mi
from tests.support.resolution import CPU, NVIDIA, refused, resolved

MI = 2**20
SUFFIXES = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": MI,
    "Gi": 2**30,
    "Ti": 2**40,
}


def ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


@pytest.mark.parametrize(
    ("text", "mi"),
    [
        ("12Gi", 12288),
        ("12000Mi", 12000),
        ("12000", 12000),
        ("1.5Gi", 1536),
        ("0.1Gi", 103),
        ("15e9", 14306),
        ("1e3", 1),
        ("24062M", 22948),
        ("2T", 1907349),
        ("1500m", 1),
        ("1E", None),
        ("-1Gi", None),
        ("0", None),
        ("0Gi", None),
        (" 8Gi ", None),
        ("8 gb", None),
        ("8GB", None),
        ("8g", None),
        ("\uff18Gi", None),
        ("1_000", None),
        ("1" + "0" * 30, None),
        ("1e999999999", None),
        ("Gi", None),
        ("", None),
        ("1.5.5Gi", None),
        ("0x10", None),
        ("NaN", None),
        ("inf", None),
        ("1,5Gi", None),
        ("\u0663Gi", None),
    ],
)
def test_vram_is_a_kubernetes_quantity_rounded_up_to_mib_or_names_its_field(
    text: str, mi: int | None
) -> None:
    given = {**NVIDIA, "vram": text}
    if mi is None:
        assert refused(given).field == "spec.local.vram"
    else:
        assert resolved(given).vram_mi == mi


@pytest.mark.parametrize("value", [1.5, True, "1.5", 0, -1, 2**30 + 1, 10**30, [1]])
@pytest.mark.parametrize("field", ["vramMi", "memoryRequiredMi"])
def test_whole_mib_take_nothing_but_a_whole_number_of_a_sane_size(field: str, value: object) -> None:
    given = {"computeTarget": "nvidia-gpu", "url": "hf://a/b", "vramMi": 1, field: value}
    assert refused(given).field == f"spec.local.{field}"


def test_of_two_amounts_the_quantity_counts() -> None:
    assert resolved({**NVIDIA, "vram": "8Gi", "vramMi": 1}).vram_mi == 8192


@given(number=st.integers(1, 10**6), tenths=st.integers(0, 9), suffix=st.sampled_from(sorted(SUFFIXES)))
def test_vram_is_exact_against_rational_arithmetic(number: int, tenths: int, suffix: str) -> None:
    text = f"{number}.{tenths}{suffix}"
    mi = ceil((Fraction(number) + Fraction(tenths, 10)) * SUFFIXES[suffix] / MI)
    if mi > 2**30:
        assert refused({**NVIDIA, "vram": text}).field == "spec.local.vram"
    else:
        assert resolved({**NVIDIA, "vram": text}).vram_mi == mi


@pytest.mark.req("MS-129")
@given(mi=st.integers(16, 2**30))
def test_the_reservation_holds_what_is_asked_for_in_the_fewest_whole_units(mi: int) -> None:
    model = resolved({**CPU, "memoryRequiredMi": mi})
    units = int(model.base_profile.rpartition(":")[2])
    assert model.memory_mi == units * UNIT_MI
    assert units == ceil(Fraction(mi, 16))


amounts = st.fractions(0, 10**6, max_denominator=1000)


@given(weights=amounts, cache=amounts, reserve=amounts, vram=amounts)
def test_what_is_offloaded_is_the_deficit_of_weights_and_never_more_than_all(
    weights: Fraction, cache: Fraction, reserve: Fraction, vram: Fraction
) -> None:
    mi = offload_deficit_mi(weights, cache, reserve, vram)
    left = weights + cache + reserve - vram
    assert 0 <= mi <= ceil(weights)
    assert (mi == 0) == (left <= 0 or weights == 0)
    if 0 < left <= weights:
        assert mi - 1 < left <= mi
