"""The settings of the model catalog (spec: models §16); what the operator has as well is the same here."""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from magicstick.runtime.logs import Secret
from magicstick.runtime.options import (
    API_URL,
    LABEL,
    LEADING,
    NAME,
    SECONDS,
    Address,
    ApiUrl,
    Label,
    LeasedSettings,
    Name,
    Seconds,
    Text,
    Url,
    derived,
    setting,
)
from magicstick.runtime.settings import same

PLACES: Final = "Where things are"
LIMITS: Final = "Token limits"
CONSUMERS: Final = "Consumers"
TOKENS: Final = "a whole number from 1 to 100000000"

Tokens = Annotated[int, Field(ge=1, le=100_000_000)]


class CatalogSettings(LeasedSettings):
    """The settings, immutable."""

    namespace: Label = setting(PLACES, "ai", "Where LiteLLM, the Models and the catalog are.", allowed=LABEL)
    appliance_namespace: Label = setting(PLACES, "ai-system", "Where ModelActivations live.", allowed=LABEL)
    litellm_base_url: ApiUrl = setting(
        PLACES, "http://litellm.ai.svc.cluster.local:4000", "Where LiteLLM is managed.", allowed=API_URL
    )
    litellm_api_base: ApiUrl = derived(
        PLACES,
        lambda known: f"{known['litellm_base_url']}/v1",
        "Where consumers reach LiteLLM.",
        allowed=API_URL,
        shown="LITELLM_BASE_URL and /v1",
    )
    kubeai_api_base: ApiUrl = setting(
        PLACES,
        "http://kubeai.ai.svc.cluster.local/openai/v1",
        "Where LiteLLM reaches KubeAI.",
        allowed=API_URL,
    )
    catalog_configmap: Name = setting(
        PLACES, "ai-model-catalog", "The ConfigMap that is published.", allowed=NAME
    )
    external_models_configmap: Name = setting(
        PLACES, "ai-external-models", "The ConfigMap with other providers' models.", allowed=NAME
    )
    litellm_master_key: Secret = setting(
        PLACES, Secret(""), "LiteLLM's master key; from the environment alone.", allowed="any text"
    )

    catalog_poll_seconds: Seconds = setting(
        PLACES, 30.0, "After how many seconds a pass that failed is repeated.", allowed=SECONDS
    )
    catalog_watch_seconds: Seconds = setting(
        PLACES,
        15.0,
        "With CATALOG_POLL_SECONDS: after how many seconds LiteLLM is looked at again without a change.",
        allowed=SECONDS,
    )

    ai_appliance_default_chat_model: Text = setting(
        LIMITS, "auto", "The default chat model; the first one where it is not there.", allowed="a model"
    )
    ai_appliance_default_embedding_model: Text = setting(
        LIMITS,
        "auto",
        "The default embedding model; the first one where it is not there.",
        allowed="a model",
    )
    opencode_default_context_tokens: Tokens = setting(
        LIMITS, 131072, "Context of a model that does not tell.", allowed=TOKENS
    )
    opencode_default_output_tokens: Tokens = setting(
        LIMITS, 8192, "Output of a model that does not tell.", allowed=TOKENS
    )
    paperclip_opencode_max_output_tokens: Tokens = setting(
        LIMITS, 4096, "Most output that Paperclip asks for.", allowed=TOKENS
    )
    paperclip_opencode_context_headroom_tokens: Tokens = setting(
        LIMITS, 4096, "Context that Paperclip leaves free.", allowed=TOKENS
    )

    consumer_restart_enabled: bool = setting(
        CONSUMERS,
        True,  # noqa: FBT003 - the default of a setting
        "Restart Pods that read the catalog only at their start.",
    )
    agent_template_sync_enabled: bool = setting(
        CONSUMERS,
        True,  # noqa: FBT003 - the default of a setting
        "Keep the models of AgentTemplates equal to the catalog.",
    )
    agent_template_names: str = setting(
        CONSUMERS,
        "litellm-default",
        "AgentTemplates that belong to no instance.",
        allowed="names, several joined by ','",
    )

    kubeconfig: Path | None = same("kubeconfig")
    kube_context: Text | None = same("kube_context")
    kubernetes_service_url: Url = same("kubernetes_service_url")
    list_mode: Literal["auto", "watchlist", "list"] = same("list_mode")
    sync_timeout_seconds: Seconds = same("sync_timeout_seconds")
    drain_seconds: Seconds = same("drain_seconds")

    health_bind_address: Address = same("health_bind_address")
    metrics_bind_address: Address = same("metrics_bind_address")

    leader_election: bool = same("leader_election")
    lease_name: Name = setting(LEADING, "ai-model-catalog-controller", "The Lease.", allowed=NAME)
    lease_namespace: Label = derived(
        LEADING, lambda known: known["namespace"], "Namespace of the Lease.", allowed=LABEL, shown="NAMESPACE"
    )
    lease_duration_seconds: Seconds = same("lease_duration_seconds")
    lease_renew_deadline_seconds: Seconds = same("lease_renew_deadline_seconds")
    lease_retry_seconds: Seconds = same("lease_retry_seconds")

    log_format: Literal["auto", "json", "console"] = same("log_format")
    log_level: Literal["debug", "info", "warning", "error"] = same("log_level")

    @property
    def resync_s(self) -> float:
        """After so many seconds everything is looked at again."""
        return self.catalog_poll_seconds + self.catalog_watch_seconds

    @property
    def templates(self) -> frozenset[str]:
        """The names in AGENT_TEMPLATE_NAMES."""
        return frozenset(name.strip() for name in self.agent_template_names.split(",") if name.strip())
