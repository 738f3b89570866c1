"""What holds for every model in every situation."""

from datetime import timedelta
from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from magicstick.kube.errors import Forbidden, NameConflict, NamespaceTerminating, Unavailable
from magicstick.kube.kinds import POD
from magicstick.models.decide import decide, decide_failure
from magicstick.models.observation import CheckState, EngineCheck, ModelObservation, Sharing
from magicstick.models.resolved import ProfileWait, Reason, Refusal, WaitReason
from magicstick.models.status import DUE_S, ModelPhase, Outcome
from magicstick.modules.facts import Gap, not_ready, unknown
from magicstick.runtime.conditions import check_conditions
from magicstick.runtime.plan import Apply, Create, Delete, Finalizer, Plan
from tests.support.effort import examples
from tests.support.model_objects import (
    NOW,
    READY_MODULES,
    activation,
    choice,
    descriptor,
    external,
    freetoken,
    kubeai,
    live_deployment,
    live_model,
    live_service,
    module,
    observation,
    ollama,
    pod,
)
from tests.support.realtime_objects import realtime, serving

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=5,
)
TRACKER = st.fixed_dictionaries(
    {},
    optional={
        "revision": st.sampled_from(["", "x"]) | JSON,
        "since": st.sampled_from(["", "2026-01-01T11:00:00Z", "never"]) | JSON,
        "attempts": st.integers(0, 5) | JSON,
        "lastAttempt": st.sampled_from(["2026-01-01T11:59:59Z", ""]) | JSON,
        "lastPodUid": st.sampled_from(["uid-model-demo-1", "other"]) | JSON,
    },
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["local", "external", "magic"]) | JSON,
        "enabled": st.booleans() | JSON,
        "targetNamespace": st.just("ai") | JSON,
        "local": st.fixed_dictionaries(
            {}, optional={"engine": st.sampled_from(["VLLM", "FreeToken"]) | JSON, "realtime": JSON}
        )
        | JSON,
    },
)
STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from(["Ready", "Starting"]) | JSON,
        "podCreation": TRACKER | JSON,
        "podRecovery": TRACKER | JSON,
        "conditions": st.lists(
            st.fixed_dictionaries(
                {
                    "type": st.sampled_from(["RuntimeReady", "CatalogPublished"]),
                    "status": st.sampled_from(["True", "False"]),
                    "observedGeneration": st.integers(0, 2),
                }
            ),
            max_size=2,
        )
        | JSON,
    },
)
MODELS = st.sampled_from(
    [live_model(), live_model(ready=0), live_model(ready=1), live_model(dying=True), live_model(serves=None)]
)
PODS = st.sampled_from(
    [
        pod(),
        pod(ready=True),
        pod(phase="Failed"),
        pod(phase="Pending"),
        pod(dying=True),
        pod(owner="uid-older"),
    ]
)
SEEN = st.fixed_dictionaries(
    {},
    optional={
        "ours": st.booleans(),
        "blind": st.sampled_from(["", "Models cannot be read"]),
        "cleanup": st.sampled_from(["", "It is cleared."]),
        "unknown": st.sampled_from(["", "Nodes cannot be read"]),
        "sharing": st.none()
        | st.builds(
            Sharing,
            st.sampled_from(["Ready", "Starting", "Blocked"]),
            st.sampled_from(["exclusive", "time-slicing"]),
            st.just("text"),
            st.sampled_from(["", "no slot"]),
        ),
        "resolved": st.sampled_from(
            [
                kubeai(),
                ollama(),
                freetoken(),
                external(),
                realtime(),
                realtime(missing="No device."),
                kubeai(namespace="lab"),
                None,
                Refusal(Reason.INVALID_SPEC, "spec.local.url", "is required"),
            ]
        ),
        "modules": st.sampled_from(
            [
                READY_MODULES,
                (module("kubeai", not_ready(Gap.DISABLED)),),
                (module("kubeai", unknown("cannot be judged")),),
            ]
        ),
        "kubeai_served": st.booleans(),
        "occupant": st.none() | MODELS,
        "profile": st.sampled_from([None, choice(), ProfileWait(WaitReason.CPU, "not yet")]),
        "pods": st.none() | st.lists(PODS, max_size=2).map(tuple),
        "descriptor": st.sampled_from([None, descriptor(), descriptor(image="")]),
        "check": st.builds(EngineCheck, st.sampled_from(CheckState)),
        "published": st.sampled_from([True, False, None]),
    },
)
RUNTIMES = st.lists(
    st.sampled_from([live_model(), live_deployment(ready=1), live_service(), *serving(), *serving(ready=0)]),
    max_size=4,
    unique_by=id,
)


