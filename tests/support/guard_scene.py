"""A running access guard, a realm that can be directed, and a gateway that asks as Envoy does.

    async with gatekeeping() as scene:          # the API server is scripted
        scene.instance("demo", sharing={"mode": "selected", "users": ["alice"]})
        scene.realm.add("alice")
        answer = await scene.ask("demo", token=scene.realm.token("alice"))
        assert answer.allowed

`asking` is the same for a guard that runs elsewhere or on a real API server.
"""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
from yarl import URL

from hack.devcluster.actors.keycloak import ADMIN_CLIENT, CLIENT, ISSUER, OIDC, REALM, KeycloakActor
from magicstick.access_guard.program import AccessGuard
from magicstick.access_guard.settings import GuardSettings
from magicstick.api.kinds import APP_INSTANCE
from magicstick.kube.config import ClusterConfig
from magicstick.runtime.clock import SystemClock
from tests.support.apiserver import Answer as Reply
from tests.support.apiserver import ScriptedServer, status
from tests.support.operator import Entry, recorded_logs

CLIENT_SECRET: Final = "canary-client-secret"
HOME: Final = "ai-system"
IDENTITY: Final = "identity-system"
SECRET_NAME: Final = "magicstick-user-admin-client"
SECRET_PATH: Final = f"/api/v1/namespaces/{IDENTITY}/secrets/{SECRET_NAME}"
DENIAL: Final = b'{"error":"Access to this application was denied."}'
DEADLINE_S: Final = 10.0


class MovedClock(SystemClock):
    """The machine's clock, ahead by as much as a test says."""

    ahead_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


@dataclass(frozen=True)
class Answer:
    """What the gateway hears."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def allowed(self) -> bool:
        """Whether it is exactly the one yes. Anything but that and the one no fails the test."""
        if self.status == 200:
            assert (self.body, self.headers["Content-Length"]) == (b"", "0")
        else:
            assert (self.status, self.body) in {(403, DENIAL), (403, b"")}
        assert self.headers["Cache-Control"] == "no-store"
        return self.status == 200


class Gateway:
    """Asks a guard. `uids` has the uid that the route of an instance was made for."""

    def __init__(self, session: aiohttp.ClientSession, url: str, uids: Mapping[str, str]) -> None:
        self._session, self.url, self._uids = session, url, uids

    async def ask(
        self,
        name: str,
        *,
        token: str = "",
        uid: str = "",
        path: str = "/",
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """May this request pass?"""
        target = f"/internal/instance-access/{name}/{uid or self._uids[name]}{path}"
        given = {"Authorization": f"Bearer {token}"} if token else {}
        return await self.send(method, target, {**given, **(headers or {})})

    async def send(self, method: str, target: str, headers: Mapping[str, str] | None = None) -> Answer:
        """One request, its target exactly as it stands."""
        url = URL(self.url + target, encoded=True)
        async with self._session.request(method, url, headers=headers, allow_redirects=False) as response:
            return Answer(response.status, response.headers, await response.read())

    async def allowed(self, name: str, token: str = "", **how: Any) -> bool:
        """Whether this request may pass."""
        return (await self.ask(name, token=token, **how)).allowed


@dataclass
class Scene:
    """See the module."""

    program: AccessGuard
    realm: KeycloakActor
    server: ScriptedServer
    clock: MovedClock
    logs: list[Entry]
    uids: dict[str, str] = field(default_factory=dict)
    gateway: Gateway | None = None

    def instance(
        self, name: str, *, uid: str = "", spec: Mapping[str, Any] | None = None, **access: Any
    ) -> None:
        """What the API server says of an instance from now on."""
        self.uids[name] = uid or f"uid-of-{name}"
        body = {
            "apiVersion": APP_INSTANCE.api_version,
            "kind": APP_INSTANCE.kind,
            "metadata": {"name": name, "namespace": HOME, "uid": self.uids[name]},
            "spec": {"application": "openclaw", "values": {"a": [1]}, **(spec or {}), "access": access},
        }
        self.server.answer("GET", instance_path(name), Reply(200, body))

    def gone(self, name: str) -> None:
        """The instance is not there; its route still is."""
        details = {"name": name, "group": APP_INSTANCE.group, "kind": APP_INSTANCE.plural}
        self.server.answer("GET", instance_path(name), status(404, "NotFound", "no", details=details))

    async def ask(self, name: str, **how: Any) -> Answer:
        """See `Gateway`."""
        assert self.gateway is not None
        return await self.gateway.ask(name, **how)

    async def allowed(self, name: str, token: str = "", **how: Any) -> bool:
        """See `Gateway`."""
        return (await self.ask(name, token=token, **how)).allowed

    def decisions(self) -> dict[str, float]:
        """How often each reason was given, without those that never were."""
        lines = self.program.metrics.render().decode().splitlines()
        counted = (line for line in lines if line.startswith("guard_decisions_total{"))
        pairs = (line.partition('reason="')[2].partition('"')[::2] for line in counted)
        found = {reason: float(rest.rpartition(" ")[2]) for reason, rest in pairs}
        return {reason: count for reason, count in found.items() if count}


def instance_path(name: str) -> str:
    """Where the API server has an instance."""
    return APP_INSTANCE.path(HOME, name)


def client_secret(value: str = CLIENT_SECRET) -> dict[str, Any]:
    """The Secret with the guard's credentials."""
    data = {"client-id": ADMIN_CLIENT, "client-secret": value}
    encoded = {key: base64.b64encode(each.encode()).decode() for key, each in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET_NAME}, "data": encoded}


