"""Child processes that cannot outlive us: each runs under `guard.py`."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

GUARD = Path(__file__).resolve().parent / "guard.py"
TAIL_LINES = 20
DYING_S = 10.0  # what the kernel may take to tear down a killed process


def guarded(argv: Sequence[str]) -> list[str]:
    """The command that runs `argv` (an absolute path first) under the guard; needs a pipe as stdin."""
    return [sys.executable, "-I", "-S", str(GUARD), *argv]


def tail(file: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a log file; empty when there is none."""
    try:
        return "\n".join(file.read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""


class ManagedProcess:
    """A program with a log file, in its own process group.

    Assumes that one thread at a time starts or stops it. Nothing is guaranteed about a program that
    leaves its process group, which none of ours does.
    """

    def __init__(
        self, name: str, argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        """Starts the program at once; output is appended to the log.

        `env` is added to our own environment.
        """
        self.name = name
        self.log = log
        # Guard and program hold the write end: the pipe ends when both are gone, and with them their ports.
        self._gone, held = os.pipe()
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                guarded(argv),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                start_new_session=True,  # from the beginning: it may be signalled at once
                pass_fds=(held,),
            )
        os.close(held)

    @property
    def pid(self) -> int:
        """Of the guard, which is also the id of the process group."""
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._popen.poll()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self.exit_code is None

    def stop(self, grace_s: float = 10.0) -> None:
        """SIGTERM, and SIGKILL when it has not ended within the grace. Returns once it is gone."""
        if self.alive:
            self._signal(signal.SIGTERM)
            try:
                self._popen.wait(grace_s)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
        self._close()

    def kill(self) -> None:
        """SIGKILL to program and guard, as a crash would be. Returns once both are gone."""
        if self.alive:
            self._signal(signal.SIGKILL)
        self._close()

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return  # it ended by itself in the meantime

    def _close(self) -> None:
        """Waits for the end of both processes and lets go of the pipes."""
        self._popen.wait()
        if self._popen.stdin is not None and not self._popen.stdin.closed:
            select.select([self._gone], [], [], DYING_S)
            self._popen.stdin.close()
            os.close(self._gone)
