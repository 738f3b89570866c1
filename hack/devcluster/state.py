"""What a running cluster tells others about itself: `state.json` in its directory, and a lock."""

import contextlib
import fcntl
import json
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
    """

    pid: int
    url: str
    kubeconfig: str
    directory: str
    started: str
    components: Mapping[str, int]

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
    """The right to run a cluster in a directory: a lock that the kernel releases when its holder dies."""

    def __init__(self, directory: Path) -> None:
        """Takes it.

        Raises:
            DevClusterError: another process has it.
        """
        self._file = _lock(directory).open("w")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise DevClusterError(f"a cluster is running in {directory} already") from None

    def release(self) -> None:
        """Gives it back."""
        self._file.close()


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
