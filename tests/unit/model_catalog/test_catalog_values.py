"""Small readings: numbers, slugs, types."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.model_catalog import values


@pytest.mark.parametrize(
    ("given_value", "expected"),
    [
        (1, 1),
        ("4096", 4096),
        (" 12 ", 12),
        (0, None),
        (-1, None),
        ("-1", None),
        ("0", None),
        (True, None),
        (1.5, None),
        (4096.0, None),
        ("4k", None),
        ("", None),
        ("٣", None),
        ("9" * 5000, None),
        (None, None),
        ([1], None),
    ],
)
def test_a_limit_is_a_whole_number_above_zero_or_digits(given_value: object, expected: int | None) -> None:
    assert values.positive(given_value) == expected


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("demo", "demo"),
        ("Llama 3.1 (8B)", "llama-3.1-8b"),
        ("org/model:tag", "org-model-tag"),
        ("a__b..c-d", "a__b..c-d"),
        ("--x--", "x"),
        ("///", "model"),
        ("", "model"),
        ("Grüße", "gr-e"),
    ],
)
def test_a_slug_keeps_what_may_stand_in_an_id(name: str, slug: str) -> None:
    assert values.slug(name) == slug


@pytest.mark.parametrize(
    ("features", "name", "kind"),
    [
        (["TextEmbedding"], "demo", "embedding"),
        (["TextGeneration", "TextEmbedding"], "demo", "embedding"),
        (["TextGeneration"], "my-embedding", "chat"),
        (["chat"], "my-embedding", "chat"),
        ([], "My-Embedding-model", "embedding"),
        (["SpeechToText"], "whisper", "chat"),
        ([None, 3], "demo", "chat"),
    ],
)
def test_the_type_of_a_model_follows_its_features_and_then_its_name(
    features: list[object], name: str, kind: str
) -> None:
    assert values.kind_of_model(features, name) == kind


@given(st.text())
def test_a_slug_is_never_empty_and_slugs_of_slugs_are_the_same(name: str) -> None:
    slug = values.slug(name)
    assert slug
    assert values.slug(slug) == slug
