"""The way to a cluster that every command takes which reads from one."""

import asyncio
import sys
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from magicstick.api.kinds import MODULE_ACTIVATION
from magicstick.cli.cluster import Access, ask, quick_imports
from magicstick.cli.errors import CommandError
from magicstick.kube.client import Client
from magicstick.kube.errors import Conflict, FenceClosed
from magicstick.kube.kinds import ObjectKey
from tests.support.apiserver import ScriptedServer
from tests.support.own_kinds import a_module, path_of, serve

pytestmark = pytest.mark.anyio


async def test_nothing_is_ever_written_whatever_a_command_tries(
    server: ScriptedServer, kubeconfig: Path
) -> None:
    key = ObjectKey("ai-system", "a")

    async def write(client: Client) -> None:
        writes = (
            client.create(MODULE_ACTIVATION, a_module("a")),
            client.apply(MODULE_ACTIVATION, a_module("a")),
            client.replace(MODULE_ACTIVATION, a_module("a")),
            client.merge_patch(MODULE_ACTIVATION, key, {}),
            client.json_patch(MODULE_ACTIVATION, key, []),
            client.delete(MODULE_ACTIVATION, key),
        )
        for writing in writes:
            with pytest.raises(FenceClosed):
                await writing

    await asyncio.to_thread(ask, Access(kubeconfig), write)
    assert server.requests == []


async def test_what_fails_in_a_task_group_is_told_as_if_it_had_failed_alone(
    server: ScriptedServer, kubeconfig: Path
) -> None:
    async def fail() -> None:
        raise Conflict("the very words")

    async def work(client: Client) -> None:
        async with asyncio.TaskGroup() as outer:
            async with asyncio.TaskGroup() as inner:
                inner.create_task(fail())
            outer.create_task(fail())

    with pytest.raises(CommandError, match=r"^the very words$"):
        await asyncio.to_thread(ask, Access(kubeconfig), work)


async def test_a_fault_of_ours_is_not_told_as_one_of_the_cluster(
    server: ScriptedServer, kubeconfig: Path
) -> None:
    async def work(client: Client) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await asyncio.to_thread(ask, Access(kubeconfig), work)


async def test_requests_carry_a_name_of_their_own(server: ScriptedServer, kubeconfig: Path) -> None:
    serve(server)

    async def work(client: Client) -> None:
        async for _ in client.pages(MODULE_ACTIVATION, namespace="ai-system"):
            pass

    await asyncio.to_thread(ask, Access(kubeconfig), work)
    assert (
        server.seen("GET", path_of(MODULE_ACTIVATION))[0].headers["User-Agent"].startswith("magicstick-cli/")
    )


async def test_logs_are_silent_meanwhile_and_as_before_afterwards(
    server: ScriptedServer, kubeconfig: Path
) -> None:
    before = structlog.get_config()

    async def work(client: Client) -> None:
        structlog.get_logger("test").error("nobody hears this")

    with capture_logs() as logs:
        await asyncio.to_thread(ask, Access(kubeconfig), work)
    assert logs == []
    assert structlog.get_config() == before


def test_a_module_that_was_imported_before_stays_importable() -> None:
    import rich

    with quick_imports():
        assert sys.modules["rich"] is rich
    assert sys.modules["rich"] is rich
