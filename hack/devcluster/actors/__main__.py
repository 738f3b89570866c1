"""All asynchronous actors in one process: `python -m hack.devcluster.actors`."""

import argparse
import asyncio
import contextlib
import logging
from pathlib import Path

import yaml
from aiohttp import web

from hack.bare import BareClient
from hack.devcluster.actors.gpu import GpuActor
from hack.devcluster.actors.helm import HelmActor
from hack.devcluster.actors.secret_generator import SecretGenerator
from hack.devcluster.actors.sources import SourceActor
from hack.devcluster.layout import LOOPBACK

USER_AGENT = "actors"


def client_of(kubeconfig: Path) -> BareClient:
    """From one of the kubeconfigs that this package writes: a token and a CA file."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    ca_file = Path(cluster["certificate-authority"])
    return BareClient(cluster["server"], ca_file, user["token"], user_agent=USER_AGENT)


async def serve_readiness(port: int) -> None:
    """Says on loopback that the actors are at work. Never returns."""
    application = web.Application()
    application.router.add_get("/readyz", lambda _: _ok())
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, LOOPBACK, port).start()
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


async def _ok() -> web.Response:
    return web.Response(text="ok")


async def act(kubeconfig: Path, port: int) -> None:
    """Run all actors until cancelled; a fault of one ends them all."""
    async with client_of(kubeconfig) as client, asyncio.TaskGroup() as group:
        for plural in ("helmrepositories", "ocirepositories"):
            group.create_task(SourceActor(client, plural).run())
        group.create_task(HelmActor(client).run())
        group.create_task(GpuActor(client).run())
        group.create_task(SecretGenerator(client).run())
        group.create_task(serve_readiness(port))


def main() -> None:
    """Runs until it is stopped."""
    parser = argparse.ArgumentParser(description="Play Flux's helm-controller and what its releases bring.")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True, help="answer /readyz there, on loopback")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(act(arguments.kubeconfig, arguments.port))


if __name__ == "__main__":
    main()
