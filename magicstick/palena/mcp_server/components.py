"""The parts of an MCP server: what each runs, where it listens, and how its health is told (spec: palena §8.1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

SEARXNG: Final = "searxng"
CHROMIUM: Final = "chromium"
ANALYZER: Final = "presidio-analyzer"
ANONYMIZER: Final = "presidio-anonymizer"
FLASHRANK: Final = "flashrank"
INJECTION_GUARD: Final = "injection-guard"
SIDECARS: Final = (SEARXNG, CHROMIUM, ANALYZER, ANONYMIZER, FLASHRANK, INJECTION_GUARD)
"""In the order in which they are made and reported."""

SERVER: Final = "websearch-mcp"
SERVER_IMAGE: Final = "ghcr.io/palenaai/palena-websearch-mcp:0.9.1"
SERVER_PORT: Final = 8080
SERVER_UID: Final = 10001

Amounts = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Component:
    """One sidecar as it runs unless its user says otherwise."""

    image: str
    port: int
    requests: Amounts
    limits: Amounts
    health: str = "/health"
    """Path of the health check; "" for one that only connects."""
    ready_after_s: int = 5
    alive_after_s: int = 30


COMPONENTS: Final[Mapping[str, Component]] = {
    SEARXNG: Component(
        image="searxng/searxng:latest",
        port=8080,
        health="/healthz",
        requests={"cpu": "100m", "memory": "256Mi"},
        limits={"cpu": "500m", "memory": "512Mi"},
    ),
    CHROMIUM: Component(
        image="mcr.microsoft.com/playwright:v1.57.0-jammy",
        port=3000,
        health="",
        requests={"cpu": "500m", "memory": "1Gi"},
        limits={"cpu": "2", "memory": "2Gi"},
    ),
    # The published amounts are half of what the analyzer takes once its model is loaded.
    ANALYZER: Component(
        image="mcr.microsoft.com/presidio-analyzer:latest",
        port=5002,
        ready_after_s=30,
        alive_after_s=60,
        requests={"cpu": "200m", "memory": "1Gi"},
        limits={"cpu": "1", "memory": "2Gi"},
    ),
    ANONYMIZER: Component(
        image="mcr.microsoft.com/presidio-anonymizer:latest",
        port=5001,
        requests={"cpu": "100m", "memory": "256Mi"},
        limits={"cpu": "500m", "memory": "512Mi"},
    ),
    FLASHRANK: Component(
        image="ghcr.io/palenaai/palena-flashrank:0.9.1",
        port=8080,
        ready_after_s=15,
        requests={"cpu": "500m", "memory": "512Mi"},
        limits={"cpu": "2", "memory": "1Gi"},
    ),
    # It loads a model from the network before it answers.
    INJECTION_GUARD: Component(
        image="ghcr.io/huggingface/text-embeddings-inference:cpu-1.9",
        port=8080,
        ready_after_s=30,
        alive_after_s=120,
        requests={"cpu": "500m", "memory": "1Gi"},
        limits={"cpu": "2", "memory": "2Gi"},
    ),
}

CDP_IMAGE: Final = "browserless/chromium:latest"
"""The browser of servers older than 0.9, which speak the DevTools protocol."""

SERVER_REQUESTS: Final[Amounts] = {"cpu": "100m", "memory": "128Mi"}
SERVER_LIMITS: Final[Amounts] = {"cpu": "500m", "memory": "256Mi"}
