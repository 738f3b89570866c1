"""A Paperclip and an API server as the proxy's script sees them, and the script as a process beside them."""

import asyncio
import os
import re
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from aiohttp import ClientSession, web

from tests.charts.rendering import CHARTS, Object
from tests.support.polling import until

SCRIPT: Final = CHARTS / "paperclip/files/gateway-loopback-proxy.mjs"
POD_IP: Final = "127.0.0.2"
"""Another address of loopback, so that the script and Paperclip can have the same port."""
PLUGIN: Final = "paperclip.kubernetes-sandbox-provider"
DEADLINE_S: Final = 20.0


@dataclass
class Paperclip:
    """What Paperclip holds, and what it was asked to do."""

    healthy: bool = True
    plugins: Any = field(default_factory=lambda: [{"id": "p1", "pluginKey": PLUGIN, "status": "ready"}])
    adapters: Any = field(default_factory=lambda: [{"type": "opencode_local", "disabled": False}])
    agents: dict[str, Any] = field(default_factory=dict)
    runs: dict[str, Any] = field(default_factory=dict)
    on_install: Callable[["Paperclip"], int] = lambda _: 200
    asked: list[tuple[str, str]] = field(default_factory=list)
    installs: list[Any] = field(default_factory=list)
    patches: list[tuple[str, Any]] = field(default_factory=list)

    def count(self, method: str, path: str) -> int:
        """How often it was asked for exactly this."""
        return self.asked.count((method, path))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answers one request."""
        self.asked.append((request.method, request.path))
        if request.path == "/echo":
            return web.Response(body=await request.read())
        if not self.healthy:
            return web.Response(status=503, text="starting " + "x" * 1000)
        body = await request.json() if request.can_read_body else None
        parts = [unquote(part) for part in request.raw_path.split("/")[2:]]
        if request.method == "GET":
            return web.json_response(self._shown(parts))
        self._change(request.method, parts, body)
        return web.json_response({})

    def _shown(self, parts: list[str]) -> Any:
        match parts:
            case ["health"]:
                return {"status": "ok"}
            case ["plugins" | "adapters" as kind]:
                return getattr(self, kind)
            case ["companies"]:
                return [{"id": name} for name in dict.fromkeys([*self.agents, *self.runs])]
            case ["companies", name, "agents"]:
                return self.agents.get(name, [])
            case ["companies", name, "heartbeat-runs"]:
                return self.runs.get(name, [])
        raise web.HTTPNotFound

    def _change(self, method: str, parts: list[str], body: Any) -> None:
        match method, parts:
            case "POST", ["plugins", "install"]:
                self.installs.append(body)
                if self.on_install(self) != 200:
                    raise web.HTTPBadGateway(text="registry away")
            case "POST", ["plugins", name, "enable"]:
                (plugin,) = [each for each in self.plugins if each["id"] == name]
                plugin["status"] = "ready"
            case "PATCH", ["agents", name]:
                self.patches.append((name, body))
                self._merge(name, body)
            case _:
                raise web.HTTPNotFound

    def _merge(self, name: str, body: Any) -> None:
        """As Paperclip does: keys of a configuration that are not sent stay."""
        agents = [
            each
            for found in self.agents.values()
            for each in (found if isinstance(found, list) else found["items"])
        ]
        (agent,) = [each for each in agents if each["id"] == name]
        config = {**agent.get("adapterConfig", {}), **body.get("adapterConfig", {})}
        agent |= {**body, "adapterConfig": config}


@dataclass
class Cluster:
    """The Sandboxes of an API server, by namespace."""

    sandboxes: dict[str, list[Object]] = field(default_factory=dict)
    status: int = 200
    asked: list[tuple[str, str]] = field(default_factory=list)
    deleted: list[tuple[str, Any]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answers one request; a namespace without Sandboxes stands for a kind that is not there."""
        self.asked.append((request.method, request.path_qs))
        assert request.headers["authorization"] == "Bearer token-of-the-pod"
        found = re.fullmatch(
            r"/apis/agents\.x-k8s\.io/v1alpha1/namespaces/([^/]+)/sandboxes(?:/(.+))?", request.path
        )
        if found is None or found[1] not in self.sandboxes:
            return web.json_response({}, status=404)
        if self.status != 200:
            return web.json_response({"message": "no"}, status=self.status)
        if request.method == "DELETE":
            self.deleted.append((f"{found[1]}/{found[2]}", await request.json()))
            self.sandboxes[found[1]] = [
                each for each in self.sandboxes[found[1]] if each["metadata"]["name"] != found[2]
            ]
        return web.json_response({"items": self.sandboxes[found[1]]})


class Proxy:
    """The script as a process."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process = process
        self.port = port
        self.lines: list[str] = []

    async def opened(self) -> None:
        """Waits until the gateway would get through."""
        await until("the proxy listens", self.listens, deadline_s=DEADLINE_S)

    async def listens(self) -> bool:
        """Whether somebody listens on the Pod's address."""
        return await reachable(POD_IP, self.port)

    async def request(self, path: str, body: bytes) -> bytes:
        """The answer to a request that goes through."""
        url = f"http://{POD_IP}:{self.port}{path}"
        async with ClientSession() as session, session.post(url, data=body) as response:
            return await response.read()

    async def follow(self) -> None:
        """Collects what it writes until it ends."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.lines.append(line.decode().rstrip())


@asynccontextmanager
async def proxy(
    paperclip: Paperclip, cluster: Cluster, folder: Path, environ: Mapping[str, str] | None = None
) -> AsyncIterator[Proxy]:
    """The script beside these two; ends it, and checks that it ended by our signal or by itself."""
    (folder / "token").write_text("token-of-the-pod\n")
    (folder / "ca.crt").write_text("")
    port = free_port()
    async with served(paperclip.handle, port), served(cluster.handle, api := free_port()):
        given = {
            "PATH": os.environ["PATH"],
            "POD_IP": POD_IP,
            "PAPERCLIP_GATEWAY_PORT": str(port),
            "KUBERNETES_API_URL": f"http://127.0.0.1:{api}",
            "KUBERNETES_SERVICE_ACCOUNT": str(folder),
            "PAPERCLIP_DEFAULT_OPENCODE_MODEL": "litellm/qwen",
            "PAPERCLIP_INSTANCE_NAME": "paperclip-demo",
            "PAPERCLIP_BOOTSTRAP_RETRY_MS": "20",
            "PAPERCLIP_RECONCILE_MS": "50",
            "PAPERCLIP_INSTALL_PAUSE_MS": "20",
            **(environ or {}),
        }
        process = await asyncio.create_subprocess_exec(
            "node", "--input-type=module", "--eval", SCRIPT.read_text(),
            env=given, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        running = Proxy(process, port)
        follower = asyncio.create_task(running.follow())
        try:
            yield running
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()
            await follower


@asynccontextmanager
async def served(handle: Callable[[web.Request], Any], port: int) -> AsyncIterator[None]:
    """An HTTP server on loopback."""
    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield
    finally:
        await runner.cleanup()


async def reachable(host: str, port: int) -> bool:
    """Whether somebody accepts connections there."""
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True


def free_port() -> int:
    """A port that nobody has on any address of loopback."""
    with socket.socket() as probe:
        probe.bind(("0.0.0.0", 0))  # noqa: S104 - the script needs it on two addresses
        port: int = probe.getsockname()[1]
        return port
