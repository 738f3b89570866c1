"""The script that opens Paperclip to the gateway, as a process (spec: platform §4.4.2)."""

import asyncio
import shutil
import socket
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.charts.paperclip_scene import DEADLINE_S, PLUGIN, POD_IP, Cluster, Paperclip, proxy, reachable
from tests.charts.rendering import Object
from tests.support.polling import until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="needs a second address of loopback"),
    pytest.mark.skipif(shutil.which("node") is None, reason="the script runs in Node.js"),
]

SKILL = "paperclipai/paperclip/paperclip"
MARKER = "[MagicStick Paperclip heartbeat v2]"
OLD = "[MagicStick Paperclip heartbeat v1] Do as you did.\nEvery day."


async def rounds(paperclip: Paperclip, more: int = 3) -> None:
    """Waits until whatever is done periodically was done some more times."""
    wanted = paperclip.count("GET", "/api/companies") + more

    async def done() -> bool:
        return paperclip.count("GET", "/api/companies") >= wanted

    await until("some more rounds", done, deadline_s=DEADLINE_S)


@pytest.mark.req("MS-203")
async def test_it_opens_only_once_paperclip_and_its_plugin_are_ready(tmp_path: Path) -> None:
    paperclip = Paperclip(healthy=False, plugins=[])

    def install(self: Paperclip) -> int:
        self.plugins = [{"id": "p1", "pluginKey": PLUGIN, "status": "installed"}]
        return 200

    paperclip.on_install = install
    async with proxy(paperclip, Cluster(), tmp_path) as running:
        await asked(paperclip, "/api/health", 3)
        assert not paperclip.count("GET", "/api/plugins")
        paperclip.healthy = True
        await asked(paperclip, "/api/plugins", 5)
        assert not await running.listens()
        paperclip.plugins[0]["status"] = "ready"
        await running.opened()

        assert await running.request("/echo", b"through") == b"through"
        assert not await reachable("127.0.0.3", running.port)
    assert paperclip.installs == [
        {"packageName": "@paperclipai/plugin-kubernetes", "version": "2026.707.0", "isLocalPath": False}
    ]


async def test_much_goes_through_in_both_directions(tmp_path: Path) -> None:
    body = bytes(range(256)) * 4_000  # more than what a socket holds
    async with proxy(Paperclip(), Cluster(), tmp_path) as running:
        await running.opened()
        answers = await asyncio.gather(*(running.request("/echo", body) for _ in range(4)))

    assert answers == [body] * 4


async def test_a_plugin_that_is_there_is_not_installed_again(tmp_path: Path) -> None:
    paperclip = Paperclip(plugins={"items": [{"id": "p1", "key": PLUGIN, "status": "ready"}]})
    async with proxy(paperclip, Cluster(), tmp_path) as running:
        await running.opened()

    assert not paperclip.installs


@pytest.mark.parametrize("status", ["error", "incompatible"])
async def test_an_installation_that_fails_is_tried_again(tmp_path: Path, status: str) -> None:
    paperclip = Paperclip(plugins=[{"id": "p1", "pluginKey": PLUGIN, "status": status}])

    def install(self: Paperclip) -> int:
        if len(self.installs) < 3:
            return 502
        self.plugins[0]["status"] = "ready"
        return 200

    paperclip.on_install = install
    async with proxy(paperclip, Cluster(), tmp_path) as running:
        await running.opened()

    assert len(paperclip.installs) == 3


async def test_a_failed_installation_waits_before_the_next(tmp_path: Path) -> None:
    paperclip = Paperclip(plugins=[], on_install=lambda _: 502)
    async with proxy(paperclip, Cluster(), tmp_path, {"PAPERCLIP_INSTALL_PAUSE_MS": "600000"}) as running:
        await asked(paperclip, "/api/plugins", 10)
        assert not await running.listens()

    assert len(paperclip.installs) == 1


