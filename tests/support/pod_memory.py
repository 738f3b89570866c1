"""A process that keeps a cache of many foreign Pods and tells its memory, for a test to start.

    python -m tests.support.pod_memory stream 10000

prints resident MiB after the first list, and the peak while everything was listed again.
"""

import asyncio
import gc
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from hack.bench.pods import PodView  # with it, everything that the operator imports
from magicstick.kube.errors import Gone
from magicstick.kube.informer import Informer, InitialList, Tuning
from magicstick.kube.kinds import POD
from magicstick.kube.scope import Scope
from magicstick.kube.wire import ListPage, WatchEvent, decode, decode_event, decoder_of
from tests.support.waiting import SkippingClock, dice, eventually

PAGE_SIZE = 500
POD_BYTES = 6000


def pod(number: int, version: int) -> bytes:
    """A Pod as the server sends it: 6 KB, most of it of no interest to us."""
    name = f"workload-{number // 10:05}-{number % 10}-abcde"
    body = {
        "metadata": {
            "name": name,
            "namespace": f"team-{number % 97}",
            "uid": f"{number:08x}-0000-4000-8000-{version:012x}",
            "resourceVersion": str(version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": f"workload-{number // 10:05}", "pod-template-hash": f"{number:010x}"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name[:-6], "uid": f"{number:036x}"}
            ],
        },
        "spec": {"nodeName": f"node-{number % 50}", "containers": [{"name": "c", "image": f"i:{number}"}]},
        "status": {
            "phase": "Running",
            "podIP": f"pod-{number}",
            "conditions": [
                {"type": kind, "status": "True"} for kind in ("Ready", "PodScheduled", "Initialized")
            ],
        },
    }
    text = msgspec.json.encode(body)
    return msgspec.json.encode({**body, "filler": ["x" * 60] * ((POD_BYTES - len(text)) // 63)})


class Server:
    """Sends Pods as bytes, and lets the first watch expire when told."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.version = 1000
        self.expire = asyncio.Event()
        self.lists = 0

    async def pages(self, *_: Any, view: Any, **__: Any) -> AsyncIterator[Any]:
        decoder = decoder_of(ListPage[view])
        for start in range(0, self.count, PAGE_SIZE):
            items = b",".join(self._pods(start, min(start + PAGE_SIZE, self.count)))
            yield decode(
                decoder, b'{"metadata":{"resourceVersion":"%d"},"items":[%b]}' % (self.version, items)
            )
            await asyncio.sleep(0)

    def _pods(self, start: int, end: int) -> list[bytes]:
        return [pod(number, number % 900 + 1) for number in range(start, end)]

    def watch(self, *_: Any, view: Any, send_initial_events: bool = False, **__: Any) -> Any:
        return self._stream(view, initial=send_initial_events)

    async def _stream(self, view: Any, *, initial: bool) -> AsyncIterator[WatchEvent[PodView]]:
        decoder = decoder_of(WatchEvent[view])
        if initial:
            for number in range(self.count):
                yield decode_event(decoder, b'{"type":"ADDED","object":%b}' % pod(number, number % 900 + 1))
            end = {"annotations": {"k8s.io/initial-events-end": "true"}, "resourceVersion": str(self.version)}
            bookmark = msgspec.json.encode({"type": "BOOKMARK", "object": {"metadata": end}})
            yield decode_event(decoder, bookmark)
        await self.expire.wait()
        self.expire.clear()
        raise Gone("too old resource version")


def memory_mi(field: str) -> float:
    """`VmRSS` (now) or `VmHWM` (peak) of this process."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise LookupError(field)


def forget_peak() -> None:
    """Let `VmHWM` count from now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


async def measure(way: InitialList, count: int) -> tuple[float, float]:
    """Resident MiB with the cache, and the peak during a relist."""
    server = Server(count)
    tuning = Tuning(initial_list=way)
    informer = Informer(server, Scope(POD), PodView, tuning=tuning, clock=SkippingClock(), chance=dice())
    informer.store.index("node", lambda obj: [obj.spec.node_name])
    task = asyncio.ensure_future(informer.run())
    await eventually(lambda: informer.counters.lists == 1, deadline_s=60)
    gc.collect()
    settled = memory_mi("VmRSS")
    forget_peak()
    server.expire.set()
    await eventually(lambda: informer.counters.lists == 2, deadline_s=60)
    task.cancel()
    assert len(informer.store) == count
    return settled, memory_mi("VmHWM")


if __name__ == "__main__":
    resident, peak = asyncio.run(measure(InitialList(sys.argv[1]), int(sys.argv[2])))
    print(f"{resident:.1f} {peak:.1f}")  # noqa: T201 # for the test that started it
