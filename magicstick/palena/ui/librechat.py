"""`librechat.yaml`: what LibreChat is told of its gateway and its MCP servers (spec: palena §6.3, §6.4).

Rendering is deterministic: the same meaning gives the same text, whatever order its keys were written in,
so that the hash of the text changes exactly when the configuration does.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import JsonValue

from magicstick.palena.common.yaml_text import yaml_text

Config = dict[str, Any]

API_KEY: Final = "LITELLM_API_KEY"
"""The environment variable from which LibreChat takes the gateway's key."""
NO_MODEL: Final = "default"
"""LibreChat asks for at least one model, also where none is known yet."""


@dataclass(frozen=True, slots=True)
class McpEntry:
    """One MCP server as LibreChat sees it: its key in `mcpServers`, its URL, and the address in it."""

    key: str
    url: str
    address: str
    """`host:port`, exactly as it stands in the URL: LibreChat compares the texts."""
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Chat:
    """Everything that the file is made from."""

    version: str
    endpoint: str
    """Name of the generated endpoint."""
    base_url: str
    models: tuple[str, ...]
    """Models that are offered before any were fetched; none stands for `NO_MODEL`."""
    fetch: bool
    title_model: str
    """Writes titles; "" for the first model."""
    servers: tuple[McpEntry, ...]
    extra: Mapping[str, JsonValue]
    """Whatever else the user wants in the file."""


class UnmergeableError(ValueError):
    """The user's content has another type where ours goes; the message names the field and the type."""


def render(chat: Chat) -> str:
    """The text of the file.

    The user's content stands wherever we have nothing to say. Ours wins for the generated endpoint, for the
    entries of referenced MCP servers, and for their addresses; lists of the user are kept behind ours.
    An unknown key is passed on as it is: LibreChat refuses it itself, and says so (spec: palena §13 fact 20).

    Raises:
        UnmergeableError: something that we add to is no map, or no list.
    """
    merged: Config = {"version": chat.version, "cache": True, **copy.deepcopy(dict(chat.extra))}
    endpoints = _map(merged, "endpoints")
    endpoints["custom"] = _endpoints(chat, _list(endpoints, "endpoints.custom"))
    if chat.servers:
        _add_servers(merged, chat.servers)
    elif "mcpServers" in merged:
        _map(merged, "mcpServers")
    return yaml_text(merged)


def _endpoints(chat: Chat, given: Sequence[Any]) -> list[Any]:
    """Ours first; one of the user's that has its name could never be told apart from it."""
    models = list(chat.models or (NO_MODEL,))
    ours = {
        "name": chat.endpoint,
        "apiKey": f"${{{API_KEY}}}",
        "baseURL": chat.base_url,
        "models": {"default": models, "fetch": chat.fetch},
        "titleConvo": True,
        "titleModel": chat.title_model or models[0],
        "modelDisplayLabel": chat.endpoint,
    }
    others = [each for each in given if not (isinstance(each, Mapping) and each.get("name") == chat.endpoint)]
    return [ours, *others]


def _add_servers(merged: Config, servers: Sequence[McpEntry]) -> None:
    """LibreChat reaches no address of the cluster that is not listed.

    A whitelist of domains makes it ignore the list of exempted addresses, so ours go where it looks.
    """
    registered = _map(merged, "mcpServers")
    for each in servers:
        registered[each.key] = {"type": "streamable-http", "url": each.url, "timeout": each.timeout_ms}
    settings = _map(merged, "mcpSettings")
    if "allowedDomains" in settings:
        given = _list(settings, "mcpSettings.allowedDomains")
        settings["allowedDomains"] = _joined([each.url for each in servers], given)
    else:
        given = _list(settings, "mcpSettings.allowedAddresses")
        settings["allowedAddresses"] = _joined([each.address for each in servers], given)


def _joined(ours: Sequence[str], given: Sequence[Any]) -> list[Any]:
    return [*ours, *(each for each in given if each not in ours)]


def _map(parent: Config, path: str) -> Config:
    """The map at the last step of `path` in `parent`, made where there is none."""
    found = parent.setdefault(path.rpartition(".")[2], {})
    if not isinstance(found, dict):
        raise UnmergeableError(f"spec.config.{path} must be an object")
    return found


def _list(parent: Config, path: str) -> list[Any]:
    found = parent.get(path.rpartition(".")[2], [])
    if not isinstance(found, list):
        raise UnmergeableError(f"spec.config.{path} must be a list")
    return found