async def test_a_disabled_plugin_is_enabled_once(tmp_path: Path) -> None:
    paperclip = Paperclip(plugins=[{"id": "p/1", "pluginKey": PLUGIN, "status": "disabled"}])
    async with proxy(paperclip, Cluster(), tmp_path) as running:
        await running.opened()

    assert not paperclip.installs
    assert [path for method, path in paperclip.asked if method == "POST"] == ["/api/plugins/p/1/enable"]


async def test_an_equal_failure_is_told_once_and_shortly(tmp_path: Path) -> None:
    paperclip = Paperclip(healthy=False)
    async with proxy(paperclip, Cluster(), tmp_path) as running:
        await asked(paperclip, "/api/health", 10)

    (line,) = running.lines
    assert "HTTP 503: starting" in line
    assert len(line) < 600


HEARTBEAT_ONLY: Object = {"paperclipSkillSync": {"desiredSkills": [SKILL]}}
BUILT_IN: Object = {"paperclipBuiltInAgent": {"key": "ceo"}}

AGENTS: dict[str, Object] = {
    "no-skill": {"adapterType": "opencode_local", "adapterConfig": {"model": "mine"}},
    "other-skills": {
        "adapterType": "opencode_local",
        "adapterConfig": {"paperclipSkillSync": {"mode": "m", "desiredSkills": ["a"]}},
    },
    "old-paragraph": {
        "adapterType": "opencode_local",
        "adapterConfig": {
            **HEARTBEAT_ONLY,
            "bootstrapPromptTemplate": f"First.\n\n{OLD}\n\n\nSecond,\nlonger.\n\n\n\nThird.",
        },
    },
    "built-in": {"adapterType": "claude_local", "metadata": BUILT_IN, "adapterConfig": {"env": {"A": "***"}}},
    "built-in-with-model": {
        "adapterType": "claude_local",
        "metadata": BUILT_IN,
        "adapterConfig": {"model": "m"},
    },
    "built-in-enabled": {"adapterType": "codex_local", "metadata": BUILT_IN, "adapterConfig": {}},
    "of-somebody": {"adapterType": "claude_local", "metadata": {}, "adapterConfig": {}},
    "without-anything": {"adapterType": "process"},
}


async def test_agents_are_put_in_order_and_then_left_alone(tmp_path: Path) -> None:
    paperclip = Paperclip(
        adapters=[
            {"type": "opencode_local", "disabled": False},
            {"type": "claude_local", "disabled": True},
            {"type": "codex_local", "disabled": False},
        ],
        agents={"c1": [{"id": name, **agent} for name, agent in AGENTS.items()]},
    )
    async with proxy(paperclip, Cluster(), tmp_path) as running:
        await running.opened()
        await rounds(paperclip, 6)

    changed = {agent["id"]: agent for agent in paperclip.agents["c1"]}
    configs = {name: agent.get("adapterConfig", {}) for name, agent in changed.items()}
    assert sorted(name for name, _ in paperclip.patches) == [
        "built-in",
        "no-skill",
        "old-paragraph",
        "other-skills",
    ]
    assert configs["no-skill"]["model"] == "mine"
    assert configs["no-skill"]["paperclipSkillSync"] == {"desiredSkills": [SKILL]}
    assert configs["other-skills"]["paperclipSkillSync"] == {"mode": "m", "desiredSkills": ["a", SKILL]}
    assert configs["built-in"]["model"] == "litellm/qwen"
    assert changed["built-in"]["adapterType"] == "opencode_local"
    for name in ("no-skill", "other-skills", "old-paragraph", "built-in"):
        prompt = configs[name]["bootstrapPromptTemplate"]
        assert prompt.startswith(MARKER)
        assert prompt.count("[MagicStick Paperclip heartbeat") == 1
        assert all(text in prompt for text in ('skill "paperclip"', "$PAPERCLIP_API_URL", "disposition"))
    rest = configs["old-paragraph"]["bootstrapPromptTemplate"].split("\n\n", 1)[1]
    assert rest == "First.\n\nSecond,\nlonger.\n\n\n\nThird."
    assert {name: changed[name] for name in AGENTS if name not in dict(paperclip.patches)} == {
        name: {"id": name, **agent} for name, agent in AGENTS.items() if name not in dict(paperclip.patches)
    }


