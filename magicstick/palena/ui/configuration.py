"""From a UI and its surroundings to the text of `librechat.yaml` (spec: palena §6.4, §6.5).

A gateway that is away, and content that cannot be merged, leave the last text as it is.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from magicstick.api.palena.ui import PalenaUISpec
from magicstick.kube.kinds import CONFIG_MAP
from magicstick.palena.common.addresses import mcp_url
from magicstick.palena.common.references import REF_NOT_PERMITTED
from magicstick.palena.common.verdicts import Verdict, absent, failed, waiting
from magicstick.palena.ui.gateway_key import CONFIG_GENERATED, WAITING_FOR_GATEWAY
from magicstick.palena.ui.librechat import Chat, McpEntry, UnmergeableError, render
from magicstick.palena.ui.objects import FILE
from magicstick.palena.ui.observation import FoundServer, UiObservation

MCP_SERVER_NOT_FOUND: Final = "MCPServerNotFound"
INVALID_CONFIG: Final = "InvalidConfig"
TIMEOUT_MS: Final = 120_000


@dataclass(frozen=True, slots=True)
class Configuration:
    """The text that LibreChat gets, and what is wrong with it."""

    text: str = ""
    """"" while there never was one."""
    verdict: Verdict | None = None
    """Why it is not what was asked for; None when it is."""


def configured(o: UiObservation, spec: PalenaUISpec) -> Configuration:
    """The configuration for the gateway as it is, or else the last one."""
    base_url = gateway_url(o)
    if not base_url:
        last = _last(o)
        message = "waits for the gateway to say where it is"
        return Configuration(last, None if last else waiting(CONFIG_GENERATED, WAITING_FOR_GATEWAY, message))
    chat = Chat(
        version=spec.config_version,
        endpoint=spec.endpoint_name,
        base_url=base_url,
        models=spec.models.default or o.models,
        fetch=spec.models.fetch,
        title_model=spec.models.title_model,
        servers=tuple(mcp_entry(each, o.domain) for each in o.servers if each.usable),
        extra=spec.config,
    )
    try:
        return Configuration(render(chat), _missing(o))
    except UnmergeableError as error:
        return Configuration(_last(o), failed(CONFIG_GENERATED, INVALID_CONFIG, str(error)))


def gateway_url(o: UiObservation) -> str:
    """Where LibreChat finds the gateway's API, by a name that holds in every namespace; "" if unknown."""
    if o.gateway.live is None or not o.gateway.permitted or not o.gateway.endpoint:
        return ""
    parts = urlsplit(o.gateway.endpoint)
    host = parts.hostname or ""
    full = f"{host}.{o.domain}" if host.endswith(".svc") else host
    return f"{parts.scheme}://{full}:{parts.port}/v1" if parts.port else f"{parts.scheme}://{full}/v1"


def mcp_entry(server: FoundServer, domain: str) -> McpEntry:
    """The entry of an MCP server; its address is known as soon as it exists."""
    target, reference = server.target, server.reference
    url = mcp_url(target.name, target.namespace, server.port, domain)
    return McpEntry(reference.key, url, urlsplit(url).netloc, reference.timeout_ms or TIMEOUT_MS)


def _missing(o: UiObservation) -> Verdict | None:
    """Referred MCP servers that have no entry; the others are offered all the same."""
    refused = [_place(each) for each in o.servers if each.target.live is not None and not each.usable]
    if refused:
        message = f"may not be used from namespace {o.namespace}: {', '.join(refused)}"
        return failed(CONFIG_GENERATED, REF_NOT_PERMITTED, message)
    missing = [_place(each) for each in o.servers if each.target.live is None]
    if missing:
        message = f"PalenaMCPServer not found: {', '.join(missing)}; the others are registered"
        return absent(CONFIG_GENERATED, MCP_SERVER_NOT_FOUND, message, degrades=True)
    return None


def _place(server: FoundServer) -> str:
    return f"{server.target.namespace}/{server.target.name}"


def _last(o: UiObservation) -> str:
    live = o.ours(CONFIG_MAP, o.names.configuration)
    return "" if live is None else live.data.get(FILE, "")
