"""`librechat.yaml`: what stands in it, and when its text changes (spec: palena §6.4, §13)."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.palena.ui.librechat import Chat, McpEntry, UnmergeableError, render
from tests.support.palena_schemas import check

BASE_URL = "http://gw-palena-litellm.ai-gateway.svc.cluster.local:4000/v1"
ADDRESS = "websearch.ai-gateway.svc.cluster.local:8080"
WEBSEARCH = McpEntry("websearch", f"http://{ADDRESS}/mcp", ADDRESS, 120000)
PLAIN = Chat(
    "1.3.17", "Palena", BASE_URL, ("model-a", "model-b"), fetch=True, title_model="", servers=(), extra={}
)


def made(chat: Chat) -> Any:
    """The content of the file, which LibreChat would take."""
    return check("librechat", render(chat))


def with_extra(extra: Mapping[str, Any], *servers: McpEntry) -> Chat:
    return dataclasses.replace(PLAIN, extra=extra, servers=servers)


@pytest.mark.req("PA-064")
def test_the_generated_endpoint_is_the_gateways_litellm() -> None:
    content = made(PLAIN)

    assert content == {
        "version": "1.3.17",
        "cache": True,
        "endpoints": {
            "custom": [
                {
                    "name": "Palena",
                    "apiKey": "${LITELLM_API_KEY}",
                    "baseURL": BASE_URL,
                    "models": {"default": ["model-a", "model-b"], "fetch": True},
                    "titleConvo": True,
                    "titleModel": "model-a",
                    "modelDisplayLabel": "Palena",
                }
            ]
        },
    }


@pytest.mark.req("PA-066")
def test_without_mcp_servers_there_is_no_section_for_them() -> None:
    assert not {"mcpServers", "mcpSettings"} & set(made(PLAIN))


@pytest.mark.req("PA-065")
def test_each_mcp_server_is_registered_and_its_address_exempted() -> None:
    other = McpEntry(
        "files", "http://files.tools.svc.cluster.local:9090/mcp", "files.tools.svc.cluster.local:9090", 5
    )
    content = made(dataclasses.replace(PLAIN, servers=(WEBSEARCH, other)))

    assert content["mcpServers"] == {
        "websearch": {"type": "streamable-http", "url": WEBSEARCH.url, "timeout": 120000},
        "files": {"type": "streamable-http", "url": other.url, "timeout": 5},
    }
    assert content["mcpSettings"] == {"allowedAddresses": [WEBSEARCH.address, other.address]}


def test_no_known_model_stands_for_one_that_libre_chat_can_ask_for() -> None:
    endpoint = made(dataclasses.replace(PLAIN, models=()))["endpoints"]["custom"][0]

    assert endpoint["models"]["default"] == ["default"]
    assert endpoint["titleModel"] == "default"


def test_a_named_title_model_is_used() -> None:
    assert (
        made(dataclasses.replace(PLAIN, title_model="small"))["endpoints"]["custom"][0]["titleModel"]
        == "small"
    )


def test_users_content_is_kept_and_ours_wins_only_for_what_is_generated() -> None:
    content = made(
        with_extra(
            {
                "cache": False,
                "interface": {"privacyPolicy": {"externalUrl": "https://example.com"}},
                "endpoints": {
                    "custom": [
                        {
                            "name": "Palena",
                            "apiKey": "x",
                            "baseURL": "https://example.com",
                            "models": {"default": ["m"]},
                        },
                        {
                            "name": "Mine",
                            "apiKey": "x",
                            "baseURL": "https://example.com",
                            "models": {"default": ["m"]},
                        },
                    ],
                    "agents": {"disableBuilder": True},
                },
                "mcpServers": {
                    "websearch": {"type": "sse", "url": "https://example.com/sse"},
                    "own": {"type": "sse", "url": "https://example.com/sse"},
                },
                "mcpSettings": {"allowedAddresses": ["own.example.local:80", ADDRESS]},
            },
            WEBSEARCH,
        )
    )

    assert content["cache"] is False
    assert content["interface"] == {"privacyPolicy": {"externalUrl": "https://example.com"}}
    assert [each["name"] for each in content["endpoints"]["custom"]] == ["Palena", "Mine"]
    assert content["endpoints"]["custom"][0]["baseURL"] == BASE_URL
    assert content["endpoints"]["agents"] == {"disableBuilder": True}
    assert content["mcpServers"]["websearch"]["url"] == WEBSEARCH.url
    assert content["mcpServers"]["own"]["url"] == "https://example.com/sse"
    assert content["mcpSettings"]["allowedAddresses"] == [ADDRESS, "own.example.local:80"]


def test_where_the_user_has_a_whitelist_of_domains_our_urls_go_there() -> None:
    content = made(with_extra({"mcpSettings": {"allowedDomains": ["example.com"]}}, WEBSEARCH))

    assert content["mcpSettings"] == {"allowedDomains": [WEBSEARCH.url, "example.com"]}


def test_e20_an_unknown_key_is_passed_on_for_libre_chat_to_refuse() -> None:
    text = render(with_extra({"noSuchKey": {"a": 1}}))

    with pytest.raises(AssertionError, match="noSuchKey"):
        check("librechat", text)


@pytest.mark.parametrize(
    ("extra", "field", "wanted"),
    [
        ({"endpoints": []}, "endpoints", "an object"),
        ({"endpoints": {"custom": {}}}, "endpoints.custom", "a list"),
        ({"mcpServers": []}, "mcpServers", "an object"),
        ({"mcpSettings": "x"}, "mcpSettings", "an object"),
        ({"mcpSettings": {"allowedAddresses": "x"}}, "mcpSettings.allowedAddresses", "a list"),
        ({"mcpSettings": {"allowedDomains": "x"}}, "mcpSettings.allowedDomains", "a list"),
    ],
)
def test_what_cannot_be_merged_is_named(extra: Mapping[str, Any], field: str, wanted: str) -> None:
    with pytest.raises(UnmergeableError, match=rf"^spec\.config\.{field} must be {wanted}$"):
        render(with_extra(extra, WEBSEARCH))


def test_rendering_leaves_the_users_content_alone() -> None:
    extra: dict[str, Any] = {"endpoints": {"custom": []}, "mcpSettings": {"allowedAddresses": []}}
    render(with_extra(extra, WEBSEARCH))

    assert extra == {"endpoints": {"custom": []}, "mcpSettings": {"allowedAddresses": []}}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def reordered(value: Any) -> Any:
    """The same, with the keys of each map in the opposite order."""
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(list(value))}
    return [reordered(each) for each in value] if isinstance(value, list) else value


@pytest.mark.req("PA-070")
@given(extra=st.dictionaries(st.text(min_size=1, max_size=4), VALUES, max_size=4))
def test_e17_the_order_of_keys_makes_no_difference(extra: dict[str, Any]) -> None:
    assert render(with_extra(extra, WEBSEARCH)) == render(with_extra(reordered(extra), WEBSEARCH))


CHANGES: dict[str, Chat] = {
    "version": dataclasses.replace(PLAIN, version="1.3.18"),
    "endpoint": dataclasses.replace(PLAIN, endpoint="Other"),
    "base URL": dataclasses.replace(PLAIN, base_url="https://example.com/v1"),
    "models": dataclasses.replace(PLAIN, models=("model-b", "model-a")),
    "fetch": dataclasses.replace(PLAIN, fetch=False),
    "title model": dataclasses.replace(PLAIN, title_model="model-b"),
    "servers": dataclasses.replace(PLAIN, servers=(WEBSEARCH,)),
    "time-out": dataclasses.replace(PLAIN, servers=(dataclasses.replace(WEBSEARCH, timeout_ms=1),)),
    "extra": dataclasses.replace(PLAIN, extra={"cache": False}),
}


@pytest.mark.req("PA-069")
def test_e16_every_change_of_the_configuration_changes_the_text() -> None:
    texts = {name: render(chat) for name, chat in {"as it was": PLAIN, **CHANGES}.items()}

    assert len(set(texts.values())) == len(texts)
