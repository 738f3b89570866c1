"""A program whose source is changed is built from a copy, and only if the source is as it was known."""

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from hack.devcluster.adapted import lay_out
from hack.devcluster.errors import BuildError
from hack.devcluster.programs import BY_NAME, Adaptation, Program

SERVER = Adaptation("server/listen.go", '":8080"', '"127.0.0.1:0"', times=2)


@pytest.fixture
def program() -> Program:
    return replace(BY_NAME["envoy-gateway"], adaptations=(SERVER,))


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """The source of a module, as read-only as in the module cache."""
    root = tmp_path / "module"
    (root / "server").mkdir(parents=True)
    (root / "server" / "listen.go").write_text('listen(":8080")\nprobe(":8080")\n')
    (root / "server" / "listen.go").chmod(0o444)
    (root / "server").chmod(0o555)
    return root


def test_the_copy_is_changed_and_the_module_is_not(program: Program, module: Path, tmp_path: Path) -> None:
    lay_out(program, module, tmp_path / "adapted")
    copied = tmp_path / "adapted" / "source" / "server" / "listen.go"
    assert copied.read_text() == 'listen("127.0.0.1:0")\nprobe("127.0.0.1:0")\n'
    assert (module / "server" / "listen.go").read_text() == 'listen(":8080")\nprobe(":8080")\n'


def test_the_copy_can_be_removed(program: Program, module: Path, tmp_path: Path) -> None:
    lay_out(program, module, tmp_path / "adapted")
    for each in (tmp_path / "adapted").rglob("*"):
        assert each.stat().st_mode & stat.S_IWUSR, each


def test_the_build_takes_the_copy_for_the_pinned_version(
    program: Program, module: Path, tmp_path: Path
) -> None:
    lay_out(program, module, tmp_path / "adapted")
    requirements = (tmp_path / "adapted" / "go.mod").read_text()
    assert requirements.startswith((program.source / "go.mod").read_text())
    assert requirements.endswith("replace github.com/envoyproxy/gateway => ./source\n")
    assert (tmp_path / "adapted" / "go.sum").read_text() == (program.source / "go.sum").read_text()


@pytest.mark.parametrize(
    "text",
    ['listen(":8080")\n', 'listen(":8080")\n' * 3, "", None],
    ids=["once", "thrice", "never", "no file"],
)
def test_a_source_that_is_not_as_known_ends_the_build(
    program: Program, module: Path, tmp_path: Path, text: str | None
) -> None:
    (module / "server").chmod(0o755)
    (module / "server" / "listen.go").unlink()
    if text is not None:
        (module / "server" / "listen.go").write_text(text)
    with pytest.raises(BuildError, match=r"server/listen\.go does not hold '\":8080\"' 2 times"):
        lay_out(program, module, tmp_path / "adapted")


def test_another_adaptation_is_another_place_in_the_cache(program: Program) -> None:
    other = replace(program, adaptations=(replace(SERVER, after='"127.0.0.1:1"'),))
    assert program.cache_key != other.cache_key
    assert program.cache_key != replace(program, adaptations=()).cache_key


def test_the_gateway_and_its_kinds_are_of_one_version() -> None:
    assert BY_NAME["envoy-gateway"].version == BY_NAME["envoy-crds"].version
