"""The access guard against the real API server, with the manifest's account and rights, and a played realm."""

import asyncio
import contextlib
import copy
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hack.bare import BareClient, RefusedError
from hack.devcluster import DevCluster
from hack.devcluster.actors.keycloak import KeycloakActor
from hack.devcluster.layout import free_ports
from magicstick.access_guard.program import AccessGuard
from magicstick.api.kinds import APP_INSTANCE
from magicstick.kube.config import ClusterConfig
from tests.support.guard_scene import (
    CLIENT_SECRET,
    HOME,
    IDENTITY,
    SECRET_NAME,
    Gateway,
    asking,
    assert_discreet,
    client_secret,
    running,
    settings,
)
from tests.support.manifests import MANIFESTS, Object, objects
from tests.support.operator import recorded_logs
from tests.support.polling import until
from tests.support.rights import with_namespaces
from tests.support.world import install_kinds

pytestmark = pytest.mark.anyio
ACCOUNT = "magicstick-access-guard"
FOR_ALICE: dict[str, Any] = {"sharing": {"mode": "selected", "users": ["alice"]}}
FOR_THE_TEAM: dict[str, Any] = {"sharing": {"mode": "selected", "groups": ["team"]}}


@dataclass
class Corner:
    """Two namespaces of their own, in which instances and the guard's account live."""

    cluster: DevCluster
    client: BareClient
    realm: KeycloakActor
    suffix: str = field(default_factory=lambda: secrets.token_hex(3))
    uids: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> str:
        return f"test-{self.suffix}-system"

    @property
    def identity(self) -> str:
        return f"test-{self.suffix}-identity"

    @property
    def agent(self) -> str:
        return f"guard-{self.suffix}"

    async def furnish(self) -> None:
        """Namespaces, the Secret, and what the manifest says of the account."""
        for name in (self.home, self.identity):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await self.client.apply(f"/api/v1/namespaces/{name}", body)
        await self.client.apply(f"/api/v1/namespaces/{self.identity}/secrets/{SECRET_NAME}", client_secret())
        for file, obj in objects(MANIFESTS / "modules" / "dashboard"):
            if file.name == "guard.yaml" and obj["kind"] in {"ServiceAccount", "Role", "RoleBinding"}:
                places = {HOME: self.home, IDENTITY: self.identity}
                mine: Object = with_namespaces(copy.deepcopy(obj), places)
                await asyncio.to_thread(self.cluster.rest.apply, mine)

    @contextlib.asynccontextmanager
    async def guard(self, **changes: Any) -> AsyncIterator[Gateway]:
        """The guard runs within the block, with its own account; its log is discreet."""
        token = await asyncio.to_thread(self.cluster.service_account_token, self.identity, ACCOUNT)
        config = ClusterConfig.plain(self.cluster.url, token=token, ca_file=self.cluster.ca_file)
        places = {
            "appliance_namespace": self.home,
            "keycloak_user_admin_secret_namespace": self.identity,
        }
        with recorded_logs() as logs:
            program = AccessGuard(
                settings(self.realm.url, **{**places, **changes}), config, user_agent=self.agent
            )
            async with running(program), asking(program.url, self.uids) as gateway:
                yield gateway
        assert_discreet(logs)

    def path(self, name: str = "") -> str:
        return APP_INSTANCE.path(self.home, name)

    async def instance(self, name: str, *, enabled: bool = True, **access: Any) -> None:
        """An instance as somebody applies it; its route is made for its present uid."""
        spec = {"application": "openclaw", "enabled": enabled, "access": access}
        body = {"apiVersion": APP_INSTANCE.api_version, "kind": APP_INSTANCE.kind, "metadata": {"name": name}}
        await self.client.apply(self.path(name), {**body, "spec": spec})
        self.uids[name] = (await self.client.get(self.path(name)))["metadata"]["uid"]


@pytest.fixture
async def corner(control_plane: DevCluster) -> AsyncIterator[Corner]:
    await asyncio.to_thread(install_kinds, control_plane)
    async with (
        BareClient(control_plane.url, control_plane.ca_file, control_plane.admin_token) as client,
        KeycloakActor(CLIENT_SECRET).running() as realm,
    ):
        made = Corner(control_plane, client, realm)
        await made.furnish()
        yield made


@pytest.mark.req("MS-170")
@pytest.mark.req("MS-171")
async def test_access_follows_grants_and_people_from_one_request_to_the_next(corner: Corner) -> None:
    corner.realm.groups |= {"team": "", "sub": "team"}
    alice, bob = corner.realm.add("alice"), corner.realm.add("bob", groups=("sub",))
    hers, his = corner.realm.token("alice"), corner.realm.token("bob")
    async with corner.guard() as gateway:
        await corner.instance("demo", **FOR_ALICE)
        assert (await gateway.allowed("demo", hers), await gateway.allowed("demo", his)) == (True, False)
        await corner.instance("demo", **FOR_THE_TEAM)
        assert (await gateway.allowed("demo", hers), await gateway.allowed("demo", his)) == (False, True)
        bob.groups.clear()
        alice.groups.append("team")
        assert (await gateway.allowed("demo", hers), await gateway.allowed("demo", his)) == (True, False)
        alice.enabled = False
        assert not await gateway.allowed("demo", hers)
        alice.enabled = True
        await corner.instance("demo", enabled=False, **FOR_THE_TEAM)
        assert not await gateway.allowed("demo", hers)
        await corner.instance("demo")
        assert await gateway.allowed("demo")


