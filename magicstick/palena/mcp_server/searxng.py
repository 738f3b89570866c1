"""The settings file of SearXNG (spec: palena §8.3).

Without a secret key: SearXNG takes it from its environment.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from magicstick.palena.common.yaml_text import yaml_text

FILE: Final = "settings.yml"
PORT: Final = 8080


def render(*, instance: str, language: str, safe_search: int, engines: Iterable[str]) -> str:
    """The text of the file. `engines` are switched on, whatever SearXNG's defaults say of them.

    The format `json` is what the MCP server asks for, and no limiter: only that server asks.
    """
    settings = {
        "use_default_settings": True,
        "general": {"instance_name": instance, "debug": False},
        "search": {"safe_search": safe_search, "default_lang": language, "formats": ["html", "json"]},
        "server": {"port": PORT, "bind_address": "0.0.0.0", "limiter": False, "public_instance": False},  # noqa: S104 - within its Pod
        "engines": [{"name": each, "disabled": False} for each in dict.fromkeys(engines)],
        "outgoing": {"request_timeout": 8, "max_request_timeout": 15},
    }
    return yaml_text(settings)


def engines_of(default: Iterable[str], routes: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Every engine that a search may be routed to, each once."""
    return tuple(dict.fromkeys([*default, *(each for route in routes.values() for each in route)]))
