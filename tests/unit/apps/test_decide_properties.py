"""What holds for every instance in every situation."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from magicstick.api.kinds import HELM_RELEASE, MODULE_ACTIVATION
from magicstick.apps.decide import decide, decide_failure
from magicstick.apps.kinds import ACCESS_KINDS, HTTP_ROUTE
from magicstick.apps.observation import UNKNOWN_DOMAINS, Entry, InstanceObservation, Place, RequiredModule
from magicstick.apps.ports import LiveAccess
from magicstick.apps.status import InstancePhase, Outcome
from magicstick.kube.errors import Forbidden, NameConflict, NamespaceTerminating, Unavailable
from magicstick.modules.facts import READY, Gap, not_ready, unknown
from magicstick.runtime.conditions import check_conditions
from magicstick.runtime.plan import Apply, Create, Delete, Finalizer, Plan
from tests.support.gateway_objects import DOMAINS
from tests.support.instance_objects import (
    APPLICATIONS,
    SOURCE,
    accepted,
    instance,
    observation,
    ready,
    release,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=5,
)
ACCESS = st.fixed_dictionaries(
    {},
    optional={
        "authentication": st.sampled_from(["sso", "none", "basic"]) | JSON,
        "role": st.sampled_from(["user", "admin", "root"]) | JSON,
        "exposure": st.sampled_from(["local", "localAndPublic"]) | JSON,
        "sharing": JSON,
    },
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "enabled": st.booleans() | JSON,
        "targetNamespace": st.sampled_from(["ai", "Not.One"]) | JSON,
        "access": ACCESS | JSON,
        "values": st.fixed_dictionaries({}, optional={"name": st.just("litellm") | JSON}) | JSON,
    },
)
NAMES = st.sampled_from(["kubeopencode-demo", "a" * 53, "a" * 54, "with.dots"])
STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from(["Ready", "Degraded"]) | JSON,
        "url": st.just("https://x/") | JSON,
        "accessGuardReady": st.booleans() | JSON,
    },
)
RELEASES = st.sampled_from(
    [
        (),
        (release(),),
        (release(suspend=True),),
        (release(dying=True),),
        (release(conditions=[ready("False", "InstallFailed")]), release("stray")),
    ]
)
READINESS = st.sampled_from([READY, not_ready(Gap.DISABLED), unknown("is being checked by Flux")])
COMPLETE = accepted(observation())
REQUEST = Create(MODULE_ACTIVATION, {"kind": "ModuleActivation", "metadata": {"name": "litellm"}})


@st.composite
def live_access(draw: st.DrawFn) -> LiveAccess:
    """A part of what was once the complete way in."""
    pieces = tuple(each for each in COMPLETE.pieces if draw(st.booleans()))
    return LiveAccess(pieces, {each.reference: each.live for each in pieces})


@st.composite
def observations(draw: st.DrawFn) -> InstanceObservation:
    """Anything that may be seen of an instance, consistent or not."""
    spec: dict[str, Any] = draw(SPECS)
    marks: dict[str, Any] = {
        "dying": draw(st.booleans()),
        "finalizer": draw(st.booleans()),
        "status": draw(STATUSES),
    }
    live = instance(draw(NAMES), **marks, **spec)
    entries = (
        None,
        Entry(),
        Entry(problem="route.port: is required"),
        Entry(APPLICATIONS.applications["kubeopencode"]),
    )
    modules = tuple(RequiredModule(each, draw(READINESS)) for each in ("kubeopencode", "litellm"))
    domains = draw(st.sampled_from([DOMAINS, UNKNOWN_DOMAINS]))
    return observation(
        live,
        ours=draw(st.sampled_from([True, True, False])),
        blind=draw(st.sampled_from(["", "", "HelmReleases cannot be read now"])),
        releases=draw(RELEASES),
        live=draw(live_access()),
        unserved=draw(st.sampled_from([(), ("helmreleases.helm.toolkit.fluxcd.io",)])),
        entry=draw(st.sampled_from(entries)),
        domains=domains,
        unknown="Not known yet: settings" if domains is UNKNOWN_DOMAINS else "",
        host_owner=draw(st.sampled_from(["", "", "older"])),
        modules=modules,
        requests=draw(st.sampled_from([(), (REQUEST,)])),
        missing_crds=draw(st.sampled_from([(), ("agents.kubeopencode.io",)])),
        place=draw(st.sampled_from([Place(), Place(exists=False), Place(dying=True)])),
        source=SOURCE,
    )


def statuses(plan: Plan) -> Any:
    """The plan's status, which is well formed."""
    if plan.status is None:
        return None
    status = dict(plan.status)
    status["conditions"] = [{**each, "lastTransitionTime": "x"} for each in status["conditions"]]
    obj = {"metadata": {"generation": status["observedGeneration"]}, "status": status}
    assert check_conditions(obj) == []
    return status


