"""The table of programs agrees with the go.mod files, which hold the versions."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hack.devcluster.components import FULL, programs_of
from hack.devcluster.errors import BuildError
from hack.devcluster.programs import BY_NAME, PROGRAMS, TOOLS, Program, module_version


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """A copy of etcd's entry with go.mod and go.sum that a test may change."""
    original = BY_NAME["etcd"]
    for file in ("go.mod", "go.sum"):
        (tmp_path / file).write_text((original.source / file).read_text())
    return replace(original, folder=str(tmp_path))


@pytest.mark.parametrize("entry", PROGRAMS, ids=lambda entry: entry.name)
def test_every_program_has_a_pinned_version(entry: Program) -> None:
    assert re.fullmatch(r"v\d+\.\d+\.\d+", entry.version)


@pytest.mark.parametrize("entry", [each for each in PROGRAMS if each.package], ids=lambda entry: entry.name)
def test_every_built_package_is_a_tool_of_its_module(entry: Program) -> None:
    tools = re.search(r"^tool (?:\(([^)]*)\)|(\S+))", (entry.source / "go.mod").read_text(), re.MULTILINE)
    assert tools is not None
    assert entry.package in " ".join(filter(None, tools.groups())).split()


def test_the_kustomization_crd_is_that_of_the_controller_that_runs() -> None:
    module = "github.com/fluxcd/kustomize-controller"
    assert module_version(TOOLS / "flux-crds" / "go.mod", module) == BY_NAME["kustomize-controller"].version


def test_files_that_are_copied_have_a_pinned_checksum() -> None:
    for entry in PROGRAMS:
        sums = (entry.source / "go.sum").read_text()
        for files in entry.files:
            version = module_version(entry.source / "go.mod", files.module)
            assert f"{files.module} {version} h1:" in sums


def test_what_a_control_plane_needs_is_built_first() -> None:
    assert [program.name for program in PROGRAMS][:2] == ["etcd", "kube-apiserver"]


def test_a_full_cluster_needs_only_programs_that_exist() -> None:
    assert set(programs_of(FULL)) <= set(BY_NAME)


def test_kubernetes_says_its_version() -> None:
    server = BY_NAME["kube-apiserver"]
    assert f"gitVersion={server.version}" in server.ldflags
    assert "gitMajor=1 " in server.ldflags


def test_a_module_that_is_not_required_is_an_error(program: Program) -> None:
    with pytest.raises(BuildError, match=r"does not require example\.com/other"):
        module_version(program.source / "go.mod", "example.com/other")


def test_a_version_is_not_taken_from_a_module_whose_path_only_begins_alike(tmp_path: Path) -> None:
    go_mod = tmp_path / "go.mod"
    go_mod.write_text("require (\n\texample.com/a/v3 v3.1.0\n\texample.com/a v1.2.3 // indirect\n)\n")
    assert module_version(go_mod, "example.com/a") == "v1.2.3"


def test_another_checksum_flag_or_version_is_another_place_in_the_cache(program: Program) -> None:
    before = program.cache_key
    assert before == replace(program).cache_key
    other_package = replace(program, package="example.com/other").cache_key
    with (program.source / "go.sum").open("a") as sums:
        sums.write("example.com/new v1.0.0 h1:abc=\n")
    keys = {before, other_package, program.cache_key}
    assert len(keys) == 3
    assert all(key.startswith("etcd-v3.") for key in keys)
