"""Runs one program and makes sure that it dies with the process that asked for it.

    python -I -S guard.py PROGRAM ARGUMENTS...

The guard holds the read end of a pipe as its standard input; the asking process holds the write end and
never writes. When that process goes, however it goes, the pipe ends and the guard kills the program. When
the guard itself is killed, Linux kills the program (parent-death signal). A thread of the asking process
that ends does no harm, which is why the parent-death signal alone would not do.

The guard is the leader of its own process group with the program in it: Ctrl-C in a terminal does not reach
them, and one `killpg` reaches both. SIGTERM and SIGINT are the program's business; the guard outlives it
and exits with its code (128 + signal where a signal ended it, as shells do).

It is a script for the bare interpreter, so that each one starts in about 20 ms; it imports nothing of ours.
"""

import ctypes
import os
import select
import signal
import sys
from types import FrameType

PR_SET_PDEATHSIG = 1
PARENT_CHECK_S = 1.0


def _die_with_parent(parent: int) -> None:
    """In the child: be killed when the guard dies. Elsewhere than on Linux only the pipe protects."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before the call
            os._exit(1)


def _exec(argv: list[str], parent: int) -> None:
    try:
        _die_with_parent(parent)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execv(argv[0], argv)  # noqa: S606 - no shell is what is wanted
    except OSError as error:
        sys.stderr.write(f"{argv[0]}: {error.strerror}\n")
    os._exit(127)


def _ignore(_signal: int, _frame: FrameType | None) -> None:
    """A handler, and not SIG_IGN, since an ignored signal would stay ignored in the program."""


def _asker_gone(asker: int) -> bool:
    """True when the pipe has ended, or when we have another parent than at the start."""
    readable, _, _ = select.select([0], [], [], 0)
    return bool(readable) or os.getppid() != asker


def main(argv: list[str]) -> int:
    """Runs `argv` to its end and returns its exit code."""
    asker = os.getppid()
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, _ignore)
    guard = os.getpid()
    if os.getpgid(0) != guard:
        os.setpgid(0, 0)
    child = os.fork()
    if child == 0:
        _exec(argv, guard)
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        if _asker_gone(asker):
            os.kill(child, signal.SIGKILL)
            os.killpg(guard, signal.SIGKILL)  # what the program has started, and this guard
        readable, _, _ = select.select([0, wake_read], [], [], PARENT_CHECK_S)
        if wake_read in readable:
            os.read(wake_read, 4096)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
