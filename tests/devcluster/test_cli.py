"""The command line, as a user calls it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hack.devcluster.build import Builder
from hack.devcluster.cli import NOT_RUNNING, app
from hack.devcluster.programs import BY_NAME
from hack.devcluster.state import is_owned

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 90.0
COMMANDS = ("build", "clean", "start", "stop", "status", "logs", "env")


def call(*arguments: str, code: int = 0) -> str:
    """Runs the command line in this process and returns all it printed."""
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == code, result.output
    return result.output


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "hack.devcluster", *arguments]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    assert "Usage" in call(name, "--help")
    assert name in call("--help")


@pytest.mark.parametrize("name", ["build", "start", "status", "logs", "env"])
def test_commands_with_options_show_an_example(name: str) -> None:
    assert "Example" in call(name, "--help")


class TestWithoutCluster:
    def test_status_says_so_and_has_an_exit_code_of_its_own(self, tmp_path: Path) -> None:
        option = f"--directory={tmp_path / 'none'}"
        assert call("status", option, code=NOT_RUNNING) == "no cluster is running\n"
        assert json.loads(call("status", option, "-o", "json", code=NOT_RUNNING)) == {"running": False}
        assert not (tmp_path / "none").exists()

    def test_stop_has_nothing_to_do(self, tmp_path: Path) -> None:
        assert call("stop", f"--directory={tmp_path / 'none'}") == "no cluster is running\n"

    def test_env_and_logs_fail(self, tmp_path: Path) -> None:
        option = f"--directory={tmp_path / 'none'}"
        assert "no cluster is running; start one in another terminal: make dev" in call("env", option, code=1)
        assert "no logs in" in call("logs", option, code=1)


def test_an_unknown_program_is_refused() -> None:
    assert "no such program: emacs" in call("build", "emacs", code=1)


def test_a_failed_build_is_told_without_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGICSTICK_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    output = call("build", "etcd", code=1)
    assert "Go is needed" in output
    assert "Traceback" not in output


def test_clean_empties_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGICSTICK_CACHE", str(tmp_path))
    built = Builder().folder(BY_NAME["etcd"])
    built.mkdir(parents=True)
    assert "removed the programs" in call("clean")
    assert not built.exists()


def test_a_folder_with_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    output = call("start", f"--directory={tmp_path}", "--components=control-plane", code=1)
    assert "is not empty and holds no cluster" in output
    assert (tmp_path / "thesis.txt").exists()


def test_nothing_is_started_where_a_cluster_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USE_EXISTING_CLUSTER", "1")
    output = call("start", f"--directory={tmp_path / 'cluster'}", code=1)
    assert "USE_EXISTING_CLUSTER is set" in output
    assert not (tmp_path / "cluster").exists()


@pytest.mark.cluster
class TestDetached:
    @pytest.fixture
    def directory(self, tmp_path: Path) -> Iterator[Path]:
        directory = tmp_path / "cluster"
        arguments = command("start", "--components=control-plane", "--detach", f"--directory={directory}")
        subprocess.run(arguments, cwd=ROOT, check=True, timeout=DEADLINE_S, stdout=subprocess.DEVNULL)
        yield directory
        call("stop", f"--directory={directory}")

    def test_a_cluster_lives_on_until_it_is_stopped(self, directory: Path) -> None:
        option = f"--directory={directory}"
        facts = json.loads(call("status", option, "-o", "json"))
        assert facts["running"] is True
        assert facts["ready"] is True
        assert {name: each["alive"] for name, each in facts["components"].items()} == {
            "etcd": True,
            "kube-apiserver": True,
        }
        assert "kube-apiserver" in call("status", option)
        environment = call("env", option)
        assert f"export KUBECONFIG={facts['kubeconfig']}" in environment
        found = subprocess.run(
            ["sh", "-c", f"PATH=/usr/bin:/bin; {environment} command -v magicstick"],
            check=True,
            capture_output=True,
        )
        assert found.stdout
        assert "is running in" in call("start", option, "--components=control-plane", code=1)
        shown = subprocess.run(
            command("logs", "etcd", "-n1", option), cwd=ROOT, check=True, capture_output=True, text=True
        )
        assert shown.stdout.splitlines() == (directory / "logs" / "etcd.log").read_text().splitlines()[-1:]

        assert call("stop", option) == "stopped\n"
        assert not directory.exists()
        assert call("stop", option) == "no cluster is running\n"


@pytest.mark.cluster
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_cluster_in_the_foreground(tmp_path: Path, number: signal.Signals) -> None:
    directory = tmp_path / "cluster"
    arguments = command("start", "--components=control-plane", "--keep", f"--directory={directory}")
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready: https://127.0.0.1:")
        assert is_owned(directory)
        process.stdout.readline()
        assert process.stdout.readline() == "Ctrl-C stops it\n"
        process.send_signal(number)
        assert process.wait(DEADLINE_S) == 0
    assert not is_owned(directory)
    assert (directory / "etcd" / "member").exists(), "it was to be kept"
    assert not os.path.lexists(directory / "state.json")
