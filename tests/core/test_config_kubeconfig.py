"""Kubeconfig files: how several become one, how users authenticate, and what is said when they are wrong."""

import asyncio
import os
import stat
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import uvloop
import yaml

from magicstick.kube import kubeconfig
from magicstick.kube.config import ClusterConfig, ConfigError
from magicstick.kube.kubeconfig import KubeconfigSource, kubeconfig_files
from tests.support.certificates import AUTHORITY

pytestmark = pytest.mark.anyio

SERVER = "http://api.example.com"


def entries(
    name: str = "main", user: Mapping[str, Any] | None = None, cluster: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The content of a kubeconfig with one context, cluster and user, all of one name."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": {"server": SERVER, **(cluster or {})}}],
        "users": [{"name": name, "user": user or {"token": f"token-of-{name}"}}],
    }


def write(path: Path, content: Mapping[str, Any] | str | bytes) -> Path:
    text = yaml.safe_dump(content) if isinstance(content, Mapping) else content
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


# -- which context of which file -----------------------------------------------------------------------


async def test_the_current_context_is_used(file: Path) -> None:
    config = await ClusterConfig.load(write(file, entries()))
    assert (config.url, await config.authorization()) == (SERVER, "Bearer token-of-main")
    assert config.description == f"kubeconfig {file}"


async def test_a_context_can_be_chosen(file: Path) -> None:
    both = entries()
    for section in ("contexts", "clusters", "users"):
        both[section] += entries("other")[section]
    config = await ClusterConfig.load(write(file, both), "other")
    assert await config.authorization() == "Bearer token-of-other"
    assert config.description.endswith("context other")


async def test_files_are_merged_and_the_first_to_name_a_thing_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write(tmp_path / "first", entries("one"))
    shadow = entries("one", {"token": "shadowed"})
    shadow["current-context"] = "two"
    for section in ("contexts", "clusters", "users"):
        shadow[section] += entries("two")[section]
    second = write(tmp_path / "second", shadow)
    empty = write(tmp_path / "empty", "")
    listed = os.pathsep.join(map(str, ("", tmp_path / "missing", empty, first, second)))
    monkeypatch.setenv("KUBECONFIG", listed)
    assert await (await ClusterConfig.load()).authorization() == "Bearer token-of-one"
    assert await (await ClusterConfig.load(context="two")).authorization() == "Bearer token-of-two"


async def test_a_context_may_refer_to_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = entries()
    parts = [
        write(tmp_path / section, {section: content[section], "current-context": "main"})
        for section in ("contexts", "clusters", "users")
    ]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, parts)))
    assert await (await ClusterConfig.load()).authorization() == "Bearer token-of-main"


def test_an_argument_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", f"/a{os.pathsep}/b")
    assert kubeconfig_files(Path("/c")) == (Path("/c"),)
    assert kubeconfig_files(None) == (Path("/a"), Path("/b"))
    monkeypatch.setenv("KUBECONFIG", "")
    assert kubeconfig_files(None) == (Path("~/.kube/config"),)


# -- users and clusters --------------------------------------------------------------------------------


async def test_a_user_without_credentials_sends_none(file: Path) -> None:
    content = entries()
    content["users"] = [{"name": "main", "user": {}}]
    assert await (await ClusterConfig.load(write(file, content))).authorization() is None
    del content["contexts"][0]["context"]["user"]
    assert await (await ClusterConfig.load(write(file, content))).authorization() is None


async def test_a_name_and_password_are_basic_authentication(file: Path) -> None:
    write(file, entries(user={"username": "a", "password": "b"}))
    assert await (await ClusterConfig.load(file)).authorization() == "Basic YTpi"


async def test_files_are_found_beside_the_kubeconfig(file: Path) -> None:
    (file.parent / "ca.crt").write_bytes(AUTHORITY)
    (file.parent / "token").write_text("from-file\n")
    content = entries(user={"tokenFile": "token"})
    content["clusters"][0]["cluster"] |= {
        "server": "https://api.example.com/",
        "certificate-authority": "ca.crt",
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy.example.com",
    }
    config = await ClusterConfig.load(write(file, content))
    assert await config.authorization() == "Bearer from-file"
    assert config.url == "https://api.example.com"
    assert (config.server_name, config.proxy) == ("kubernetes", "http://proxy.example.com")
    assert config.tls is not None
    assert len(config.tls.get_ca_certs()) == 1


# -- plugins -------------------------------------------------------------------------------------------


