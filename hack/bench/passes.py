"""How often a running operator has looked at objects, by its own metrics."""

import asyncio
import re
import time
from typing import Final

import aiohttp

from hack.bench.process import Operator

CALM: Final = {"REQUEUE_SECONDS": "600"}
"""The operator's environment where passes are counted: none is to be brought about by time alone."""
STILL_S = 1.5
"""The queues have taken up a change long before."""


async def passes(running: Operator, controller: str, *, still_s: float = STILL_S) -> float:
    """How often objects of a controller have been looked at, once it has not been for `still_s`."""
    counted = re.compile(
        rf'^controller_runtime_reconcile_total\{{controller="{controller}".*\}} (\S+)$', re.MULTILINE
    )
    url, last, since = f"http://127.0.0.1:{running.metrics_port}/metrics", -1.0, time.monotonic()
    async with aiohttp.ClientSession() as session:
        while time.monotonic() - since < still_s or last < 0:
            async with session.get(url) as answer:
                found = sum(map(float, counted.findall(await answer.text())))
            if found != last:
                last, since = found, time.monotonic()
            await asyncio.sleep(0.05)  # polls a foreign process that has no other way to tell
    return last