@pytest.mark.req("MS-171")
async def test_an_instance_made_anew_inherits_no_access(corner: Corner) -> None:
    corner.realm.add("alice")
    token = corner.realm.token("alice")
    async with corner.guard() as gateway:
        await corner.instance("demo", **FOR_ALICE)
        first = corner.uids["demo"]
        assert await gateway.allowed("demo", token)
        await corner.client.send("DELETE", corner.path("demo"))
        assert not await gateway.allowed("demo", token)
        await corner.instance("demo", **FOR_ALICE)
        assert not await gateway.allowed("demo", token, uid=first)
        assert await gateway.allowed("demo", token)


async def test_an_instance_that_is_being_deleted_is_closed_at_once(corner: Corner) -> None:
    async with corner.guard() as gateway:
        await corner.instance("demo")
        await corner.client.merge(corner.path("demo"), {"metadata": {"finalizers": ["example.com/keep"]}})
        assert await gateway.allowed("demo")
        await corner.client.send("DELETE", corner.path("demo"))
        assert not await gateway.allowed("demo")
        await corner.client.merge(corner.path("demo"), {"metadata": {"finalizers": []}})


@pytest.mark.req("MS-172")
async def test_instances_and_one_secret_are_all_that_is_ever_read_and_nothing_is_written(
    corner: Corner,
) -> None:
    corner.realm.groups["team"] = ""
    corner.realm.add("alice", groups=("team",))
    mark = corner.cluster.audit_mark()
    async with corner.guard() as gateway:
        await corner.instance("demo", **FOR_THE_TEAM)
        assert await gateway.allowed("demo", corner.realm.token("alice"))
    asked = {(each.verb, each.resource, each.name) for each in corner.cluster.audit(corner.agent, mark)}
    assert asked == {("get", "appinstances", "demo"), ("get", "secrets", SECRET_NAME)}


async def test_a_guard_at_rest_asks_nobody(corner: Corner) -> None:
    mark = corner.cluster.audit_mark()
    async with corner.guard() as gateway:
        assert (await gateway.send("GET", "/healthz")).body == b"ok\n"
    assert list(corner.cluster.audit(corner.agent, mark)) == []
    assert corner.realm.calls == []


async def test_the_account_may_do_nothing_else(corner: Corner) -> None:
    await corner.instance("demo")
    token = await asyncio.to_thread(corner.cluster.service_account_token, corner.identity, ACCOUNT)
    secret_place = f"/api/v1/namespaces/{corner.identity}/secrets"
    async with BareClient(corner.cluster.url, corner.cluster.ca_file, token) as account:
        await account.get(corner.path("demo"))
        await account.get(f"{secret_place}/{SECRET_NAME}")
        for method, path in (
            ("GET", corner.path()),
            ("GET", secret_place),
            ("GET", f"{secret_place}/another"),
            ("GET", f"/api/v1/namespaces/{corner.home}/secrets/{SECRET_NAME}"),
            ("DELETE", corner.path("demo")),
            ("PATCH", corner.path("demo")),
        ):
            with pytest.raises(RefusedError) as refused:
                await account.send(method, path, {}, content_type="application/merge-patch+json")
            assert refused.value.code == 403


async def test_without_the_right_to_read_instances_everything_is_closed(corner: Corner) -> None:
    await corner.instance("demo")
    async with corner.guard() as gateway:
        assert await gateway.allowed("demo")
        binding = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings/{}-instances"
        await corner.client.send("DELETE", binding.format(corner.home, ACCOUNT))

        async def closed() -> bool:
            return not await gateway.allowed("demo")

        await until("the server acts on the role", closed)


async def test_the_program_answers_until_sigterm_and_ends_with_0(corner: Corner, tmp_path: Path) -> None:
    await corner.instance("demo")
    (port,) = free_ports(1)
    variables = {
        **os.environ,
        "KUBECONFIG": str(corner.cluster.kubeconfig),
        "PORT": str(port),
        "METRICS_BIND_ADDRESS": "off",
        "APPLIANCE_NAMESPACE": corner.home,
        "LOG_FORMAT": "json",
    }
    log = tmp_path / "guard.log"
    with log.open("wb") as sink:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "magicstick", "access-guard", stdout=sink, stderr=sink, env=variables
        )
    try:
        async with asking(f"http://127.0.0.1:{port}", corner.uids) as gateway:

            async def answers() -> bool:
                assert process.returncode is None, log.read_text()
                with contextlib.suppress(OSError):
                    return await gateway.allowed("demo")
                return False

            await until("the guard answers", answers, deadline_s=30.0)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 15.0) == 0, log.read_text()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert '"error"' not in log.read_text()
