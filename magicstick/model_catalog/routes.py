"""What LiteLLM should serve: one route for each model that is ready (spec: models §16).

Pure builders, one for each source. A route says nothing of what LiteLLM has already.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from magicstick.api.labels import CONTEXT_WINDOW, MAX_OUTPUT_TOKENS
from magicstick.kube.objects import Resource
from magicstick.model_catalog.values import (
    CHAT,
    REALTIME,
    Object,
    first_positive,
    first_text,
    items,
    kind_of_model,
    section,
    slug,
    text,
)
from magicstick.runtime.logs import Secret

VLLM: Final = "VLLM"
NO_KEY: Final = Secret("none")
"""What local runtimes are given: they ask for no key, and LiteLLM sends none without one."""
MANAGED: Final = "ai_appliance_managed"
SOURCE: Final = "ai_appliance_source"
TYPE: Final = "ai_appliance_type"
ORIGIN: Final = "magicstick_origin"
FIRST: Final = 0
"""The order of local routes: before mesh imports of the same name, which have 1."""


class Source(StrEnum):
    """Where a route leads."""

    KUBEAI = "kubeai"
    EXTERNAL = "external"
    FREETOKEN = "freetoken"
    REALTIME = "vllm-omni"


class Origin(StrEnum):
    """Which object says that the route should be."""

    MODEL = "model"
    ACTIVATION = "activation"
    CONFIG_MAP = "configmap"


@dataclass(frozen=True, slots=True)
class Route:
    """One model as LiteLLM should serve it. `params` and `info` hold no key, id or fingerprint."""

    name: str
    source: Source
    origin: Origin
    params: Object
    info: Object
    key: Secret | None = field(default=None)

    @property
    def id(self) -> str:
        """The id under which it is created."""
        return f"ai-appliance-{self.source}-{slug(self.name)}"


def kubeai_route(model: Resource, api_base: str) -> Route:
    """The route of a KubeAI Model."""
    name, spec = model.metadata.name, model.spec
    features = [each for each in items(spec, "features") if isinstance(each, str)]
    annotations = model.metadata.annotations
    info = {
        TYPE: kind_of_model(features, name),
        "features": features,
        "magicstick_vllm_priority": spec.get("engine") == VLLM,
        "order": FIRST,
        **_limits(
            first_positive(
                annotations.get(CONTEXT_WINDOW), _argument(items(spec, "args"), "--max-model-len")
            ),
            first_positive(annotations.get(MAX_OUTPUT_TOKENS)),
        ),
    }
    params = {"model": f"openai/{name}", "api_base": api_base, "order": FIRST}
    return Route(
        name, Source.KUBEAI, Origin.MODEL, params, _marked(Source.KUBEAI, Origin.MODEL, info), NO_KEY
    )


def direct_route(activation: Resource, source: Source, endpoint: str) -> Route:
    """The route of a runtime that answers without KubeAI in front of it."""
    name, local = activation.metadata.name, section(activation.spec, "local")
    features = [each for each in items(local, "features") if isinstance(each, str)]
    if source is Source.REALTIME:
        kind: Object = {
            TYPE: REALTIME,
            "mode": REALTIME,
            "supports_audio_input": True,
            "supports_audio_output": True,
        }
    else:
        kind = {TYPE: first_text(local.get("modelType")).lower() or kind_of_model(features, name)}
    info = {
        **kind,
        "features": features,
        "order": FIRST,
        **_limits(
            first_positive(local.get("contextWindow"), local.get("context_window")),
            first_positive(local.get("maxOutputTokens"), local.get("max_output_tokens")),
        ),
    }
    params = {"model": f"openai/{name}", "api_base": endpoint, "order": FIRST}
    origin = Origin.ACTIVATION
    return Route(name, source, origin, params, _marked(source, origin, info), NO_KEY)


def external_route(name: str, entry: Object, origin: Origin, key: Secret | None) -> Route | str:
    """The route of another provider's model, or what is wrong with its entry (spec: companions §1.5)."""
    litellm = section(entry, "litellm")
    model = first_text(litellm.get("model"), entry.get("model"))
    if not model:
        return "has no model: set `model` to the provider's name of it, for example openai/name"
    params: dict[str, object] = {
        "model": model,
        "api_base": first_text(
            litellm.get("apiBase"), litellm.get("api_base"), entry.get("apiBase"), entry.get("api_base")
        ),
        "api_version": _spelled(entry, litellm, "api_version", "apiVersion"),
        "custom_llm_provider": _spelled(entry, litellm, "custom_llm_provider", "customLlmProvider"),
        "tpm": first_positive(entry.get("tpm"), litellm.get("tpm")),
        "rpm": first_positive(entry.get("rpm"), litellm.get("rpm")),
    }
    info = {
        TYPE: first_text(entry.get("type"), entry.get("modelType")).lower() or CHAT,
        **_limits(
            first_positive(
                entry.get("contextWindow"), entry.get("context_window"), entry.get("max_input_tokens")
            ),
            first_positive(entry.get("maxOutputTokens"), entry.get("max_output_tokens")),
        ),
    }
    given = {field: value for field, value in params.items() if value}
    return Route(name, Source.EXTERNAL, origin, given, _marked(Source.EXTERNAL, origin, info), key)


def inline_key(entry: Object) -> Secret | None:
    """The key that stands in the entry itself."""
    litellm = section(entry, "litellm")
    found = first_text(
        litellm.get("apiKey"), litellm.get("api_key"), entry.get("apiKey"), entry.get("api_key")
    )
    return Secret(found) if found else None


def endpoint_of(activation: Resource) -> str:
    """Where the activation's runtime answers, or "" for what no request may be sent to (spec: models §16).

    A status could be forged by whoever may write it, and requests carry prompts: only Services of the
    namespace that the model is in count.
    """
    found = text(section({"status": activation.status}, "status").get("runtimeEndpoint")).rstrip("/")
    namespace = first_text(activation.spec.get("targetNamespace")) or "ai"
    try:
        parts = urlsplit(found)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return ""
    plain = not (parts.username or parts.password or parts.query or parts.fragment or "@" in parts.netloc)
    fits = parts.scheme in ("http", "https") and parts.path == "/v1"
    inside = host.endswith(f".{namespace}.svc.cluster.local") and found.isprintable()
    return found if plain and fits and inside and not set(found) & set("?#\\ ") else ""


def _spelled(entry: Object, litellm: Object, snake: str, camel: str) -> str:
    return first_text(entry.get(snake), litellm.get(snake), entry.get(camel), litellm.get(camel))


def _marked(source: Source, origin: Origin, info: Mapping[str, object]) -> Object:
    return {MANAGED: True, SOURCE: str(source), "source": str(source), ORIGIN: str(origin), **info}


def _limits(context: int | None, output: int | None) -> Object:
    known = {"max_input_tokens": context, "max_output_tokens": output}
    return {name: value for name, value in known.items() if value is not None}


def _argument(arguments: tuple[object, ...], flag: str) -> str:
    """The value of a flag, written as one argument or as two; the last one counts."""
    found = ""
    for position, each in enumerate(arguments):
        if not isinstance(each, str):
            continue
        name, equals, value = each.partition("=")
        if name.strip() == flag:
            following = arguments[position + 1] if position + 1 < len(arguments) else ""
            found = value if equals else text(following)
    return found
