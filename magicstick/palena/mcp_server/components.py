"""The parts of an MCP server: what each runs, where it listens, how its health is told.

(spec: palena §8.1)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from magicstick.api.palena.mcp_server import PalenaMCPServerSpec, PresidioPart, Sidecars
from magicstick.palena.common.workloads import plain_env, secret_env
from magicstick.palena.mcp_server import searxng

Object = dict[str, Any]
Amounts = Mapping[str, str]

SERVER: Final = "websearch-mcp"
SERVER_PORT: Final = 8080
SERVER_REQUESTS: Final[Amounts] = {"cpu": "100m", "memory": "128Mi"}
SERVER_LIMITS: Final[Amounts] = {"cpu": "500m", "memory": "256Mi"}

SEARXNG: Final = "searxng"
CHROMIUM: Final = "chromium"
ANALYZER: Final = "presidio-analyzer"
ANONYMIZER: Final = "presidio-anonymizer"
FLASHRANK: Final = "flashrank"
INJECTION_GUARD: Final = "injection-guard"
SIDECARS: Final = (SEARXNG, CHROMIUM, ANALYZER, ANONYMIZER, FLASHRANK, INJECTION_GUARD)
"""In the order in which they are made and reported."""

SEARXNG_KEY: Final = "SEARXNG_SECRET"
"""The variable, and the key of the Secret, from which SearXNG takes what it signs with."""
PLAYWRIGHT: Final = "1.57.0"
"""The version of the driver in the server's image; the browser's has to be the same."""
_IMAGES: Final[Mapping[str, str]] = {
    "playwright": f"mcr.microsoft.com/playwright:v{PLAYWRIGHT}-jammy",
    "cdp": "browserless/chromium:latest",
    ANALYZER: "mcr.microsoft.com/presidio-analyzer:latest",
    ANONYMIZER: "mcr.microsoft.com/presidio-anonymizer:latest",
}


@dataclass(frozen=True, slots=True)
class Nature:
    """What is the same for a sidecar of every MCP server."""

    port: int
    requests: Amounts
    limits: Amounts
    scheme: str = "http"
    health: str = "/health"
    """Path of the health check; "" for one that only connects."""
    ready_after_s: int = 5
    alive_after_s: int = 30


NATURES: Final[Mapping[str, Nature]] = {
    SEARXNG: Nature(
        port=searxng.PORT,
        health="/healthz",
        requests={"cpu": "100m", "memory": "256Mi"},
        limits={"cpu": "500m", "memory": "512Mi"},
    ),
    CHROMIUM: Nature(
        port=3000,
        scheme="ws",
        health="",
        requests={"cpu": "500m", "memory": "1Gi"},
        limits={"cpu": "2", "memory": "2Gi"},
    ),
    # The published amounts are half of what the analyzer takes once its model is loaded.
    ANALYZER: Nature(
        port=5002,
        ready_after_s=30,
        alive_after_s=60,
        requests={"cpu": "200m", "memory": "1Gi"},
        limits={"cpu": "1", "memory": "2Gi"},
    ),
    ANONYMIZER: Nature(
        port=5001,
        requests={"cpu": "100m", "memory": "256Mi"},
        limits={"cpu": "500m", "memory": "512Mi"},
    ),
    FLASHRANK: Nature(
        port=8080,
        ready_after_s=15,
        requests={"cpu": "500m", "memory": "512Mi"},
        limits={"cpu": "2", "memory": "1Gi"},
    ),
    # It downloads its model before it answers.
    INJECTION_GUARD: Nature(
        port=8080,
        ready_after_s=30,
        alive_after_s=300,
        requests={"cpu": "500m", "memory": "1Gi"},
        limits={"cpu": "2", "memory": "2Gi"},
    ),
}


@dataclass(frozen=True, slots=True)
class Sidecar:
    """One sidecar of one MCP server, as its user wants it."""

    name: str
    enabled: bool
    external_url: str
    """Where somebody else runs it; "" where we do."""
    image: str
    resources: Mapping[str, Any]
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[Object, ...] = ()
    scratch: str = ""
    """A folder that it writes to, beside what its image has."""

    @property
    def nature(self) -> Nature:
        """What is the same for all of its kind."""
        return NATURES[self.name]

    @property
    def ours(self) -> bool:
        """Whether we run it."""
        return self.enabled and not self.external_url


def sidecars(spec: PalenaMCPServerSpec, secret: str) -> tuple[Sidecar, ...]:
    """All sidecars, in the order of `SIDECARS`; `secret` holds what SearXNG signs with."""
    wanted = spec.sidecars
    return (
        Sidecar(
            SEARXNG,
            enabled=True,
            external_url=wanted.searxng.external_url or "",
            image=wanted.searxng.image,
            resources=wanted.searxng.resources,
            env=(secret_env(SEARXNG_KEY, secret, SEARXNG_KEY),),
        ),
        _chromium(wanted),
        _presidio(ANALYZER, wanted, wanted.presidio.analyzer),
        _presidio(ANONYMIZER, wanted, wanted.presidio.anonymizer),
        Sidecar(
            FLASHRANK,
            enabled=wanted.flashrank.enabled,
            external_url=wanted.flashrank.external_url or "",
            image=wanted.flashrank.image,
            resources=wanted.flashrank.resources,
            env=tuple(
                plain_env({"FLASHRANK_MODEL": wanted.flashrank.model, "PORT": str(NATURES[FLASHRANK].port)})
            ),
        ),
        Sidecar(
            INJECTION_GUARD,
            enabled=wanted.injection_guard.enabled,
            external_url=wanted.injection_guard.external_url or "",
            image=wanted.injection_guard.image,
            resources=wanted.injection_guard.resources,
            args=(
                "--model-id",
                wanted.injection_guard.model,
                "--port",
                str(NATURES[INJECTION_GUARD].port),
            ),
            scratch="/data",
        ),
    )


def _chromium(wanted: Sidecars) -> Sidecar:
    """A Playwright server, or a browser that speaks the DevTools protocol for servers older than 0.9."""
    chosen, port = wanted.chromium, NATURES[CHROMIUM].port
    playwright = chosen.engine == "playwright"
    start = f"npx -y playwright@{PLAYWRIGHT} run-server --port {port} --host 0.0.0.0"
    settings = {"HOME": "/tmp"} if playwright else {"MAX_CONCURRENT_SESSIONS": "3", "TIMEOUT": "30000"}  # noqa: S108 - the container's own
    return Sidecar(
        CHROMIUM,
        enabled=chosen.enabled,
        external_url=chosen.external_url or "",
        image=chosen.image or _IMAGES[chosen.engine],
        resources=chosen.resources,
        command=("/bin/sh", "-c", f"exec {start}") if playwright else (),
        env=tuple(plain_env(settings)),
    )


def _presidio(name: str, wanted: Sidecars, part: PresidioPart) -> Sidecar:
    """Its images listen on port 3000 unless they are told otherwise in `PORT`."""
    return Sidecar(
        name,
        enabled=wanted.presidio.enabled,
        external_url=part.external_url or "",
        image=part.image or _IMAGES[name],
        resources=part.resources,
        env=tuple(plain_env({"PORT": str(NATURES[name].port)})),
    )
