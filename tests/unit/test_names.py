"""Names are checked with their exact limit, and shortened so that they stay distinct."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from magicstick.api import labels
from magicstick.api.names import (
    DNS_LABEL_PATTERN,
    KUBEAI_MODEL_LIMIT,
    RELEASE_NAME_LIMIT,
    dns_label_problem,
    is_dns_label,
    is_dns_subdomain,
    is_label_value,
    label_value,
    shorten,
    suffixed,
)

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")

names = st.text(st.sampled_from("abz019-._ABZ/ é"), max_size=300) | st.text(max_size=80)
limits = st.integers(14, 63)


@pytest.mark.parametrize("limit", [RELEASE_NAME_LIMIT, KUBEAI_MODEL_LIMIT, 63])
def test_a_name_at_the_limit_is_accepted_and_one_above_it_is_told_both_lengths(limit: int) -> None:
    assert dns_label_problem("a" * (limit - 1), limit) is None
    assert dns_label_problem("a" * limit, limit) is None
    assert (
        dns_label_problem("a" * (limit + 1), limit)
        == f"must be at most {limit} characters long, not {limit + 1}"
    )


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "qwen2.5-omni", "a_b", "ä", "a b", "a\n", "1٢"])
def test_what_is_no_dns_label_is_told_what_one_is(name: str) -> None:
    problem = dns_label_problem(name, RELEASE_NAME_LIMIT)

    assert problem is not None
    assert problem.startswith("must be a DNS label of at most 53 characters: lower-case letters")


@pytest.mark.parametrize("name", ["a", "0", "3b-chat", "a--b", "a" * 63])
def test_a_dns_label_may_begin_with_a_digit(name: str) -> None:
    assert is_dns_label(name)
    assert re.search(DNS_LABEL_PATTERN, name)


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("a.b", True),
        ("a" * 253, True),
        ("a" * 254, False),
        ("a..b", False),
        (".a", False),
        ("a.-b", False),
        ("A.b", False),
        ("", False),
    ],
)
def test_object_names_are_labels_joined_by_dots(name: str, legal: bool) -> None:  # noqa: FBT001 - a table
    assert is_dns_subdomain(name) is legal


@pytest.mark.parametrize(
    ("value", "legal"),
    [
        ("", True),
        ("A_b.c-9", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("-a", False),
        ("a/b", False),
        ("a\n", False),
    ],
)
def test_label_values_are_checked_as_the_api_server_does(value: str, legal: bool) -> None:  # noqa: FBT001 - a table
    assert is_label_value(value) is legal


@given(names, limits)
def test_a_shortened_name_is_legal_and_within_the_limit(name: str, limit: int) -> None:
    short = shorten(name, limit)

    assert len(short) <= limit
    assert DNS_LABEL.fullmatch(short)
    assert shorten(short, limit) == short


@given(st.from_regex(DNS_LABEL, fullmatch=True), limits)
def test_a_name_that_fits_stays_as_it_is(name: str, limit: int) -> None:
    assert shorten(name[:limit].rstrip("-"), limit) == name[:limit].rstrip("-")
    assert (shorten(name, limit) == name) is (len(name) <= limit)


@given(names, names, limits)
def test_distinct_names_stay_distinct(one: str, other: str, limit: int) -> None:
    assume(one != other)

    assert shorten(one, limit) != shorten(other, limit)
    assert label_value(one) != label_value(other)


def test_many_names_with_one_beginning_stay_distinct() -> None:
    beginning = "team-agent-" * 8

    assert len({shorten(f"{beginning}{number}") for number in range(20_000)}) == 20_000


def test_names_that_differ_only_in_what_is_replaced_stay_distinct() -> None:
    alike = {"Qwen2.5", "qwen2.5", "qwen2_5", "qwen2 5", "qwen2..5", "-qwen2.5", "qwen2.5-"}

    shortened = {shorten(name) for name in alike}

    assert len(shortened) == len(alike)
    assert all(name.startswith("qwen2-5-") for name in shortened)


def test_the_short_form_of_a_name_never_changes() -> None:
    """Objects in clusters carry these names: another hash would orphan them."""
    assert shorten("a" * 64) == "a" * 50 + "-ffe054fe7ae0"
    assert shorten("qwen2.5-omni") == "qwen2-5-omni-27ab87516cd7"
    assert label_value("org/model") == "org-model-c87c0c64d2fb"


def test_a_limit_without_room_for_the_hash_is_an_error_of_the_program() -> None:
    with pytest.raises(ValueError, match="at least 14 characters, not 13"):
        shorten("a" * 14, 13)


@given(names, st.sampled_from(["local", "public-callback", "route-access", "freetoken"]))
def test_a_suffix_is_always_whole(name: str, suffix: str) -> None:
    result = suffixed(name, suffix)

    assert len(result) <= 63
    assert DNS_LABEL.fullmatch(result)
    assert result.endswith(f"-{suffix}")


@pytest.mark.parametrize("length", [52, 53, 54, 62, 63, 64])
def test_existing_names_with_a_suffix_are_unchanged_as_long_as_they_fit(length: int) -> None:
    name = "a" * (length - len("-local"))

    assert (suffixed(name, "local") == f"{name}-local") is (length <= 63)


@given(names)
def test_a_label_value_is_legal_and_legal_ones_stay_as_they_are(text: str) -> None:
    value = label_value(text)

    assert len(value) <= 63
    assert LABEL_VALUE.fullmatch(value)
    assert value == text or not (LABEL_VALUE.fullmatch(text) and len(text) <= 63)


def test_our_keys_are_legal_and_each_has_one_meaning() -> None:
    keys = [
        value
        for name, value in vars(labels).items()
        if name.isupper() and isinstance(value, str) and "/" in value
    ]

    assert len(keys) == len(set(keys))
    for key in keys:
        prefix, _, name = key.partition("/")
        assert is_dns_subdomain(prefix), key
        assert is_label_value(name.removesuffix("-")), key


def test_our_constant_values_are_legal_label_values() -> None:
    assert all(
        is_label_value(value)
        for value in (labels.OPERATOR, labels.TRUE, labels.SOURCE_MANUAL, labels.SOURCE_HARDWARE)
    )
