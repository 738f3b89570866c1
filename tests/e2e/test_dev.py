"""`python -m hack.dev`, which `make dev` runs, as its users see it: its words, its exit code, what it leaves."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hack.dev.appliance import ROOT
from hack.devcluster.state import State
from hack.devcluster.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

MARK = "MAGICSTICK_E2E_RUN"
"""An environment variable by which everything that a command starts is found again."""
ENDS_S = 120.0
READY = "Appliance local: Ready"


class Command:
    """A run of the command in a folder of its own. Reads what it says while it runs."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self._output = folder.with_suffix(".out")
        self._mark = f"{MARK}={folder}"
        with self._output.open("wb") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "hack.dev", "--directory", str(folder), *arguments],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**os.environ, MARK: str(folder)},
            )

    @property
    def said(self) -> str:
        """All of its output until now."""
        return self._output.read_text(errors="replace")

    def until_said(self, text: str) -> None:
        """Wait until it has said something; fails when it ends without."""
        wait_until(lambda: text in self.said or self.process.poll() is not None, repr(text), ENDS_S)
        assert text in self.said, self.said

    def ends(self) -> int:
        """Wait for its exit code."""
        return self.process.wait(ENDS_S)

    def address(self) -> tuple[str, int]:
        """Where its API server listens, while it runs."""
        state = wait_until(lambda: State.read(self.folder / "cluster"), "the cluster's state", ENDS_S)
        parts = urlsplit(state.url)
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port

    def left(self) -> list[str]:
        """The command lines of everything that it started, directly or not, and that still runs."""
        return [
            line
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and (line := _started_with(entry, self._mark))
        ]


def _started_with(process: Path, mark: str) -> str:
    try:
        environment = (process / "environ").read_bytes().split(b"\0")
        line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""  # it has just ended, or is not ours
    return line if mark.encode() in environment else ""


def listens(address: tuple[str, int]) -> bool:
    """Whether anybody accepts connections there."""
    with socket.socket() as sock:
        sock.settimeout(1.0)
        return sock.connect_ex(address) == 0


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[Command]:
    """Run the command; killed at the end of the block where it still runs."""
    command = Command(folder, *arguments)
    try:
        yield command
    finally:
        if command.process.poll() is None:
            command.process.kill()
            command.process.wait()


def assert_nothing_left(command: Command, address: tuple[str, int]) -> None:
    """No process, no port, no data."""
    assert command.left() == []
    assert not listens(address)
    assert not (command.folder / "cluster").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
def test_once_ends_well_and_leaves_nothing(tmp_path: Path) -> None:
    with running(tmp_path / "dev", "--once") as command:
        command.until_said("Appliance local")  # the first look comes after the operator's start
        address = command.address()
        assert listens(address)
        assert any("magicstick run" in line for line in command.left())
        assert command.ends() == 0, command.said

    assert_nothing_left(command, address)
    # The shipped folders were applied by Flux itself, and the operator told each step.
    for line in (
        "basis: Ready ReconciliationSucceeded",
        "dashboard: Ready ReconciliationSucceeded",
        "litellm: Ready KustomizationReady",
        "model-catalog: Ready KustomizationReady",
        READY,
    ):
        assert line in command.said
    assert command.said.index("litellm: Ready") < command.said.index("model-catalog: Ready")


