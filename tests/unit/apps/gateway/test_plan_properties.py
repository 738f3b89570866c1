"""Whatever happens, and wherever the operator breaks off: no write of it ever leaves a route unprotected."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from magicstick.apps.gateway.hosts import hosts_of
from magicstick.apps.gateway.plan import close, hold, plan, remove, wanted
from magicstick.apps.kinds import HTTP_ROUTE, SECURITY_POLICY
from magicstick.apps.ports import Access, Admitted, Backend, Domains
from magicstick.kube.kinds import Kind
from magicstick.runtime.plan import Step
from tests.support.gateway_objects import SITE, Object, access, bodies
from tests.support.gateway_world import GatewayWorld

INSTANCE = "kubeopencode-demo"
DOMAINS = [
    Domains("magicstick.local", "magicstick.example.com", "magicstick.example.com"),
    Domains("box.local", "apps.example.com", "dashboard.example.com"),
]
SPECS = st.builds(
    lambda domains, short, service, **given: access(
        INSTANCE,
        domains=domains,
        hosts=hosts_of(short, "kubeopencode", domains),
        backend=Backend(short, service, 4096),
        **given,
    ),
    domains=st.sampled_from(DOMAINS),
    short=st.sampled_from(["demo", "other"]),
    service=st.sampled_from(["ai", "lab"]),
    authentication=st.sampled_from(["sso", "none"]),
    exposure=st.sampled_from(["local", "localAndPublic"]),
    role=st.sampled_from(["user", "admin"]),
    uid=st.sampled_from(["uid-1", "uid-2"]),
)
BACKEND = {"group": "", "kind": "Service", "name": "demo", "namespace": "ai", "port": 4096, "weight": 1}


def fail_open(spec: Object) -> None:
    spec["extAuth"] = {**spec["extAuth"], "failOpen": True}


def add_cors(spec: Object) -> None:
    spec["cors"] = {"allowOrigins": ["*"]}


def forget_role(spec: Object) -> None:
    spec.pop("authorization", None)


def aim_elsewhere(spec: Object) -> None:
    spec["targetRefs"] = [{**spec["targetRefs"][0], "name": "elsewhere"}]


def aim_at_one(spec: Object) -> None:
    spec["targetRefs"] = spec["targetRefs"][:1]


POLICY_EDITS = st.sampled_from([fail_open, add_cors, forget_role, aim_elsewhere, aim_at_one])


def open_by_hand(spec: Object) -> None:
    spec["rules"] = [{**each, "backendRefs": [BACKEND]} for each in spec["rules"]]


def add_rule(spec: Object) -> None:
    spec["rules"] = [*spec["rules"], {"backendRefs": [BACKEND]}]


def other_host(spec: Object) -> None:
    spec["hostnames"] = ["elsewhere.example.com"]


ROUTE_EDITS = st.sampled_from([open_by_hand, add_rule, other_host])


class WayIn(RuleBasedStateMachine):
    """An operator, a gateway and people, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.world = GatewayWorld()
        self.wanted: Access = access(INSTANCE)

    @initialize(given=SPECS, held=st.booleans())
    def begin(self, given: Access, *, held: bool) -> None:
        """An instance that is served, perhaps with routes that will be slow to go."""
        self.wanted = given
        self.serve()
        if held:
            self.put_finalizers(HTTP_ROUTE)

    # --- the operator ----------------------------------------------------------------------------------

    def _observed(self) -> Any:
        return self.world.observed(INSTANCE, self.wanted.backend.namespace)

    def _admitted(self) -> Admitted:
        return Admitted(self.wanted.authentication, self.wanted.role, self.wanted.exposure)

    def _plan(self) -> tuple[Step, ...]:
        made = plan(self.wanted, self._observed(), SITE)
        assert not made.conflict
        assert made.ready == self._guarded()
        return made.steps

    def _guarded(self) -> bool:
        """Whether every wanted policy is there, as wanted and sound."""
        want = wanted(self.wanted, SITE).policies
        held = self.world.objects
        return all(
            place in held and self.world.sound(place) and held[place].spec == body["spec"]
            for place, body in want.items()
        )

    def _pass(self, decide: Callable[[], tuple[Step, ...]], writes: int) -> int:
        """A pass of at most so many writes, then the process dies; how many there were."""
        done = 0
        for _ in range(12):
            wrote = False
            for step in decide():
                if done >= writes:
                    return done
                if self._write(step):
                    done, wrote = done + 1, True
            if not wrote:
                return done
        raise AssertionError("the operator does not come to rest")

    def _write(self, step: Step) -> bool:
        """One step; it exposes nothing, and the first to be closed is what is exposed."""
        before = self.world.exposed()
        urgent = self.world.closable(before)
        wrote = self.world.carry_out(step)
        after = self.world.exposed()
        assert after <= before, f"exposed by {step}"
        if wrote and urgent:
            assert after < before, f"something else was written while a route was exposed: {step}"
        return wrote

    @rule(writes=st.integers(0, 20))
    def reconcile(self, writes: int) -> None:
        if self._pass(self._plan, writes) < writes:
            assert not self.world.closable(self.world.exposed())

    @rule()
    def serve(self) -> None:
        """Operator and gateway do all they can: in most states that is an open way in."""
        for _ in range(3):
            self.reconcile(writes=100)
            self.world.judge_all()
        self.reconcile(writes=100)

    @rule(writes=st.integers(0, 20))
    def hold(self, writes: int) -> None:
        if self._pass(lambda: hold(self._observed(), self._admitted()), writes) < writes:
            assert not self.world.closable(self.world.exposed())

    @rule(writes=st.integers(0, 20))
    def close(self, writes: int) -> None:
        if self._pass(lambda: close(self._observed()), writes) < writes:
            assert not self.world.closable(self.world.open_routes())

    @rule(writes=st.integers(0, 20))
    def remove(self, writes: int) -> None:
        if self._pass(lambda: remove(self._observed()), writes) < writes:
            assert self.world.of(HTTP_ROUTE) or not self.world.closable(self.world.objects)

    @rule(given=SPECS)
    def change_the_spec(self, given: Access) -> None:
        self.wanted = given

    # --- the gateway and people --------------------------------------------------------------------------

    @rule()
    def accept_all(self) -> None:
        self.world.judge_all()

    @precondition(lambda self: self.world.of(SECURITY_POLICY))
    @rule(data=st.data(), accept=st.booleans(), lag=st.integers(0, 1))
    def judge(self, data: st.DataObject, *, accept: bool, lag: int) -> None:
        self.world.judge(self._some(data, SECURITY_POLICY), accept=accept, lag=lag)

    @precondition(lambda self: self.world.of(SECURITY_POLICY))
    @rule(data=st.data(), change=POLICY_EDITS, accept=st.booleans())
    def edit_a_policy(self, data: st.DataObject, change: Callable[[Object], None], *, accept: bool) -> None:
        place = self._some(data, SECURITY_POLICY)
        self.world.edit(place, change)
        if accept:
            self.world.judge(place, accept=True)

    @precondition(lambda self: self.world.of(HTTP_ROUTE))
    @rule(data=st.data(), change=ROUTE_EDITS)
    def edit_a_route(self, data: st.DataObject, change: Callable[[Object], None]) -> None:
        self.world.edit(self._some(data, HTTP_ROUTE), change)

    @precondition(lambda self: self.world.objects)
    @rule(data=st.data())
    def delete_something(self, data: st.DataObject) -> None:
        self.world.remove(data.draw(st.sampled_from(sorted(self.world.objects, key=str))))

    @rule(kind=st.sampled_from([HTTP_ROUTE, SECURITY_POLICY]))
    def put_finalizers(self, kind: Kind) -> None:
        for place in self.world.of(kind):
            held = self.world.objects[place]
            held.finalizers = held.finalizers or not held.dying

    @rule()
    def take_finalizers(self) -> None:
        self.world.release()

    def _some(self, data: st.DataObject, kind: object) -> Any:
        return data.draw(st.sampled_from(sorted(self.world.of(kind), key=str)))

    # --- in the end ----------------------------------------------------------------------------------------

    def teardown(self) -> None:
        """Once everybody else is at rest, the instance is served, by exactly what it wants."""
        self.world.release()
        self.serve()
        assert self._pass(self._plan, 100) == 0
        assert self.world.specs() == {
            place: body["spec"] for place, body in bodies(wanted(self.wanted, SITE)).items()
        }
        assert not self.world.exposed()


WayIn.TestCase.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)
TestWayIn = pytest.mark.req("MS-168")(WayIn.TestCase)
