"""Scopes: which objects belong to a list."""

import pytest

from magicstick.kube.kinds import ObjectKey
from magicstick.kube.scope import Scope, matches_labels
from tests.support.objects import WIDGET, widget

LABELS = {"app": "web", "tier": "front", "empty": ""}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app = web", True),
        ("app=db", False),
        ("app!=db", True),
        ("app!=web", False),
        ("other!=web", True),
        ("app", True),
        ("other", False),
        ("!other", True),
        ("!app", False),
        ("empty=", True),
        ("app=", False),
        ("tier in (front, back)", True),
        ("tier in (back)", False),
        ("tier notin (back)", True),
        ("tier notin (front)", False),
        ("other notin (front)", True),
        ("app=web,tier=front", True),
        ("app=web,tier=back", False),
        ("app=web, tier in (a,front),!other", True),
        ("example.com/part-of=x", False),
    ],
)
def test_a_selector_matches_as_the_server_decides(selector: str, *, matches: bool) -> None:
    assert matches_labels(selector, LABELS) is matches


@pytest.mark.parametrize("selector", ["=", "a b", "a in", "a in b", "(a)", "a=b=c", "in (a)"])
def test_what_is_no_selector_is_refused(selector: str) -> None:
    with pytest.raises(ValueError, match="label selector"):
        Scope(WIDGET, label_selector=selector)


def test_a_scope_covers_what_its_list_would_hold() -> None:
    obj = widget("a", 1, namespace="one", labels={"app": "web"}).metadata
    assert Scope(WIDGET).covers(obj)
    assert Scope(WIDGET, "one").covers(obj)
    assert not Scope(WIDGET, "two").covers(obj)
    assert Scope(WIDGET, "one", "a").covers(obj)
    assert not Scope(WIDGET, "one", "b").covers(obj)
    assert Scope(WIDGET, label_selector="app=web").covers(obj)
    assert not Scope(WIDGET, label_selector="app=db").covers(obj)
    assert Scope(WIDGET, label_selector="app=db").covers_key(ObjectKey("one", "a"))


def test_a_scope_of_one_name_asks_the_server_for_that_name_alone() -> None:
    assert Scope(WIDGET, "one", "a").field_selector == "metadata.name=a"
    assert Scope(WIDGET, "one").field_selector == ""


@pytest.mark.parametrize(
    ("scope", "text"),
    [
        (Scope(WIDGET), "widgets.example.com"),
        (Scope(WIDGET, "one"), "widgets.example.com in one"),
        (Scope(WIDGET, "one", "a"), "widgets.example.com in one/a"),
        (Scope(WIDGET, label_selector="app=web"), "widgets.example.com (app=web)"),
    ],
)
def test_a_scope_is_told_in_words(scope: Scope, text: str) -> None:
    assert str(scope) == text
