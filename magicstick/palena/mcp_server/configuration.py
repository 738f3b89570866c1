"""`palena.yaml`: what the MCP server is told of its sidecars and of the web (spec: palena §8.3)."""

import copy
from collections.abc import Mapping
from typing import Any, Final

from magicstick.api.palena.mcp_server import PalenaMCPServerSpec
from magicstick.palena.common.merging import deep_merge
from magicstick.palena.common.yaml_text import yaml_text
from magicstick.palena.mcp_server.components import (
    ANALYZER,
    ANONYMIZER,
    CHROMIUM,
    FLASHRANK,
    INJECTION_GUARD,
    SEARXNG,
    SERVER_PORT,
)

Config = dict[str, Any]

FILE: Final = "palena.yaml"
ENGINES: Final = ("google", "duckduckgo", "brave")
ROUTES: Final[Mapping[str, tuple[str, ...]]] = {
    "general": ("google", "duckduckgo", "brave"),
    "news": ("google news", "duckduckgo", "bing news"),
    "code": ("github", "stackoverflow", "duckduckgo"),
    "science": ("google scholar", "duckduckgo", "wikipedia"),
}
ENTITIES: Final = (
    "PERSON",
    "EMAIL_ADDRESS",
    "PHONE_NUMBER",
    "CREDIT_CARD",
    "IBAN_CODE",
    "IP_ADDRESS",
    "LOCATION",
    "US_SSN",
    "MEDICAL_LICENSE",
)


def render(spec: PalenaMCPServerSpec, endpoints: Mapping[str, str]) -> str:
    """The text of the file.

    `endpoints` are those of the sidecars that are wanted, whoever runs them. The user's content wins, save
    for the port, which the Service leads to, and for the endpoints that are resolved. The same meaning gives
    the same text.
    """
    generated = _generated(spec, endpoints)
    merged = deep_merge(generated, spec.config)
    for path in _FIXED:
        _restore(merged, generated, path)
    return yaml_text(merged)


_FIXED: Final = (
    ("server", "port"),
    ("search", "searxngURL"),
    ("scraper", "playwright", "endpoint"),
    ("scraper", "chromiumCDP", "endpoint"),
    ("pii", "analyzerURL"),
    ("pii", "anonymizerURL"),
    ("injection", "predictURL"),
    ("reranker", "endpoint"),
)
"""What a user cannot set."""


def engines(spec: PalenaMCPServerSpec) -> tuple[str, ...]:
    """Engines that are asked unless a route says otherwise."""
    return spec.search.engines or ENGINES


def routes(spec: PalenaMCPServerSpec) -> Mapping[str, tuple[str, ...]]:
    """Engines by the kind of a search."""
    return spec.search.engine_routes or ROUTES


def _generated(spec: PalenaMCPServerSpec, endpoints: Mapping[str, str]) -> Config:
    return {
        "server": {"host": "0.0.0.0", "port": SERVER_PORT, "readTimeout": "30s", "writeTimeout": "60s"},  # noqa: S104 - within its Pod
        "search": _search(spec, endpoints[SEARXNG]),
        "scraper": _scraper(spec, endpoints.get(CHROMIUM, "")),
        "policy": spec.policy.model_dump(mode="json", by_alias=True),
        "pii": _pii(spec, endpoints),
        "injection": _injection(spec, endpoints.get(INJECTION_GUARD)),
        "reranker": _reranker(spec, endpoints.get(FLASHRANK)),
        "provenance": {"enabled": True, "clickhouse": {"enabled": False}},
        "otel": _otel(spec),
        "logging": {"level": spec.logging.level, "format": spec.logging.format},
    }


def _search(spec: PalenaMCPServerSpec, searxng: str) -> Config:
    return {
        "searxngURL": searxng,
        "defaultEngines": list(engines(spec)),
        "engineRoutes": {name: list(route) for name, route in routes(spec).items()},
        "defaultLanguage": spec.search.default_language,
        "safeSearch": spec.search.safe_search,
        "maxResults": spec.search.max_results,
        "timeout": "10s",
        "queryExpansion": {"enabled": False, "maxVariants": 2},
    }


def _scraper(spec: PalenaMCPServerSpec, browser: str) -> Config:
    """Without a browser its endpoint is empty, and pages are read as they are sent."""
    chosen = spec.sidecars.chromium
    driver = "playwright" if chosen.engine == "playwright" else "chromiumCDP"
    return {
        "maxConcurrency": 5,
        "timeouts": {"httpGet": "10s", "browserPage": "15s", "browserNav": "30s"},
        driver: {"endpoint": browser, "maxTabs": chosen.max_tabs},
        "stealth": {"enabled": True, "randomizeViewport": True, "randomizeUserAgent": True},
        "proxy": {"enabled": False, "pool": [], "cooldownSeconds": 300},
        "contentDetection": {"minTextLength": 500, "minTextRatio": 0.05, "maxScriptTags": 5},
    }


def _pii(spec: PalenaMCPServerSpec, endpoints: Mapping[str, str]) -> Config:
    chosen = spec.sidecars.presidio
    if not chosen.enabled:
        return {"enabled": False}
    return {
        "enabled": True,
        "mode": chosen.mode,
        "analyzerURL": endpoints[ANALYZER],
        "anonymizerURL": endpoints[ANONYMIZER],
        "language": chosen.language,
        "scoreThreshold": float(chosen.score_threshold),
        "blockThreshold": float(chosen.block_threshold),
        "entities": list(chosen.entities or ENTITIES),
        "timeout": "5s",
    }


def _injection(spec: PalenaMCPServerSpec, guard: str | None) -> Config:
    if guard is None:
        return {"enabled": False}
    chosen = spec.sidecars.injection_guard
    return {
        "enabled": True,
        "mode": chosen.mode,
        "predictURL": f"{guard.rstrip('/')}/predict",
        "model": chosen.model,
        "injectionLabel": "INJECTION",
        "scoreThreshold": 0.85,
        "maxChunkChars": 1200,
        "timeout": "5s",
    }


def _reranker(spec: PalenaMCPServerSpec, flashrank: str | None) -> Config:
    if flashrank is None:
        return {"provider": "none"}
    chosen = spec.sidecars.flashrank
    return {
        "provider": "flashrank",
        "endpoint": flashrank,
        "model": chosen.model,
        "topK": chosen.top_k,
        "timeout": "10s",
    }


def _otel(spec: PalenaMCPServerSpec) -> Config:
    chosen = spec.otel.model_dump(mode="json", by_alias=True)
    given = {name: value for name, value in chosen.items() if value != ""}
    return {**given, "serviceName": "palena", "sampleRate": 1.0}


def _restore(merged: Config, generated: Config, path: tuple[str, ...]) -> None:
    """Put back what was generated at `path`, also where a user replaced the map that holds it."""
    here, there = merged, generated
    for step in path[:-1]:
        if step not in there:
            return
        there = there[step]
        if not isinstance(here.get(step), dict):
            here[step] = copy.deepcopy(there)
        here = here[step]
    if path[-1] in there:
        here[path[-1]] = there[path[-1]]
