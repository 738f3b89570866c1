"""Streams that are closed, or that know fewer characters than objects have."""

import asyncio
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hack import yamls
from magicstick.cli import main
from tests.support.apiserver import ScriptedServer
from tests.support.own_kinds import a_module, serve

pytestmark = pytest.mark.anyio

MESSAGE = "Nicht gültig \u2026 \U0001f600"


@pytest.fixture
def modules(server: ScriptedServer) -> None:
    serve(server, a_module("bad", "Degraded", MESSAGE))


async def ended(kubeconfig: Path, *words: str) -> object:
    def run() -> object:
        with pytest.raises(SystemExit) as caught:
            main([*words, "--kubeconfig", str(kubeconfig)])
        return caught.value.code

    return await asyncio.to_thread(run)


def latin_output(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    """What is written from now on, to a standard output that knows the characters of Latin 1."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="latin-1"))
    return written


@pytest.mark.usefixtures("modules")
async def test_a_character_that_an_encoding_lacks_is_written_as_an_escape(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = latin_output(monkeypatch)
    assert await ended(kubeconfig, "get", "modules") == 0
    assert MESSAGE.encode("latin-1", "backslashreplace") in output.getvalue()


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yamls.load)])
async def test_data_can_be_read_back_whatever_the_encoding(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, form: str, read: Callable[[bytes], Any]
) -> None:
    output = latin_output(monkeypatch)
    assert await ended(kubeconfig, "get", "modules", "-o", form) == 0
    (item,) = read(output.getvalue())["items"]
    assert item["status"]["conditions"][0]["message"] == MESSAGE


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize("words", [["get"], ["get", "modules", "-o", "json"]])
async def test_a_closed_standard_output_takes_all(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert await ended(kubeconfig, *words) == 0


@pytest.mark.usefixtures("modules")
async def test_a_closed_standard_error_takes_all(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert await ended(kubeconfig, "get", "module", "missing") == 1
