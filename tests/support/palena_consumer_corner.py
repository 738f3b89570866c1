"""What is done and reported around chats, tool servers and observabilities in a corner of a real server."""

import base64
import copy
from typing import Any, Final

from tests.support.palena_consumers import mcp_server, observability, ui
from tests.support.palena_corner import DEFINITIONS, PalenaCorner
from tests.support.palena_objects import GATEWAY
from tests.support.polling import until

UIS, SERVERS, TRACES = "palenauis", "palenamcpservers", "palenaobservabilities"
PUBLIC: Final = frozenset({"MONGO_ROOT_USERNAME", "username", "host", "port", "LANGFUSE_HOST"})
LITELLM = f"{GATEWAY}-palena-litellm"


async def make(corner: PalenaCorner, plural: str, body: dict[str, Any]) -> None:
    """A user makes or changes an object, or its own controller one of a foreign kind."""
    name = body["metadata"]["name"]
    await corner.client.apply(f"{corner.path(plural)}/{name}", body, manager="user")


async def chat(corner: PalenaCorner, **spec: Any) -> None:
    await make(corner, UIS, ui(namespace=corner.namespace, **spec))


async def tools(corner: PalenaCorner, **spec: Any) -> None:
    await make(corner, SERVERS, mcp_server(namespace=corner.namespace, **spec))


async def traces(corner: PalenaCorner, **spec: Any) -> None:
    await corner.secret("s3-keys", {"access": "a", "secret": "b"})
    await make(corner, TRACES, observability(namespace=corner.namespace, **spec))


async def workloads_ready(corner: PalenaCorner, *names: str, plural: str = "deployments") -> None:
    """The controller of workloads reports that they are ready as they are wanted now."""
    for name in names:
        live = await corner.until_there(plural, name)
        status = {
            "observedGeneration": live["metadata"]["generation"],
            "replicas": 1,
            "readyReplicas": 1,
        }
        await corner.report(plural, name, status)


async def stores_ready(corner: PalenaCorner) -> None:
    """MongoDB and MeiliSearch of the chat are ready."""
    await workloads_ready(corner, "chat-mongodb", plural="statefulsets")
    await workloads_ready(corner, "chat-meilisearch")


async def key_minted(corner: PalenaCorner, value: str = "sk-minted") -> None:
    """LiteLLM's operator mints the chat's key."""
    await corner.until_there("litellmvirtualkeys", "chat-librechat")
    await corner.secret("chat-librechat-gateway-key", {"api-key": value})


async def chat_ready(corner: PalenaCorner) -> None:
    """Everything of the chat becomes ready; returns once it runs."""
    await stores_ready(corner)
    await key_minted(corner)
    await workloads_ready(corner, "chat-librechat")
    await corner.until_phase(UIS, "chat", "Running")


async def tools_ready(corner: PalenaCorner) -> None:
    """SearXNG first, then the other sidecars and the server; returns once it runs."""
    await workloads_ready(corner, "websearch-searxng")
    parts = ("chromium", "presidio-analyzer", "presidio-anonymizer", "flashrank")
    await workloads_ready(corner, *(f"websearch-{each}" for each in parts), "websearch")
    await corner.until_phase(SERVERS, "websearch", "Running")


async def database_applied(corner: PalenaCorner) -> None:
    """CloudNativePG has made Langfuse's database."""
    live = await corner.until_there("databases", "obs-langfuse")
    status = {"applied": True, "observedGeneration": live["metadata"]["generation"]}
    await corner.report("databases", "obs-langfuse", status)


async def langfuse_ready(corner: PalenaCorner, *, ready: bool = True) -> None:
    """Langfuse's operator reports."""
    await corner.until_there("langfuseinstances", "obs-langfuse")
    status = {"phase": "Running" if ready else "Degraded", "ready": ready}
    await corner.report("langfuseinstances", "obs-langfuse", status)


async def traces_ready(corner: PalenaCorner) -> None:
    """Everything of the observability becomes ready; returns once it runs."""
    await database_applied(corner)
    await langfuse_ready(corner)
    await corner.until_phase(TRACES, "obs", "Running")


def callbacks(corner: PalenaCorner) -> Any:
    """The callback block of the gateway's LiteLLM; None where there is none."""
    return copy.deepcopy(corner.must("litellminstances", LITELLM)["spec"].get("callbacks"))


async def serve(corner: PalenaCorner, definition: dict[str, Any], plural: str) -> None:
    """A definition comes, or another one of its name; returns once the server serves its objects."""
    await corner.client.apply(f"{DEFINITIONS}/{definition['metadata']['name']}", definition)

    async def served() -> bool:
        return await corner.client.find(corner.path(plural)) is not None

    await until(f"{plural} are served", served, deadline_s=60)


def hidden(corner: PalenaCorner, *names: str) -> set[str]:
    """What must be read nowhere but in these Secrets: their values as they are stored and as they are meant.

    Names and addresses without a password are no secret.
    """
    found: set[str] = set()
    for name in names:
        for key, stored in corner.must("secrets", name)["data"].items():
            if key not in PUBLIC:
                found |= {stored, base64.b64decode(stored).decode()}
    return found
