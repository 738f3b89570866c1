"""Generated files are those of the sources, and a source that breaks its model is refused."""

import json
import shutil
from pathlib import Path

import jsonschema
import pytest

from hack import yamls
from magicstick.catalogs.__main__ import main
from magicstick.catalogs.definitions import CATALOG_FILES, CatalogFile
from magicstick.catalogs.render import RenderError, read_source, render_all, stale, write
from tests.support.shipped import ROOT

FILES = [pytest.param(file, id=file.source) for file in CATALOG_FILES]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The sources and what is generated from them, to change."""
    for folder in ("catalogs", "manifests/catalogs"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    return tmp_path


def test_the_committed_files_are_those_of_the_sources() -> None:
    assert stale(ROOT) == []


def test_rendering_twice_is_the_same() -> None:
    assert render_all(ROOT) == render_all(ROOT)


@pytest.mark.parametrize("file", FILES)
def test_a_source_satisfies_its_json_schema(file: CatalogFile) -> None:
    schema = json.loads((ROOT / f"catalogs/schemas/{file.source}.json").read_text())

    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(read_source(file, ROOT), schema, jsonschema.Draft202012Validator)


@pytest.mark.parametrize("file", FILES)
def test_a_source_reaches_the_cluster_unchanged_and_in_its_order(file: CatalogFile) -> None:
    config_map = yamls.load(render_all(ROOT)[Path(f"manifests/catalogs/{file.component}.yaml")])

    assert json.loads(config_map["data"][file.key]) == read_source(file, ROOT)
    assert list(json.loads(config_map["data"][file.key])) == list(read_source(file, ROOT))


@pytest.mark.parametrize(
    ("path", "old", "new", "where"),
    [
        ("modules.yaml", "displayName: Basis", "displayNam: Basis", "modules.basis.displayNam"),
        ("modules.yaml", "path: manifests/modules/basis", "path: ./manifests", "modules.basis.path"),
        ("applications.yaml", "requestTimeout: 0s}", "requestTimeout: 30s}", "applications.openclaw.route.requestTimeout"),
        ("compute-targets.yaml", "schemaVersion: 3", "schemaVersion: 2", "schemaVersion"),
        ("model-presets.yaml", "contextWindow: 2048", "contextWidow: 2048", "presets.qwen2505bcpu.variants.0.contextWidow"),
        ("gpu-compatibility.yaml", "vendor: amd", "vendor: other", "profiles.0.vendor"),
    ],
)  # fmt: skip
def test_a_source_that_breaks_its_model_is_refused_and_the_field_named(
    copy: Path, path: str, old: str, new: str, where: str
) -> None:
    source = copy / "catalogs" / path
    source.write_text(source.read_text().replace(old, new, 1))

    with pytest.raises(RenderError, match=rf"catalogs/{path}: {where}: "):
        render_all(copy)


@pytest.mark.parametrize("content", [None, "modules: [", "5"])
def test_a_source_that_cannot_be_read_is_refused_by_its_name(copy: Path, content: str | None) -> None:
    source = copy / "catalogs/modules.yaml"
    source.unlink()
    if content is not None:
        source.write_text(content)

    with pytest.raises(RenderError, match=r"catalogs/modules\.yaml"):
        render_all(copy)


def test_a_changed_source_makes_its_files_stale_until_they_are_written(copy: Path) -> None:
    source = copy / "catalogs/modules.yaml"
    source.write_text(source.read_text().replace("displayName: Basis", "displayName: Base"))
    expected = [Path("manifests/catalogs/module-catalog.yaml")]

    assert stale(copy) == expected
    assert write(copy) == expected
    assert stale(copy) == []
    assert '"displayName": "Base"' in (copy / expected[0]).read_text()


def test_a_file_that_no_source_makes_is_removed_and_the_kustomization_is_not(copy: Path) -> None:
    surplus = Path("manifests/catalogs/former-catalog.yaml")
    (copy / surplus).touch()

    assert write(copy) == [surplus]
    assert not (copy / surplus).exists()
    assert (copy / "manifests/catalogs/kustomization.yaml").is_file()


def test_the_command_checks_without_writing_and_says_what_it_wrote(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = copy / "manifests/catalogs/app-catalog.yaml"
    file.write_text("changed")
    arguments = ["render", "--root", str(copy)]

    assert main([*arguments, "--check"]) == 1
    assert file.read_text() == "changed"
    assert main(arguments) == 0
    assert main([*arguments, "--check"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "stale: manifests/catalogs/app-catalog.yaml",
        "wrote: manifests/catalogs/app-catalog.yaml",
    ]


def test_the_command_says_in_one_line_what_is_wrong_with_a_source(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copy / "catalogs/applications.yaml").write_text("applications: []")

    assert main(["render", "--root", str(copy)]) == 1
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert captured.err.startswith("catalogs/applications.yaml: applications: ")
