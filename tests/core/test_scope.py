"""Scopes: which objects belong to a list."""

from typing import Any

import msgspec
import pytest

from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import FullObjectMeta, Resource
from magicstick.kube.scope import Scope, matches_labels
from tests.support.objects import WIDGET, widget

SECRET = Kind("", "v1", "Secret", "secrets")
LABELS = {"app": "web", "tier": "front", "empty": ""}


def secret(type_: str = "", **metadata: Any) -> Resource:
    return Resource(FullObjectMeta(name="a", namespace="one", **metadata), type=type_)


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
    obj = widget("a", 1, namespace="one", labels={"app": "web"})
    assert Scope(WIDGET).covers(obj)
    assert Scope(WIDGET, "one").covers(obj)
    assert not Scope(WIDGET, "two").covers(obj)
    assert Scope(WIDGET, "one", "a").covers(obj)
    assert not Scope(WIDGET, "one", "b").covers(obj)
    assert Scope(WIDGET, label_selector="app=web").covers(obj)
    assert not Scope(WIDGET, label_selector="app=db").covers(obj)
    assert Scope(WIDGET, label_selector="app=db").covers_key(ObjectKey("one", "a"))


def test_a_scope_of_one_name_asks_the_server_for_that_name_alone() -> None:
    assert Scope(WIDGET, "one", "a").asked_fields == "metadata.name=a"
    assert Scope(WIDGET, "one").asked_fields == ""


def test_what_is_selected_by_is_asked_beside_the_name() -> None:
    assert Scope(SECRET, field_selector="type!=a").asked_fields == "type!=a"
    assert Scope(SECRET, name="n", field_selector="type!=a").asked_fields == "metadata.name=n,type!=a"


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", True),
        ("type=Opaque", True),
        ("type==Opaque", True),
        ("type = Opaque", True),
        ("type=other", False),
        ("type!=Opaque", False),
        ("type!=helm.sh/release.v1", True),
        ("type!=helm.sh/release.v1,type!=Opaque", False),
        ("type=", False),
        ("metadata.name=a,type=Opaque", True),
        ("metadata.name!=a", False),
        ("metadata.namespace=one", True),
        ("metadata.namespace=two,type=Opaque", False),
    ],
)
def test_fields_match_as_the_server_decides(selector: str, *, matches: bool) -> None:
    scope = Scope(SECRET, field_selector=selector)
    assert scope.covers(secret("Opaque")) is matches


def test_a_field_that_an_object_lacks_is_empty() -> None:
    assert Scope(SECRET, field_selector="type=").covers(secret())
    assert Scope(SECRET, field_selector="type!=Opaque").covers(secret())


def test_only_the_objects_own_type_is_its_type() -> None:
    fake = {"type": "Opaque"}
    obj = secret("helm.sh/release.v1", labels=fake, annotations=fake)
    disguised = msgspec.structs.replace(obj, data=fake, spec=fake)
    assert not Scope(SECRET, field_selector="type!=helm.sh/release.v1").covers(disguised)
    assert not Scope(SECRET, field_selector="type=Opaque").covers(disguised)


@pytest.mark.parametrize(
    "selector", ["type", "=a", "type=a b", "type in (a)", "!type", "type=a=b", "type=a\\,b"]
)
def test_what_is_no_field_selector_is_refused(selector: str) -> None:
    with pytest.raises(ValueError, match="field selector"):
        Scope(SECRET, field_selector=selector)


def test_a_field_that_no_view_carries_is_refused_with_those_that_are_possible() -> None:
    with pytest.raises(ValueError, match=r"spec.nodeName; possible are metadata.name, .*, type"):
        Scope(SECRET, field_selector="spec.nodeName=n")


@pytest.mark.parametrize(
    ("scope", "text"),
    [
        (Scope(WIDGET), "widgets.example.com"),
        (Scope(WIDGET, "one"), "widgets.example.com in one"),
        (Scope(WIDGET, "one", "a"), "widgets.example.com in one/a"),
        (Scope(WIDGET, label_selector="app=web"), "widgets.example.com (app=web)"),
        (Scope(SECRET, "one", None, "app=web", "type!=a"), "secrets in one (app=web, type!=a)"),
    ],
)
def test_a_scope_is_told_in_words(scope: Scope, text: str) -> None:
    assert str(scope) == text
