"""On a terminal the same words stand as in a pipe, and nothing in them is taken for markup."""

import sys

import pytest

from magicstick.cli.streams import write_lines
from magicstick.cli.why import _styled
from magicstick.why.text import Line

LINES = (
    Line("└─ ", "Kustomization/app-alpha", " cannot be applied: [bold]no[/bold] [link=x]y"),
    Line(),
    Line("", "Note: ", "x" * 300),
)


def test_a_terminal_gets_the_same_words_and_no_markup(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lines(LINES, _styled)
    piped = capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    write_lines(LINES, _styled)
    assert capsys.readouterr().out == piped
    assert "[bold]no[/bold]" in piped


def test_a_terminal_with_colours_gets_subjects_that_stand_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    write_lines(LINES, _styled)
    assert "\x1b[1mKustomization/app-alpha\x1b[0m" in capsys.readouterr().out


def test_a_terminal_that_is_said_to_have_no_columns_is_written_to(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "0")
    write_lines(LINES, _styled)
    assert "app-alpha" in capsys.readouterr().out
