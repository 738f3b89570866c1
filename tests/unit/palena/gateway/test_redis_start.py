"""A real Redis starts as the generated StatefulSet starts it, and lets nobody in without the password."""

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from magicstick.palena.gateway.redis import DATA_PATH, PASSWORD_VARIABLE, PROBE, start_command

SERVER, CLIENT = shutil.which("redis-server"), shutil.which("redis-cli")
pytestmark = pytest.mark.skipif(
    not (SERVER and CLIENT), reason="redis-server and redis-cli are not installed (Debian: redis-server)"
)
PASSWORD = "Zk3" + "a" * 29
DEADLINE_S = 20.0


@dataclass
class Redis:
    """A running server; `ask` sends one command with a password of the test's choice."""

    process: subprocess.Popen[bytes]
    port: int

    def ask(self, *command: str, password: str | None = PASSWORD) -> str:
        variables = {"PATH": "/usr/bin:/bin", **({"REDISCLI_AUTH": password} if password else {})}
        asked = subprocess.run(
            [str(CLIENT), "-p", str(self.port), "--no-auth-warning", *command],
            capture_output=True,
            text=True,
            env=variables,
            check=False,
        )
        return (asked.stdout + asked.stderr).strip()

    def probe(self, password: str = PASSWORD) -> bool:
        """Whether the generated probe is content."""
        variables = {"PATH": "/usr/bin:/bin", PASSWORD_VARIABLE: password}
        command = [placed(each, self.port) for each in PROBE]
        return subprocess.run(command, env=variables, capture_output=True, check=False).returncode == 0


def placed(text: str, port: int, data: Path | None = None) -> str:
    """The generated text with a port and a folder that this machine has to spare."""
    return text.replace("6379", str(port)).replace(DATA_PATH, str(data or DATA_PATH))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(data: Path, password: str = PASSWORD) -> Iterator[Redis]:
    port = free_port()
    command = [placed(each, port, data) for each in start_command()]
    variables = {"PATH": "/usr/bin:/bin", PASSWORD_VARIABLE: password}
    process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    redis = Redis(process, port)
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not redis.probe(password):
            assert process.poll() is None, f"it ended:\n{process.communicate()[0].decode()}"
            assert time.monotonic() < deadline, "it never said PONG"
        yield redis
    finally:
        process.terminate()
        process.wait(DEADLINE_S)
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    with running(tmp_path_factory.mktemp("redis")) as server:
        yield server


def test_it_answers_whoever_knows_the_password(redis: Redis) -> None:
    assert redis.ask("ping") == "PONG"


@pytest.mark.parametrize("password", ["wrong", PASSWORD[:-1], None])
def test_it_refuses_whoever_does_not(redis: Redis, password: str | None) -> None:
    assert "NOAUTH" in redis.ask("ping", password=password)
    assert redis.ask("ping", password=password) != "PONG"


def test_the_probe_fails_with_a_wrong_password_although_the_client_ends_with_zero(redis: Redis) -> None:
    assert redis.probe()
    assert not redis.probe("wrong")


def test_it_runs_with_the_generated_configuration(redis: Redis) -> None:
    assert redis.ask("config", "get", "maxmemory-policy").split() == ["maxmemory-policy", "noeviction"]
    assert redis.ask("config", "get", "appendonly").split() == ["appendonly", "yes"]


def test_the_password_stands_in_no_command_line(redis: Redis) -> None:
    command_line = Path(f"/proc/{redis.process.pid}/cmdline").read_bytes()
    assert command_line.startswith(b"redis-server"), "Redis has to take the shell's place"
    assert PASSWORD.encode() not in command_line


def test_what_was_stored_is_there_after_a_restart_with_another_password(tmp_path: Path) -> None:
    with running(tmp_path) as before:
        assert before.ask("set", "kept", "yes") == "OK"
    with running(tmp_path, "Another0") as after:
        assert after.ask("get", "kept", password="Another0") == "yes"
        assert "NOAUTH" in after.ask("get", "kept")
