"""`why` asks its first question soon, and what takes long to import waits until then."""

import json
import resource
import socket
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from hack import yamls
from magicstick.kube.kinds import NAMESPACE
from tests.unit.test_cli import environment, process

pytestmark = pytest.mark.alone

ROOT = Path(__file__).parents[3]
FIRST_REQUEST_TIMES = 30
"""The first request may take so many times as long as a Python that does nothing: 300 ms where that
takes 10 ms. `python -X importtime -m magicstick why` shows what takes how long."""
ROUNDS = 15
"""The least of so many counts, since the other processes of a machine take from each."""
HEAVY = ("pydantic", "pydantic_settings", "rich", "jsonschema", "uvloop", "anyio", "prometheus_client")
OURS = ("magicstick.modules", "magicstick.catalogs", "magicstick.appliance", "magicstick.runtime")

FIRST_REQUEST = """
import json, os, sys
from magicstick.cli import cluster, main

def stop(access, work):
    with cluster.quick_imports():
        from magicstick.cli import asking
    from magicstick.kube.transport import Transport
    async def send(self, request):
        print(json.dumps([request.path, *sys.modules]), flush=True)
        os._exit(0)
    Transport.send = send
    return asking.run(access, work)

from magicstick.cli import why
why.ask = stop
main(["why", "module/alpha"])
"""


def kubeconfig(folder: Path, url: str) -> Path:
    """A kubeconfig for a server without TLS."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": url}}],
        "users": [{"name": "test", "user": {"token": "CHANGEME"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yamls.dump(content))
    return path


def needed_s(program: str, file: Path) -> tuple[float, str]:
    """Processor time of a Python, in seconds, and what it wrote.

    Nothing is waited for before the first request, so that on an idle machine it is the time that passes;
    on a busy one, time on the clock would tell of the others.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = process("-c", program, KUBECONFIG=str(file))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def test_the_first_request_goes_out_at_once(tmp_path: Path) -> None:
    file, nothing, first = kubeconfig(tmp_path, "http://127.0.0.1:9"), list[float](), list[float]()
    for _ in range(ROUNDS):
        nothing.append(needed_s("pass", file)[0])
        first.append(needed_s(FIRST_REQUEST, file)[0])
        if len(first) > 2 and min(first) < FIRST_REQUEST_TIMES * min(nothing):
            return
    pytest.fail(f"{min(first):.3f} s, where nothing takes {min(nothing):.3f} s")


def test_before_the_first_request_only_what_it_needs_is_imported(tmp_path: Path) -> None:
    path, *loaded = json.loads(needed_s(FIRST_REQUEST, kubeconfig(tmp_path, "http://127.0.0.1:9"))[1])
    assert path == NAMESPACE.path(name="default")
    assert "aiohttp" in loaded
    assert not {*HEAVY, *OURS} & set(loaded)


def why(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "magicstick", "why", *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(**variables),
        cwd=ROOT,
    )


def test_a_server_that_is_away_is_told_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    done = why("--timeout", "1", KUBECONFIG=str(kubeconfig(tmp_path, f"http://127.0.0.1:{port}")))
    assert done.returncode == 3
    assert done.stdout == ""
    assert f"127.0.0.1:{port}" in done.stderr
    assert done.stderr.startswith("magicstick: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [["nonsense/x"], ["module/"], ["a", "b", "c"], ["--output", "xml"]])
def test_words_that_mean_nothing_are_misuse(words: list[str]) -> None:
    done = why(*words)
    assert done.returncode == 2
    assert "magicstick why --help" in done.stderr


def test_a_namespace_that_is_none_is_told_by_the_option_that_gave_it() -> None:
    done = why("--namespace", "Not A Name")
    assert done.returncode == 2
    allowed = "lower-case letters, digits and '-', at most 63 characters"
    assert done.stderr == f"magicstick: --namespace 'Not A Name': {allowed}\n"


class Refusing(BaseHTTPRequestHandler):
    """A server that knows who asks, and lets them read nothing."""

    def do_GET(self) -> None:
        self.send_error(403)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def test_a_setting_with_a_wrong_value_is_misuse(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        file = kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_port}")
        done = why(KUBECONFIG=str(file), FLUX_NAMESPACE="Not A Name")
        server.shutdown()
    assert done.returncode == 2
    assert "FLUX_NAMESPACE" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_help_has_examples_and_the_exit_codes() -> None:
    done = why("--help")
    assert done.returncode == 0
    for text in ("magicstick why module/litellm", "Exit codes", "--all", "--context"):
        assert text in done.stdout


def test_kinds_are_completed() -> None:
    done = why(_MAGICSTICK_COMPLETE="complete_bash", COMP_WORDS="magicstick why ha", COMP_CWORD="2")
    assert "hardware/" in done.stdout
