"""What `make dev` says when it cannot go on."""

from pathlib import Path
from typing import cast

import pytest

from hack.dev.__main__ import explained, main
from hack.dev.options import parse
from hack.devcluster import Component, DevCluster, DevClusterError
from hack.devcluster.rest import ApiError


class Dying:
    """A cluster whose API server has ended."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "apiserver.log"
        self._log.write_text("starting\nfatal: no space left\n")

    def alive(self) -> dict[Component, bool]:
        return {Component.ETCD: True, Component.API_SERVER: False}

    def component_log(self, name: Component) -> Path:
        assert name is Component.API_SERVER
        return self._log


def test_a_component_that_ended_is_named_with_the_end_of_its_log(tmp_path: Path) -> None:
    with (
        pytest.raises(DevClusterError, match=r"(?s)Connection refused.*has ended.*fatal: no space left"),
        explained(cast("DevCluster", Dying(tmp_path))),
    ):
        raise ApiError(0, "GET /x: Connection refused")


@pytest.mark.usefixtures("own_signals")
def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.touch()
    assert main(["--directory", str(file)]) == 1
    assert "cannot be made: File exists; see --directory" in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--deadline", "nan"],
        ["--deadline", "inf"],
        ["--deadline", "0"],
        ["--deadline", "x"],
        ["--nodes", "-1"],
        ["--nodes", "few"],
    ],
)
def test_numbers_that_make_no_sense_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert f"argument {arguments[0]}: must be " in told
