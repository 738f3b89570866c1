"""All asynchronous actors in one process: `python -m hack.devcluster.actors`."""

import argparse
import asyncio
import base64
import contextlib
import logging
import tempfile
from pathlib import Path

import yaml
from aiohttp import web

from hack.bare import BareClient
from hack.devcluster.actors.following import Collection
from hack.devcluster.actors.gpu import GpuActor
from hack.devcluster.actors.helm import HelmActor, real_charts
from hack.devcluster.actors.kubeai import NAMESPACE, KubeAiActor
from hack.devcluster.actors.litellm import LiteLlmActor
from hack.devcluster.actors.palena import PalenaActors
from hack.devcluster.actors.secret_generator import SecretGenerator
from hack.devcluster.actors.sources import SourceActor
from hack.devcluster.layout import LOOPBACK

USER_AGENT = "actors"
MASTER_KEY = ("litellm-masterkey-secret", "LITELLM_MASTER_KEY")
"""Secret and key; the Secret generator makes it up when the module `litellm` is there."""


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


async def serve_litellm(client: BareClient, port: int) -> None:
    """LiteLLM's management API on loopback, with the key that the cluster has. Never returns."""
    secrets = Collection(client, f"/api/v1/namespaces/{NAMESPACE}/secrets", lambda *_: None)

    def master_key() -> str:
        name, key = MASTER_KEY
        data = secrets.items.get((NAMESPACE, name), {}).get("data") or {}
        return base64.b64decode(data.get(key, "")).decode()

    async with LiteLlmActor(master_key, port=port).running():
        await secrets.follow()


async def act(kubeconfig: Path, helm: Path, port: int, litellm_port: int) -> None:
    """Run all actors until cancelled; a fault of one ends them all."""
    async with client_of(kubeconfig) as client, asyncio.TaskGroup() as group:
        for plural in ("helmrepositories", "ocirepositories"):
            group.create_task(SourceActor(client, plural).run())
        kept = Path(tempfile.gettempdir())  # the cluster's own, which ends with it
        group.create_task(HelmActor(client, real=real_charts(client, helm, kubeconfig, kept)).run())
        group.create_task(GpuActor(client).run())
        group.create_task(SecretGenerator(client).run())
        group.create_task(KubeAiActor(client).run())
        group.create_task(PalenaActors(client).run())
        group.create_task(serve_litellm(client, litellm_port))
        group.create_task(serve_readiness(port))


def main() -> None:
    """Runs until it is stopped."""
    parser = argparse.ArgumentParser(
        description="Play Flux's helm-controller, what its releases bring, LiteLLM, and Palena's operators."
    )
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--helm", type=Path, required=True, help="the binary that installs our own charts")
    parser.add_argument("--port", type=int, required=True, help="answer /readyz there, on loopback")
    parser.add_argument("--litellm-port", type=int, required=True, help="play LiteLLM there, on loopback")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(act(arguments.kubeconfig, arguments.helm, arguments.port, arguments.litellm_port))


if __name__ == "__main__":
    main()
