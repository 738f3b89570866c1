"""Where the configuration comes from, and how credentials rotate."""

import asyncio
import shutil
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog.testing

from magicstick.kube import service_account
from magicstick.kube.config import REFUSED_AFTER_S, REREAD_AFTER_S, ClusterConfig, ConfigError
from magicstick.kube.credentials import Credentials, TlsMaterial
from magicstick.kube.service_account import ServiceAccountSource
from tests.support.certificates import AUTHORITY, OTHER_AUTHORITY, client_certificate

pytestmark = pytest.mark.anyio

URL = "https://api.example.com:6443"
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: main
contexts: [{name: main, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://kubeconfig.example.com"}}]
users: [{name: u, user: {token: from-kubeconfig}}]
"""


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Source:
    """Gives what the test says, and counts."""

    description = "a test"

    def __init__(self, *given: Credentials | ConfigError) -> None:
        self.given = list(given)
        self.asked: list[bool] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.rereading = asyncio.Event()

    async def read(self, *, fresh: bool) -> Credentials:
        if self.asked:
            self.rereading.set()
        self.asked.append(fresh)
        await self.gate.wait()
        given = self.given[0] if len(self.given) == 1 else self.given.pop(0)
        if isinstance(given, ConfigError):
            raise given
        return given


def token(value: str) -> Credentials:
    return Credentials("http://api.example.com", f"Bearer {value}")


def tls(authorities: bytes) -> Credentials:
    return Credentials(URL, None, TlsMaterial(authorities))


# -- which source ------------------------------------------------------------------------------------


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a service account, in a process that runs in a cluster."""
    directory = tmp_path / "serviceaccount"
    directory.mkdir()
    (directory / "token").write_text("from-pod\n")
    (directory / "ca.crt").write_bytes(AUTHORITY)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "2001:db8::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(service_account.ServiceAccountSource.__init__, "__defaults__", (None, directory))
    return directory


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG)
    return file


async def test_a_pod_uses_its_service_account(account: Path) -> None:
    config = await ClusterConfig.load()
    assert config.url == "https://[2001:db8::1]:443"
    assert await config.authorization() == "Bearer from-pod"
    assert config.tls is not None
    assert config.tls.verify_mode is ssl.CERT_REQUIRED
    assert len(config.tls.get_ca_certs()) == 1
    assert config.description == "in-cluster service account"


async def test_the_address_inside_the_cluster_can_be_set(
    account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    config = await ClusterConfig.load(in_cluster_url=URL + "/")
    assert config.url == URL
    assert await config.authorization() == "Bearer from-pod"


async def test_a_kubeconfig_that_was_asked_for_comes_before_the_pod(
    account: Path, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await ClusterConfig.load(kubeconfig)).url == "http://kubeconfig.example.com"
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    config = await ClusterConfig.load(in_cluster_url=URL)
    assert await config.authorization() == "Bearer from-kubeconfig"


async def test_outside_of_a_cluster_the_kubeconfig_of_the_home_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=r"no kubeconfig at .*\.kube/config: set KUBECONFIG"):
        await ClusterConfig.load()
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(KUBECONFIG)
    assert (await ClusterConfig.load()).url == "http://kubeconfig.example.com"


@pytest.mark.parametrize("broken", ["token", "ca.crt"])
@pytest.mark.parametrize("content", [None, ""])
async def test_a_pod_without_usable_account_says_what_to_do(
    account: Path, broken: str, content: str | None
) -> None:
    (account / broken).unlink()
    if content is not None:
        (account / broken).write_text(content)
    with pytest.raises(ConfigError, match=rf"{account}.*Mount a service account token"):
        await ClusterConfig.load()


async def test_authorities_that_are_none_are_refused(account: Path) -> None:
    (account / "ca.crt").write_text("-----BEGIN CERTIFICATE-----\nxx\n-----END CERTIFICATE-----\n")
    with pytest.raises(ConfigError, match="certificates cannot be used"):
        await ClusterConfig.load()


# -- rotation ----------------------------------------------------------------------------------------


async def test_a_rotated_token_of_a_pod_is_taken_over(account: Path) -> None:
    clock = Clock()
    config = await ClusterConfig.of(ServiceAccountSource(None, account), clock=clock)
    (account / "token").write_text("rotated")
    assert await config.authorization() == "Bearer from-pod"
    clock.now += REREAD_AFTER_S
    assert await config.authorization() == "Bearer rotated"


async def test_rotated_authorities_of_a_pod_are_taken_over(account: Path) -> None:
    clock = Clock()
    config = await ClusterConfig.of(ServiceAccountSource(None, account), clock=clock)
    before = config.tls
    (account / "ca.crt").write_bytes(AUTHORITY + OTHER_AUTHORITY)
    clock.now += REREAD_AFTER_S
    await config.authorization()
    assert config.tls is not None
    assert config.tls is not before
    assert len(config.tls.get_ca_certs()) == 2


async def test_a_context_lasts_while_its_material_does() -> None:
    clock = Clock()
    config = await ClusterConfig.of(Source(tls(AUTHORITY)), clock=clock)
    before = config.tls
    clock.now += REREAD_AFTER_S
    await config.authorization()
    assert config.tls is before


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a key")
async def test_a_client_certificate_is_loaded_and_taken_over_when_it_changes(tmp_path: Path) -> None:
    def read() -> Credentials:
        certificate, key = client_certificate(tmp_path)
        return Credentials(URL, None, TlsMaterial.read(None, str(certificate), str(key), verify=True))

    clock, source = Clock(), Source(read(), read())
    config = await ClusterConfig.of(source, clock=clock)
    before = config.tls
    clock.now += REREAD_AFTER_S
    await config.authorization()
    assert config.tls is not before


async def test_a_server_that_is_not_to_be_verified_is_not() -> None:
    config = await ClusterConfig.of(Source(Credentials(URL, None, TlsMaterial(AUTHORITY, verify=False))))
    assert config.tls is not None
    assert config.tls.verify_mode is ssl.CERT_NONE
    assert not config.tls.check_hostname


async def test_credentials_are_read_at_most_each_minute() -> None:
    clock, source = Clock(), Source(token("a"))
    config = await ClusterConfig.of(source, clock=clock)
    for _ in range(10):
        await config.authorization()
        clock.now += REREAD_AFTER_S / 5
    assert source.asked == [False, False]


async def test_refused_credentials_are_read_at_once_but_not_for_each_request() -> None:
    clock, source = Clock(), Source(token("a"), token("b"), token("c"))
    config = await ClusterConfig.of(source, clock=clock)
    clock.now += REFUSED_AFTER_S
    refused = await asyncio.gather(*(config.authorization(refused=True) for _ in range(20)))
    assert set(refused) == {"Bearer b"}
    assert source.asked == [False, True]
    clock.now += REFUSED_AFTER_S
    assert await config.authorization(refused=True) == "Bearer c"


async def test_nobody_waits_for_a_slow_source_without_need() -> None:
    clock, source = Clock(), Source(token("a"), token("b"))
    config = await ClusterConfig.of(source, clock=clock)
    source.gate.clear()
    clock.now += REREAD_AFTER_S
    reader = asyncio.create_task(config.authorization())
    async with asyncio.timeout(10):
        await source.rereading.wait()
        assert await config.authorization() == "Bearer a"
        source.gate.set()
        assert await reader == "Bearer b"


async def test_a_source_that_fails_later_leaves_the_last_credentials_and_warns_once() -> None:
    clock = Clock()
    source = Source(token("a"), ConfigError("gone"), ConfigError("gone"), token("b"), ConfigError("gone"))
    config = await ClusterConfig.of(source, clock=clock)
    with structlog.testing.capture_logs() as logs:
        values = []
        for _ in range(4):
            clock.now += REREAD_AFTER_S
            values.append(await config.authorization())
    assert values == ["Bearer a", "Bearer a", "Bearer b", "Bearer b"]
    assert [(entry["log_level"], entry["error"]) for entry in logs] == [("warning", "gone")] * 2


async def test_authorities_that_break_later_leave_the_last_context() -> None:
    clock = Clock()
    config = await ClusterConfig.of(Source(tls(AUTHORITY), tls(b"half a fi")), clock=clock)
    before = config.tls
    clock.now += REREAD_AFTER_S
    await config.authorization()
    assert config.tls is before


async def test_a_source_that_fails_first_is_an_error() -> None:
    with pytest.raises(ConfigError, match="gone"):
        await ClusterConfig.of(Source(ConfigError("gone")))


# -- secrets -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("say", [repr, str, lambda config: config.description])
async def test_no_text_of_a_configuration_holds_its_secrets(say: Callable[[object], str]) -> None:
    config = await ClusterConfig.of(Source(token("hunter2")))
    material = TlsMaterial(AUTHORITY, b"certificate", b"hunter2")
    told = say(config) + repr(token("hunter2")) + repr(material)
    assert "hunter2" not in told