class Plugin:
    """An exec plugin: a script that counts its runs and gives them as tokens."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "plugin"
        self.runs = directory / "runs"
        self.runs.write_text("")

    def script(self, body: str) -> "Plugin":
        self.path.write_text(f"#!{sys.executable}\n{body}")
        self.path.chmod(stat.S_IRWXU)
        return self

    def giving(self, before: str = "", **status: str) -> "Plugin":
        return self.script(
            f"import json\n{before}\n"
            f"open({str(self.runs)!r}, 'a').write('x')\n"
            f"run = str(len(open({str(self.runs)!r}).read()))\n"
            "credential = {'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential'}\n"
            f"print(json.dumps({{**credential, 'status': {{'token': run, **{status!r}}}}}))\n"
        )

    @property
    def user(self) -> dict[str, Any]:
        version = "client.authentication.k8s.io/v1"
        return {"exec": {"apiVersion": version, "command": str(self.path), "interactiveMode": "Never"}}

    @property
    def count(self) -> int:
        return len(self.runs.read_text())


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


async def test_a_plugin_runs_once_and_again_when_its_token_was_refused(file: Path, plugin: Plugin) -> None:
    source = KubeconfigSource([write(file, entries(user=plugin.giving().user))])
    given = [(await source.read(fresh=fresh)).authorization for fresh in (False, False, False, True, False)]
    assert given == ["Bearer 1", "Bearer 1", "Bearer 1", "Bearer 2", "Bearer 2"]


async def test_a_plugin_runs_again_when_a_file_changed(file: Path, plugin: Plugin) -> None:
    source = KubeconfigSource([write(file, entries(user=plugin.giving().user))])
    await source.read(fresh=False)
    write(file, {**entries(user=plugin.user), "preferences": {}})
    assert (await source.read(fresh=False)).authorization == "Bearer 2"


@pytest.mark.parametrize(("left", "runs"), [(timedelta(hours=1), 1), (timedelta(minutes=1), 2)])
async def test_a_plugin_runs_again_before_its_token_expires(
    file: Path, plugin: Plugin, left: timedelta, runs: int
) -> None:
    expires = (datetime.now(UTC) + left).strftime("%Y-%m-%dT%H:%M:%SZ")
    source = KubeconfigSource([write(file, entries(user=plugin.giving(expirationTimestamp=expires).user))])
    for _ in range(2):
        await source.read(fresh=False)
    assert plugin.count == runs


async def test_a_plugin_that_is_not_there_says_so(file: Path) -> None:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin"}}
    with pytest.raises(ConfigError, match=r"users\[name=main\]\.user\.exec, no-such-plugin: not installed"):
        await ClusterConfig.load(write(file, entries(user=user)))


def test_a_plugin_that_is_not_there_says_so_on_uvloop(file: Path) -> None:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin"}}
    with pytest.raises(ConfigError, match="no-such-plugin: not installed"):
        uvloop.run(ClusterConfig.load(write(file, entries(user=user))))


async def test_a_plugin_that_fails_is_quoted(file: Path, plugin: Plugin) -> None:
    plugin.script("import sys\nsys.exit('log in first')")
    with pytest.raises(ConfigError, match=r"plugin: exec: process returned 1\. log in first"):
        await ClusterConfig.load(write(file, entries(user=plugin.user)))


@pytest.mark.parametrize("output", ["no json", "{}", '{"apiVersion": "v0", "kind": "x", "status": {}}'])
async def test_a_plugin_that_talks_nonsense_is_named(file: Path, plugin: Plugin, output: str) -> None:
    plugin.script(f"print({output!r})")
    with pytest.raises(ConfigError, match=str(plugin.path)):
        await ClusterConfig.load(write(file, entries(user=plugin.user)))


async def test_a_plugin_that_takes_long_is_told_and_joined_at_the_next_read(
    tmp_path: Path, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may wait for somebody to log in."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    plugin.giving(before=f"open({str(gate)!r}).read()")
    source = KubeconfigSource([write(tmp_path / "config", entries(user=plugin.user))])
    with monkeypatch.context() as patch:
        patch.setattr(kubeconfig, "PLUGIN_TIMEOUT_S", 0.1)
        for _ in range(2):
            with pytest.raises(ConfigError, match=r"no answer within 0\.1 s"):
                await source.read(fresh=False)
    await asyncio.to_thread(gate.write_text, "logged in")
    assert (await source.read(fresh=False)).authorization == "Bearer 1"
    assert plugin.count == 1


# -- what is wrong -------------------------------------------------------------------------------------


def broken(section: str, value: object) -> dict[str, Any]:
    return {**entries(), section: value}


CONTEXT = {"cluster": "main", "user": "main"}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", r"config\.yaml is not valid YAML: look at line \d"),
        ("- a list", r"config\.yaml is no kubeconfig: it must be a mapping with contexts, clusters, users"),
        ("text", "is no kubeconfig"),
        ("", r"current-context is not set; the file has no contexts"),
        (broken("current-context", ""), "current-context is not set; choose one of main with --context"),
        (broken("current-context", "x"), "there is no context 'x'; choose one of main with --context"),
        (broken("contexts", {}), "there is no context 'main'; the file has no contexts"),
        (broken("contexts", "main"), "contexts must be a list"),
        (broken("contexts", ["main"]), r"contexts\[0\] must be a mapping with a name"),
        (broken("users", [{"user": {}}]), r"users\[0\] must be a mapping with a name"),
        (broken("contexts", [{"name": "main"}]), r"contexts\[name=main\]\.context must be a mapping"),
        (
            broken("contexts", [{"name": "main", "context": {}}]),
            r"contexts\[name=main\]\.context\.cluster is not set",
        ),
        (broken("clusters", []), r"contexts\[name=main\]\.context\.cluster is 'main', which is not among"),
        (broken("users", None), r"contexts\[name=main\]\.context\.user is 'main', which is not among"),
        (
            broken("clusters", [{"name": "main", "cluster": {}}]),
            r"clusters\[name=main\]\.cluster\.server must be an http\(s\) URL",
        ),
        (entries(cluster={"server": "api.example.com:6443"}), r"cluster\.server must be an http\(s\) URL"),
        *(
            (entries(cluster={"server": server}), r"cluster\.server must be an http\(s\) URL")
            for server in (
                "https://",
                "https://[::1",
                "https://example.com:99999",
                "https://example.com:x",
                "https://api example.com",
                "https://example.com?a=b",
                "https://example.com#a",
                "https://example.com\n",
            )
        ),
        (entries(cluster={"proxy-url": "::hunter2"}), r"cluster\.proxy-url must be an http\(s\) URL"),
        (entries(user={"token": "a\nHost: b"}), r"users\[name=main\]\.user: the token holds a line break"),
        ("[" * 5000, "nested too deep"),
        (broken("users", [{"name": "main", "user": "u"}]), r"users\[name=main\]\.user must be a mapping"),
        (entries(user={"exec": "x"}), r"users\[name=main\]\.user\.exec must be a mapping"),
        (entries(user={"exec": {"args": []}}), r"users\[name=main\]\.user\.exec\.command is not set"),
        (entries(user={"exec": {"command": "x"}}), "missing key 'apiVersion'"),
        (entries(user={"tokenFile": "missing"}), r"users\[name=main\]\.user: there is no file .*missing"),
        (
            entries(cluster={"server": "https://x", "certificate-authority": "missing.crt"}),
            r"File does not exists: .*missing\.crt",
        ),
        (
            entries(cluster={"server": "https://x", "certificate-authority-data": "a"}),
            "users.*cannot be used .*check its fields",
        ),
        (
            entries(cluster={"server": "https://x", "certificate-authority-data": "bm9uZQ=="}),
            "certificates cannot be used",
        ),
    ],
)
async def test_a_wrong_file_is_told_with_its_field(
    file: Path, content: Mapping[str, Any] | str, told: str
) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        await ClusterConfig.load(write(file, content))
    assert str(file) in str(caught.value)


async def test_a_missing_file_is_told_with_what_to_do(file: Path) -> None:
    with pytest.raises(ConfigError, match=rf"no kubeconfig at {file}: set KUBECONFIG or --kubeconfig"):
        await ClusterConfig.load(file)


async def test_a_path_that_cannot_be_one_is_told() -> None:
    with pytest.raises(ConfigError, match="cannot be read: File name too long"):
        await ClusterConfig.load(Path("/" + "a" * 5000))


async def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no kubeconfig at"):
        await ClusterConfig.load(tmp_path)


async def test_what_is_no_text_is_told(file: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: not UTF-8 text"):
        await ClusterConfig.load(write(file, b"\xff\xfe\x00"))


@pytest.mark.parametrize(
    "content",
    [
        "users:\n- name: u\n  user: {token: hunter2",
        "users:\n- name: u\n  user:\n    token: hunter2\n   x: y",
        "token: *hunter2",
        "users: [{name: main, user: {client-key-data: hunter2-hunter2}}]",
        yaml.safe_dump(entries(user={"token": ["hunter2"]})),
        yaml.safe_dump(entries(user={"token": "hunter2\nhunter2"})),
        yaml.safe_dump(entries(cluster={"proxy-url": "http://hunter2:hunter2@[proxy"})),
        yaml.safe_dump(entries(user={"auth-provider": {"name": "oidc", "config": {"id-token": "hunter2"}}})),
    ],
)
async def test_a_wrong_file_is_told_without_its_secrets(file: Path, content: str) -> None:
    try:
        config = await ClusterConfig.load(write(file, content))
    except ConfigError as error:
        told = "".join(traceback.format_exception(error))
    else:
        told = repr(config)
    assert "hunter2" not in told


async def test_a_file_that_breaks_later_is_told_at_the_next_read(file: Path) -> None:
    source = KubeconfigSource([write(file, entries())])
    await source.read(fresh=False)
    write(file, "{")
    with pytest.raises(ConfigError, match="not valid YAML"):
        await source.read(fresh=False)
    write(file, entries(user={"token": "new"}))
    assert (await source.read(fresh=False)).authorization == "Bearer new"
