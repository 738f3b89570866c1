"""PalenaModel: one model on one or several gateways (spec: palena §5.1, §5.2)."""

from typing import Annotated, Final, Self

from pydantic import ConfigDict, Field, StrictBool, StrictInt, model_validator

from magicstick.api.base import HOME_NAMESPACE, Count, FreeObject, Model
from magicstick.api.palena.shared import (
    LocalName,
    Name,
    Namespace,
    PalenaStatus,
    Reference,
    SecretKeyRef,
    name_rules,
)
from magicstick.api.schema import Rule, rules

NAME_LIMIT: Final = 120
"""A generated LiteLLMModel is called `<model>-<gateway>`."""
NAME_RULES: Final = name_rules(NAME_LIMIT, dns_label=False)

ONE_KEY: Final = "apiKeySecretRef and credentialRef exclude each other: remove one"
RESERVED_PARAMS: Final = (
    "params cannot hold model, apiBase, apiKeySecretRef or credentialRef: set the fields of provider"
)
MODEL_NEEDED: Final = (
    "a model is needed: set provider.model, or modelActivationRef for a model of this cluster"
)
ACTIVATION_ALONE: Final = "modelActivationRef says what is served: remove provider.model and provider.apiBase"
GATEWAY_ONCE: Final = "each gateway is named once: remove the repeated entry of gatewayRefs"


class Params(Model):
    """Further parameters of the model, by the LiteLLM operator's names."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra=rules(
            Rule(
                "!has(self.model) && !has(self.apiBase) && !has(self.apiKeySecretRef) && "
                "!has(self.credentialRef)",
                RESERVED_PARAMS,
                "FieldValueForbidden",
            )
        ),
    )

    model: str | None = None
    """Not here: see `provider.model`."""
    api_base: str | None = None
    """Not here: see `provider.apiBase`."""
    api_key_secret_ref: FreeObject | None = None
    """Not here: see `provider.apiKeySecretRef`."""
    credential_ref: FreeObject | None = None
    """Not here: see `provider.credentialRef`."""

    @model_validator(mode="after")
    def _nothing_reserved(self) -> Self:
        reserved = (self.model, self.api_base, self.api_key_secret_ref, self.credential_ref)
        if any(each is not None for each in reserved):
            raise ValueError(RESERVED_PARAMS)
        return self

    @property
    def given(self) -> dict[str, object]:
        """What is handed on, as it stands."""
        return dict(self.model_extra or {})


class Provider(Model):
    """Who serves the model."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                "!(has(self.apiKeySecretRef) && has(self.credentialRef))",
                ONE_KEY,
                field_path=".credentialRef",
            )
        )
    )

    model: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """The provider and its name of the model, for example openai/gpt-4o."""
    api_base: str = ""
    """Address of the provider's API."""
    api_version: str = ""
    """Version of the provider's API."""
    api_key_secret_ref: SecretKeyRef | None = None
    """Where the key of the provider's API is kept."""
    credential_ref: LocalName | None = None
    """A LiteLLMCredential in the namespace of the gateway, instead of a key."""
    params: Params = Field(default_factory=Params)
    """Further parameters of the model."""

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        if self.api_key_secret_ref is not None and self.credential_ref is not None:
            raise ValueError(ONE_KEY)
        return self


class Limits(Model):
    """How much the model may be asked."""

    rpm: Count | None = None
    """Requests per minute."""
    tpm: Count | None = None
    """Tokens per minute."""
    timeout_seconds: Count | None = None
    """Longest answer, in seconds."""
    stream_timeout_seconds: Count | None = None
    """Longest streamed answer, in seconds."""
    max_retries: Count | None = None
    """How often a failed request is tried again."""


class Routing(Model):
    """Which of several models of one name is asked."""

    weight: Count | None = None
    """Share of the requests."""
    order: StrictInt | None = None
    """Models of a lower order are asked first."""
    tags: Annotated[tuple[str, ...], Field(max_length=64)] = ()
    """Tags that requests choose models by."""


class ActivationRef(Model):
    """A ModelActivation of the appliance in the same cluster."""

    name: Name
    """Name of the ModelActivation."""
    namespace: Namespace = HOME_NAMESPACE
    """Namespace of the ModelActivation."""


class PalenaModelSpec(Model):
    """The model that is wanted, and the gateways that serve it."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                "has(self.modelActivationRef) || (has(self.provider) && has(self.provider.model))",
                MODEL_NEEDED,
                "FieldValueRequired",
                ".provider",
            ),
            Rule(
                "!has(self.modelActivationRef) || !has(self.provider) || "
                "!(has(self.provider.model) || has(self.provider.apiBase))",
                ACTIVATION_ALONE,
                field_path=".modelActivationRef",
            ),
            Rule(
                "self.gatewayRefs.all(x, self.gatewayRefs.exists_one(y, x.name == y.name && "
                # `namespace` is a word of CEL's own; without underscores its length is not known.
                "has(x.__namespace__) == has(y.__namespace__) && "
                "(!has(x.__namespace__) || x.__namespace__ == y.__namespace__)))",
                GATEWAY_ONCE,
                field_path=".gatewayRefs",  # by the reason Duplicate the server would leave the message out
            ),
        )
    )

    gateway_refs: Annotated[tuple[Reference, ...], Field(min_length=1, max_length=32)]
    """Gateways that serve the model."""
    model_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """Name that clients ask for; left out, that of this object."""
    provider: Provider = Field(default_factory=Provider)
    """Who serves the model."""
    limits: Limits = Field(default_factory=Limits)
    """How much the model may be asked."""
    routing: Routing = Field(default_factory=Routing)
    """Which of several models of one name is asked."""
    info: FreeObject = Field(default_factory=dict)
    """What is known of the model, by the LiteLLM operator's names: mode, prices, and the like."""
    model_activation_ref: ActivationRef | None = None
    """A model of the appliance in the same cluster, instead of a provider."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.model_activation_ref is None and self.provider.model is None:
            raise ValueError(MODEL_NEEDED)
        if self.model_activation_ref is not None and (self.provider.model or self.provider.api_base):
            raise ValueError(ACTIVATION_ALONE)
        return self

    @model_validator(mode="after")
    def _gateways_once(self) -> Self:
        places = [(each.namespace, each.name) for each in self.gateway_refs]
        if len(set(places)) < len(places):
            raise ValueError(GATEWAY_ONCE)
        return self


class GatewayEntry(Model):
    """The model on one gateway."""

    name: str = ""
    """Name of the gateway."""
    namespace: str = ""
    """Namespace of the gateway."""
    litellm_model_ref: str = ""
    """The LiteLLMModel, in the namespace of the gateway."""
    synced: StrictBool = False
    """Whether the gateway serves the model as it is wanted now."""
    ready: StrictBool = False
    """Whether it is synced, the gateway is ready, and the model is not known to be unhealthy."""
    model_id: str = ""
    """The gateway's own identifier of the model."""
    health: str = ""
    """What the gateway's health checks say."""
    reason: str = ""
    """Why it is not ready, as one CamelCase word."""
    message: str = ""
    """Why it is not ready."""


class PalenaModelStatus(PalenaStatus):
    """What became of the model, gateway by gateway."""

    gateways: tuple[GatewayEntry, ...] = ()
    """The model on each gateway, in the order of the spec."""
    synced_count: Count | None = None
    """Gateways that serve the model."""
    total_count: Count | None = None
    """Gateways that shall."""
    gateways_summary: str = ""
    """Both numbers, as `1/2`."""