@pytest.mark.req("MS-104", "MS-105", "MS-106", "MS-107")
@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
def test_gpus_are_discovered_and_served_and_modules_and_models_switched_on(tmp_path: Path) -> None:
    with running(
        tmp_path / "dev", "--once", "--gpu", "mixed", "--modules", "openclawOperator,kubeai", "--models"
    ) as command:
        command.until_said("starting the model catalog")
        address = command.address()
        assert command.ends() == 0, command.said

    assert_nothing_left(command, address)
    for line in (
        # Two nodes are left out: an old kubelet, and a processor that the vendor does not know.
        "nvidia GPUs: Ready, 1 of 2 nodes, 2 allocatable",
        "amd GPUs: Ready, 1 of 2 nodes, 1 allocatable",
        "intel GPUs: Ready, 1 of 1 nodes, 2 allocatable",
        "amd-gpu: Ready KustomizationReady",
        "openclaw-operator: Ready KustomizationReady",
        "kubeai: Ready KustomizationReady",
        "model qwen-cpu: Ready CatalogReady",
        "model qwen-nvidia: Ready CatalogReady",
        "model hosted-chat: Ready CatalogReady",
        READY,
    ):
        assert line in command.said
    assert command.said.index("hardware-discovery: Ready") < command.said.index("amd-gpu: Ready")


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
def test_applications_show_where_they_are_and_a_gateway_and_what_is_around_it_get_to_running(
    tmp_path: Path,
) -> None:
    with running(tmp_path / "dev", "--once", "--app", "odysseus,hermes,hermes", "--palena") as command:
        command.until_said("starting the operator")
        address = command.address()
        assert command.ends() == 0, command.said

    assert_nothing_left(command, address)
    for app in ("odysseus", "hermes"):
        addresses = f"https://demo.{app}.magicstick.local/ https://demo.{app}.magicstick.example.com/"
        assert f"instance {app}-demo: Ready InstallSucceeded {addresses}" in command.said
    assert command.said.index("odysseus: Ready Kust") < command.said.index("odysseus-demo: Ready")
    assert "kubeopencode" not in command.said
    for line in (
        "PalenaGateway gw: Running AllComponentsReady",
        "PalenaModel chat-large: Running ModelReady",
        "PalenaMCPServer websearch: Running AllComponentsReady",
        "PalenaUI chat: Running UIReady",
        "PalenaObservability obs: Running AllComponentsReady",
        READY,
    ):
        assert line in command.said
    assert not re.search(r"Palena\w+ \S+: Error", command.said)


def test_an_application_that_does_not_exist_is_refused_at_once(tmp_path: Path) -> None:
    with running(tmp_path / "dev", "--app", "odysseus,excel") as command:
        assert command.ends() == 1
    assert "there is no application 'excel'; there are: openclaw, hermes, paperclip" in command.said
    assert not (command.folder / "cluster").exists(), "it is said before a cluster is started"


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
def test_once_fails_within_its_deadline_and_says_why(tmp_path: Path, tree: Path) -> None:
    file = tree / "manifests" / "modules" / "litellm" / "kustomization.yaml"
    file.write_text(file.read_text().replace("  - litellm.yaml\n", "  - litelm.yaml\n"))
    with running(tmp_path / "dev", "--once", "--deadline", "40", "--source", str(tree)) as command:
        command.until_said("starting the operator")
        begun, address = time.monotonic(), command.address()
        assert command.ends() == 1, command.said
        assert time.monotonic() - begun < 40 + 15

    assert_nothing_left(command, address)
    reasons = command.said.partition("not Ready within the deadline")[2]
    assert "Appliance local: Degraded" in reasons
    assert "litellm: Degraded, BuildFailed: " in reasons
    assert "litelm.yaml" in reasons
    assert "model-catalog: WaitingForModules" in reasons
    assert "dashboard" not in reasons
    assert READY not in command.said


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("installing Flux's CRDs", signal.SIGINT),
        ("litellm: Reconciling", signal.SIGINT),
        ("litellm: Reconciling", signal.SIGTERM),
    ],
)
def test_an_interruption_leaves_nothing(tmp_path: Path, moment: str, number: signal.Signals) -> None:
    with running(tmp_path / "dev", "--once") as command:
        command.until_said(moment)
        address = command.address()
        command.process.send_signal(number)
        assert command.ends() == 130, command.said

    assert_nothing_left(command, address)
    assert "Traceback" not in command.said
    assert READY not in command.said


@pytest.mark.req("MS-107")
@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
def test_without_once_it_stays_until_it_is_interrupted_and_hardware_of_one_vendor_brings_no_other(
    tmp_path: Path,
) -> None:
    with running(tmp_path / "dev", "--gpu", "amd") as command:
        command.until_said("In a second terminal")
        address = command.address()
        command.process.send_signal(signal.SIGINT)
        assert command.ends() == 0, command.said

    assert_nothing_left(command, address)
    assert "stopped; nothing is left running" in command.said
    assert "amd GPUs: Ready, 1 of 1 nodes, 1 allocatable" in command.said
    for other in ("nvidia", "intel"):
        assert other not in command.said


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
def test_even_a_kill_leaves_no_process(tmp_path: Path) -> None:
    with running(tmp_path / "dev", "--once") as command:
        command.until_said("litellm: Reconciling")
        address = command.address()
        command.process.kill()
        command.ends()

    # A process that is being torn down has no environment any more, but may still have its port.
    wait_until(lambda: not command.left() and not listens(address), "all processes to end", 15.0)


def test_a_source_without_manifests_is_refused_at_once(tmp_path: Path) -> None:
    with running(tmp_path / "dev", "--source", str(tmp_path)) as command:
        assert command.ends() == 2
    assert "has no manifests/kustomization.yaml" in command.said
