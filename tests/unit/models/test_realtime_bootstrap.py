"""The program that starts the runtime, run as a process of its own in a folder of its own (spec: realtime §8).

The runtime's package is a synthetic one with the shape of the real one; `vllm` is a script that writes down
how it was called.
"""

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from magicstick.models.realtime import bootstrap
from magicstick.models.realtime.bootstrap import BootstrapError, repair
from magicstick.models.realtime.stages import bootstrap_text, stage_plan
from tests.support.realtime_objects import realtime

SOURCE = '''"""Structured configuration."""

from __future__ import annotations

from typing import TypedDict

from pydantic import Field
from pydantic.dataclasses import dataclass

# A form feed\x0cin a comment, and a line separator\u2028 too, end no line.


class _LoadEngineOverrides(TypedDict, total=False):
    tokenizer: str
    load_format: str


@dataclass(kw_only=True, config={"extra": "forbid"})
class OmniStageLoadConfig:
    """Loading behaviour
    of a stage."""

    tokenizer: str | None = None
    parallel: int = Field(default=1, ge=1)
'''
ORIGINAL = hashlib.sha256(SOURCE.encode()).hexdigest()


class Container:
    """A folder that stands for the container of a realtime Pod."""

    def __init__(self, folder: Path, source: str = SOURCE) -> None:
        self.config, self.plan = folder / "profile.json", folder / "plan.json"
        self.called = folder / "called.json"
        package = folder / "site" / "vllm_omni"
        self.source = package / "config" / "omni_config.py"
        self.source.parent.mkdir(parents=True)
        # Whoever imports the package pays for it; the bootstrap only looks where it is.
        (package / "__init__.py").write_text("raise ImportError('the package must not be imported')\n")
        self.source.write_bytes(source.encode())
        program = folder / "bin" / "vllm"
        program.parent.mkdir()
        program.write_text(
            f"#!{sys.executable}\nimport json, sys\n"
            f"json.dump(sys.argv[1:], open({str(self.called)!r}, 'w'))\n"
        )
        program.chmod(0o755)
        self._path = f"{program.parent}:{os.environ['PATH']}"

    def start(self, *, offload: int = 0, pinned: str = "true", original: str = ORIGINAL) -> str:
        """Run the program to its end; what it said when it failed, "" when `vllm` took over."""
        self.config.write_text(json.dumps(stage_plan(realtime(thinker_offload_gib=offload))))
        text = bootstrap_text().replace(bootstrap.ORIGINAL, original)
        text = text.replace(str(bootstrap.CONFIG), str(self.config))
        text = text.replace(str(bootstrap.PLAN), str(self.plan))
        environment = {
            "PATH": self._path,
            "PYTHONPATH": str(self.source.parents[2]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "MODEL_ID": "example/omni; rm -rf $HOME",
            "SERVED_MODEL_NAME": "demo",
            "MAGICSTICK_PINNED_OFFLOAD_PATCH": pinned,
        }
        ended = subprocess.run(
            [sys.executable, "-c", text],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (ended.returncode == 0) == self.called.exists(), ended.stderr
        return ended.stderr if ended.returncode else ""

    @property
    def arguments(self) -> list[str]:
        found: list[str] = json.loads(self.called.read_text())
        return found

    @property
    def written(self) -> Mapping[str, Any]:
        found: dict[str, Any] = json.loads(self.plan.read_text())
        return found


@pytest.fixture
def container(tmp_path: Path) -> Container:
    return Container(tmp_path)


def test_the_runtime_takes_the_place_of_the_program_with_the_completed_plan(container: Container) -> None:
    assert container.start() == ""
    assert container.arguments == [
        *("serve", "example/omni; rm -rf $HOME", "--omni", "--deploy-config", str(container.plan)),
        *("--served-model-name", "demo", "--host", "0.0.0.0", "--port", "8000"),  # noqa: S104 - what is asked for
    ]
    base = container.source.parents[1] / "deploy" / "qwen3_omni_duplex.yaml"
    assert container.written == {**stage_plan(realtime()), "base_config": str(base)}


@pytest.mark.req("MS-086")
@pytest.mark.parametrize(("offload", "pinned"), [(0, "true"), (12, "false"), (0, "false")])
def test_e6_without_an_offload_or_with_an_image_of_ones_own_the_package_is_not_touched(
    container: Container, offload: int, pinned: str
) -> None:
    assert container.start(offload=offload, pinned=pinned, original="0" * 64) == ""
    assert container.source.read_bytes() == SOURCE.encode()
    assert list(container.source.parent.iterdir()) == [container.source]


@pytest.mark.req("MS-085")
def test_e7_an_offload_repairs_the_reviewed_source_once(container: Container) -> None:
    assert container.start(offload=12) == ""
    first = container.source.read_text()
    assert first != SOURCE
    container.called.unlink()
    assert container.start(offload=12) == ""
    assert container.source.read_text() == first


@pytest.mark.req("MS-083")
def test_e7_a_source_that_nobody_reviewed_stops_the_start_and_stays_as_it_is(container: Container) -> None:
    said = container.start(offload=12, original=bootstrap.ORIGINAL)
    assert "reviewed, pinned source" in said
    assert "Traceback" not in said
    assert container.source.read_bytes() == SOURCE.encode()
    assert not container.plan.exists()


def test_an_image_without_the_runtime_says_so(container: Container) -> None:
    (container.source.parents[1]).rename(container.source.parents[2] / "other")
    assert "no Python package vllm_omni" in container.start()


# --- the repair ------------------------------------------------------------------------------------


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return known(tmp_path, monkeypatch, SOURCE)


def known(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Path:
    """A source that counts as reviewed."""
    path = folder / "omni_config.py"
    path.write_bytes(text.encode())
    monkeypatch.setattr(bootstrap, "ORIGINAL", hashlib.sha256(text.encode()).hexdigest())
    return path


def loaded(source: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The source as the runtime imports it."""
    spec = importlib.util.spec_from_file_location("omni_config", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "omni_config", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.req("MS-085", "MS-088")
def test_the_repaired_source_carries_the_offload_and_still_refuses_what_it_does_not_own(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    stage = loaded(source, monkeypatch).OmniStageLoadConfig
    with pytest.raises(ValueError, match="cpu_offload_gb"):
        stage(cpu_offload_gb=12)
    repair(source)
    module = loaded(source, monkeypatch)
    stage = module.OmniStageLoadConfig
    assert "cpu_offload_gb" in module._LoadEngineOverrides.__annotations__
    assert stage(cpu_offload_gb=12).cpu_offload_gb == 12.0
    assert stage().cpu_offload_gb == 0.0
    assert "of a stage" in (stage.__doc__ or "")
    for wrong in ({"cpu_offload_gb": -1}, {"cpu_offload_gb": float("nan")}, {"cpu_offload_gb": float("inf")}):
        with pytest.raises(ValueError, match="cpu_offload_gb"):
            stage(**wrong)
    with pytest.raises(ValueError, match="parallel"):
        stage(parallel=0)
    with pytest.raises(ValueError, match="unowned"):
        stage(unowned=1)


def test_nothing_but_two_lines_and_the_marker_is_added(source: Path) -> None:
    repair(source)
    after = source.read_text().split("\n")
    assert after[0] == bootstrap.MARKER.rstrip("\n")
    before = SOURCE.split("\n")
    added = [line for line in after[1:] if line not in before]
    assert added == [bootstrap.OVERRIDE, bootstrap.FIELD]
    assert len(after) == len(before) + 3


def test_stale_byte_code_of_the_module_goes_and_the_mode_stays(source: Path) -> None:
    cache = source.parent / "__pycache__"
    cache.mkdir()
    stale, other = cache / "omni_config.cpython-312.pyc", cache / "other.cpython-312.pyc"
    for each in (stale, other):
        each.write_bytes(b"")
    source.chmod(0o640)
    repair(source)
    assert not stale.exists()
    assert other.exists()
    assert source.stat().st_mode & 0o777 == 0o640
    assert sorted(each.name for each in source.parent.iterdir()) == ["__pycache__", "omni_config.py"]


@pytest.mark.req("MS-083")
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + "# more\n",
        lambda text: text.replace(bootstrap.FIELD + "\n", ""),
        lambda text: text.replace(
            bootstrap.OVERRIDE + "\n", bootstrap.OVERRIDE + "\n" + bootstrap.OVERRIDE + "\n"
        ),
        lambda text: bootstrap.MARKER + text,
    ],
)
def test_e7_a_repaired_source_that_has_changed_since_is_refused(source: Path, change: Any) -> None:
    repair(source)
    source.write_text(change(source.read_text()))
    changed = source.read_bytes()
    with pytest.raises(BootstrapError, match="inconsistent"):
        repair(source)
    assert source.read_bytes() == changed


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("class _LoadEngineOverrides(", "class _Other(", "0 classes _LoadEngineOverrides"),
        ("class OmniStageLoadConfig:", "class Other:", "0 classes OmniStageLoadConfig"),
        ("# A form feed", "class OmniStageLoadConfig:\n    '''Twice.'''\n#", "2 classes OmniStageLoadConfig"),
        ("# A form feed", "class _LoadEngineOverrides:\n    pass\n#", "2 classes _LoadEngineOverrides"),
        ('    """Loading behaviour\n    of a stage."""\n', "", "no docstring"),
        ("from typing import", "from typing imp", "does not compile"),
        (
            "(TypedDict, total=False):\n    tokenizer: str\n    load_format: str",
            "(TypedDict): x: int",
            "compile",
        ),
    ],
)
def test_e7_a_place_that_is_missing_or_there_twice_is_refused_and_nothing_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, problem: str
) -> None:
    text = SOURCE.replace(old, new)
    assert text != SOURCE
    path = known(tmp_path, monkeypatch, text)
    with pytest.raises(BootstrapError, match=problem):
        repair(path)
    assert path.read_bytes() == text.encode()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.req("MS-083")
def test_the_repair_knows_one_source() -> None:
    assert bootstrap.ORIGINAL == "cfc1ab70e1405979f5346b1adf1e27eb1cc1fcf9d34bc6f139971391e54188c7"


def test_the_program_needs_nothing_but_python_itself() -> None:
    probe = "import ast,sys;t=ast.parse(sys.stdin.read());print([n for i in ast.walk(t) "
    probe += "for n in ([a.name for a in i.names] if isinstance(i,ast.Import) else [i.module] "
    probe += "if isinstance(i,ast.ImportFrom) else []) if n.split('.')[0] not in sys.stdlib_module_names])"
    ended = subprocess.run(
        [sys.executable, "-c", probe], input=bootstrap_text(), capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == "[]"