@settings(max_examples=400)
@given(observations())
def test_no_situation_is_an_error_and_each_has_a_sound_status(o: InstanceObservation) -> None:
    plan = decide(o)

    assert plan.outcome in {*InstancePhase, *Outcome}
    assert statuses(plan) is not None or plan.outcome in set(Outcome)


@settings(max_examples=400)
@given(observations())
def test_a_release_goes_only_with_its_instance_and_only_after_its_way_in(o: InstanceObservation) -> None:
    steps = decide(o).steps
    deleted = [each for each in steps if isinstance(each, Delete) and each.kind == HELM_RELEASE]

    assert not deleted or (o.dying and o.ours and not o.blind)
    stopped = [
        place
        for place, each in enumerate(steps)
        if isinstance(each, Apply) and each.kind == HELM_RELEASE and each.body["spec"]["suspend"]
    ]
    access = [
        place for place, each in enumerate(steps) if isinstance(each, Delete) and each.kind in ACCESS_KINDS
    ]
    releases = [steps.index(each) for each in deleted] + stopped
    assert not access or not releases or max(access) < min(releases)


@settings(max_examples=400)
@given(observations())
def test_nothing_is_made_for_an_instance_that_nobody_wants(o: InstanceObservation) -> None:
    steps = decide(o).steps
    made = [each for each in steps if isinstance(each, Create)]
    opened = [
        each
        for each in steps
        if isinstance(each, Apply) and each.kind == HTTP_ROUTE and _leads_somewhere(each.body)
    ]

    if o.dying or not o.enabled or not o.ours or o.blind:
        assert not made
        assert not opened


@settings(max_examples=400)
@given(observations())
def test_the_finalizer_goes_only_when_nothing_is_left(o: InstanceObservation) -> None:
    plan = decide(o)

    if plan.finalizer is Finalizer.REMOVE:
        assert o.dying
        assert (o.live.pieces, o.releases, o.blind, plan.steps) == ((), (), "", ())
    if plan.finalizer is Finalizer.ADD:
        assert not o.dying


@settings(max_examples=400)
@given(observations())
def test_the_guard_is_reported_only_where_every_route_may_be_open(o: InstanceObservation) -> None:
    plan = decide(o)
    status = plan.status or {}

    if status.get("accessGuardReady"):
        assert status["phase"] not in {"Degraded", "Suspended", "Removing"} or o.release is not None
        assert not [
            each
            for each in plan.steps
            if isinstance(each, Apply) and each.kind == HTTP_ROUTE and not _leads_somewhere(each.body)
        ]


@settings(max_examples=200)
@given(
    observations(),
    st.sampled_from([NameConflict("x"), Forbidden("x"), NamespaceTerminating("x"), Unavailable("x")]),
)
def test_no_failure_of_a_step_plans_another(o: InstanceObservation, error: Any) -> None:
    plan = decide_failure(replace(o, ours=True), error)

    assert plan.steps == ()
    statuses(plan)


def _leads_somewhere(body: Any) -> bool:
    return any(rule.get("backendRefs") for rule in body["spec"]["rules"])
