"""What becomes of the first question to the server when there is no time left for an answer."""

import asyncio
import gc
import threading
from typing import Any, cast

import pytest

from magicstick.kube.client import Client
from magicstick.kube.errors import Unavailable
from magicstick.why import opening


class Away:
    """A server that is not there, which is known at once."""

    async def get(self, *_: object) -> None:
        raise Unavailable("GET /api/v1/namespaces/default: connection refused")


async def runs_out_of_time(told: list[dict[str, Any]], released: threading.Event) -> bool:
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))
    try:
        async with opening.opened(cast("Client", Away()), {}, timeout_s=0.3):
            return False
    except TimeoutError:
        return True
    finally:
        released.set()


def test_a_failure_that_nobody_waits_for_any_more_is_not_told_of_by_asyncio(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[dict[str, Any]] = []
    released = threading.Event()
    monkeypatch.setattr("importlib.import_module", lambda _name: released.wait(30))
    assert asyncio.run(runs_out_of_time(told, released))
    gc.collect()
    assert told == []
