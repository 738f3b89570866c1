"""`magicstick why` names the true cause of each broken appliance, in the words of the golden files."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hack.bare import BareClient
from hack.devcluster import CONTROL_PLANE, DevCluster
from magicstick.kube.client import Client
from magicstick.kube.config import ClusterConfig
from magicstick.why.asking import question
from magicstick.why.explainers import subject_of, tree
from magicstick.why.opening import opened
from magicstick.why.text import Answer, answer, lines
from tests.support.broken import SCENES, Scene, own
from tests.support.operator import operator
from tests.support.rights import READING, grant, limit_kustomizations
from tests.support.world import CRDS, SMALL_CATALOG, World, corner

pytestmark = pytest.mark.anyio

GOLDEN = Path(__file__).parents[1] / "golden" / "why"
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
AGENT = "why-test"
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


async def told(
    world: World, words: Sequence[str], *, every: bool = False, token: str | None = None
) -> Answer:
    """The answer to a question in this corner."""
    config = ClusterConfig.plain(
        world.cluster.url, token=token or world.cluster.admin_token, ca_file=world.cluster.ca_file
    )
    flags = {name.lower(): value for name, value in world.environment.items()}
    async with (
        Client(config, user_agent=AGENT, field_manager=AGENT) as client,
        opened(client, flags, timeout_s=10.0, clock=lambda: NOW) as sight,
    ):
        explanation, nodes = tree(subject_of(question(*words), sight), sight)
        return answer(explanation, nodes, every=every)


def written(world: World, answered: Answer) -> str:
    """The text, with the names that the shipped manifests use."""
    text = "".join(f"{str(line).rstrip()}\n" for line in lines(answered))
    for name, shown in ((world.namespace, "ai-system"), (world.flux_namespace, "flux-system")):
        text = text.replace(name, shown)
    return MOMENT.sub("<time>", text)


def check(name: str, text: str) -> None:
    """Compare with the golden file; GOLDEN_UPDATE=1 writes it anew."""
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("GOLDEN_UPDATE"):
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
async def test_the_true_cause_is_named(control_plane: DevCluster, scene: Scene) -> None:
    async with corner(control_plane, flux=scene.flux) as world, AsyncExitStack() as stack:
        if scene.operator:
            await stack.enter_async_context(operator(world, leader_election=True))
        await scene.prepare(world)
        for name, phase in scene.told.items():
            await world.until_phase(name, phase)
        answered = await told(world, scene.ask, every=scene.every)
        check(scene.name, written(world, answered))


async def test_a_read_that_your_account_may_not_make_is_the_cause_and_no_absence(
    control_plane: DevCluster,
) -> None:
    async with corner(control_plane) as world:
        token = await grant(world)
        await limit_kustomizations(world, token, [])
        await world.activate("alpha")
        answered = await told(world, ["module/alpha"], token=token)
        check("reader-without-rights", written(world, answered))


async def test_a_write_that_the_operator_may_not_make_is_the_cause(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world:
        token = await grant(world)
        await limit_kustomizations(world, token, READING)
        async with operator(world, token=token):
            await world.activate("alpha")
            await world.until_phase("alpha", "Degraded")
            answered = await told(world, ["module/alpha"])
            check("operator-without-rights", written(world, answered))


async def test_nothing_is_written_and_every_kind_is_asked_for_once(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world:
        await world.activate("gamma")
        mark = control_plane.audit_mark()
        await told(world, ["module/gamma"])
        asked = list(control_plane.audit(AGENT, mark))
    assert asked
    assert {record.verb for record in asked} <= {"get", "list", "watch"}
    places = [(record.group, record.resource, record.namespace, record.name) for record in asked]
    assert len(places) == len(set(places))


async def test_kinds_that_are_not_installed_are_named_with_what_installs_them() -> None:
    with DevCluster.start(CONTROL_PLANE) as bare:
        async with BareClient(bare.url, bare.ca_file, bare.admin_token, user_agent="test") as client:
            world = World(bare, client)
            answered = await told(world, ["module/alpha"])
            check("own-kinds-not-installed", written(world, answered))
            bare.apply([*sorted(CRDS.glob("*.yaml")), namespace(world.namespace)])
            await world.catalog(SMALL_CATALOG)
            await own(world, "ModuleActivation", "moduleactivations", "alpha", {"module": "alpha"})
            answered = await told(world, ["module/alpha"])
            check("flux-not-installed", written(world, answered))


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def test_the_command_answers_in_text_and_data_with_exit_codes_that_tell(
    control_plane: DevCluster,
) -> None:
    async with corner(control_plane) as world:
        await world.activate("alpha", enabled=False)
        await world.activate("beta")
        code, text = await command(world, "module/beta")
        assert code == 1
        assert "Root cause: ModuleActivation/alpha is switched off (spec.enabled is false)\n" in text
        assert "\x1b" not in text
        code, text = await command(world, "module/beta", "-o", "json")
        (root,) = json.loads(text)["rootCauses"]
        assert (code, root["subject"]["name"], root["command"].split()[0]) == (1, "alpha", "kubectl")
        code, text = await command(world, "alpha", "-o", "json")
        assert (code, json.loads(text)["healthy"]) == (0, True)


async def test_names_are_completed_from_the_cluster(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world:
        for module in ("alpha", "alphabet", "beta"):
            await world.activate(module)
        line = f"magicstick why -n {world.namespace} module/al"
        variables = {"_MAGICSTICK_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": "4"}
        _, output = await command(world, **variables)
        assert output.split() == ["module/alpha", "module/alphabet"]


async def command(world: World, *words: str, **variables: str) -> tuple[int, str]:
    """Exit code and output of the command in this corner."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "magicstick", "why", *words),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **world.environment, "KUBECONFIG": str(world.cluster.kubeconfig), **variables},
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()
