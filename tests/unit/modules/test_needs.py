"""Which activations are made for what is needed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.api import labels
from magicstick.api.kinds import KUSTOMIZATION, MODULE_ACTIVATION
from magicstick.kube.informer import InformerState
from magicstick.modules.needs import missing_modules, request_modules
from tests.support.module_objects import activation, catalog, shipped_catalog
from tests.support.module_world import World

CATALOG = catalog(
    a={"requires": ["b", "basis"], "aliases": ["alpha"]},
    b={"requires": ["c"]},
    c={"requires": ["a"]},
)


def test_everything_that_is_required_is_requested_once() -> None:
    assert missing_modules(["alpha", "a", "c"], World(CATALOG).facts) == ("a", "c", "b")


@pytest.mark.req("MS-227")
@pytest.mark.parametrize("options", [{}, {"enabled": False}, {"dying": True, "finalizers": ["x"]}])
@pytest.mark.parametrize("name", ["b", "mine"])
def test_e5_e6_an_activation_that_exists_wins_in_whatever_state(
    options: dict[str, object], name: str
) -> None:
    there = World(CATALOG, activation(name, module="b", **options))  # type: ignore[arg-type] # a few options
    assert missing_modules(["a"], there.facts) == ("a",)


def test_e10_e11_static_and_unknown_modules_are_never_requested() -> None:
    assert missing_modules(["basis", "foo"], World(CATALOG).facts) == ()


def test_a_module_whose_name_is_taken_is_not_requested() -> None:
    assert missing_modules(["b"], World(CATALOG, activation("b", module="foo")).facts) == ()


@pytest.mark.parametrize("kind", [MODULE_ACTIVATION, KUSTOMIZATION])
def test_while_anything_cannot_be_read_nothing_is_missing(kind: object) -> None:
    there = World(CATALOG)
    there.reads.states[kind] = InformerState.FAILING  # type: ignore[index] # one of the two kinds
    assert missing_modules(["a"], there.facts) == ()
    assert missing_modules(["a"], World(None).facts) == ()


def test_the_source_marks_what_was_named_and_not_what_that_requires() -> None:
    steps = request_modules(["alpha"], World(CATALOG).facts, source=labels.SOURCE_HARDWARE)
    marks = {
        step.body["metadata"]["name"]: step.body["metadata"]["annotations"].get(labels.ACTIVATION_SOURCE)
        for step in steps
    }
    assert marks == {"a": "hardware-detection", "b": None, "c": None}
    assert {step.kind for step in steps} == {MODULE_ACTIVATION}


@pytest.mark.req("MS-021")
def test_nothing_but_itself_ever_requests_the_private_mesh() -> None:
    others = [key for key in shipped_catalog().modules if key != "private-mesh"]
    assert "private-mesh" not in missing_modules(others, World(shipped_catalog()).facts)


@given(st.lists(st.sampled_from([*shipped_catalog().modules, "foo", "modelCatalog"])))
def test_requests_are_closed_under_requirements(modules: list[str]) -> None:
    shipped = shipped_catalog()
    requested = set(missing_modules(modules, World(shipped).facts))
    required = {each for module in requested for each in shipped.requires(module)}
    assert {each for each in required if not shipped.modules[each].static} <= requested
    named = {shipped.canonical(each) for each in modules} & set(shipped.modules)
    assert {each for each in named if not shipped.modules[each].static} <= requested
