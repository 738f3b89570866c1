"""`magicstick plan` on a real API server says what the operator then does, and does nothing itself."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hack import yamls
from hack.devcluster import DevCluster
from magicstick.api.kinds import KUSTOMIZATION, MODULE_ACTIVATION
from magicstick.kube.client import Client
from magicstick.kube.config import ClusterConfig
from magicstick.plan.changes import ABSENT, Action, Change
from magicstick.plan.documents import Document
from magicstick.plan.rehearsal import BlindError, Plan, Question, rehearse
from magicstick.runtime.clock import SystemClock
from magicstick.runtime.settings import Settings
from tests.support.operator import operator
from tests.support.rights import grant, limit_kustomizations
from tests.support.world import GROUP, World, corner

pytestmark = pytest.mark.anyio

AGENT = "plan-test"


def activation(module: str, name: str | None = None, **spec: Any) -> Document:
    """A ModuleActivation as a user writes it."""
    body = {
        "apiVersion": GROUP,
        "kind": "ModuleActivation",
        "metadata": {"name": name or module},
        "spec": {"module": module, **spec},
    }
    return Document(f"{module}.yaml", body)


async def planned(world: World, *documents: Document, token: str | None = None, assume: str = "") -> Plan:
    """The plan for these documents in this corner."""
    config = ClusterConfig.plain(
        world.cluster.url, token=token or world.cluster.admin_token, ca_file=world.cluster.ca_file
    )
    settings = Settings.load(**{name.lower(): value for name, value in world.environment.items()})
    question = Question(documents, (assume,) if assume else ())
    async with Client(config, user_agent=AGENT, field_manager=AGENT) as client:
        return await rehearse(question, settings, SystemClock(), client=client)


def named(plan: Plan, action: Action) -> dict[str, Change]:
    """What happens so to objects that the operator makes, by name."""
    return {each.key.name: each for each in plan.derived if each.action is action}


def live_spec(world: World, name: str) -> Mapping[str, Any]:
    """The spec of a Kustomization that must be there."""
    found = world.child(name)
    assert found is not None, world.mirror.describe()
    spec: Mapping[str, Any] = found["spec"]
    return spec


async def test_the_operator_then_does_exactly_what_the_plan_said(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world:
        plan = await planned(world, activation("gamma", parameters={"storage": "5Gi"}), assume="all")
        async with operator(world):
            await world.activate("gamma", parameters={"storage": "5Gi"})
            await world.until_phase("gamma", "Ready")
        created = named(plan, Action.CREATE)
        kustomizations = {name for name, each in created.items() if each.kind == KUSTOMIZATION}
        activations = {name for name, each in created.items() if each.kind == MODULE_ACTIVATION}
        assert kustomizations == {"app-alpha", "app-beta", "app-gamma"}
        assert activations == {"alpha", "beta"}
        for name in kustomizations:
            live, spec = live_spec(world, name), created[name].body["spec"]
            assert {field: live[field] for field in spec} == spec, "but for defaults of the server"
            assert live.keys() - spec.keys() <= {"force"}
        assert {each.key.name: each.phase for each in plan.standings} == {
            name: world.phase(name) for name in ("alpha", "beta", "gamma")
        }


async def test_without_assumptions_only_the_first_step_is_planned(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world:
        plan = await planned(world, activation("beta"))
        assert named(plan, Action.CREATE).keys() == {"alpha", "app-alpha"}
        beta = next(each for each in plan.standings if each.key.name == "beta")
        assert beta.phase == "WaitingForModules"
        assert "alpha" in beta.message


async def test_nothing_changes_where_the_operator_has_done_its_work(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world:
        async with operator(world):
            await world.activate("beta")
            await world.until_phase("beta", "Ready")
        plan = await planned(world, activation("beta"))
        assert not plan.changes
        assert {each.key.name for each in plan.derived} == {"app-beta"}
        assert [each.action for each in plan.given] == [Action.UNCHANGED]


async def test_a_changed_parameter_is_a_change_of_one_field(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world:
        async with operator(world):
            await world.activate("gamma", parameters={"storage": "5Gi"})
            await world.until_phase("gamma", "Ready")
        plan = await planned(world, activation("gamma", parameters={"storage": "9Gi"}))
        (change,) = named(plan, Action.UPDATE).values()
        assert [(each.path, each.before, each.after) for each in change.fields] == [
            ("spec.postBuild.substitute.STORAGE", "5Gi", "9Gi")
        ]
        (given,) = plan.given
        assert [each.path for each in given.fields] == ["spec.parameters.storage"]


async def test_a_parameter_that_goes_is_a_field_that_is_given_up(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world:
        async with operator(world):
            await world.activate("gamma", parameters={"storage": "5Gi"})
            await world.until_phase("gamma", "Ready")
        plan = await planned(world, activation("gamma"))
        (change,) = named(plan, Action.UPDATE).values()
        (field,) = change.fields
        assert (field.path, field.before, field.after) == (
            "spec.postBuild",
            {"substitute": {"STORAGE": "5Gi"}},
            ABSENT,
        )


async def test_switching_off_deletes_the_kustomization_and_suspends_what_requires_it(
    control_plane: DevCluster,
) -> None:
    async with corner(control_plane) as world:
        async with operator(world):
            await world.activate("beta")
            await world.until_phase("beta", "Ready")
        plan = await planned(world, activation("alpha", enabled=False))
        assert named(plan, Action.DELETE).keys() == {"app-alpha"}
        suspended = named(plan, Action.UPDATE)["app-beta"]
        assert [(each.path, each.after) for each in suspended.fields if each.path == "spec.suspend"] == [
            ("spec.suspend", True)
        ]


async def test_fields_of_others_are_no_difference(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world:
        async with operator(world):
            await world.activate("alpha")
            await world.until_phase("alpha", "Ready")
        labels = {"metadata": {"labels": {"team": "blue"}}, "spec": {"timeout": "7m0s"}}
        await world.client.merge(f"{world.kustomizations}/app-alpha", labels)
        plan = await planned(world, activation("alpha"))
        assert not plan.changes


async def test_a_field_that_somebody_changed_would_be_put_right(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world:
        async with operator(world):
            await world.activate("alpha")
            await world.until_phase("alpha", "Ready")
        await world.client.merge(f"{world.kustomizations}/app-alpha", {"spec": {"interval": "1h0m0s"}})
        plan = await planned(world, activation("alpha"))
        fields = named(plan, Action.UPDATE)["app-alpha"].fields
        assert [(each.path, each.before, each.after) for each in fields] == [
            ("spec.interval", "1h0m0s", "10m0s")
        ]


async def test_an_object_of_somebody_else_is_not_planned_over(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world:
        await world.kustomization("app-alpha", {})
        plan = await planned(world, activation("alpha"))
        assert "app-alpha" not in {each.key.name for each in plan.derived if each.changes}
        (alpha,) = plan.standings
        assert alpha.reason == "KustomizationConflict"


async def test_a_new_catalog_shows_what_it_changes_everywhere(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world:
        async with operator(world):
            await world.activate("alpha")
            await world.until_phase("alpha", "Ready")
        text = '{"modules":{"basis":{"path":"manifests/modules/basis","kustomizationName":"platform-basis",'
        text += '"activationMode":"static"},"alpha":{"path":"manifests/modules/other",'
        text += '"kustomizationName":"app-alpha","requires":["basis"]}}}'
        metadata = {"name": "magicstick-module-catalog", "namespace": world.namespace}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"modules.json": text}}
        plan = await planned(world, Document("catalog.yaml", body))
        fields = named(plan, Action.UPDATE)["app-alpha"].fields
        assert [(each.path, each.after) for each in fields] == [("spec.path", "./manifests/modules/other")]


async def test_nothing_is_ever_written(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world:
        async with operator(world):
            await world.activate("beta")
            await world.until_phase("beta", "Ready")
        mark = control_plane.audit_mark()
        await planned(world, activation("gamma"), assume="all")
        await planned(world, activation("alpha", enabled=False))
        asked = list(control_plane.audit(AGENT, mark))
        assert asked
        assert {record.verb for record in asked} <= {"get", "list"}
        assert world.child("app-gamma") is None
        assert world.activation("gamma") is None


async def test_half_a_plan_is_none(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world:
        token = await grant(world)
        await limit_kustomizations(world, token, [])
        with pytest.raises(BlindError, match="kustomizations") as caught:
            await planned(world, activation("alpha"), token=token)
        assert caught.value.forbidden


async def test_the_command_tells_a_change_and_its_absence_by_its_exit_code(
    control_plane: DevCluster, tmp_path: Path
) -> None:
    async with corner(control_plane) as world:
        async with operator(world):
            await world.activate("gamma", parameters={"storage": "5Gi"})
            await world.until_phase("gamma", "Ready")
        same = await command(world, tmp_path, activation("gamma", parameters={"storage": "5Gi"}))
        assert (same.returncode, same.stdout, same.stderr) == (0, "Nothing would change.\n", "")
        other = await command(world, tmp_path, activation("gamma", parameters={"storage": "9Gi"}))
        assert (other.returncode, other.stderr) == (1, "")
        assert "~     spec.postBuild.substitute.STORAGE: 5Gi -> 9Gi" in other.stdout.splitlines()


async def command(world: World, folder: Path, document: Document) -> subprocess.CompletedProcess[str]:
    """`magicstick plan --diff` for a document in this corner, as a process."""
    (folder / document.origin).write_text(yamls.dump(document.body))
    words = ["plan", "-f", str(folder), "--diff", "--kubeconfig", str(world.cluster.kubeconfig)]
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "magicstick", *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **world.environment},
    )
