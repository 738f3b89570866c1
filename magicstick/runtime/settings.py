"""Every setting of the operator: one model, from which flags, environment and documentation come.

The environment variables have no prefix; their names are those of the specification (spec:
magicstick-api §7, modules-and-apps §1). A flag of `magicstick run` wins over the environment, which wins
over the default.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

DnsLabel = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", min_length=1, max_length=63)
]
DnsName = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", min_length=1, max_length=253)
]
Address = Annotated[str, StringConstraints(pattern=r"^([^:\s]*|\[[0-9a-fA-F:]+\]):[0-9]{1,5}$|^$")]
Positive = Annotated[float, Field(gt=0)]


def described(group: str, default: Any, text: str, **more: Any) -> Any:
    """A field with its place in the documentation."""
    return Field(default=default, description=text, json_schema_extra={"group": group}, **more)


OBJECTS, CATALOGS, GATEWAY, CONNECTION, RUNNING, LEADING, LOGGING = (
    "Objects",
    "Catalogs",
    "Gateway and identity",
    "Connection",
    "Running",
    "Leadership",
    "Logging",
)


class SettingsError(Exception):
    """A setting has a value that is not allowed; the message names it and says what is."""


class Settings(BaseSettings):
    """The settings, immutable. See the module's docstring."""

    model_config = SettingsConfigDict(
        frozen=True, case_sensitive=False, extra="ignore", env_ignore_empty=True
    )

    appliance_namespace: DnsLabel = described(OBJECTS, "ai-system", "Where all our kinds live.")
    appliance_name: DnsName = described(OBJECTS, "local", "The Appliance that is reconciled.")
    flux_namespace: DnsLabel = described(
        OBJECTS, "flux-system", "Where Kustomizations are made, and the default namespace of their source."
    )
    litellm_namespace: DnsLabel = described(OBJECTS, "ai", "Where LiteLLM runs.")
    settings_namespace: DnsLabel = described(
        OBJECTS, "", "Namespace of the settings ConfigMap; FLUX_NAMESPACE when empty.", validate_default=False
    )
    settings_configmap_name: DnsName = described(
        OBJECTS,
        "ai-appliance-settings",
        "The ConfigMap with domains, whose keys Flux substitutes in modules.",
    )

    module_catalog_namespace: DnsLabel = described(CATALOGS, "ai-system", "Namespace of the module catalog.")
    module_catalog_name: DnsName = described(
        CATALOGS, "magicstick-module-catalog", "ConfigMap of the module catalog, key modules.json."
    )
    app_catalog_namespace: DnsLabel = described(CATALOGS, "ai-system", "Namespace of the app catalog.")
    app_catalog_name: DnsName = described(
        CATALOGS, "magicstick-app-catalog", "ConfigMap of the app catalog, key applications.json."
    )
    compute_target_catalog_namespace: DnsLabel = described(
        CATALOGS, "ai-system", "Namespace of the compute-target catalog."
    )
    compute_target_catalog_name: DnsName = described(
        CATALOGS, "magicstick-compute-target-catalog", "ConfigMap of the compute targets, key targets.json."
    )
    model_presets_namespace: DnsLabel = described(CATALOGS, "ai-system", "Namespace of the model presets.")
    model_presets_name: DnsName = described(
        CATALOGS, "magicstick-model-presets", "ConfigMap of the model presets, key presets.json."
    )

    default_mdns_domain: DnsName = described(
        GATEWAY, "magicstick.local", "Local domain where the settings ConfigMap names none."
    )
    default_public_domain: DnsName = described(
        GATEWAY, "magicstick.example.com", "Public domain where the settings ConfigMap names none."
    )
    identity_namespace: DnsLabel = described(GATEWAY, "identity-system", "Where routes and policies live.")
    identity_gateway_name: DnsName = described(
        GATEWAY, "identity-pilot", "The Gateway that routes attach to."
    )
    gateway_section_name: str = described(GATEWAY, "", "Listener of the Gateway; every listener when empty.")
    guard_service: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][-a-z0-9.]*:[0-9]{1,5}$")] = described(
        GATEWAY, "magicstick-access-guard:8080", "Service and port of the access guard."
    )
    oidc_client_id: str = described(GATEWAY, "magicstick-human-gateway-local", "OIDC client of the routes.")
    oidc_client_secret_name: DnsName = described(
        GATEWAY, "magicstick-human-gateway-client", "Secret with the OIDC client's secret."
    )

    kubeconfig: Path | None = described(
        CONNECTION, None, "Kubeconfig to use; inside a cluster the service account is the default."
    )
    context: str | None = described(
        CONNECTION, None, "Context of the kubeconfig; its current one by default."
    )
    kubernetes_service_url: str = described(
        CONNECTION, "https://kubernetes.default.svc", "The API server as seen from inside a cluster."
    )
    list_mode: Literal["auto", "watchlist", "list"] = described(
        CONNECTION, "auto", "How caches are filled first: streamed, paged, or streamed where the server can."
    )

    requeue_seconds: Positive = described(
        RUNNING,
        20.0,
        "Seconds after which every object is looked at again over the caches, without a request.",
    )
    workers: Annotated[int, Field(ge=1, le=256)] = described(
        RUNNING, 16, "Objects of one kind that are worked on at a time."
    )
    sync_timeout_seconds: Positive = described(
        RUNNING, 120.0, "Seconds after which caches that have not synced are named in the log."
    )
    drain_seconds: Positive = described(
        RUNNING, 20.0, "Seconds that work in progress may take to end after SIGTERM."
    )
    health_bind_address: Address = described(
        RUNNING, "127.0.0.1:8081", "Where /livez and /readyz are served; empty switches them off."
    )
    metrics_bind_address: Address = described(
        RUNNING, "127.0.0.1:8080", "Where /metrics is served; empty switches it off."
    )

    leader_election: bool = described(
        LEADING, default=True, text="Write only while holding the lease. Without it nothing fences replicas."
    )
    lease_name: DnsName = described(LEADING, "magicstick-operator", "The Lease.")
    lease_namespace: DnsLabel = described(
        LEADING, "", "Namespace of the Lease; APPLIANCE_NAMESPACE when empty.", validate_default=False
    )
    lease_duration_seconds: Positive = described(
        LEADING, 35.0, "Seconds after which another process may take a lease that is not renewed."
    )
    lease_renew_deadline_seconds: Positive = described(
        LEADING, 30.0, "Seconds after the last renewal during which this process still writes."
    )
    lease_retry_seconds: Positive = described(LEADING, 5.0, "Seconds between two renewals or attempts.")

    log_format: Literal["auto", "json", "console"] = described(
        LOGGING, "auto", "Lines of JSON, or lines for people; people get theirs on a terminal."
    )
    log_level: Literal["debug", "info", "warning", "error"] = described(
        LOGGING, "info", "The least important lines that are written."
    )

    @model_validator(mode="after")
    def _durations_fit(self) -> Self:
        if not self.lease_retry_seconds < self.lease_renew_deadline_seconds < self.lease_duration_seconds:
            raise ValueError(
                "LEASE_RETRY_SECONDS < LEASE_RENEW_DEADLINE_SECONDS < LEASE_DURATION_SECONDS must hold"
            )
        return self

    @property
    def settings_place(self) -> tuple[str, str]:
        """(namespace, name) of the settings ConfigMap."""
        return self.settings_namespace or self.flux_namespace, self.settings_configmap_name

    @property
    def lease_place(self) -> tuple[str, str]:
        """(namespace, name) of the Lease."""
        return self.lease_namespace or self.appliance_namespace, self.lease_name

    @classmethod
    def load(cls, **flags: Any) -> "Settings":
        """From the environment, with the flags that were given on top.

        Raises:
            SettingsError: naming every variable that is wrong, its value, and what is allowed.
        """
        try:
            return cls(**{name: value for name, value in flags.items() if value is not None})
        except ValidationError as error:
            raise SettingsError("\n".join(map(_sentence, error.errors()))) from None


def _sentence(error: Any) -> str:
    """One problem in words: the variable, what it is, what it should be."""
    where = ".".join(str(part) for part in error["loc"]).upper()
    message = str(error["msg"]).removeprefix("Value error, ")
    if not where:
        return message
    return f"{where} is {error['input']!r}: {message[:1].lower()}{message[1:]}"
