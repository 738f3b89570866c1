"""`palena.yaml` and SearXNG's settings: what stands in them, and when they change (spec: palena §8.3)."""

from typing import Any

import pytest
import yaml

from magicstick.api.palena.mcp_server import PalenaMCPServerSpec
from magicstick.palena.mcp_server import searxng
from magicstick.palena.mcp_server.configuration import ENGINES, ROUTES, engines, render, routes
from tests.support.palena_schemas import check

ENDPOINTS = {
    "searxng": "http://web-searxng.tools.svc.cluster.local:8080",
    "chromium": "ws://web-chromium.tools.svc.cluster.local:3000",
    "presidio-analyzer": "http://web-presidio-analyzer.tools.svc.cluster.local:5002",
    "presidio-anonymizer": "http://web-presidio-anonymizer.tools.svc.cluster.local:5001",
    "flashrank": "http://web-flashrank.tools.svc.cluster.local:8080",
}


def spec(**fields: Any) -> PalenaMCPServerSpec:
    return PalenaMCPServerSpec.model_validate(fields)


def made(wanted: PalenaMCPServerSpec, endpoints: dict[str, str] = ENDPOINTS) -> Any:
    """The content of the file, which the server would take."""
    return check("palena", render(wanted, endpoints))


def without(*names: str) -> dict[str, str]:
    return {name: url for name, url in ENDPOINTS.items() if name not in names}


@pytest.mark.req("PA-101")
def test_the_configuration_holds_the_endpoint_of_each_sidecar() -> None:
    content = made(spec())

    assert content["search"]["searxngURL"] == ENDPOINTS["searxng"]
    assert content["scraper"]["playwright"] == {"endpoint": ENDPOINTS["chromium"], "maxTabs": 3}
    assert content["pii"]["analyzerURL"] == ENDPOINTS["presidio-analyzer"]
    assert content["pii"]["anonymizerURL"] == ENDPOINTS["presidio-anonymizer"]
    assert content["reranker"]["endpoint"] == ENDPOINTS["flashrank"]
    assert content["injection"] == {"enabled": False}


def test_what_nobody_chose_is_the_specified_default() -> None:
    content = made(spec())

    assert content["search"]["defaultEngines"] == ["google", "duckduckgo", "brave"]
    assert content["pii"] | {"entities": len(content["pii"]["entities"])} == {
        "enabled": True,
        "mode": "audit",
        "analyzerURL": ENDPOINTS["presidio-analyzer"],
        "anonymizerURL": ENDPOINTS["presidio-anonymizer"],
        "language": "en",
        "scoreThreshold": 0.5,
        "blockThreshold": 5.0,
        "entities": 9,
        "timeout": "5s",
    }
    assert content["policy"] == {
        "robots": {"enabled": True, "cacheSeconds": 3600},
        "domains": {"mode": "blocklist", "allowlist": [], "blocklist": []},
        "rateLimit": {"enabled": True, "requestsPerDomainPerMinute": 10},
    }
    assert content["reranker"]["topK"] == 5
    assert content["server"]["port"] == 8080
    assert content["server"]["readTimeout"] == "30s"


def test_e28_switched_off_parts_are_switched_off_in_the_configuration() -> None:
    off = spec(
        sidecars={
            "presidio": {"enabled": False},
            "chromium": {"enabled": False},
            "flashrank": {"enabled": False},
        }
    )
    content = made(off, without("presidio-analyzer", "presidio-anonymizer", "chromium", "flashrank"))

    assert content["pii"] == {"enabled": False}
    assert content["scraper"]["playwright"]["endpoint"] == ""
    assert content["reranker"] == {"provider": "none"}


def test_an_old_server_is_told_of_its_browser_in_its_own_words() -> None:
    content = made(spec(sidecars={"chromium": {"engine": "cdp", "maxTabs": 2}}))

    assert content["scraper"]["chromiumCDP"] == {"endpoint": ENDPOINTS["chromium"], "maxTabs": 2}
    assert "playwright" not in content["scraper"]


def test_the_injection_guard_is_asked_for_predictions() -> None:
    guarded = spec(sidecars={"injectionGuard": {"enabled": True, "mode": "block"}})
    content = made(guarded, {**ENDPOINTS, "injection-guard": "http://guard.example.com"})

    assert content["injection"]["predictURL"] == "http://guard.example.com/predict"
    assert content["injection"]["mode"] == "block"


def test_open_telemetry_names_only_what_was_given() -> None:
    assert made(spec())["otel"] == {"enabled": False, "serviceName": "palena", "sampleRate": 1.0}
    told = made(
        spec(otel={"enabled": True, "traceExporter": "otlp", "traceEndpoint": "http://otel.example.com"})
    )
    assert told["otel"]["traceEndpoint"] == "http://otel.example.com"


def test_users_content_wins_except_for_the_port_and_the_endpoints() -> None:
    content = made(
        spec(
            config={
                "server": {"port": 9999, "readTimeout": "1m"},
                "search": {"searxngURL": "http://evil.example.com", "timeout": "20s"},
                "pii": "off",
                "scraper": {"maxConcurrency": 9, "playwright": "none"},
                "reranker": {"endpoint": "http://evil.example.com"},
            }
        )
    )

    assert content["server"]["port"] == 8080
    assert content["server"]["readTimeout"] == "1m"
    assert content["search"]["searxngURL"] == ENDPOINTS["searxng"]
    assert content["search"]["timeout"] == "20s"
    assert content["pii"] == made(spec())["pii"]
    assert content["scraper"]["maxConcurrency"] == 9
    assert content["scraper"]["playwright"] == {"endpoint": ENDPOINTS["chromium"], "maxTabs": 3}
    assert content["reranker"]["endpoint"] == ENDPOINTS["flashrank"]


def test_a_reranker_of_the_users_own_is_left_to_the_user() -> None:
    own = {"reranker": {"provider": "kserve", "endpoint": "http://rank.example.com"}}
    wanted = spec(sidecars={"flashrank": {"enabled": False}}, config=own)

    assert made(wanted, without("flashrank"))["reranker"] == own["reranker"]


def test_the_order_of_keys_makes_no_difference() -> None:
    one = spec(config={"a": {"x": 1, "y": 2}, "b": 3})
    other = spec(config={"b": 3, "a": {"y": 2, "x": 1}})

    assert render(one, ENDPOINTS) == render(other, ENDPOINTS)


def searxng_settings(wanted: PalenaMCPServerSpec) -> str:
    return searxng.render(
        instance="web",
        language=wanted.search.default_language,
        safe_search=wanted.search.safe_search,
        engines=searxng.engines_of(engines(wanted), routes(wanted)),
    )


def test_searxng_answers_in_json_and_knows_every_engine_that_a_search_may_be_routed_to() -> None:
    content = check("searxng", searxng_settings(spec()))

    names = [each["name"] for each in content["engines"]]
    assert set(names) == {*ENGINES, *(each for route in ROUTES.values() for each in route)}
    assert len(names) == len(set(names))


def test_searxng_is_told_of_the_users_engines_and_languages() -> None:
    wanted = spec(
        search={
            "engines": ["bing"],
            "engineRoutes": {"code": ["gitlab"]},
            "defaultLanguage": "de",
            "safeSearch": 2,
        }
    )
    content = check("searxng", searxng_settings(wanted))

    assert [each["name"] for each in content["engines"]] == ["bing", "gitlab"]
    assert content["search"]["default_lang"] == "de"
    assert content["search"]["safe_search"] == 2


def test_searxngs_secret_key_stands_in_no_file() -> None:
    assert "secret_key" not in yaml.safe_load(searxng_settings(spec()))["server"]
