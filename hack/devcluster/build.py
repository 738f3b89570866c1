"""Ensures that the programs are in the cache, building what is missing.

A program's folder in the cache appears in one step (rename) and is complete when it is there. Whoever
builds a program holds a lock on it, so several builders at once share the work, and one that is
interrupted leaves at most a partial folder, which the next one removes. What Go had compiled by then is in
Go's own cache: building again goes on from there.
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from hack.devcluster.adapted import lay_out
from hack.devcluster.errors import BuildError
from hack.devcluster.programs import BY_NAME, PROGRAMS, Program
from hack.devcluster.progress import Progress, Task
from hack.devcluster.toolchain import Go

ASSETS = ("etcd", "kube-apiserver", "kubectl")


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """`${MAGICSTICK_CACHE:-${XDG_CACHE_HOME:-~/.cache}/magicstick}/devcluster`."""
    base = environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    own = environ.get("MAGICSTICK_CACHE") or Path(base) / "magicstick"
    return Path(own).expanduser() / "devcluster"


class Builder:
    """One cache folder and one way to build."""

    def __init__(
        self,
        cache: Path | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
        find_go: Callable[[], Go] = Go.find,
        progress: Callable[[int], Progress] = Progress,
        free_mib: Callable[[Path], int] | None = None,
    ) -> None:
        self.cache = cache or cache_folder(environ)
        self._assets = environ.get("KUBEBUILDER_ASSETS", "")
        self._find_go = find_go
        self._progress = progress
        self._free_mib = free_mib or _free_mib

    def folder(self, program: Program) -> Path:
        """Where a program is once it is built."""
        return self.cache / program.cache_key

    def binary(self, program: Program) -> Path:
        """The binary: of KUBEBUILDER_ASSETS where that has one, else of the cache, built or not yet."""
        asset = Path(self._assets).expanduser() / program.name
        if self._assets and program.name in ASSETS and os.access(asset, os.X_OK):
            return asset.absolute()
        return self.folder(program) / program.name

    def missing(self, names: Iterable[str] | None = None) -> list[Program]:
        """What has to be built of the named programs (all without names), in the order of need."""
        wanted = set(BY_NAME if names is None else names)
        return [each for each in PROGRAMS if each.name in wanted and not self._is_there(each)]

    def ensure(self, names: Iterable[str] | None = None) -> dict[str, Path]:
        """Builds what is missing and returns the binaries by name.

        Args:
            names: of programs; all of them without.

        Raises:
            BuildError: no Go, no space, no network, or code that does not compile; says what to do.
        """
        wanted = list(BY_NAME if names is None else dict.fromkeys(names))
        missing = self.missing(wanted)
        if missing:
            go = self._find_go()
            self._check_space(missing, go)
            progress = self._progress(len(missing))
            for program in missing:
                self._build_once(program, go, progress)
        return {name: self.binary(BY_NAME[name]) for name in wanted}

    def clean(self) -> None:
        """Removes all that was built, except what another builder is busy with."""
        for program in PROGRAMS:
            with self._lock(program, lambda: None):
                shutil.rmtree(self.folder(program), ignore_errors=True)
        keys = {each.cache_key for each in PROGRAMS}
        for folder in self.cache.glob("*-v*"):
            if folder.name.removesuffix(".partial") not in keys:
                shutil.rmtree(folder, ignore_errors=True)

    def _is_there(self, program: Program) -> bool:
        if program.package and not program.has_files:
            return self.binary(program).exists()
        return self.folder(program).exists()

    def _build_once(self, program: Program, go: Go, progress: Progress) -> None:
        with (
            progress.task(program) as task,
            self._lock(program, lambda: task.note("another process is building it; waiting for that")),
        ):
            if not self._is_there(program):
                self._build(program, go, task)

    def _build(self, program: Program, go: Go, task: Task) -> None:
        final = self.folder(program)
        partial = final.with_name(f"{final.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)  # of a builder that was interrupted
        partial.mkdir(parents=True)
        try:
            if program.package:
                with _workplace(program, go, partial) as folder:
                    go.build(program, folder, partial / program.name, self._log(program), task.packages)
            for files in program.files:
                _copy(go.module_folder(program, files.module), files.patterns, partial / files.target)
            if program.definitions is not None:
                go.define(program, program.definitions, partial, self._log(program))
            partial.rename(final)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _log(self, program: Program) -> Path:
        logs = self.cache / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        return logs / f"{program.cache_key}.log"

    @contextmanager
    def _lock(self, program: Program, on_wait: Callable[[], None]) -> Iterator[None]:
        """Exclusive among all processes of this machine; released by the kernel when its holder dies."""
        locks = self.cache / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        with (locks / program.cache_key).open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                on_wait()
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _check_space(self, missing: list[Program], go: Go) -> None:
        """Before time is lost: the places share a disk more often than not, so each must hold it all."""
        needed = sum(program.disk_mib for program in missing)
        for place in (self.cache, go.build_cache, go.module_cache):
            free = self._free_mib(place)
            if free < needed:
                names = ", ".join(each.name for each in missing)
                raise BuildError(
                    f"Building {names} needs about {needed / 1024:.1f} GiB of disk, "
                    f"but {place} has {free / 1024:.1f} GiB free. "
                    "Make room, or choose another place with MAGICSTICK_CACHE, GOCACHE or GOMODCACHE"
                )


@contextmanager
def _workplace(program: Program, go: Go, partial: Path) -> Iterator[Path]:
    """The folder that a program is built in: its own, or one beside an adapted copy of its source."""
    if not program.adaptations:
        yield program.source
        return
    folder = partial / "adapted"
    try:
        lay_out(program, go.module_folder(program, program.module), folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy(root: Path, patterns: tuple[str, ...], target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for pattern in patterns:
        found = sorted(root.glob(pattern))
        if not found:
            raise BuildError(f"{root} has no {pattern}")
        for file in found:
            # Not its mode: the module cache is read-only, and a copy must be removable.
            shutil.copyfile(file, target / file.name)


def _free_mib(place: Path) -> int:
    """Of the file system on which the place is or would be made."""
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free >> 20
