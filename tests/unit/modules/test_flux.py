"""Reading Flux's verdict, as kustomize-controller really writes it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.modules.flux import FluxState, verdict
from tests.support.module_objects import condition, kustomization


def state(**options: Any) -> FluxState:
    return verdict(kustomization("app-x", **options)).state


def test_a_success_of_the_current_generation_is_ready() -> None:
    assert state(generation=3, observed=3) is FluxState.READY


def test_f07_a_success_of_an_earlier_generation_does_not_count() -> None:
    assert state(generation=3, observed=2) is FluxState.PENDING


def test_f07_a_condition_of_an_earlier_generation_does_not_count() -> None:
    status = {"observedGeneration": 3, "conditions": [condition("True", observed=2)]}
    assert state(generation=3, status=status) is FluxState.PENDING


def test_f07_an_object_whose_status_is_behind_does_not_count_though_its_condition_is_not() -> None:
    status = {"observedGeneration": 1, "conditions": [condition("True", observed=2)]}
    assert state(generation=2, status=status) is FluxState.PENDING


def test_a_status_without_generation_does_not_count() -> None:
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    assert state(ready=None, status=status) is FluxState.PENDING


def test_a_failure_counts_though_flux_leaves_the_observed_generation_behind() -> None:
    status = {"observedGeneration": -1, "conditions": [condition("False", "BuildFailed", "no such path", 1)]}
    said = verdict(kustomization("app-x", status=status))
    assert (said.state, said.reason, said.message) == (FluxState.FAILED, "BuildFailed", "no such path")


def test_a_message_ends_where_its_words_do() -> None:
    status = {
        "observedGeneration": -1,
        "conditions": [condition("False", "BuildFailed", "no such path\n\n", 1)],
    }
    assert verdict(kustomization("app-x", status=status)).message == "no such path"


def test_a_failure_of_an_earlier_generation_does_not_count() -> None:
    status = {"observedGeneration": 1, "conditions": [condition("False", "BuildFailed", observed=1)]}
    assert state(generation=2, status=status) is FluxState.PENDING


def test_a_periodic_reconcile_of_what_was_applied_is_no_news() -> None:
    assert state(ready="Unknown", reason="Progressing") is FluxState.CHECKING


def test_a_first_reconcile_is_pending() -> None:
    status = {"observedGeneration": -1, "conditions": [condition("Unknown", "Progressing")]}
    said = verdict(kustomization("app-x", status=status))
    assert (said.state, said.current) == (FluxState.PENDING, True)


def test_waiting_for_a_dependency_is_no_failure() -> None:
    assert state(ready="False", reason="DependencyNotReady") is FluxState.CHECKING
    status = {"observedGeneration": -1, "conditions": [condition("False", "DependencyNotReady")]}
    assert state(status=status) is FluxState.PENDING


@pytest.mark.parametrize("options", [{"suspend": True}, {"dying": True, "finalizers": ["x"]}])
def test_a_suspended_or_dying_object_has_no_verdict(options: dict[str, Any]) -> None:
    assert state(**options) is FluxState.PENDING


def test_no_status_is_pending() -> None:
    assert state(ready=None) is FluxState.PENDING


@pytest.mark.parametrize("type_", ["ServerReady", "ServerHealthy", "Available"])
def test_other_conditions_stand_in_for_ready(type_: str) -> None:
    assert state(status={"conditions": [{**condition("True"), "type": type_}]}) is FluxState.READY


def test_ready_comes_before_the_others() -> None:
    conditions = [{**condition("True"), "type": "Available"}, condition("False", "BuildFailed")]
    assert state(status={"conditions": conditions}) is FluxState.FAILED


def test_a_plain_ready_field_counts() -> None:
    assert state(ready=None, status={"observedGeneration": 1, "ready": True}) is FluxState.READY


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
STATUS = st.dictionaries(
    st.sampled_from(["observedGeneration", "ready", "conditions", "x"]), JSON
) | st.builds(
    lambda items: {"observedGeneration": 1, "conditions": items},
    st.lists(st.dictionaries(st.sampled_from(["type", "status", "reason", "observedGeneration"]), JSON)),
)


@given(STATUS)
def test_any_status_gives_a_verdict(status: dict[str, Any]) -> None:
    said = verdict(kustomization("app-x", status=status))
    assert said.state in FluxState
    assert isinstance(said.message, str)
