"""What shells complete, and how little they wait for it."""

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from magicstick.api.kinds import MODULE_ACTIVATION
from tests.support.apiserver import Hang, ScriptedServer
from tests.support.own_kinds import a_module, an_appliance, path_of, serve

pytestmark = pytest.mark.anyio


async def completed(line: str, kubeconfig: Path) -> list[str]:
    """What bash would offer at the end of the line."""
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "magicstick"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "_MAGICSTICK_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split(" ")) - 1),
        },
    )
    out, error = await asyncio.wait_for(running.communicate(), 20)
    assert error == b""
    return out.decode().split()


@pytest.fixture
def modules(server: ScriptedServer) -> None:
    serve(server, a_module("litellm"), a_module("gpu"), an_appliance(hardwareOperators={"gpu": {}}))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("get msm", ["msmod", "msmodel"]),
        (
            "get mod",
            [
                "moduleactivations",
                "moduleactivation",
                "module",
                "modules",
                "modelactivations",
                "modelactivation",
                "model",
                "models",
            ],
        ),
        ("get module/", ["module/gpu", "module/litellm"]),
        ("get moduleactivations.a", ["moduleactivations.appliance.magicstick.dev"]),
        ("get msmod,hard", ["msmod,hardware"]),
        ("get al", ["all"]),
        ("get msmod,al", []),
        ("get msmod/", ["msmod/gpu", "msmod/litellm"]),
        ("get msmod/l", ["msmod/litellm"]),
        ("get hw/", ["hw/gpu"]),
        ("get msmod ", ["gpu", "litellm"]),
        ("get msmod gpu ", ["litellm"]),
        ("get -n ai-system msmod g", ["gpu"]),
        ("get msmod/gpu msmod/l", ["msmod/litellm"]),
        ("get nonsense ", []),
        ("get nonsense/", []),
        ("get --sort-by p", ["phase"]),
        ("get -o y", ["yaml"]),
    ],
)
async def test_kinds_names_and_values_are_offered(
    modules: None, kubeconfig: Path, line: str, expected: list[str]
) -> None:
    assert await completed(f"magicstick {line}", kubeconfig) == expected


async def test_kinds_are_offered_without_asking_anybody(
    modules: None, server: ScriptedServer, kubeconfig: Path
) -> None:
    offered = await completed("magicstick get ", kubeconfig)
    assert {"msmod", "moduleactivations", "hardware", "appliance", "palena"} <= set(offered)
    assert not any("." in word for word in offered)
    assert server.requests == []


async def test_nothing_is_offered_by_a_server_that_is_not_there(
    server: ScriptedServer, kubeconfig: Path
) -> None:
    await server.stop()
    assert await completed("magicstick get msmod ", kubeconfig) == []


async def test_a_server_that_does_not_answer_is_not_waited_for(
    server: ScriptedServer, kubeconfig: Path
) -> None:
    server.answer("GET", path_of(MODULE_ACTIVATION), Hang())
    begun = time.monotonic()
    assert await completed("magicstick get msmod ", kubeconfig) == []
    assert time.monotonic() - begun < 10
