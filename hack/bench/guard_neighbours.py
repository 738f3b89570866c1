"""What stands beside the guard while it is measured, each in a process of its own.

python -m hack.bench.guard_neighbours realm 8180    a realm with `PEOPLE` people and one group
python -m hack.bench.guard_neighbours api 8181      instances and the guard's Secret, by the API's paths
python -m hack.bench.guard_neighbours echo 8182     a bare handler that says yes to everything
"""

import asyncio
import base64
import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

import uvloop
from aiohttp import web

from hack.bench.app_objects import INSTANCES
from hack.bench.guard_wire import Answering, serve
from hack.bench.objects import IDENTITY_NAMESPACE, OPERATOR_NAMESPACE
from hack.devcluster.actors.keycloak import ADMIN, ADMIN_CLIENT, OIDC, KeycloakActor
from hack.devcluster.layout import LOOPBACK

PEOPLE: Final = 50
CLIENT_SECRET: Final = "of-no-use-elsewhere"  # noqa: S105 - of a realm that is played
GROUP: Final = "team"
SECRETS: Final = f"/api/v1/namespaces/{IDENTITY_NAMESPACE}/secrets"
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
        metadata = {
            "name": each,
            "namespace": OPERATOR_NAMESPACE,
            "uid": uid(each),
            "labels": {},
            "generation": 1,
        }
        spec = {"application": "openclaw", "enabled": True, "access": access, "values": values}
        found[f"{INSTANCES}/{each}"] = {"metadata": metadata, "spec": spec}
    return {path: json.dumps(obj).encode() for path, obj in found.items()}


def furnished() -> KeycloakActor:
    """The realm. The same in every process, its keys included, so that tokens can be made elsewhere."""
    realm = KeycloakActor(CLIENT_SECRET)
    realm.groups[GROUP] = ""
    for number in range(PEOPLE):
        realm.add(f"person-{number}", groups=(GROUP,))
    return realm


def realm() -> Answering:
    """What the realm answers to the guard. It looks at no token but to tell whose it is."""
    played = furnished()
    answers: dict[str, bytes] = {f"{OIDC}/certs": json.dumps({"keys": played.published}).encode()}
    for id_, person in played.people.items():
        place = f"{ADMIN}/users/{id_}"
        known = {"id": id_, "username": person.username, "enabled": True}
        answers[place] = json.dumps(known).encode()
        answers[f"{place}/role-mappings/realm/composite"] = _named(person.roles)
        answers[f"{place}/groups?briefRepresentation=true&first=0&max=100"] = _named(person.groups)
    grant = json.dumps({"access_token": "of-no-use-elsewhere", "expires_in": 3600}).encode()

    def answer(method: str, path: str, head: bytes) -> bytes | None:
        if method == "POST":
            return grant
        return _owner(head) if path == f"{OIDC}/userinfo" else answers.get(path)

    return answer


def _named(names: Iterable[str]) -> bytes:
    return json.dumps([{"id": name, "name": name} for name in names]).encode()


def _owner(head: bytes) -> bytes:
    payload = head.partition(b"Bearer ")[2].split(b".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4)))
    return json.dumps({"sub": claims["sub"]}).encode()


def api() -> Answering:
    """What the API server answers."""
    objects = stored()
    return lambda _method, path, _head: objects.get(path)


async def echo(port: int) -> None:
    """The least that an aiohttp server can do."""

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response()

    runner = web.ServerRunner(web.Server(answer, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, port).start()
    await asyncio.Event().wait()


def main(what: str, port: int) -> None:
    """Play one of them until the process is ended."""
    uvloop.run(echo(port) if what == "echo" else serve({"realm": realm, "api": api}[what](), LOOPBACK, port))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
