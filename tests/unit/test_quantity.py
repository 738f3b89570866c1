"""Quantities are read, converted and printed as the API server does."""

import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from magicstick.api.quantity import (
    MAX_EXPONENT,
    MAX_LENGTH,
    MAX_MI,
    Format,
    Quantity,
    QuantityError,
    parse,
    to_mi,
    vram_mi,
)

BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
DECIMAL = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
}
NANO = Fraction(1, 10**9)
MI = 2**20

NO_QUANTITIES = (
    *("", " ", "Gi", "+", "-", ".", "e3", "k", " 8Gi", "8Gi ", " 8Gi ", "8 Gi", "8 gb", "8gi", "8GI", "8GB"),
    *("8Gib", "8K", "8ki", "8b", "８Gi", "٨Gi", "1_000", "1,5Gi", "1.5.0", "1e", "1e+", "1e1.5", "1e3Gi"),  # noqa: RUF001 - other alphabets' digits are the point
    *("--1", "+-1", "0x10", "NaN", "inf", "1Gi\n", "\n1Gi", "1e3k", "1kM", "½", "null", "true"),
)

numbers = st.from_regex(r"[0-9]{1,15}(\.[0-9]{0,9})?|\.[0-9]{1,9}", fullmatch=True).filter(str.isascii)
signs = st.sampled_from(["", "+", "-"])


def number_of(sign: str, text: str) -> Fraction:
    return Fraction(
        f"{'-' if sign == '-' else ''}0{text}0" if "." in text else f"{'-' if sign == '-' else ''}{text}"
    )


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1.5Gi", "1536Mi"),
        ("0.1Gi", "107374182400m"),
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("1500e-3", "1500e-3"),
        ("1.5e3", "1500"),
        ("2000", "2k"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        ("5.", "5"),
        (".5Gi", "512Mi"),
        ("+1Gi", "1Gi"),
        ("-1Gi", "-1Gi"),
        ("0Gi", "0"),
        ("-0", "0"),
        ("512Ki", "512Ki"),
        ("0.5Ki", "512"),
        ("1E", "1E"),
        ("8Ei", "9223372036854775807"),
        ("0.1n", "1n"),
        ("1e-12", "1e-9"),
    ],
)
def test_the_canonical_form_is_the_one_the_api_server_stores(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical


@pytest.mark.parametrize("text", NO_QUANTITIES)
def test_what_is_outside_the_grammar_is_refused_and_not_echoed(text: str) -> None:
    for read in (parse, to_mi, vram_mi):
        with pytest.raises(QuantityError, match=r"^must be a Kubernetes quantity, for example 8Gi"):
            read(text)


@pytest.mark.parametrize(
    ("text", "mebibytes"),
    [
        ("1.5Gi", 1536),
        ("0.1Gi", 103),
        ("15e9", 14306),
        ("1e3", 1),
        ("24062M", 22948),
        ("24062Mi", 24062),
        ("2T", 1907349),
        ("1500m", 1),
        ("12Gi", 12288),
        ("1", 1),
        ("1048577", 2),
        ("1n", 1),
        ("1Pi", MAX_MI),
    ],
)
def test_mebibytes_are_counted_in_the_kubernetes_grammar_and_rounded_up(text: str, mebibytes: int) -> None:
    assert to_mi(text) == mebibytes


@pytest.mark.parametrize(
    ("text", "mebibytes"), [("12000", 12000), ("1", 1), ("007", 7), ("12000M", 11445), ("12e3", 1)]
)
def test_bare_digits_of_vram_are_mebibytes_and_nothing_else_is(text: str, mebibytes: int) -> None:
    assert vram_mi(text) == mebibytes


@pytest.mark.parametrize("text", ["0", "0Gi", "-1Gi", "-1", "1.1Pi", "9Ei", "1e30", "1000E", str(10**30)])
def test_nothing_negative_and_nothing_absurd_is_an_amount_of_memory(text: str) -> None:
    for read in (to_mi, vram_mi):
        with pytest.raises(QuantityError, match=f"^must be more than 0 and at most {MAX_MI} MiB$"):
            read(text)


@pytest.mark.parametrize("text", ["1e999999999", "1e-999999999", f"1e{MAX_EXPONENT + 1}"])
def test_an_absurd_exponent_is_refused_before_it_is_computed(text: str) -> None:
    with pytest.raises(QuantityError, match="exponent"):
        parse(text)


def test_a_text_of_absurd_length_is_refused_unread() -> None:
    assert parse("1" * MAX_LENGTH).value == int("1" * MAX_LENGTH)
    for read in (parse, vram_mi):
        with pytest.raises(QuantityError):
            read("1" * (MAX_LENGTH + 1))


@given(signs, numbers, st.sampled_from(sorted(BINARY)))
@example("", "7.999999999", "Ei")
def test_binary_suffixes_are_powers_of_1024_up_to_the_cap(sign: str, number: str, suffix: str) -> None:
    exact = number_of(sign, number) * BINARY[suffix]
    cap = 2**63 - 1

    value = parse(sign + number + suffix).value

    assert value == max(-cap, min(cap, rounded_to_nano(exact)))


@given(signs, numbers, st.sampled_from(sorted(DECIMAL)))
def test_decimal_suffixes_are_powers_of_1000(sign: str, number: str, suffix: str) -> None:
    assert parse(sign + number + suffix).value == rounded_to_nano(number_of(sign, number) * DECIMAL[suffix])


@given(signs, numbers, st.sampled_from("eE"), st.integers(-MAX_EXPONENT, MAX_EXPONENT))
def test_exponents_are_powers_of_ten(sign: str, number: str, letter: str, exponent: int) -> None:
    exact = number_of(sign, number) * Fraction(10) ** exponent

    assert parse(f"{sign}{number}{letter}{exponent}").value == rounded_to_nano(exact)


def rounded_to_nano(value: Fraction) -> Fraction:
    """Away from zero."""
    steps = value / NANO
    return NANO * (math.ceil(steps) if value > 0 else math.floor(steps))


quantities = st.builds(
    Quantity,
    st.integers(-(2**63 - 1) * 10**9, (2**63 - 1) * 10**9).map(lambda nanos: nanos * NANO),
    st.sampled_from(Format),
)


@given(quantities)
@example(Quantity(Fraction(1023), Format.BINARY))
@example(Quantity(Fraction(1024), Format.BINARY))
@example(Quantity(Fraction(2**63 - 1), Format.BINARY))
@example(Quantity(Fraction(15625000), Format.BINARY))
def test_the_canonical_form_keeps_the_value_and_settles_at_once(quantity: Quantity) -> None:
    """A binary quantity that no 1024 divides prints without suffix, which is read as a decimal."""
    again = parse(str(quantity))

    assert again.value == quantity.value
    assert str(parse(str(again))) == str(again)
    assert str(again) == str(quantity) or str(quantity).isdigit() or str(quantity)[1:].isdigit()


@given(st.integers(1, MAX_MI * MI))
def test_mebibytes_hold_the_bytes_and_no_whole_mebibyte_more(size: int) -> None:
    assert (to_mi(str(size)) - 1) * MI < size <= to_mi(str(size)) * MI


@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_an_error_of_ours(text: str) -> None:
    try:
        quantity = parse(text)
    except QuantityError:
        return
    assert parse(str(quantity)).value == quantity.value
