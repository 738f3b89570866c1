"""A scripted API server, and command lines that ask it."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hack import yamls
from magicstick.cli import main
from tests.support.apiserver import ScriptedServer


@dataclass(frozen=True)
class Done:
    """A command line that ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> dict[str, object]:
        content: dict[str, object] = json.loads(self.out)
        return content


@dataclass(frozen=True)
class Cli:
    """Runs command lines in a thread, so that the server of this one can answer."""

    server: ScriptedServer
    kubeconfig: Path
    capsys: pytest.CaptureFixture[str]

    async def __call__(self, *words: str) -> Done:
        flags = [] if words and words[0] == "version" else ["--kubeconfig", str(self.kubeconfig)]
        code = await asyncio.to_thread(_exit_code, [*words, *flags])
        captured = self.capsys.readouterr()
        return Done(code, captured.out, captured.err)


def _exit_code(words: list[str]) -> int:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as server:
        yield server


@pytest.fixture
def kubeconfig(server: ScriptedServer, tmp_path: Path) -> Path:
    """Leads to the server with a token."""
    file = tmp_path / "kubeconfig"
    file.write_text(
        yamls.dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
                "clusters": [{"name": "here", "cluster": {"server": server.url}}],
                "users": [{"name": "me", "user": {"token": "sesame"}}],
            }
        )
    )
    return file


@pytest.fixture
def cli(server: ScriptedServer, kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(server, kubeconfig, capsys)
