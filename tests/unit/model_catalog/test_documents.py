"""The catalog in all its forms: the vectors of the specification, and equality with what is shipped."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.model_catalog.documents import DocumentSettings, catalog_document
from magicstick.model_catalog.inventory import Deployment
from magicstick.model_catalog.limits import Limit, LimitSettings, compaction, opencode_limit, paperclip_limit
from tests.support.catalog_objects import deployment, managed
from tests.support.manifests import MANIFESTS, objects

API_BASE = "http://litellm.ai.svc.cluster.local:4000/v1"
SETTINGS = DocumentSettings(API_BASE)
DEFAULTS = LimitSettings()
KEYS = {
    "AI_APPLIANCE_MODEL_CATALOG_READY",
    "AI_APPLIANCE_MODEL_CATALOG_HASH",
    "AI_APPLIANCE_DEFAULT_CHAT_MODEL",
    "AI_APPLIANCE_DEFAULT_OPENCODE_MODEL",
    "AI_APPLIANCE_DEFAULT_EMBEDDING_MODEL",
    "defaults.env",
    "catalog.json",
    "chat-models.json",
    "embedding-models.json",
    "openclaw.json",
    "hermes.yaml",
    "opencode-providers.json",
    "paperclip-opencode-providers.json",
    "paperclip-adapter-models.json",
}


def published(*existing: Deployment, settings: DocumentSettings = SETTINGS) -> dict[str, Any]:
    """Every key, decoded where it is JSON."""
    data = catalog_document(existing, settings).data
    return {
        key: json.loads(value) if key.endswith((".json", ".yaml")) else value for key, value in data.items()
    }


def entry(*existing: Deployment) -> Mapping[str, Any]:
    (only,) = published(*existing)["catalog.json"]["models"]
    return dict(only)


# -- limits (spec: companions §1.7) ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("context", "output", "opencode", "paperclip"),
    [
        (20000, 8192, (20000, 8192), (15904, 3976)),
        (8192, 8192, (8192, 8192), (6144, 1536)),
        (4096, 32000, (4096, 4096), (3072, 768)),
        (None, None, (131072, 8192), (126976, 4096)),
        (1, None, (1, 1), (1, 1)),
        (2, 1, (2, 1), (1, 1)),
        (131072, 100, (131072, 100), (126976, 100)),
    ],
)
def test_limits_are_those_of_the_vectors(
    context: int | None, output: int | None, opencode: tuple[int, int], paperclip: tuple[int, int]
) -> None:
    assert opencode_limit(context, output, DEFAULTS) == Limit(*opencode)
    assert paperclip_limit(context, output, DEFAULTS) == Limit(*paperclip)


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (20000, {"reserveTokens": 4096, "reserveTokensFloor": 0}),
        (8192, {"reserveTokens": 2048, "reserveTokensFloor": 0}),
        (100, {"reserveTokens": 1024, "reserveTokensFloor": 0}),
        (32768, {"reserveTokens": 4096, "reserveTokensFloor": 0}),
        (32769, {"reserveTokensFloor": 20000}),
        (128000, {"reserveTokensFloor": 20000}),
        (None, {"reserveTokensFloor": 20000}),
    ],
)
def test_openclaw_compacts_by_the_context_of_the_default(
    context: int | None, expected: dict[str, int]
) -> None:
    assert compaction(context) == expected


@given(
    st.none() | st.integers(1, 10**7),
    st.none() | st.integers(1, 10**7),
    st.builds(LimitSettings, *[st.integers(1, 10**6)] * 4),
)
def test_limits_always_leave_room_for_an_answer(
    context: int | None, output: int | None, limits: LimitSettings
) -> None:
    for limit in (opencode_limit(context, output, limits), paperclip_limit(context, output, limits)):
        assert 1 <= limit.output <= limit.context
    assert paperclip_limit(context, output, limits).context <= opencode_limit(context, output, limits).context


# -- entries (spec: companions §1.6) ---------------------------------------------------------------------


def test_an_entry_tells_what_litellm_has() -> None:
    params = {"model": "openai/demo", "api_base": "http://kubeai/openai/v1", "api_key": "*****"}
    found = managed("demo", "1", params=params, max_input_tokens=4096, max_output_tokens=512)
    assert entry(found) == {
        "id": "demo",
        "name": "demo",
        "type": "chat",
        "provider": "litellm",
        "modelRef": "litellm/demo",
        "source": "kubeai",
        "managed": True,
        "litellm": {"model": "openai/demo", "apiBase": "http://kubeai/openai/v1"},
        "contextWindow": 4096,
        "maxOutputTokens": 512,
    }


@pytest.mark.parametrize(
    ("info", "context", "output"),
    [
        ({"max_input_tokens": 1, "contextWindow": 2}, 1, None),
        ({"max_input_tokens": None, "contextWindow": 2, "context_window": 3}, 2, None),
        ({"max_input_tokens": 0, "context_window": "3"}, 3, None),
        ({"context_length": 4, "max_context_length": 5}, 4, None),
        ({"max_context_length": 5, "max_tokens": 6}, 5, None),
        ({"max_tokens": 6}, 6, None),
        ({"max_tokens": True}, None, None),
        ({"max_output_tokens": 1, "maxOutputTokens": 2}, None, 1),
        ({"maxOutputTokens": 2, "max_completion_tokens": 3}, None, 2),
        ({"max_completion_tokens": 3}, None, 3),
    ],
)
def test_limits_of_an_entry_are_the_first_that_are_numbers(
    info: dict[str, Any], context: int | None, output: int | None
) -> None:
    found = entry(deployment("demo", "1", **info))
    assert (found.get("contextWindow"), found.get("maxOutputTokens")) == (context, output)


def test_foreign_models_are_in_the_catalog_as_such() -> None:
    found = entry(deployment("theirs", "1", team_public_model_name="Their model"))
    assert (found["source"], found["managed"], found["name"]) == ("litellm", False, "Their model")


def test_an_export_of_the_mesh_is_hidden_and_an_import_is_not() -> None:
    models = published(
        deployment("share/node/demo", "1", source="mesh-export", magicstick_mesh_owner="n"),
        deployment("mesh/node/demo", "2", source="mesh-import", magicstick_mesh_owner="n"),
    )["catalog.json"]["models"]
    assert [(each["id"], each["managed"]) for each in models] == [("mesh/node/demo", False)]


def test_of_several_deployments_of_a_name_the_lowest_order_speaks() -> None:
    imported = deployment("demo", "0", order=1, magicstick_mesh_owner="n", max_input_tokens=9)
    local = managed("demo", "1", max_input_tokens=7)  # without an order it is the first
    assert entry(imported, local)["contextWindow"] == 7
    assert entry(local, imported)["contextWindow"] == 7


def test_the_catalog_says_nothing_that_is_in_a_url_besides_the_place() -> None:
    params = {"model": "m", "api_base": "https://user:secret@models.example.com/v1?api-key=secret#x"}
    assert (
        entry(deployment("demo", "1", params=params))["litellm"]["apiBase"] == "https://models.example.com/v1"
    )
    for bad in ("not a url", "http://[::1", "", 7):
        assert "apiBase" not in entry(deployment("demo", "1", params={"api_base": bad}))["litellm"]


def test_a_name_that_would_be_two_lines_is_left_out() -> None:
    assert published(deployment("a\nREADY=false", "1"))["catalog.json"]["models"] == []


def test_models_are_sorted_by_type_and_id() -> None:
    found = published(
        managed("b", "1"),
        managed("a-embedding", "2"),
        managed("a", "3"),
        managed("r", "4", ai_appliance_type="realtime"),
    )
    assert [each["id"] for each in found["catalog.json"]["models"]] == ["a", "b", "a-embedding", "r"]


# -- defaults --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("configured", "default"),
    [("auto", "a"), ("b", "b"), ("gone", "a"), ("an-embedding", "a")],
)
def test_the_default_is_the_configured_one_of_that_type_or_the_first(configured: str, default: str) -> None:
    settings = DocumentSettings(API_BASE, default_chat=configured)
    found = published(managed("b", "1"), managed("a", "2"), managed("an-embedding", "3"), settings=settings)

    assert found["AI_APPLIANCE_DEFAULT_CHAT_MODEL"] == default
    assert found["AI_APPLIANCE_DEFAULT_OPENCODE_MODEL"] == f"litellm/{default}"
    assert found["AI_APPLIANCE_DEFAULT_EMBEDDING_MODEL"] == "an-embedding"


def test_without_a_model_there_is_no_default() -> None:
    found = published()
    assert [found[key] for key in sorted(KEYS) if "DEFAULT" in key] == ["", "", ""]


def test_the_defaults_are_also_lines_with_the_counts() -> None:
    document = catalog_document((managed("a", "1"), managed("an-embedding", "2")), SETTINGS)
    assert document.data["defaults.env"] == (
        "AI_APPLIANCE_MODEL_CATALOG_READY=true\n"
        f"AI_APPLIANCE_MODEL_CATALOG_HASH={document.hash}\n"
        "AI_APPLIANCE_DEFAULT_CHAT_MODEL=a\n"
        "AI_APPLIANCE_DEFAULT_OPENCODE_MODEL=litellm/a\n"
        "AI_APPLIANCE_DEFAULT_EMBEDDING_MODEL=an-embedding\n"
        "AI_APPLIANCE_MODEL_COUNT=2\n"
        "AI_APPLIANCE_CHAT_MODEL_COUNT=1\n"
        "AI_APPLIANCE_EMBEDDING_MODEL_COUNT=1\n"
    )


# -- consumers' files (spec: companions §1.7) --------------------------------------------------------------


def test_every_key_is_there_and_no_other() -> None:
    assert set(published()) == KEYS


def test_a_realtime_model_is_in_no_consumers_file() -> None:
    found = published(managed("voice", "1", ai_appliance_type="realtime"))
    consumers = {key: value for key, value in found.items() if key not in ("catalog.json", "defaults.env")}

    assert [each["id"] for each in found["catalog.json"]["models"]] == ["voice"]
    assert "voice" not in json.dumps(consumers)


def test_each_consumer_gets_the_chat_models_in_its_own_shape() -> None:
    small = managed("small", "1", max_input_tokens=8192, max_output_tokens=8192)
    found = published(small, managed("big", "2"), managed("an-embedding", "3"))

    openclaw = found["openclaw.json"]
    assert openclaw["models"]["providers"]["litellm"] == {
        "baseUrl": API_BASE,
        "apiKey": "${LITELLM_API_KEY}",
        "api": "openai-completions",
        "models": [{"id": "big", "name": "big"}, {"id": "small", "name": "small", "contextWindow": 8192}],
    }
    assert openclaw["agents"]["defaults"] == {
        "compaction": {"reserveTokensFloor": 20000},
        "model": {"primary": "litellm/big"},
    }
    hermes = found["hermes.yaml"]
    assert hermes["model"]["default"] == hermes["providers"]["litellm"]["default_model"] == "big"
    assert hermes["providers"]["litellm"]["models"] == {
        "big": {"name": "big"},
        "small": {"name": "small", "context_length": 8192},
    }
    assert found["opencode-providers.json"]["litellm"]["models"] == {
        "big": {"name": "big", "limit": {"context": 131072, "output": 8192}},
        "small": {"name": "small", "limit": {"context": 8192, "output": 8192}},
    }
    assert found["paperclip-opencode-providers.json"]["litellm"]["models"] == {
        "big": {"name": "big", "limit": {"context": 126976, "output": 4096}},
        "small": {"name": "small", "limit": {"context": 6144, "output": 1536}},
    }
    assert found["paperclip-adapter-models.json"] == {
        "opencode_local": [{"id": "litellm/big", "label": "big"}, {"id": "litellm/small", "label": "small"}]
    }
    assert [each["id"] for each in found["embedding-models.json"]["models"]] == ["an-embedding"]


def test_an_empty_catalog_has_the_shape_that_is_shipped_for_the_time_before() -> None:
    (shipped,) = (
        obj
        for _, obj in objects(MANIFESTS / "modules/model-catalog")
        if obj["kind"] == "ConfigMap" and obj["metadata"]["name"] == "ai-model-catalog"
    )
    document = catalog_document((), SETTINGS)
    expected = {
        key: value.replace("$${", "${")
        .replace("bootstrap", document.hash)
        .replace("READY=false", "READY=true")
        for key, value in shipped["data"].items()
    }
    expected["AI_APPLIANCE_MODEL_CATALOG_READY"] = "true"

    assert dict(document.data) == expected


# -- hash --------------------------------------------------------------------------------------------------


def test_the_hash_is_of_what_a_consumer_would_notice() -> None:
    base = catalog_document((managed("a", "1"),), SETTINGS).hash
    others = [
        catalog_document((managed("a", "1", max_input_tokens=5),), SETTINGS),
        catalog_document((managed("a", "1"), managed("b", "2")), SETTINGS),
        *(
            catalog_document(
                (managed("a", "1"),), DocumentSettings(API_BASE, limits=LimitSettings(**{field: 7}))
            )
            for field in ("context", "output", "paperclip_output", "paperclip_headroom")
        ),
    ]
    assert len(base) == 16
    assert len({base, *(each.hash for each in others)}) == len(others) + 1


def test_the_hash_does_not_depend_on_order_or_on_what_is_not_published() -> None:
    one, other = managed("a", "1"), managed("b", "2")
    assert catalog_document((one, other), SETTINGS) == catalog_document((other, one), SETTINGS)
    marked = managed("a", "1", magicstick_fingerprint="f")
    assert catalog_document((one,), SETTINGS) == catalog_document((marked,), SETTINGS)
