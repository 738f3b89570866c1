"""How soon `magicstick get` asks its first question, and what it does without."""

import asyncio
import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.apiserver import ScriptedServer
from tests.support.own_kinds import a_module, serve
from tests.unit.test_cli import process

pytestmark = pytest.mark.alone

FIRST_REQUEST_TIMES = 30
"""The first request may take so many times as long as a Python that does nothing: 300 ms where that
takes 10 ms. `python -X importtime -m magicstick get` shows what takes how long."""
ROUNDS: int = 15
"""The least of so many counts, since the other processes of a machine take from each."""

FIRST_REQUEST = """
import os, sys
from magicstick.cli import cluster, main

def stop(access, work):
    with cluster.quick_imports():
        from magicstick.cli import asking
    from magicstick.kube.transport import Transport
    async def send(self, request):
        print(sorted({name.partition('.')[0] for name in sys.modules}), flush=True)
        os._exit(0)
    Transport.send = send
    return asking.run(access, work)

from magicstick.cli.get import command
command.ask = stop
main(sys.argv[1:])
"""


def needed_s(*arguments: str) -> tuple[float, str]:
    """Processor time of a Python, in seconds, and what it wrote.

    Nothing is waited for before the first request, so that on an idle machine it is the time that passes;
    on a busy one, time on the clock would tell of the others.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = process(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


@pytest.fixture
def nowhere(tmp_path: Path) -> Path:
    file = tmp_path / "kubeconfig"
    cluster = {"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "a", "context": {"cluster": "a", "user": "a"}}
    user = {"name": "a", "user": {"token": "sesame"}}
    file.write_text(
        json.dumps({"current-context": "a", "clusters": [cluster], "contexts": [context], "users": [user]})
    )
    return file


def test_the_first_request_goes_out_at_once(nowhere: Path) -> None:
    nothing, first = [], []
    for _ in range(ROUNDS):
        nothing.append(needed_s("-c", "pass")[0])
        first.append(needed_s("-c", FIRST_REQUEST, "get", "--kubeconfig", str(nowhere))[0])
        if len(first) > 2 and min(first) < FIRST_REQUEST_TIMES * min(nothing):
            return
    pytest.fail(f"{min(first):.3f} s, where nothing takes {min(nothing):.3f} s")


def test_before_the_first_request_only_what_it_needs_is_imported(nowhere: Path) -> None:
    _, loaded = needed_s("-c", FIRST_REQUEST, "get", "--kubeconfig", str(nowhere))
    assert "'aiohttp'" in loaded
    for heavy in ("pydantic", "pydantic_core", "rich", "prometheus_client", "uvloop", "jsonschema", "anyio"):
        assert f"'{heavy}'" not in loaded


def test_what_needs_no_cluster_imports_no_kubernetes_layer() -> None:
    program = (
        "import sys\n"
        "from magicstick.cli import main\n"
        "try: main(['get', 'no-such-kind'])\n"
        "except SystemExit: pass\n"
        "print(sorted(sys.modules))\n"
    )
    loaded = process("-c", program).stdout
    for heavy in (
        "pydantic",
        "aiohttp",
        "structlog",
        "yaml",
        "anyio",
        "magicstick.kube.client",
        "rich",
        "asyncio",
    ):
        assert f"'{heavy}'" not in loaded


@pytest.mark.anyio
async def test_a_pipe_that_nobody_reads_any_more_ends_the_command_without_a_traceback(
    server: ScriptedServer, kubeconfig: Path
) -> None:
    serve(server, *(a_module(f"m{number}") for number in range(2000)))
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "magicstick", "get", "msmod", "--kubeconfig", str(kubeconfig)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stdout is not None
    assert (await running.stdout.readline()).startswith(b"NAME")
    running.stdout._transport.close()  # type: ignore[attr-defined] # there is no public way
    _, error = await asyncio.wait_for(running.communicate(), 20)
    assert (running.returncode, error) == (1, b"")
