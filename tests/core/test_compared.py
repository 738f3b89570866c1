"""Comparisons that are remembered while neither side has changed."""

from collections.abc import Callable
from typing import Any

import pytest

from magicstick.kube import writes
from magicstick.kube.differ import Differences, differences
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import FullObjectMeta, Resource
from magicstick.kube.writes import Compared, Place, Wanted

KIND = Kind("", "v1", "Service", "services")
PLACE = Place(KIND, ObjectKey("ns", "web"))


def live(version: str = "1", *, uid: str = "u", **spec: Any) -> Resource:
    return Resource(
        metadata=FullObjectMeta(name="web", namespace="ns", uid=uid, resource_version=version), spec=spec
    )


def wanted(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web", "namespace": "ns"}, "spec": spec}


@pytest.fixture
def comparisons(monkeypatch: pytest.MonkeyPatch) -> list[Resource]:
    """What has really been compared."""
    seen: list[Resource] = []
    real: Callable[[Any, Resource, str], Differences] = differences

    def counted(body: Any, there: Resource, manager: str) -> Differences:
        seen.append(there)
        return real(body, there, manager)

    monkeypatch.setattr(writes, "differences", counted)
    return seen


def test_the_same_wish_of_the_same_version_is_compared_once(comparisons: list[Resource]) -> None:
    compared = Compared()
    first = compared.differences(Wanted(PLACE, wanted(a=1)), live(a=2), "us")
    again = compared.differences(Wanted(PLACE, wanted(a=1)), live(a=2), "us")
    assert first == again != {}
    assert len(comparisons) == 1


@pytest.mark.parametrize(
    ("body", "there"),
    [
        (wanted(a=2), live(a=2)),
        (wanted(a=1), live("2", a=1)),
        (wanted(a=1), live(uid="another", a=1)),
    ],
)
def test_whatever_changed_is_compared_anew(
    body: dict[str, Any], there: Resource, comparisons: list[Resource]
) -> None:
    compared = Compared()
    before = compared.differences(Wanted(PLACE, wanted(a=1)), live(a=2), "us")
    after = compared.differences(Wanted(PLACE, body), there, "us")
    assert len(comparisons) == 2
    assert after == differences(body, there, "us")
    assert before != after


def test_an_object_without_a_version_is_never_remembered(comparisons: list[Resource]) -> None:
    compared = Compared()
    for _ in range(2):
        compared.differences(Wanted(PLACE, wanted(a=1)), live("", a=2), "us")
    assert len(comparisons) == 2


def test_what_was_asked_for_long_ago_is_forgotten_first(
    monkeypatch: pytest.MonkeyPatch, comparisons: list[Resource]
) -> None:
    monkeypatch.setattr(Compared, "LIMIT", 2)
    compared = Compared()
    places = [Place(KIND, ObjectKey("ns", name)) for name in ("a", "b", "c")]
    for place in (places[0], places[1], places[0], places[2]):
        compared.differences(Wanted(place, wanted(a=1)), live(a=2), "us")
    assert (len(compared), len(comparisons)) == (2, 3)
    compared.differences(Wanted(places[0], wanted(a=1)), live(a=2), "us")
    assert len(comparisons) == 3, "the one that was asked for again was forgotten"
    compared.differences(Wanted(places[1], wanted(a=1)), live(a=2), "us")
    assert len(comparisons) == 4