def settings(realm_url: str, **changes: Any) -> GuardSettings:
    """As the manifest has them, at free ports of the loopback interface."""
    given = {
        "port": 0,
        "guard_bind_address": "127.0.0.1:0",
        "metrics_bind_address": "off",
        "oidc_userinfo_url": f"{realm_url}{OIDC}/userinfo",
        "oidc_expected_issuer": ISSUER,
        "oidc_expected_client_ids": f"{CLIENT},magicstick-cli",
        "keycloak_admin_url": realm_url,
        "keycloak_realm": REALM,
    }
    return GuardSettings.load(**{**given, **changes})


@contextlib.asynccontextmanager
async def running(program: AccessGuard) -> AsyncIterator[AccessGuard]:
    """The guard runs within the block."""
    task = asyncio.create_task(program.run())
    started = asyncio.create_task(program.started.wait())
    try:
        await asyncio.wait((task, started), return_when=asyncio.FIRST_COMPLETED, timeout=DEADLINE_S)
        assert program.started.is_set(), task
        yield program
    finally:
        started.cancel()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait_for(task, DEADLINE_S)


@contextlib.asynccontextmanager
async def asking(url: str, uids: Mapping[str, str]) -> AsyncIterator[Gateway]:
    """A gateway in front of the guard at this URL."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield Gateway(session, url, uids)


@contextlib.asynccontextmanager
async def gatekeeping(*, faults: int = 0, **changes: Any) -> AsyncIterator[Scene]:
    """See the module. At the end no line of the log holds a secret, and so many are faults of ours."""
    clock = MovedClock()
    async with contextlib.AsyncExitStack() as stack:
        logs = stack.enter_context(recorded_logs())
        server = await stack.enter_async_context(ScriptedServer())
        realm = await stack.enter_async_context(KeycloakActor(CLIENT_SECRET).running())
        server.answer("GET", SECRET_PATH, Reply(200, client_secret()))
        program = AccessGuard(settings(realm.url, **changes), ClusterConfig.plain(server.url), clock=clock)
        await stack.enter_async_context(running(program))
        scene = Scene(program, realm, server, clock, logs)
        scene.gateway = await stack.enter_async_context(asking(program.url, scene.uids))
        yield scene
        assert_discreet(logs, faults)


def assert_discreet(logs: Sequence[Entry], faults: int = 0) -> None:
    """Nothing in the log is a token or the client's secret, and so many lines are faults of ours."""
    assert len([entry for entry in logs if entry["log_level"] in {"error", "critical"}]) == faults
    text = str(logs)
    assert CLIENT_SECRET not in text
    assert "eyJ" not in text  # what every token begins with
