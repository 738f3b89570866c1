"""One realm of Keycloak on loopback, as far as the access guard asks it.

It keeps to what the real one does where it matters: tokens are signed with keys that it publishes and that
can be rotated; userinfo knows of ended sessions, ended tokens and disabled people; the administration needs
a token of its own, which it gets for a client's secret; lists come in pages; an answer to a path that does
not exist is 404. It can be told to fail, to be away, to hang and to answer nonsense. Every call is noted.
"""

import contextlib
import json
import secrets
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from aiohttp import web

from hack.devcluster.actors.loopback import DoorServer
from hack.devcluster.actors.rsa_keys import SigningKey

REALM = "magicstick"
ISSUER = "https://id.example.local/realms/magicstick"
CLIENT = "magicstick-human-gateway-local"
ADMIN_CLIENT = "magicstick-user-admin"
OIDC = f"/realms/{REALM}/protocol/openid-connect"
ADMIN = f"/admin/realms/{REALM}"


@dataclass
class Person:
    """Somebody in the realm."""

    id: str
    username: str
    roles: list[str] = field(default_factory=lambda: ["magicstick-user"])
    groups: list[str] = field(default_factory=list)
    enabled: bool = True
    service_client: str = ""


@dataclass(frozen=True)
class Call:
    """One request, without its query."""

    method: str
    path: str


@dataclass
class Fault:
    """What happens to the calls that `when` picks, as long as it is in force."""

    when: Callable[[Call], bool]
    status: int = 500
    body: bytes = b'{"error":"unknown_error"}'
    headers: dict[str, str] = field(default_factory=dict)


class KeycloakActor(DoorServer):
    """See the module. `people` by id; `groups` with the id of the one above, "" for none."""

    def __init__(self, client_secret: str, *, port: int = 0, access_lifetime_s: int = 60) -> None:
        super().__init__(port)
        self.people: dict[str, Person] = {}
        self.groups: dict[str, str] = {}
        self.calls: list[Call] = []
        self.client_secret = client_secret
        self.key = SigningKey.make("first")
        self.published = [self.key.jwk]
        self.access_lifetime_s = access_lifetime_s
        self._ended: set[str] = set()
        self._access: set[str] = set()
        self._faults: list[Fault] = []

    # -- for those who look and direct -----------------------------------------------------------------

    def add(self, id_: str, *roles: str, groups: tuple[str, ...] = ()) -> Person:
        """Somebody with these roles (`magicstick-user` where none is given) in these groups."""
        person = Person(id_, f"name-of-{id_}", list(roles) or ["magicstick-user"], list(groups))
        self.people[id_] = person
        return person

    def token(
        self, id_: str, *, lifetime_s: float = 300.0, key: SigningKey | None = None, **claims: Any
    ) -> str:
        """An access token for somebody, as the gateway gets it; `claims` replace what it would say."""
        person = self.people[id_]
        said = {
            "iss": ISSUER,
            "azp": CLIENT,
            "sub": id_,
            "exp": int(time.time() + lifetime_s),
            "jti": secrets.token_hex(8),
            "realm_access": {"roles": [*person.roles, "offline_access"]},
            "preferred_username": person.username,
        }
        return (key or self.key).token({**said, **claims})

    def end(self, token: str) -> None:
        """End the session of a token."""
        self._ended.add(token)

    def rotate(self, kid: str) -> SigningKey:
        """Sign with a new key from now on; the one before stays published."""
        self.key = SigningKey.make(kid)
        self.published.append(self.key.jwk)
        return self.key

    def forget_access(self) -> None:
        """Accept none of the tokens that were given for the administration so far."""
        self._access.clear()

    def asked(self, part: str) -> list[Call]:
        """The calls whose path holds this."""
        return [call for call in self.calls if part in call.path]

    @contextlib.contextmanager
    def fault(self, part: str, status: int = 500, **how: Any) -> Iterator[None]:
        """Calls whose path holds this fail within the block."""
        fault = Fault(lambda call: part in call.path, status, **how)
        self._faults.append(fault)
        try:
            yield
        finally:
            self._faults.remove(fault)

    # -- serving ---------------------------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.Response:
        call = Call(request.method, request.raw_path.partition("?")[0])
        self.calls.append(call)
        await self._admitted()
        fault = next((each for each in self._faults if each.when(call)), None)
        if fault is not None:
            return web.Response(status=fault.status, body=fault.body, headers=fault.headers)
        if call.path.startswith(ADMIN + "/"):
            return self._administration(call.path.removeprefix(ADMIN), request)
        return await self._oidc(call, request)

    async def _oidc(self, call: Call, request: web.Request) -> web.Response:
        what = call.path.removeprefix(OIDC)
        if (call.method, what) == ("GET", "/certs"):
            return web.json_response({"keys": self.published})
        if (call.method, what) == ("GET", "/userinfo"):
            return self._userinfo(_bearer(request))
        if (call.method, what) == ("POST", "/token"):
            return self._grant(dict(await request.post()))
        return _no(HTTPStatus.NOT_FOUND)

    def _userinfo(self, token: str) -> web.Response:
        claims = _claims(token)
        person = self.people.get(str(claims.get("sub")))
        good = claims.get("exp", 0) > time.time() and token not in self._ended
        if person is None or not person.enabled or not good:
            return _no(HTTPStatus.UNAUTHORIZED)
        return web.json_response({"sub": person.id, "preferred_username": person.username})

    def _grant(self, form: dict[str, Any]) -> web.Response:
        wanted = {
            "grant_type": "client_credentials",
            "client_id": ADMIN_CLIENT,
            "client_secret": self.client_secret,
        }
        if form != wanted:
            return _no(HTTPStatus.UNAUTHORIZED)
        token = secrets.token_urlsafe(24)
        self._access.add(token)
        return web.json_response({"access_token": token, "expires_in": self.access_lifetime_s})

    def _administration(self, path: str, request: web.Request) -> web.Response:
        if _bearer(request) not in self._access:
            return _no(HTTPStatus.UNAUTHORIZED)
        match path.strip("/").split("/"):
            case ["groups", id_] if id_ in self.groups:
                above = {"parentId": self.groups[id_]} if self.groups[id_] else {}
                return web.json_response({"id": id_, "name": f"name of {id_}", **above})
            case ["users", id_] if id_ in self.people:
                return web.json_response(_shown(self.people[id_]))
            case ["users", id_, "role-mappings", "realm", "composite"] if id_ in self.people:
                return web.json_response([{"id": name, "name": name} for name in self.people[id_].roles])
            case ["users", id_, "groups"] if id_ in self.people:
                first, most = int(request.query["first"]), int(request.query["max"])
                page = self.people[id_].groups[first : first + most]
                return web.json_response([{"id": group, "name": f"name of {group}"} for group in page])
            case _:
                return _no(HTTPStatus.NOT_FOUND)


def _shown(person: Person) -> dict[str, Any]:
    service = {"serviceAccountClientId": person.service_client} if person.service_client else {}
    return {"id": person.id, "username": person.username, "enabled": person.enabled, **service}


def _bearer(request: web.Request) -> str:
    return request.headers.get("Authorization", "").removeprefix("Bearer ")


def _claims(token: str) -> dict[str, Any]:
    """What a token says; whether its signature is right is for those to tell who are tested here."""
    _, payload, *_ = [*token.split("."), "", ""]
    try:
        return dict(json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4))))
    except ValueError:
        return {}


def _no(status: HTTPStatus) -> web.Response:
    return web.json_response({"error": status.phrase}, status=status)
