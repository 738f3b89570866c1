"""What is told of a model once its runtime is asked, and what is never told (spec: models §7.2, §10.4, §11)."""

import json
from dataclasses import replace
from typing import Any

import pytest

from magicstick.api import labels
from magicstick.models.observation import CheckState, EngineCheck
from magicstick.models.samples import settled
from magicstick.runtime.plan import Plan
from tests.support.model_objects import NOW, kubeai, live_model, observation, ollama, pod
from tests.support.model_plans import applied, condition, decided, message, status_of, stored, told

POLICY = "flash-attn-triton"
USAGE = {"source": "ollama-api-ps", "sampledAt": "2026-01-01T12:00:00Z", "replicas": 1, "totalMi": 3}


def states(**changes: Any) -> list[Plan]:
    """A vLLM model from its first Pod to the catalog, as it is told."""
    model = kubeai(**changes)
    seen: dict[str, Any] = {"resolved": model}
    ready = {"pods": (pod(ready=True),)}
    return [
        decided(observation(None, **seen)),
        decided(observation(None, live_model(), **seen)),
        decided(observation(None, live_model(ready=0), pods=(pod(),), **seen)),
        decided(observation(None, live_model(ready=1), **ready, **seen)),
        decided(observation(None, live_model(ready=1), **ready, published=True, **seen)),
    ]


@pytest.mark.req("MS-373")
def test_the_vision_policy_is_asked_for_on_the_model_and_told_of_in_no_state() -> None:
    """Only logs and inference show which backend is in effect."""
    with_policy = states(annotations={**kubeai().annotations, labels.VISION_ATTENTION: POLICY})
    without = states()
    annotated = [body["metadata"].get("annotations", {}) for plan in with_policy for body in applied(plan)]
    assert [each.get(labels.VISION_ATTENTION) for each in annotated] == [POLICY] * len(with_policy)
    assert [told(each)[0] for each in with_policy][-1] == "Ready"
    timed = ("podCreation",)  # it counts for a digest of all that is asked for
    assert [_but(each, *timed) for each in with_policy] == [_but(each, *timed) for each in without]
    said = json.dumps([_but(each, *timed) for each in with_policy]).casefold()
    assert not any(word in said for word in (POLICY, "vision", "attn", "attention"))


def _but(plan: Plan, *fields: str) -> dict[str, Any]:
    return {name: value for name, value in status_of(plan).items() if name not in fields}


def serving(of: Any = None, *, published: bool | None = True, **check: Any) -> Plan:
    """An Ollama model with a ready Pod."""
    o = observation(
        of,
        live_model(ready=1),
        resolved=ollama(cpu_offloading=True),
        pods=(pod(ready=True),),
        published=published,
    )
    return decided(replace(o, check=settled(EngineCheck(**check), o.status, NOW, o.resync_s)))


@pytest.mark.req("MS-359", "MS-363")
def test_a_name_that_is_lost_takes_the_model_back_to_starting_with_its_cause() -> None:
    before = stored(serving(state=CheckState.PASSED))
    plan = serving(before, state=CheckState.FAILED, message="The model could not be copied: HTTP 500.")
    assert told(plan) == ("Starting", "WaitingForOllamaAlias")
    assert "HTTP 500" in message(plan)
    assert condition(plan, "RuntimeReady") == "False"


def test_memory_is_told_while_it_is_known_and_not_taken_back_while_nobody_can_tell() -> None:
    before = stored(serving(state=CheckState.PASSED, memory_usage=USAGE))
    assert before.status["memoryUsage"] == USAGE
    later = {**USAGE, "sampledAt": "2026-01-01T12:00:20Z"}
    checks: list[dict[str, Any]] = [{}, {"state": CheckState.PASSED, "memory_usage": later}]
    for check in checks:
        assert status_of(serving(before, **check)) == status_of(
            serving(state=CheckState.PASSED, memory_usage=USAGE)
        )
    assert "memoryUsage" not in status_of(serving(before, state=CheckState.PASSED))
