"""The catalog in every form that a consumer reads: the whole data of the ConfigMap, from one list.

Pure; the same deployments and settings give the same bytes (spec: models §16, companions §1.7).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from magicstick.model_catalog.inventory import Deployment
from magicstick.model_catalog.limits import (
    Limit,
    LimitSettings,
    compaction,
    opencode_limit,
    paperclip_limit,
)
from magicstick.model_catalog.models import CatalogModel, catalog_models, default_of, of_type, reference
from magicstick.model_catalog.values import CHAT, EMBEDDING, short_hash

READY: Final = "AI_APPLIANCE_MODEL_CATALOG_READY"
HASH: Final = "AI_APPLIANCE_MODEL_CATALOG_HASH"
CATALOG: Final = "catalog.json"
TOOLS_PROFILE: Final = "coding"
DOLLAR: Final = "$"
LITERAL_KEY: Final = DOLLAR + "{LITELLM_API_KEY}"
"""What OpenClaw itself puts its key in the place of."""
PAPERCLIP_KEY: Final = "paperclipOpenCode"

LimitOf = Callable[[int | None, int | None, LimitSettings], Limit]


@dataclass(frozen=True, slots=True)
class DocumentSettings:
    """What shapes the catalog besides the models."""

    api_base: str
    default_chat: str = "auto"
    default_embedding: str = "auto"
    limits: LimitSettings = field(default_factory=LimitSettings)


@dataclass(frozen=True, slots=True)
class Document:
    """What is published."""

    hash: str
    data: Mapping[str, str]
    default_chat: str
    """"" where there is no chat model."""
    provider_models: Mapping[str, Any]
    """The chat models as OpenCode takes them, by id."""


def catalog_document(existing: Sequence[Deployment], settings: DocumentSettings) -> Document:
    """The catalog of what LiteLLM has."""
    models = catalog_models(existing)
    chat, embedding = of_type(models, CHAT), of_type(models, EMBEDDING)
    default_chat = default_of(chat, settings.default_chat)
    default_embedding = default_of(embedding, settings.default_embedding)
    context = next((each.get("contextWindow") for each in chat if each["id"] == default_chat), None)
    known: dict[str, Any] = {
        "models": models,
        "defaultChatModel": default_chat,
        "defaultEmbeddingModel": default_embedding,
    }
    digest = short_hash({**known, **_settings_of(settings.limits), **_openclaw_settings(context)})
    defaults = _defaults(digest, default_chat, default_embedding)
    counts = {
        "AI_APPLIANCE_MODEL_COUNT": str(len(models)),
        "AI_APPLIANCE_CHAT_MODEL_COUNT": str(len(chat)),
        "AI_APPLIANCE_EMBEDDING_MODEL_COUNT": str(len(embedding)),
    }
    lists = {
        CATALOG: {"hash": digest, **known},
        "chat-models.json": {"models": chat, "defaultModel": default_chat},
        "embedding-models.json": {"models": embedding, "defaultModel": default_embedding},
    }
    files = {**lists, **_consumers(chat, default_chat, context, settings)}
    data = {
        **defaults,
        "defaults.env": "".join(f"{name}={value}\n" for name, value in {**defaults, **counts}.items()),
        **{name: _json(content) for name, content in files.items()},
    }
    return Document(digest, data, default_chat, _opencode_models(chat, opencode_limit, settings.limits))


def _consumers(
    chat: Sequence[CatalogModel], default: str, context: int | None, settings: DocumentSettings
) -> Mapping[str, Any]:
    """The files that programs read, each in its program's shape."""
    api_base, limits = settings.api_base, settings.limits
    return {
        "openclaw.json": _openclaw(chat, default, context, api_base),
        "hermes.yaml": _hermes(chat, default, api_base),
        "opencode-providers.json": _opencode(_opencode_models(chat, opencode_limit, limits), api_base),
        "paperclip-opencode-providers.json": _opencode(
            _opencode_models(chat, paperclip_limit, limits), api_base
        ),
        "paperclip-adapter-models.json": {
            "opencode_local": [{"id": each["modelRef"], "label": each["name"]} for each in chat]
        },
    }


def _defaults(digest: str, chat: str, embedding: str) -> dict[str, str]:
    return {
        READY: "true",
        HASH: digest,
        "AI_APPLIANCE_DEFAULT_CHAT_MODEL": chat,
        "AI_APPLIANCE_DEFAULT_OPENCODE_MODEL": reference(chat),
        "AI_APPLIANCE_DEFAULT_EMBEDDING_MODEL": embedding,
    }


def _settings_of(limits: LimitSettings) -> Mapping[str, int]:
    """The settings that a consumer would notice, by their names in the hash."""
    return {
        "opencodeDefaultContextTokens": limits.context,
        "opencodeDefaultOutputTokens": limits.output,
        f"{PAPERCLIP_KEY}MaxOutputTokens": limits.paperclip_output,
        f"{PAPERCLIP_KEY}ContextHeadroomTokens": limits.paperclip_headroom,
    }


def _openclaw_settings(context: int | None) -> Mapping[str, object]:
    return {"openclawCompaction": compaction(context), "openclawToolsProfile": TOOLS_PROFILE}


def _openclaw(chat: Sequence[CatalogModel], default: str, context: int | None, api_base: str) -> Any:
    provider = {
        "baseUrl": api_base,
        "apiKey": LITERAL_KEY,
        "api": "openai-completions",
        "models": [_named(each, "id", "contextWindow") for each in chat],
    }
    defaults = {"compaction": compaction(context), "model": {"primary": reference(default)}}
    return {
        "models": {"providers": {"litellm": provider}},
        "agents": {"defaults": defaults},
        "tools": {"profile": TOOLS_PROFILE},
    }


def _hermes(chat: Sequence[CatalogModel], default: str, api_base: str) -> Any:
    models = {
        each["id"]: {
            "name": each["name"],
            **({"context_length": each["contextWindow"]} if "contextWindow" in each else {}),
        }
        for each in chat
    }
    mode = "chat_completions"
    provider = {
        "name": "LiteLLM",
        "base_url": api_base,
        "key_env": "OPENAI_API_KEY",
        "api_mode": mode,
        "default_model": default,
        "discover_models": False,
        "models": models,
    }
    model = {"default": default, "provider": "litellm", "base_url": api_base, "api_mode": mode}
    return {"model": model, "providers": {"litellm": provider}}


def _opencode_models(
    chat: Sequence[CatalogModel], limit_of: LimitOf, settings: LimitSettings
) -> Mapping[str, Any]:
    found = {}
    for each in chat:
        limit = limit_of(each.get("contextWindow"), each.get("maxOutputTokens"), settings)
        found[each["id"]] = {
            "name": each["name"],
            "limit": {"context": limit.context, "output": limit.output},
        }
    return found


def _opencode(models: Mapping[str, Any], api_base: str) -> Any:
    options = {"baseURL": api_base, "apiKey": "{env:OPENAI_API_KEY}"}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "LiteLLM", "options": options, "models": models}
    return {"litellm": provider}


def _named(model: CatalogModel, *fields: str) -> Mapping[str, Any]:
    return {"name": model["name"], **{field: model[field] for field in fields if field in model}}


def _json(content: object) -> str:
    return json.dumps(content, indent=2, sort_keys=True) + "\n"
