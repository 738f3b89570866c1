"""What a terminal gets, and a pipe does not."""

import asyncio
import io
import re
from pathlib import Path

import pytest

from magicstick.cli import main
from tests.support.apiserver import ScriptedServer
from tests.support.own_kinds import a_module, an_appliance, serve

pytestmark = pytest.mark.anyio

ESCAPE = re.compile(r"\x1b\[([0-9;]*)m")
LONG = "The Deployment is not valid, and this is told at such a length that no terminal has room for it."


class Terminal(io.StringIO):
    """Standard output as a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(
        server,
        an_appliance("Degraded", LONG),
        a_module("bad", "Degraded", LONG),
        a_module("off", "Disabled", "Switched off."),
        a_module("on"),
        a_module("soon", "WaitingForModules", "Waiting."),
    )
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "110")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


async def written(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    def run() -> str:
        screen = Terminal()
        with monkeypatch.context() as patched:
            patched.setattr("sys.stdout", screen)
            with pytest.raises(SystemExit):
                main(["get", *words, "--kubeconfig", str(kubeconfig)])
        return screen.getvalue()

    return await asyncio.to_thread(run)


async def test_phases_are_coloured_by_what_they_mean_and_nothing_else_but_headers(
    terminal: None, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = await written(kubeconfig, monkeypatch, "msmod")
    coloured = re.findall(r"\x1b\[([0-9;]+)m([^\x1b]*)\x1b\[0m", text)
    assert [(code, piece.strip()) for code, piece in coloured[1:]] == [
        ("1;31", "Degraded"),
        ("2", "Disabled"),
        ("32", "Ready"),
        ("33", "WaitingForModules"),
    ]
    assert coloured[0][0] == "1"
    assert coloured[0][1].startswith("NAME ")


async def test_lines_are_as_wide_as_the_terminal_at_most_and_say_that_they_were_cut(
    terminal: None, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ESCAPE.sub("", await written(kubeconfig, monkeypatch)).splitlines()
    assert max(map(len, lines)) == 110
    cut = [line for line in lines if line.endswith("…")]
    assert [line.split()[0] for line in cut] == ["Appliance", "moduleactivation/bad"]


async def test_wide_lines_are_whole(
    terminal: None, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ESCAPE.sub("", await written(kubeconfig, monkeypatch, "-o", "wide")).splitlines()
    assert [line.split()[0] for line in lines if line.endswith(LONG)] == ["Appliance", "moduleactivation/bad"]


async def test_what_looks_like_markup_is_written_as_it_is(
    server: ScriptedServer, terminal: None, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(server, a_module("bad", "Degraded", "[red]x[/red] :smile: \x1b[2J"))
    text = await written(kubeconfig, monkeypatch, "msmod")
    assert r"[red]x[/red] :smile: \x1b[2J" in text
    assert "\x1b[2J" not in text


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
async def test_colours_can_be_switched_off(
    terminal: None, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    text = await written(kubeconfig, monkeypatch, "msmod")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", text)


async def test_a_terminal_that_is_said_to_have_no_columns_is_written_to(
    terminal: None, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    assert "WaitingForModules" in await written(kubeconfig, monkeypatch, "msmod")
