"""`magicstick plan` as a command: its forms, its exit codes, and what it says where something is wrong."""

import io
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from hack import yamls
from magicstick.plan import shipped
from tests.unit.plan.conftest import Done, body_of
from tests.unit.test_cli import environment, plain, process

Command = Callable[..., Done]

MODULE = body_of("ModuleActivation", "litellm", spec={"module": "litellm"})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with a ModuleActivation."""
    path = tmp_path / "module.yaml"
    path.write_text(yamls.dump(MODULE))
    return path


def test_a_plan_for_an_empty_cluster_is_a_summary(command: Command, file: Path) -> None:
    done = command("-f", file, "--offline")
    assert (done.code, done.err) == (1, "")
    assert "+ create    Kustomization flux-system/app-litellm" in done.out.splitlines()


def test_the_objects_are_data_for_other_programs(command: Command, file: Path) -> None:
    done = command("-f", file, "--offline", "-o", "json")
    (item,) = done.json["items"]
    assert item["metadata"]["name"] == "app-litellm"
    assert done.json["kind"] == "List"
    assert [each["kind"] for each in yamls.load_all(command("-f", file, "--offline", "-o", "yaml").out)] == [
        "Kustomization"
    ]


def test_standard_input_is_a_file(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(yamls.dump(MODULE).encode())))
    assert "app-litellm" in command("-f", "-", "--offline").out


def test_a_closed_standard_input_is_told_and_is_no_plan(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    done = command("-f", "-", "--offline")
    assert (done.code, done.out, done.err) == (2, "", "magicstick: standard input: it is closed\n")


def test_nothing_to_do_is_success(command: Command, tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text(yamls.dump(body_of("Node", "n", api_version="v1")))
    done = command("-f", tmp_path, "--offline")
    assert done.code == 0
    assert "Nothing would change." in done.out


def test_other_catalogs_make_another_plan(command: Command, file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "catalogs"
    folder.mkdir()
    for document in shipped.catalogs(None):
        text = yamls.dump(document.body).replace("app-litellm", "app-other")
        (folder / f"{document.body['metadata']['name']}.yaml").write_text(text)
    done = command("-f", file, "--catalogs", folder)
    assert "Kustomization flux-system/app-other" in done.out


def test_assumptions_are_given_with_commas(command: Command, file: Path) -> None:
    done = command("-f", file, "--offline", "--assume-ready", "basis,none")
    assert "litellm: Reconciling" in done.out
    assert "WaitingForModules" in command("-f", file, "--offline", "--assume-ready", "none").out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "--filename"),
        (["-f", "nowhere.yaml", "--offline"], "nowhere.yaml: No such file"),
        (["-f", "FILE", "--offline", "--diff"], "--diff compares with a cluster"),
        (["-f", "FILE", "--offline", "-o", "table"], "'table' is not one of summary, yaml, json"),
        (["-f", "FILE", "--offline", "--assume-ready", "x"], "'x' is no module"),
        (["-f", "FILE", "--offline", "-n", "Not A Name"], "APPLIANCE_NAMESPACE"),
        (["-f", "FILE", "--catalogs", "nowhere"], "nowhere"),
    ],
)
def test_misuse_is_told_in_a_line(command: Command, file: Path, words: list[str], told: str) -> None:
    done = command(*[str(file) if word == "FILE" else word for word in words])
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert "Traceback" not in done.err


def test_invalid_input_names_file_document_field_and_what_is_allowed(
    command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "two.yaml"
    wrong = body_of("ModuleActivation", "gpu", spec={"module": "gpu", "enabled": "on"})
    file.write_text(yamls.dump_all([MODULE, wrong]))
    done = command("-f", file, "--offline")
    assert done.code == 2
    assert done.err == f"magicstick: {file}, document 2: spec.enabled must be true or false\n"


def test_catalogs_that_are_none_are_invalid_input(command: Command, file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "catalogs"
    folder.mkdir()
    metadata = {"name": "magicstick-module-catalog", "namespace": "ai-system"}
    broken = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"modules.json": "{"}}
    (folder / "modules.yaml").write_text(yamls.dump(broken))
    done = command("-f", file, "--catalogs", folder)
    assert done.code == 2
    assert "modules.json" in done.err
    assert "does not exist" in done.err


def test_a_server_that_is_away_is_told_with_its_own_code(
    command: Command, file: Path, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "test", "user": {"token": "CHANGEME"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yamls.dump(content))
    done = command("-f", file, "--kubeconfig", kubeconfig, "--timeout", "2")
    assert (done.code, done.out) == (3, "")
    assert f"127.0.0.1:{port}" in done.err
    assert done.err.count("\n") == 1


def test_the_help_has_examples_and_the_exit_codes() -> None:
    done = process("-m", "magicstick", "plan", "--help")
    assert done.returncode == 0
    text = plain(done.stdout)
    for words in (
        "magicstick plan -f model.yaml --diff",
        "Exit codes: 0 nothing would change",
        "--assume-ready",
    ):
        assert words in text


def test_nothing_heavy_is_imported_for_the_help() -> None:
    program = "import sys; from magicstick.cli import app; print(*sys.modules)"
    loaded = set(process("-c", program, **{key: environment()[key] for key in ("PATH",)}).stdout.split())
    assert not {"pydantic", "aiohttp", "yaml", "magicstick.plan.rehearsal"} & loaded
