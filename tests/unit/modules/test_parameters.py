"""From parameters as users write them to the variables that Flux substitutes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.modules.parameters import SIZE_PATTERN, parameter_problem, substitutions
from tests.support.module_objects import catalog, shipped_catalog

LITELLM = shipped_catalog().modules["litellm"]
VARIABLE = "AI_APPLIANCE_LITELLM_POSTGRES_STORAGE"
HOST = catalog(web={"parameters": [{"name": "host", "substitution": "WEB_HOST"}, {"name": "free"}]}).modules[
    "web"
]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("5Gi", "5Gi"),
        (" 5Gi ", "5Gi"),
        ({"size": "5Gi"}, "5Gi"),
        ({"storageSize": "5Gi"}, "5Gi"),
        ({"size": "5Gi", "storageSize": "6Gi"}, "5Gi"),
        ({"size": None, "storageSize": "6Gi"}, "6Gi"),
        (5, "5"),
        (1.5, "1.5"),
    ],
)
def test_e12_row_13_a_size_may_be_written_in_several_ways(value: Any, text: str) -> None:
    assert substitutions(LITELLM, {"postgresStorage": value}) == {VARIABLE: text}
    assert parameter_problem(LITELLM, {"postgresStorage": value}) == ""


@pytest.mark.parametrize("value", ["", "  ", None, {}, {"size": None}, {"size": ""}])
def test_e12_row_13_a_blank_value_is_not_substituted(value: Any) -> None:
    assert substitutions(LITELLM, {"postgresStorage": value}) == {}
    assert parameter_problem(LITELLM, {"postgresStorage": value}) == ""


@pytest.mark.parametrize(
    "value", ["5 Gi", "5GB", "-1Gi", "Gi", "5Gi: x", "${X}", "1e3", True, {"size": "big"}]
)
def test_a_storage_size_must_match_the_pattern(value: Any) -> None:
    problem = parameter_problem(LITELLM, {"postgresStorage": value})
    assert problem == f"spec.parameters.postgresStorage must match {SIZE_PATTERN}"


@pytest.mark.parametrize("value", [["5Gi"], {"size": ["5Gi"]}, {"size": {"a": 1}}])
def test_a_value_without_a_text_is_a_problem(value: Any) -> None:
    assert "must be text, a number or an object" in parameter_problem(LITELLM, {"postgresStorage": value})
    assert substitutions(LITELLM, {"postgresStorage": value}) == {}


@pytest.mark.parametrize("value", ['a"b', "a'b", "a\nb", "a: b", "a #b", "${OTHER}", "{a}", "a\\b"])
def test_no_value_can_change_the_document_around_it(value: str) -> None:
    assert parameter_problem(HOST, {"host": value}).startswith("spec.parameters.host must match")


def test_other_values_may_be_names_and_addresses() -> None:
    assert parameter_problem(HOST, {"host": "web-1.example.com:8080/path@x+y"}) == ""


@given(st.text())
def test_a_problem_never_shows_the_value(value: str) -> None:
    problem = parameter_problem(HOST, {"host": value})
    assert value == "" or problem in ("", parameter_problem(HOST, {"host": '"'}))


def test_undeclared_parameters_and_those_without_variable_have_no_part() -> None:
    given_ = {"gpuSharing": '{"mode": "exclusive"}', "free": 'a"b', "host": "x"}
    assert substitutions(HOST, given_) == {"WEB_HOST": "x"}
    assert parameter_problem(HOST, given_) == ""
