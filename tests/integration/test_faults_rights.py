"""Others write to our objects, take rights away, and refuse what we write."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hack.devcluster import DevCluster
from tests.support.faultproxy import Answer, first_tries
from tests.support.operator import operator
from tests.support.oracles import assert_settled, quiet, snapshot, told
from tests.support.rights import ALL_VERBS, READING, grant, limit_kustomizations, refused, user
from tests.support.scenario import Calm, live
from tests.support.world import FLUX_GROUP, World, corner

pytestmark = pytest.mark.anyio

EDITS = 60
PACE_S = 0.05
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
REFUSAL = "the platform team froze all Kustomizations"


async def edit(world: World, path: str, change: Mapping[str, Any]) -> None:
    """A merge patch of another manager."""
    await world.client.merge(f"{path}?fieldManager=somebody", change)


def count_of(number: int) -> dict[str, Any]:
    return {"metadata": {"annotations": {"example.com/count": str(number)}}}


async def test_edits_of_fields_that_are_not_ours_cause_no_write(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world, operator(world):
        await world.activate("alpha")
        await world.until_phase("alpha", "Ready")
        await quiet(world)
        mark = world.cluster.audit_mark()
        for number in range(EDITS):
            await edit(world, f"{world.kustomizations}/app-alpha", count_of(number))
            await edit(world, f"{world.activations}/alpha", count_of(number))
            await asyncio.sleep(PACE_S)
        await quiet(world)
        assert not told(world.operator_writes(mark))
        for found in (world.child("app-alpha"), world.activation("alpha")):
            assert found is not None
            assert found["metadata"]["annotations"]["example.com/count"] == str(EDITS - 1)


async def test_a_writer_who_fights_for_our_fields_loses_and_the_fight_stays_bounded(
    control_plane: DevCluster,
) -> None:
    async with corner(control_plane) as world, operator(world):
        await world.activate("alpha")
        await world.until_phase("alpha", "Ready")
        await quiet(world)
        mark = world.cluster.audit_mark()
        for number in range(EDITS):
            theirs = {"spec": {"interval": f"{number + 11}m0s", "timeout": "3m0s"}}
            await edit(world, f"{world.kustomizations}/app-alpha", {**count_of(number), **theirs})
            await asyncio.sleep(PACE_S)
        await world.mirror.until(
            "our interval is back",
            lambda: (world.child("app-alpha") or {})["spec"]["interval"] == "10m0s",
        )
        await world.until_phase("alpha", "Ready")
        await assert_settled(world)
        spec = (world.child("app-alpha") or {})["spec"]
        assert spec["timeout"] == "3m0s", "a field that is not ours was taken"
        assert "Degraded" not in world.phases_seen("alpha")
        # An apply, and the status while Flux looks and when it is done.
        assert len(world.operator_writes(mark)) <= 3 * EDITS


async def test_an_activation_that_somebody_edits_all_the_time_is_still_set_up(
    control_plane: DevCluster,
) -> None:
    async with corner(control_plane) as world, operator(world) as running:
        for name in ("alpha", "beta"):
            await world.activate(name)
            for number in range(EDITS // 3):
                await edit(world, f"{world.activations}/{name}", count_of(number))
        await world.until_phase("beta", "Ready")
        await assert_settled(world)
        assert not running.errors()
        assert "Degraded" not in world.phases_seen("alpha") | world.phases_seen("beta")


async def test_a_conflict_on_every_first_try_is_decided_anew_in_silence(control_plane: DevCluster) -> None:
    expected = await Calm(control_plane).end()
    conflict = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": "Conflict",
        "message": "the object has been modified",
        "code": 409,
    }
    async with corner(control_plane) as world, operator(world) as running:
        answer = Answer(409, json.dumps(conflict), content_type="application/json")
        with running.proxy.fault(answer, when=first_tries()) as conflicts:
            await live(world)
        await assert_settled(world)
        assert conflicts.hits > 3
        assert snapshot(world) == expected
        assert "Degraded" not in world.phases_seen("gamma")


async def test_the_right_to_write_kustomizations_comes_and_goes(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world:
        token = await grant(world)
        async with operator(world, token=token):
            await world.activate("alpha")
            await world.until_phase("alpha", "Ready")
            await limit_kustomizations(world, token, READING)
            await world.activate("beta")
            await world.until_phase("beta", "Degraded")
            assert world.reason("beta") == "ApiRejected"
            assert "forbidden" in world.message("beta")
            assert "kustomizations" in world.message("beta")
            # Whatever needs no such write goes on.
            assert world.phase("alpha") == "Ready"
            await world.activate("nobody-knows-it")
            await world.until_phase("nobody-knows-it", "Degraded")
            assert world.reason("nobody-knows-it") == "UnknownModule"
            await limit_kustomizations(world, token, ALL_VERBS)
            await world.until_phase("beta", "Ready", deadline_s=60.0)
            await assert_settled(world)


async def test_the_right_to_read_kustomizations_comes_and_goes(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world:
        token = await grant(world)
        async with operator(world, token=token) as running:
            await world.activate("alpha")
            await world.until_phase("alpha", "Ready")
            await quiet(world)
            mark = world.cluster.audit_mark()
            await limit_kustomizations(world, token, ())
            running.proxy.reset_all()  # rights are looked at when a watch begins
            await world.activate("beta")
            await world.mirror.until("beta says so", lambda: world.reason("beta") == "ApiUnavailable")
            assert "Kustomizations cannot be read" in world.message("beta")
            assert world.phase("alpha") == "Ready"
            await quiet(world)
            writes = [each for each in world.operator_writes(mark) if each.resource == "kustomizations"]
            assert not writes, "a list that failed was taken for an empty one"
            await limit_kustomizations(world, token, ALL_VERBS)
            await world.until_phase("beta", "Ready", deadline_s=60.0)
            await assert_settled(world)


@asynccontextmanager
async def frozen(world: World, token: str) -> AsyncIterator[None]:
    """Within the block the server refuses whatever our account writes to Kustomizations of this corner."""
    name = f"frozen-{world.namespace}"
    match = {
        "resourceRules": [
            {
                "apiGroups": ["kustomize.toolkit.fluxcd.io"],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["kustomizations"],
            }
        ]
    }
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": match,
            "matchConditions": [
                {"name": "operator", "expression": f"request.userInfo.username == '{user(world)}'"}
            ],
            "validations": [{"expression": "false", "message": REFUSAL}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    await world.client.apply(f"{POLICIES}/{name}", policy)
    await world.client.apply(f"{BINDINGS}/{name}", binding)
    probe = {
        "apiVersion": FLUX_GROUP,
        "kind": "Kustomization",
        "metadata": {"name": "probe", "namespace": world.flux_namespace},
        "spec": {
            "interval": "10m0s",
            "prune": True,
            "sourceRef": {"kind": "GitRepository", "name": "flux-system"},
        },
    }
    await refused(world, token, f"{world.kustomizations}/probe", probe)
    try:
        yield
    finally:
        await world.client.send("DELETE", f"{BINDINGS}/{name}")
        await world.client.send("DELETE", f"{POLICIES}/{name}")


async def test_a_refusing_admission_policy_is_reported_in_its_own_words_and_heals(
    control_plane: DevCluster,
) -> None:
    async with corner(control_plane) as world:
        token = await grant(world)
        async with operator(world, token=token):
            await world.activate("alpha")
            await world.until_phase("alpha", "Ready")
            await quiet(world)
            async with frozen(world, token):
                mark = world.cluster.audit_mark()
                await world.activate("beta")
                await world.until_phase("beta", "Degraded")
                assert world.reason("beta") == "ApiRejected"
                assert REFUSAL in world.message("beta")
                assert world.phase("alpha") == "Ready"
                # Deletions are not refused: what is switched off goes all the same.
                await world.activate("alpha", enabled=False)
                await world.until_phase("alpha", "Disabled")
                tries = [each for each in world.operator_writes(mark) if each.code >= 400]
                assert len(tries) < 20, told(tries)
            await world.activate("alpha")
            await world.until_phase("beta", "Ready", deadline_s=60.0)
            await assert_settled(world)
