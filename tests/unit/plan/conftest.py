"""Plans without a cluster, and command lines that ask for them."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from magicstick.cli import main
from magicstick.plan import shipped
from magicstick.plan.documents import Document
from magicstick.plan.rehearsal import Plan, Question, rehearse
from magicstick.runtime.settings import Settings

Planned = Callable[..., Awaitable[Plan]]
GROUP = "appliance.magicstick.dev/v1alpha1"


class FixedClock:
    """A moment that never ends."""

    def monotonic(self) -> float:
        return 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, 12, tzinfo=UTC)


def body_of(kind: str, name: str, *, api_version: str = GROUP, **content: Any) -> dict[str, Any]:
    """An object as a user writes it; `content` are its top-level fields."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **content}


def documents_of(*bodies: Mapping[str, Any]) -> tuple[Document, ...]:
    return tuple(Document(f"file-{number}.yaml", body) for number, body in enumerate(bodies, 1))


@pytest.fixture
def planned() -> Planned:
    """The plan for these objects on an empty cluster, with the catalogs that ship."""

    async def make(
        *bodies: Mapping[str, Any], assume: tuple[str, ...] = ("all",), **settings: object
    ) -> Plan:
        question = Question(documents_of(*bodies), assume, shipped.catalogs(None), shipped.root(None))
        return await rehearse(question, Settings.load(**settings), FixedClock())

    return make


@dataclass(frozen=True)
class Done:
    """A command line that ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.out)
        return content


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """`magicstick plan` with these words, in this process."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "APPLIANCE_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str | Path) -> Done:
        with pytest.raises(SystemExit) as caught:
            main(["plan", *map(str, words)])
        assert isinstance(caught.value.code, int)
        return Done(caught.value.code, *capsys.readouterr())

    return run
