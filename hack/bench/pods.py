"""A process that watches Pods as slim views, for `memory.py`: `python -m hack.bench.pods KUBECONFIG`.

It imports all that the operator imports and uses its client, store and informer. It prints a line when
its cache has synced, and another each time it has synced again after a line on its standard input asked
for a relist.
"""

import asyncio
import sys
from pathlib import Path

import msgspec
import uvloop

from magicstick import manager
from magicstick.kube.cache import Caches
from magicstick.kube.client import Client
from magicstick.kube.config import ClusterConfig
from magicstick.kube.kinds import POD
from magicstick.kube.objects import ObjectMeta
from magicstick.runtime import logs


class PodSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """What a model's controller asks of a Pod's spec."""

    node_name: str = ""


class PodCondition(msgspec.Struct, frozen=True, gc=False):
    """`status.conditions[]`."""

    type: str
    status: str
    reason: str = ""


class PodStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """What a model's controller asks of a Pod's status."""

    phase: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    conditions: tuple[PodCondition, ...] = ()


class PodView(msgspec.Struct, frozen=True, gc=False):
    """A Pod without the nine tenths that no controller reads."""

    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


async def main(kubeconfig: Path) -> None:
    """Watch, tell, and relist when asked; ends with standard input."""
    config = await ClusterConfig.load(kubeconfig)
    async with Client(config, user_agent=manager.USER_AGENT, field_manager="bench") as client:
        caches = Caches(client)
        informer = caches.add(POD, view=PodView)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(caches.run())
            await caches.wait_synced(120)
            print(f"synced {len(informer.store)}", flush=True)
            reader = asyncio.StreamReader()
            await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
            )
            lists = informer.counters.lists
            while await reader.readline():
                while informer.counters.lists == lists:  # noqa: ASYNC110 - see below
                    await asyncio.sleep(0.02)  # the proxy decides when; the counter is all there is to see
                lists = informer.counters.lists
                print(f"relisted {len(informer.store)}", flush=True)
            running.cancel()


if __name__ == "__main__":
    logs.configure()
    uvloop.run(main(Path(sys.argv[1])))
