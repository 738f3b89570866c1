"""What a running cluster tells others about itself: `state.json` in its directory, and a lock."""

import contextlib
import fcntl
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from hack.devcluster.errors import DevClusterError
from hack.devcluster.layout import write_json


@dataclass(frozen=True, slots=True)
class State:
    """A cluster that is or was up.

    Attributes:
        pid: of the process that owns the cluster; the cluster ends with it.
        components: process id (of the guard) by component.
        started: RFC 3339.
        ready: whether all of its components have been ready.
    """

    pid: int
    url: str
    kubeconfig: str
    directory: str
    started: str
    components: Mapping[str, int]
    ready: bool

    @classmethod
    def read(cls, directory: Path) -> "State | None":
        """None when no cluster has been up there, or its state cannot be read."""
        with contextlib.suppress(OSError, ValueError, TypeError):
            return cls(**json.loads(_file(directory).read_text()))
        return None

    def write(self) -> None:
        """Replaces the state in one step."""
        write_json(_file(Path(self.directory)), asdict(self))

    @staticmethod
    def remove(directory: Path) -> None:
        """Says that nothing runs any more."""
        _file(directory).unlink(missing_ok=True)


class Ownership:
    """The right to run a cluster in a directory: a lock that the kernel releases when its holder dies.

    It is also the mark by which a directory is known as one of ours: only such a directory, a new one or
    an empty one is ever used, since a cluster removes its directory when it ends.
    """

    def __init__(self, directory: Path) -> None:
        """Takes it; makes the directory.

        Raises:
            DevClusterError: another process has it, or the directory holds something else.
        """
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _lock(directory).exists() and any(directory.iterdir()):
            raise DevClusterError(f"{directory} is not empty and holds no cluster; choose another directory")
        self._directory = directory
        self._file = _lock(directory).open("w")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise DevClusterError(running_already(directory)) from None

    def clear_leftovers(self) -> None:
        """Removes what a cluster that was not to be kept could not remove itself, since it was killed."""
        if not _kept(self._directory).exists():
            self._clear()

    def end(self, *, keep: bool) -> None:
        """Gives the right back and, unless it is to be kept, removes the directory."""
        State.remove(self._directory)
        if keep:
            _kept(self._directory).touch()
        else:
            self._clear()
            # The lock goes last: as long as anything is left, others see that the directory is in use.
            _lock(self._directory).unlink()
            with contextlib.suppress(OSError):  # somebody else may have taken it in this moment
                self._directory.rmdir()
        self._file.close()

    def release(self) -> None:
        """Gives the right back and leaves everything as it is."""
        self._file.close()

    def _clear(self) -> None:
        for path in self._directory.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path != _lock(self._directory):
                path.unlink()


def running_already(directory: Path) -> str:
    """What to tell somebody who wants to start a second cluster in a directory."""
    return (
        f"a cluster is running in {directory} already; end it with Ctrl-C where it was started, or with: "
        f"{sys.executable} -m hack.devcluster stop --directory {directory}"
    )


def is_owned(directory: Path) -> bool:
    """Whether a living process runs a cluster there."""
    if not _lock(directory).exists():
        return False
    try:
        Ownership(directory).release()
    except DevClusterError:
        return True
    return False


def _file(directory: Path) -> Path:
    return directory / "state.json"


def _lock(directory: Path) -> Path:
    return directory / "owner.lock"


def _kept(directory: Path) -> Path:
    return directory / "kept"