async def test_a_change_holds_only_what_changed(tmp_path: Path) -> None:
    """What Paperclip shows of an agent's environment is redacted, and must not be sent back."""
    paperclip = Paperclip(
        adapters=[{"type": "opencode_local"}, {"type": "claude_local", "enabled": False}],
        agents={"c1": {"items": [{"id": "built-in", **AGENTS["built-in"]}]}},
    )
    async with proxy(paperclip, Cluster(), tmp_path) as running:
        await running.opened()

    ((_, body),) = paperclip.patches
    assert set(body) == {"adapterType", "adapterConfig"}
    assert set(body["adapterConfig"]) == {"model", "paperclipSkillSync", "bootstrapPromptTemplate"}


@pytest.mark.parametrize("model", ["", "litellm/CHANGEME_MODEL"])
async def test_without_a_model_agents_are_left_alone(tmp_path: Path, model: str) -> None:
    paperclip = Paperclip(agents={"c1": [{"id": "a", **AGENTS["no-skill"]}]})
    async with proxy(paperclip, Cluster(), tmp_path, {"PAPERCLIP_DEFAULT_OPENCODE_MODEL": model}) as running:
        await running.opened()
        await rounds(paperclip)

    assert not paperclip.patches


@pytest.mark.parametrize(
    "adapters", [[], [{"type": "opencode_local", "disabled": True}], [{"type": "codex_local"}]]
)
async def test_without_the_adapter_agents_are_left_alone(tmp_path: Path, adapters: list[Object]) -> None:
    paperclip = Paperclip(adapters=adapters, agents={"c1": [{"id": "a", **AGENTS["no-skill"]}]})
    async with proxy(paperclip, Cluster(), tmp_path) as running:
        await running.opened()
        await rounds(paperclip)

    assert not paperclip.patches


def ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def sandbox(name: str, run: str | None, **metadata: Any) -> Object:
    labels = {"paperclip.io/managed-by": "paperclip-k8s-plugin"} | (
        {"paperclip.io/run-id": run} if run else {}
    )
    return {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": labels, **metadata}}


TERMINAL = ["succeeded", "completed", "failed", "cancelled", "interrupted", "timed_out", "timeout"]


@pytest.mark.parametrize("shape", [None, "items", "runs"])
async def test_only_sandboxes_of_runs_that_ended_long_enough_ago_go(
    tmp_path: Path, shape: str | None
) -> None:
    runs = [{"id": status, "status": status, "finishedAt": ago(61)} for status in TERMINAL] + [
        {"id": "just", "status": "succeeded", "finishedAt": ago(5)},
        {"id": "running", "status": "running", "finishedAt": ago(600)},
        {"id": "unfinished", "status": "failed", "finishedAt": None},
        {"id": "unparsable", "status": "failed", "finishedAt": "yesterday"},
        {"id": "odd", "status": "mysterious", "finishedAt": ago(600)},
        {"id": "going", "status": "failed", "finishedAt": ago(600)},
    ]
    kept = ["just", "running", "unfinished", "unparsable", "odd", "unknown"]
    cluster = Cluster(
        {
            "paperclip-demo-c1": [
                *(sandbox(f"s-{run}", run) for run in [*TERMINAL, *kept]),
                sandbox("s-none", None),
                sandbox("s-going", "going", deletionTimestamp=ago(1)),
            ],
            "paperclip-demo-c2": [sandbox("s-other", "succeeded")],
            "other-c1": [sandbox("s-foreign", "succeeded")],
        }
    )
    paperclip = Paperclip(runs={"c1": runs if shape is None else {shape: runs}, "c2": [], "C3/..": runs})
    async with proxy(paperclip, cluster, tmp_path) as running:
        await running.opened()
        await rounds(paperclip)

    assert sorted(cluster.deleted) == sorted(
        (f"paperclip-demo-c1/s-{status}", {"preconditions": {"uid": f"uid-s-{status}"}})
        for status in TERMINAL
    )
    assert {method for method, _ in cluster.asked} == {"GET", "DELETE"}
    lists = {path for method, path in cluster.asked if method == "GET"}
    assert lists == {
        f"/apis/agents.x-k8s.io/v1alpha1/namespaces/paperclip-demo-{company}/sandboxes"
        "?labelSelector=paperclip.io%2Fmanaged-by%3Dpaperclip-k8s-plugin"
        for company in ("c1", "c2")
    }


@pytest.mark.parametrize("runs", [{"error": "x"}, "text", {"items": None}, [{"padding": "x" * (1 << 20)}]])
async def test_runs_that_cannot_be_read_are_no_ended_runs(tmp_path: Path, runs: Any) -> None:
    cluster = Cluster({"paperclip-demo-c1": [sandbox("s", "r")]})
    paperclip = Paperclip(runs={"c1": runs})
    async with proxy(paperclip, cluster, tmp_path) as running:
        await running.opened()
        await rounds(paperclip)

    assert not cluster.deleted
    assert any(line.startswith("gateway-loopback-proxy: sandboxes: ") for line in running.lines)


async def test_a_cluster_that_refuses_does_not_keep_paperclip_closed(tmp_path: Path) -> None:
    cluster = Cluster({"paperclip-demo-c1": []}, status=403)
    async with proxy(Paperclip(runs={"c1": []}), cluster, tmp_path) as running:
        await running.opened()

    assert any("HTTP 403" in line for line in running.lines)
    assert not any("token-of-the-pod" in line for line in running.lines)


@pytest.mark.parametrize("name", ["", "Upper", "a/b", "x" * 64])
async def test_without_a_legal_name_no_sandbox_is_asked_for(tmp_path: Path, name: str) -> None:
    cluster = Cluster({"paperclip-demo-c1": []})
    paperclip = Paperclip(runs={"c1": []})
    async with proxy(paperclip, cluster, tmp_path, {"PAPERCLIP_INSTANCE_NAME": name}) as running:
        await running.opened()
        await rounds(paperclip)

    assert not cluster.asked


async def test_an_outage_afterwards_is_told_and_survived(tmp_path: Path) -> None:
    paperclip = Paperclip()
    async with proxy(paperclip, Cluster(), tmp_path) as running:
        await running.opened()
        paperclip.healthy = False
        before = len(paperclip.asked)
        await until("some more requests", lambda: more_than(paperclip, before + 4), deadline_s=DEADLINE_S)

        assert await running.request("/echo", b"still") == b"still"
    assert any("agents: GET /api/adapters: HTTP 503" in line for line in running.lines)


async def test_an_address_that_is_taken_ends_it(tmp_path: Path) -> None:
    paperclip = Paperclip(healthy=False)
    async with proxy(paperclip, Cluster(), tmp_path) as running:
        with socket.create_server((POD_IP, running.port)):
            paperclip.healthy = True
            assert await asyncio.wait_for(running.process.wait(), DEADLINE_S) == 1


@pytest.mark.parametrize("address", ["", "not-an-address"])
async def test_without_the_pods_address_it_does_not_start(tmp_path: Path, address: str) -> None:
    async with proxy(Paperclip(), Cluster(), tmp_path, {"POD_IP": address}) as running:
        assert await asyncio.wait_for(running.process.wait(), DEADLINE_S) == 1


async def asked(paperclip: Paperclip, path: str, times: int) -> None:
    async def enough() -> bool:
        return paperclip.count("GET", path) >= times

    await until(f"GET {path} {times} times", enough, deadline_s=DEADLINE_S)


async def more_than(paperclip: Paperclip, count: int) -> bool:
    return len(paperclip.asked) > count