@st.composite
def observations(draw: st.DrawFn) -> ModelObservation:
    found = activation(
        spec=draw(SPECS),
        status=draw(STATUSES),
        generation=draw(st.integers(1, 2)),
        dying=draw(st.booleans()),
        finalizers=draw(st.sampled_from([(), ("appliance.magicstick.dev/model-cleanup",)])),
    )
    return observation(found, *draw(RUNTIMES), **draw(SEEN))


def faults(o: ModelObservation, plan: Plan) -> list[str]:
    """What is wrong with a plan, whatever it decides."""
    found = []
    if plan.outcome not in {*ModelPhase, *Outcome, *DUE_S}:
        found.append(f"unknown outcome {plan.outcome}")
    if plan.status is not None:
        conditions = [{**each, "lastTransitionTime": "x"} for each in plan.status["conditions"]]
        body = {"metadata": {"generation": o.generation}, "status": {**plan.status, "conditions": conditions}}
        found += check_conditions(body)
    makes = any(isinstance(step, Apply) for step in plan.steps)
    if makes and (o.dying or not o.enabled or o.blind or (o.local and o.cleanup)):
        found.append("makes something that it must not")
    ours = {(each.kind, each.live.metadata.uid) for each in o.runtimes}
    pods = {each.metadata.uid for each in o.pods or () if each.terminal and each.live}
    for step in plan.steps:
        if isinstance(step, Delete) and step.kind == POD and step.uid not in pods:
            found.append("deletes a Pod that has not ended")
        elif isinstance(step, Delete) and step.kind != POD and (step.kind, step.uid) not in ours:
            found.append("deletes what is not ours")
    if plan.finalizer is Finalizer.REMOVE and (o.runtimes or not o.dying):
        found.append("lets go of a runtime")
    return found


@examples(200)
@given(observations(), st.integers(0, 1000))
def test_every_situation_has_one_plan_that_keeps_the_rules(o: ModelObservation, seconds: int) -> None:
    now = NOW + timedelta(seconds=seconds)
    plan = decide(o, now)
    assert faults(o, plan) == []
    assert decide(o, now) == plan


@examples(50)
@given(observations())
def test_every_failure_has_a_report_without_steps_that_change_a_runtime(o: ModelObservation) -> None:
    for error in (Forbidden("x"), NameConflict("x"), NamespaceTerminating("x"), Unavailable("x")):
        plan = decide_failure(o, error)
        assert faults(o, plan) == []
        assert all(isinstance(step, Create) for step in plan.steps)


def test_every_combination_of_what_the_table_looks_at_is_decided() -> None:
    """The table is total: the crossing of the rows' own questions, each with each."""
    questions: dict[str, list[Any]] = {
        "resolved": [kubeai(), ollama(), freetoken(), realtime(), external(), None],
        "cleanup": ["", "cleared"],
        "modules": [READY_MODULES, (module("x", not_ready(Gap.DISABLED)),)],
        "kubeai_served": [True, False],
        "profile": [choice(), ProfileWait(WaitReason.OFFLOADING, "x"), None],
        "pods": [(), (pod(),), (pod(ready=True),), (pod(phase="Failed"),), None],
        "published": [True, False, None],
    }
    standing: list[tuple[Any, ...]] = [
        (),
        (live_model(ready=1),),
        (live_deployment(ready=1), live_service()),
        serving(),
    ]
    phases = set()
    for values in product(*questions.values()):
        for there in standing:
            o = observation(
                None, *there, descriptor=descriptor(), **dict(zip(questions, values, strict=True))
            )
            plan = decide(o, NOW)
            assert faults(o, plan) == []
            phases.add(plan.outcome)
    assert {
        "Ready",
        "Reconciling",
        "Starting",
        "WaitingForModules",
        "WaitingForCRD",
        "WaitingForPod",
    } <= phases
