"""The LiteLLMModel that a PalenaModel has on one gateway (spec: palena §3.3, §5.1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from magicstick.api.palena.model import Limits, PalenaModelSpec, Provider, Routing

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Source:
    """Who serves the model: a provider, or a model of the appliance in the same cluster."""

    model: str
    """`provider/model`, as LiteLLM names it."""
    api_base: str = ""


@dataclass(frozen=True, slots=True)
class KeySecret:
    """Where the key of the provider's API is kept, in the namespace of the gateway."""

    name: str
    key: str


def litellm_model(
    name: str,
    spec: PalenaModelSpec,
    metadata: Object,
    *,
    instance: str,
    source: Source,
    api_key: KeySecret | None,
) -> Object:
    """The model on the LiteLLMInstance `instance`; `name` is that of the PalenaModel."""
    made: Object = {
        "instanceRef": {"name": instance},
        "modelName": spec.model_name or name,
        "litellmParams": {
            **spec.provider.params.given,
            **_provider(spec.provider, source, api_key),
            **_limits(spec.limits),
            **_routing(spec.routing),
        },
    }
    if spec.info:
        made["modelInfo"] = spec.info
    if spec.routing.tags:
        made["tags"] = list(spec.routing.tags)
    return {
        "apiVersion": "litellm.palena.ai/v1alpha1",
        "kind": "LiteLLMModel",
        "metadata": metadata,
        "spec": made,
    }


def _provider(provider: Provider, source: Source, api_key: KeySecret | None) -> Object:
    made: Object = {"model": source.model}
    if source.api_base:
        made["apiBase"] = source.api_base
    if provider.api_version:
        made["apiVersion"] = provider.api_version
    if api_key is not None:
        made["apiKeySecretRef"] = {"name": api_key.name, "key": api_key.key}
    if provider.credential_ref is not None:
        made["credentialRef"] = {"name": provider.credential_ref.name}
    return made


def _limits(limits: Limits) -> Object:
    return _given(
        {
            "rpm": limits.rpm,
            "tpm": limits.tpm,
            "timeout": limits.timeout_seconds,
            "streamTimeout": limits.stream_timeout_seconds,
            "maxRetries": limits.max_retries,
        }
    )


def _routing(routing: Routing) -> Object:
    return _given({"weight": routing.weight, "order": routing.order})


def _given(fields: Mapping[str, int | None]) -> Object:
    """What was set, 0 included."""
    return {name: value for name, value in fields.items() if value is not None}
