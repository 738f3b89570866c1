"""Runs the real helm, each time as a process that cannot outlive us."""

import asyncio
import contextlib
import json
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from hack.devcluster.actors.following import Object
from hack.devcluster.process import guarded

GRACE_S: Final = 30.0
"""So much longer than its own timeout helm may take, until it is ended."""
LONGEST: Final = 1000
"""So many characters of its words are passed on."""


class HelmError(Exception):
    """Helm failed; the text is what it said, bounded."""


class HelmProgram:
    """The binary, a kubeconfig, and a folder for what it keeps.

    Guarantees: values stand in no command line, and in a file that only we may read while helm runs.
    """

    def __init__(self, binary: Path, kubeconfig: Path, folder: Path) -> None:
        self._binary = binary
        self._folder = folder
        homes = {f"HELM_{name}_HOME": str(folder / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        self._env: Mapping[str, str] = {
            **os.environ,
            **homes,
            "KUBECONFIG": str(kubeconfig),
            "HELM_DRIVER": "secret",
        }

    async def run(self, *arguments: str, timeout_s: float, values: Object | None = None) -> None:
        """Run it to its end; it is ended when we are cancelled.

        Raises:
            HelmError: it did not end well, or not in time.
        """
        with self._file_of(values) as file:
            handed = ("--values", str(file)) if file is not None else ()
            process = await asyncio.create_subprocess_exec(
                *guarded([str(self._binary), *arguments, *handed]),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                env=self._env,
                start_new_session=True,
            )
            try:
                async with asyncio.timeout(timeout_s + GRACE_S):
                    said = await _words(process)
            except TimeoutError:
                raise HelmError(f"helm did not end within {timeout_s + GRACE_S:g} s") from None
            finally:
                await _end(process)
        if process.returncode != 0:
            raise HelmError(shortened(said))

    @contextlib.contextmanager
    def _file_of(self, values: Object | None) -> Iterator[Path | None]:
        if values is None:
            yield None
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=self._folder, suffix=".json") as file:  # mode 0600
            json.dump(values, file)
            file.flush()
            yield Path(file.name)


async def _words(process: asyncio.subprocess.Process) -> str:
    said = await process.stderr.read() if process.stderr is not None else b""
    await process.wait()
    return said.decode(errors="replace")


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
    if process.stdin is not None:
        process.stdin.close()


def shortened(said: str) -> str:
    """Helm's error without what it warned of before, and no longer than a condition should be."""
    error = said.rpartition("Error: ")[2].strip() or "helm gave no reason"
    return error if len(error) <= LONGEST else f"{error[: LONGEST - 1]}…"
