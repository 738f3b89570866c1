"""`magicstick get --watch`: what is written after the first look."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from structlog.testing import capture_logs

from hack import yamls
from magicstick.api.kinds import APPLIANCE, MODULE_ACTIVATION
from magicstick.cli.cluster import Access
from magicstick.cli.errors import FORBIDDEN, CommandError
from magicstick.cli.get import watching as following
from magicstick.cli.get.command import look
from magicstick.cli.get.options import Output, Query
from magicstick.cli.words import wanted
from magicstick.kube.client import Client
from magicstick.kube.config import ClusterConfig
from magicstick.kube.informer import Tuning
from tests.support.apiserver import ScriptedServer, Stream, listing, status
from tests.support.own_kinds import Object, a_module, an_appliance, path_of, serve
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

MODULES = path_of(MODULE_ACTIVATION)
A, B = a_module("a", version=1), a_module("b", "Reconciling", "Waiting for Flux.", version=2)


@dataclass
class Watcher:
    """A watch that is under way, and all that it has written so far."""

    server: ScriptedServer
    task: "asyncio.Task[None]"
    capsys: pytest.CaptureFixture[str]
    out: str = ""
    err: str = ""
    streams: dict[str, Stream] = field(default_factory=dict)

    def read(self) -> None:
        captured = self.capsys.readouterr()
        self.out += captured.out
        self.err += captured.err

    async def until(self, holds: Callable[[], object]) -> None:
        def now() -> object:
            self.read()
            return holds() or self.task.done()

        await eventually(now)
        assert holds(), self.out + self.err

    async def wrote(self, text: str) -> None:
        await self.until(lambda: text in self.out)

    async def noted(self, text: str) -> None:
        await self.until(lambda: text in self.err)

    async def stream(self, *objects: Object, path: str = MODULES, version: str = "100") -> Stream:
        """The stream that the informer opens, after its list."""
        stream = await self.server.stream(path)
        for obj in objects:
            await stream.send("ADDED", obj)
        await stream.bookmark(version, initial_events_end=True)
        return stream


@asynccontextmanager
async def watching(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str], *words: str, **options: Any
) -> AsyncIterator[Watcher]:
    query = Query(wanted(words), overview=not words, **{"namespace": "ai-system", "watch": True, **options})
    query.check()
    config = ClusterConfig.plain(server.url)
    client = Client(config, user_agent="test", field_manager="test")
    with capture_logs():  # nobody hears them, as within `ask`
        async with client:
            task = asyncio.create_task(look(client, query, Access()))
            try:
                yield Watcher(server, task, capsys)
            finally:
                task.cancel()
                await asyncio.wait([task])


async def test_a_change_is_one_line_in_the_columns_of_the_table(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(server, A, B)
    async with watching(server, capsys, "msmod", headers=True) as watch:
        stream = await watch.stream(A, B)
        await stream.send("MODIFIED", a_module("b", "Degraded", "No.", version=101))
        await watch.wrote("No.")
        table = [line.split() for line in watch.out.splitlines()]
        assert [line[:4] for line in table[1:]] == [
            ["a", "a", "true", "Ready"],
            ["b", "b", "true", "Reconciling"],
            ["b", "b", "true", "Degraded"],
        ]
        starts = {line.index("app-") for line in watch.out.splitlines()[1:]}
        assert len(starts) == 1


async def test_what_shows_nothing_new_is_not_written_again(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(server, A)
    async with watching(server, capsys, "msmod", headers=False) as watch:
        stream = await watch.stream(A)
        await stream.send("MODIFIED", a_module("a", version=101, metadata={"labels": {"new": "label"}}))
        await stream.send("ADDED", a_module("z", version=102))
        await watch.wrote("z ")
        assert [line.split()[0] for line in watch.out.splitlines()] == ["a", "z"]


async def test_a_deletion_is_told_as_such(server: ScriptedServer, capsys: pytest.CaptureFixture[str]) -> None:
    serve(server, A)
    async with watching(server, capsys, "msmod") as watch:
        stream = await watch.stream(A)
        await stream.send("DELETED", a_module("a", version=101))
        await watch.wrote("Deleted")
        assert watch.out.splitlines()[-1].split()[:4] == ["a", "a", "true", "Deleted"]


async def test_what_was_deleted_between_the_first_look_and_the_watch_is_told(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(server, A, B)
    async with watching(server, capsys, "msmod", headers=False) as watch:
        await watch.stream(B)
        await watch.wrote("Deleted")
        assert [line.split()[0] for line in watch.out.splitlines()] == ["a", "b", "a"]


async def test_names_that_were_not_asked_for_are_not_written_and_missing_ones_are_waited_for(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(server, B)
    gone = status(404, "NotFound", "gone", details={"name": "a"})
    server.answer("GET", path_of(MODULE_ACTIVATION, "a"), gone)
    async with watching(server, capsys, "msmod", "a", headers=False) as watch:
        await watch.noted(
            "magicstick: moduleactivation 'a' not found in namespace ai-system; waiting for it\n"
        )
        stream = await watch.stream(B)
        await stream.send("MODIFIED", a_module("b", version=101))
        await stream.send("ADDED", a_module("a", version=102))
        await watch.wrote("\n")
        assert [line.split()[0] for line in watch.out.splitlines()] == ["a"]


async def test_everything_is_watched_together_and_each_line_says_its_kind(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu = {"gpu": {"phase": "Installing", "vendor": "NVIDIA"}}
    before = an_appliance("Reconciling", "Waiting for: gpu (Installing)", hardwareOperators=gpu)
    serve(server, before, A)
    async with watching(server, capsys) as watch:
        appliance = await watch.stream(before, path=path_of(APPLIANCE))
        gpu = {"gpu": {"phase": "Ready", "vendor": "NVIDIA"}, "amd-gpu": {"phase": "NotRequired"}}
        await appliance.send("MODIFIED", an_appliance("Ready", "All.", version=101, hardwareOperators=gpu))
        await watch.wrote("NotRequired")
        summary, *lines = watch.out.split("Appliance local: Ready. All.\n")[1].strip().splitlines()
        assert summary.split()[0] == "NAME"
        assert [line.split()[:1] + line.split()[2:3] for line in lines] == [
            ["hardware/amd-gpu", "NotRequired"],
            ["hardware/gpu", "Ready"],
        ]
        modules = await watch.stream(A)
        await modules.send("MODIFIED", a_module("a", "Degraded", "No.", version=102))
        await watch.wrote("No.")
        assert watch.out.splitlines()[-2].split()[:2] == ["NAME", "MODULE"]


async def test_hardware_that_leaves_the_appliance_is_told(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    before = an_appliance(hardwareOperators={"gpu": {"phase": "Ready"}, "amd-gpu": {"phase": "Ready"}})
    serve(server, before)
    async with watching(server, capsys, "hardware", headers=False) as watch:
        stream = await watch.stream(before, path=path_of(APPLIANCE))
        after = an_appliance(version=101, hardwareOperators={"gpu": {"phase": "Ready"}})
        await stream.send("MODIFIED", after)
        await watch.wrote("Deleted")
        assert watch.out.splitlines()[-1].split()[0] == "amd-gpu"


@pytest.mark.parametrize(
    ("output", "read"),
    [
        (Output.JSON, lambda text: [json.loads(line) for line in text.splitlines()]),
        (Output.YAML, lambda text: list(yamls.load_all(text))),
    ],
)
async def test_data_is_one_object_after_the_other(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str], output: Output, read: Callable[[str], Any]
) -> None:
    serve(server, A)
    changed = a_module("a", "Degraded", "No.", version=101)
    async with watching(server, capsys, "msmod", output=output) as watch:
        stream = await watch.stream(A)
        await stream.send("MODIFIED", changed)
        await watch.wrote("Degraded")
        await watch.until(lambda: watch.out.endswith("\n"))
        assert read(watch.out) == [A, changed]


async def test_data_says_what_happened_where_that_is_asked_for(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(server, A)
    changed, deleted = a_module("a", "Degraded", version=101), a_module("a", "Degraded", version=102)
    async with watching(server, capsys, "msmod", output=Output.JSON, events=True) as watch:
        stream = await watch.stream(A)
        await stream.send("MODIFIED", changed)
        await stream.send("DELETED", deleted)
        await watch.wrote("DELETED")
        assert [json.loads(line) for line in watch.out.splitlines()] == [
            {"type": "ADDED", "object": A},
            {"type": "MODIFIED", "object": changed},
            {"type": "DELETED", "object": changed},
        ]


async def test_names_are_written_at_each_change(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(server, A)
    async with watching(server, capsys, "msmod", output=Output.NAME) as watch:
        stream = await watch.stream(A)
        await stream.send("MODIFIED", a_module("a", version=101))
        await watch.until(lambda: watch.out == "moduleactivation.appliance.magicstick.dev/a\n" * 2)


async def test_a_broken_connection_loses_no_change_and_writes_nothing_twice(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(server, A)
    async with watching(server, capsys, "msmod", headers=False) as watch:
        stream = await watch.stream(A)
        await stream.send("MODIFIED", a_module("a", "Degraded", "No.", version=101))
        await watch.wrote("No.")
        server.answer("GET", MODULES, listing([a_module("a", version=102)], "102"))
        stream.reset()
        again = await server.stream(MODULES)
        assert again.request.query["resourceVersion"] == "101"
        await again.send("MODIFIED", a_module("a", "Suspended", "Held.", version=102))
        await watch.wrote("Held.")
        phases = [line.split()[3] for line in watch.out.splitlines()]
        assert phases == ["Ready", "Degraded", "Suspended"]


async def test_a_kind_that_goes_is_told_and_waited_for(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    async with watching(server, capsys, "msmod") as watch:
        server.answer("WATCH", MODULES, status(404))
        await watch.noted("magicstick: the cluster does not know moduleactivations.appliance.magicstick.dev")
        assert not watch.task.done()


async def test_a_kind_that_stays_away_is_told_of_once(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "TUNING", Tuning(recheck_absent_s=0.05))
    async with watching(server, capsys, "msmod") as watch:
        server.answer("WATCH", MODULES, status(404))
        await server.arrived("WATCH", MODULES, count=4)
        watch.read()
        assert watch.err.count("does not know") == 1


async def test_a_right_that_is_missing_ends_the_watch_at_once(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer("GET", MODULES, status(403, "Forbidden", "no"))
    async with watching(server, capsys, "msmod") as watch:
        with pytest.raises(CommandError, match="no; ask an administrator") as refused:
            await asyncio.wait_for(watch.task, 10)
        assert refused.value.code == FORBIDDEN


async def test_a_right_that_is_lost_meanwhile_is_told_and_the_watch_goes_on(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(server, A)
    async with watching(server, capsys, "msmod", headers=False) as watch:
        stream = await watch.stream(A)
        server.answer("WATCH", MODULES, status(403, "Forbidden", "no right"))
        server.answer("GET", MODULES, status(403, "Forbidden", "no right"))
        stream.reset()
        await watch.noted("cannot be read now, trying again: Forbidden: no right")
        server.answer("GET", MODULES, listing([A], "100"))
        server.unscript("WATCH", MODULES)
        again = await server.stream(MODULES)
        await again.send("MODIFIED", a_module("a", "Degraded", "No.", version=101))
        await watch.wrote("No.")
        await watch.noted("moduleactivations.appliance.magicstick.dev can be read again")
