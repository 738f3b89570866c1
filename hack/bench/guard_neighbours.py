"""What stands beside the guard while it is measured, each in a process of its own.

python -m hack.bench.guard_neighbours realm 8180    a realm with `PEOPLE` people and one group
python -m hack.bench.guard_neighbours api 8181      instances and the guard's Secret, by the API's paths
python -m hack.bench.guard_neighbours echo 8182     a bare handler that says yes to everything
"""

import asyncio
import base64
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import uvloop
from aiohttp import web

from hack.devcluster.actors.keycloak import ADMIN_CLIENT, KeycloakActor
from hack.devcluster.layout import LOOPBACK

PEOPLE: Final = 50
CLIENT_SECRET: Final = "of-no-use-elsewhere"  # noqa: S105 - of a realm that is played
GROUP: Final = "team"
INSTANCES: Final = "/apis/appliance.magicstick.dev/v1alpha1/namespaces/ai-system/appinstances"
SECRETS: Final = "/api/v1/namespaces/identity-system/secrets"
ACCESS: Final[Mapping[str, dict[str, Any]]] = {
    "open": {},
    "people": {"sharing": {"mode": "selected", "users": [f"person-{number}" for number in range(PEOPLE)]}},
    "group": {"sharing": {"mode": "selected", "groups": [GROUP]}},
}
"""By instance: for everybody, for people who are named, for a group they are in."""


def uid(name: str) -> str:
    """The uid of an instance."""
    return f"6f2c1c1e-0d7b-4c55-9d1e-{name}"


def stored() -> dict[str, bytes]:
    """What the API server has, by path, about as large as the real ones are."""
    data = {"client-id": ADMIN_CLIENT, "client-secret": CLIENT_SECRET}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    name = "magicstick-user-admin-client"
    found: dict[str, Any] = {f"{SECRETS}/{name}": {"metadata": {"name": name}, "data": encoded}}
    values = {"storage": {"size": "10Gi"}, "padding": "x" * 2000}
    for each, access in ACCESS.items():
        metadata = {"name": each, "namespace": "ai-system", "uid": uid(each), "labels": {}, "generation": 1}
        spec = {"application": "openclaw", "enabled": True, "access": access, "values": values}
        found[f"{INSTANCES}/{each}"] = {"metadata": metadata, "spec": spec}
    return {path: json.dumps(obj).encode() for path, obj in found.items()}


def furnished(port: int = 0) -> KeycloakActor:
    """The realm. The same in every process, its keys included, so that tokens can be made elsewhere."""
    realm = KeycloakActor(CLIENT_SECRET, port=port)
    realm.groups[GROUP] = ""
    for number in range(PEOPLE):
        realm.add(f"person-{number}", groups=(GROUP,))
    return realm


async def realm(port: int) -> None:
    """Play the realm until the process is ended."""
    async with furnished(port).running() as playing:
        while True:
            await asyncio.sleep(1.0)
            playing.calls.clear()  # nobody looks at them here


async def api(port: int) -> None:
    """Play the API server."""
    objects = stored()

    async def answer(request: web.BaseRequest) -> web.Response:
        found = objects.get(request.raw_path)
        return web.Response(status=404) if found is None else web.Response(body=found)

    await _serve(answer, port)


async def echo(port: int) -> None:
    """The least that an aiohttp server can do."""

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response()

    await _serve(answer, port)


async def _serve(answer: Callable[[web.BaseRequest], Any], port: int) -> None:
    runner = web.ServerRunner(web.Server(answer, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, port).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run({"realm": realm, "api": api, "echo": echo}[sys.argv[1]](int(sys.argv[2])))
