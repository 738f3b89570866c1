"""Nothing that the development cluster starts may outlive the process that asked for it."""

import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.devcluster.process import ManagedProcess

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 20.0
# Says its pid, and ends only by a signal that it cannot ignore.
STUBBORN = "import os, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(os.getpid(), flush=True); signal.pause()"


class Life:
    """A pipe whose write end a process and its children inherit: it ends when all of them are gone."""

    def __init__(self) -> None:
        self.read, self.write = os.pipe()

    def hand_over(self) -> None:
        """Closes our copy of the write end, once it has been inherited."""
        os.close(self.write)

    def ended(self) -> bool:
        readable, _, _ = select.select([self.read], [], [], DEADLINE_S)
        return bool(readable)


@pytest.fixture
def life() -> Iterator[Life]:
    life = Life()
    yield life
    os.close(life.read)


def start_parent(life: Life, body: str, log: Path) -> subprocess.Popen[str]:
    """A Python process that starts `STUBBORN` under a guard and then runs `body`."""
    script = textwrap.dedent("""
        import os, select, signal, sys, threading
        from pathlib import Path
        from hack.devcluster import process
        program, log, life = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
        real = process.subprocess.Popen
        def popen(*args, pass_fds=(), **kwargs):
            return real(*args, pass_fds=(*pass_fds, life), **kwargs)
        process.subprocess.Popen = popen
        def start():
            return process.ManagedProcess("program", [sys.executable, "-c", program], log)
        def wait_for_program():
            while not (log.exists() and log.read_text().strip().isdigit()):
                assert managed.alive
                select.select([], [], [], 0.01)
    """) + textwrap.dedent(body)
    parent = subprocess.Popen(
        [sys.executable, "-c", script, STUBBORN, str(log), str(life.write)],
        cwd=ROOT,
        pass_fds=(life.write,),
        stdout=subprocess.PIPE,
        text=True,
    )
    life.hand_over()
    return parent


def test_a_killed_parent_takes_its_programs_with_it(tmp_path: Path, life: Life) -> None:
    parent = start_parent(
        life,
        "managed = start(); wait_for_program(); print('up', flush=True); signal.pause()",
        tmp_path / "log",
    )
    with parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "up\n"
        parent.kill()
    assert life.ended()


def test_a_killed_guard_takes_its_program_with_it(tmp_path: Path, life: Life) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux has a parent-death signal")
    body = """
        managed = start(); wait_for_program(); os.kill(managed.pid, signal.SIGKILL)
        os.close(life); print('killed', flush=True); signal.pause()
    """
    parent = start_parent(life, body, tmp_path / "log")
    with parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "killed\n"
        assert life.ended(), "the parent lives and does not hold the pipe: the program must be gone"
        parent.kill()


def test_a_program_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    started: list[ManagedProcess] = []
    script = f"read line < {fifo}; echo heard $line"
    thread = threading.Thread(target=lambda: started.append(run(tmp_path, "/bin/sh", "-c", script)))
    thread.start()
    thread.join()
    fifo.write_text("a call\n")
    assert wait(started[0]) == 0
    assert (tmp_path / "log").read_text() == "heard a call\n"
    started[0].stop()


def run(tmp_path: Path, *argv: str) -> ManagedProcess:
    return ManagedProcess("program", argv, tmp_path / "log")


def wait(process: ManagedProcess) -> int:
    return process._popen.wait(DEADLINE_S)


def test_the_exit_code_is_the_programs(tmp_path: Path) -> None:
    process = run(tmp_path, "/bin/sh", "-c", "echo out; echo err >&2; exit 7")
    assert wait(process) == 7
    assert (tmp_path / "log").read_text() == "out\nerr\n"
    process.stop()


def test_a_program_ended_by_a_signal_is_told_by_its_exit_code(tmp_path: Path) -> None:
    process = run(tmp_path, "/bin/sh", "-c", "kill -KILL $$")
    assert wait(process) == 128 + signal.SIGKILL
    process.stop()


def test_a_program_that_is_not_there_says_so_in_the_log(tmp_path: Path) -> None:
    process = run(tmp_path, "/nowhere/program")
    assert wait(process) == 127
    assert (tmp_path / "log").read_text() == "/nowhere/program: No such file or directory\n"
    process.stop()


def test_stop_lets_the_program_end_itself(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    script = f"trap 'echo bye; exit 0' TERM; echo > {ready}; while :; do sleep 0.05; done"
    process = run(tmp_path, "/bin/sh", "-c", script)
    ready.read_text()
    process.stop()
    assert process.exit_code == 0
    assert "bye" in (tmp_path / "log").read_text()


def test_stop_kills_what_does_not_end_within_the_grace(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    process = run(tmp_path, "/bin/sh", "-c", f"trap '' TERM; echo > {ready}; while :; do sleep 0.05; done")
    ready.read_text()
    process.stop(grace_s=0.1)
    assert not process.alive


def test_programs_have_a_process_group_of_their_own(tmp_path: Path) -> None:
    process = run(tmp_path, "/bin/sh", "-c", "sleep 60")
    assert os.getpgid(process.pid) == process.pid != os.getpgid(0)
    process.kill()


def test_stopping_twice_is_fine(tmp_path: Path) -> None:
    process = run(tmp_path, "/bin/sh", "-c", "exit 0")
    wait(process)
    process.stop()
    process.kill()
    assert process.exit_code == 0
