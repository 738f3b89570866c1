"""Every setting of the operator: one model, from which flags, environment and documentation come.

The environment variables have no prefix; their names are those of the specification (spec:
magicstick-api §7, modules-and-apps §1). A flag of `magicstick run` wins over the environment, which wins
over the default. An empty variable counts as not set.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import model_validator
from pydantic_settings import BaseSettings, NoDecode

from magicstick.runtime.options import (
    ADDRESS,
    APPLIANCE,
    CATALOGS,
    CONNECTION,
    CONTROLLERS,
    GATEWAY,
    HALVES,
    LABEL,
    LEADING,
    LOGGING,
    NAME,
    PALENA,
    PROBES,
    SECONDS,
    Address,
    Count,
    Described,
    Label,
    LeasedSettings,
    Name,
    OptionalLabel,
    Seconds,
    Service,
    SettingsError,
    Text,
    Url,
    counts,
    derived,
    describe,
    in_cluster,
    setting,
    words,
)

PalenaController = Literal["gateway", "model", "ui", "observability", "mcpserver"]
PALENA_CONTROLLERS: Final[tuple[PalenaController, ...]] = get_args(PalenaController)


class Settings(LeasedSettings):
    """The settings, immutable. See the module's docstring."""

    magicstick_enable_appliance: bool = setting(
        HALVES,
        True,  # noqa: FBT003 - the default of a setting
        "Run the appliance: modules, models, instances, hardware.",
        flag="--enable-magicstick",
    )
    magicstick_enable_palena: bool = setting(
        HALVES,
        False,  # noqa: FBT003 - the default of a setting
        "Run Palena: gateways and what stands around them.",
        flag="--enable-palena",
    )

    appliance_namespace: Label = setting(APPLIANCE, "ai-system", "Where all our kinds live.", allowed=LABEL)
    appliance_name: Name = setting(APPLIANCE, "local", "The Appliance that is reconciled.", allowed=NAME)
    flux_namespace: Label = setting(
        APPLIANCE,
        "flux-system",
        "Where Kustomizations are made, and the default namespace of their source.",
        allowed=LABEL,
    )
    settings_namespace: Label = derived(
        APPLIANCE,
        lambda known: known["flux_namespace"],
        "Namespace of the ConfigMap with the appliance's domains.",
        allowed=LABEL,
        shown="FLUX_NAMESPACE",
    )
    settings_configmap_name: Name = setting(
        APPLIANCE,
        "ai-appliance-settings",
        "The ConfigMap with the appliance's domains, whose keys Flux substitutes in modules.",
        allowed=NAME,
    )
    litellm_namespace: Label = setting(APPLIANCE, "ai", "Where LiteLLM runs.", allowed=LABEL)

    module_catalog_namespace: Label = setting(
        CATALOGS, "ai-system", "Namespace of the module catalog.", allowed=LABEL
    )
    module_catalog_name: Name = setting(
        CATALOGS,
        "magicstick-module-catalog",
        "ConfigMap of the module catalog, key modules.json.",
        allowed=NAME,
    )
    app_catalog_namespace: Label = setting(
        CATALOGS, "ai-system", "Namespace of the app catalog.", allowed=LABEL
    )
    app_catalog_name: Name = setting(
        CATALOGS,
        "magicstick-app-catalog",
        "ConfigMap of the app catalog, key applications.json.",
        allowed=NAME,
    )
    compute_target_catalog_namespace: Label = setting(
        CATALOGS, "ai-system", "Namespace of the compute-target catalog.", allowed=LABEL
    )
    compute_target_catalog_name: Name = setting(
        CATALOGS,
        "magicstick-compute-target-catalog",
        "ConfigMap of the compute targets, key targets.json.",
        allowed=NAME,
    )
    model_presets_namespace: Label = setting(
        CATALOGS, "ai-system", "Namespace of the model presets.", allowed=LABEL
    )
    model_presets_name: Name = setting(
        CATALOGS,
        "magicstick-model-presets",
        "ConfigMap of the model presets, key presets.json.",
        allowed=NAME,
    )

    default_mdns_domain: Name = setting(
        GATEWAY,
        "magicstick.local",
        "Local domain where the settings ConfigMap names none.",
        allowed=NAME,
    )
    default_public_domain: Name = setting(
        GATEWAY,
        "magicstick.example.com",
        "Public domain where the settings ConfigMap names none.",
        allowed=NAME,
    )
    identity_namespace: Label = setting(
        GATEWAY, "identity-system", "Where routes and policies live.", allowed=LABEL
    )
    identity_gateway_name: Name = setting(
        GATEWAY, "identity-pilot", "The Gateway that routes attach to.", allowed=NAME
    )
    gateway_section_name: OptionalLabel = setting(
        GATEWAY, "", "Listener of the Gateway; every listener when empty.", allowed=LABEL
    )
    guard_service: Service = setting(
        GATEWAY,
        "magicstick-access-guard:8080",
        "Service and port of the access guard.",
        allowed="service:port",
    )
    oidc_client_id: Text = setting(
        GATEWAY, "magicstick-human-gateway-local", "OIDC client of the routes.", allowed="any text"
    )
    oidc_client_secret_name: Name = setting(
        GATEWAY,
        "magicstick-human-gateway-client",
        "Secret that holds the OIDC client's secret.",
        allowed=NAME,
    )

    palena_controllers: Annotated[tuple[PalenaController, ...], NoDecode] = setting(
        PALENA,
        PALENA_CONTROLLERS,
        "Which controllers of Palena run.",
        allowed=f"some of {', '.join(PALENA_CONTROLLERS)}, joined by ','",
        shown="all",
    )
    palena_watch_namespaces: Annotated[tuple[Label, ...], NoDecode] = setting(
        PALENA,
        (),
        "Where objects of Palena are looked for; what is elsewhere does not exist for it.",
        allowed="namespaces, joined by ','",
        shown="everywhere",
        flag="--watch-namespaces",
    )
    palena_callback_shape: Literal["auto", "seed", "types"] = setting(
        PALENA,
        "auto",
        "How a LiteLLMInstance is told of Langfuse; auto is as its definition says.",
    )
    palena_cluster_domain: Name = setting(
        PALENA, "cluster.local", "The domain of Services within the cluster.", allowed=NAME
    )
    palena_cnpg_namespace: Label = setting(
        PALENA, "cnpg-system", "Where the CloudNativePG operator runs.", allowed=LABEL
    )
    palena_litellm_operator_namespace: Label = setting(
        PALENA, "litellm-operator-system", "Where the LiteLLM operator runs.", allowed=LABEL
    )

    kubeconfig: Path | None = setting(
        CONNECTION,
        None,
        "Kubeconfig to use, as kubectl takes it.",
        allowed="a path, or several joined by ':'",
        shown="the service account in a cluster, ~/.kube/config elsewhere",
    )
    kube_context: Text | None = setting(
        CONNECTION,
        None,
        "Context of the kubeconfig.",
        allowed="the name of a context",
        shown="the current one",
    )
    kubernetes_service_url: Url = setting(
        CONNECTION,
        "https://kubernetes.default.svc",
        "The API server as seen from inside a cluster.",
        allowed="an http or https URL without a path",
    )
    list_mode: Literal["auto", "watchlist", "list"] = setting(
        CONNECTION,
        "auto",
        "How caches are filled first: streamed, in pages, or streamed where the server can.",
    )

    requeue_seconds: Seconds = setting(
        CONTROLLERS,
        20.0,
        "After how many seconds every object is looked at again, over the caches and without a request.",
        allowed=SECONDS,
    )
    workers: Count = setting(
        CONTROLLERS, 16, "How many objects of one kind are worked on at a time.", allowed="1 to 256"
    )
    controller_workers: Annotated[Mapping[str, Count], NoDecode] = setting(
        CONTROLLERS,
        {},
        "The same for single controllers.",
        allowed="controller=1 to 256, several joined by ','",
        shown="WORKERS for each",
    )
    sync_timeout_seconds: Seconds = setting(
        CONTROLLERS,
        120.0,
        "After how many seconds caches that have not synced are named in the log.",
        allowed=SECONDS,
    )
    drain_seconds: Seconds = setting(
        CONTROLLERS,
        20.0,
        "How many seconds work in progress may take to end after SIGTERM.",
        allowed=SECONDS,
    )

    health_bind_address: Address = derived(
        PROBES,
        lambda _: ":8081" if in_cluster() else "127.0.0.1:8081",
        "Where /livez and /readyz are served.",
        allowed=ADDRESS,
        shown="127.0.0.1:8081, in a cluster :8081",
    )
    metrics_bind_address: Address = derived(
        PROBES,
        lambda _: ":8080" if in_cluster() else "127.0.0.1:8080",
        "Where /metrics is served, without authentication.",
        allowed=ADDRESS,
        shown="127.0.0.1:8080, in a cluster :8080",
    )

    leader_election: bool = setting(
        LEADING,
        True,  # noqa: FBT003 - the default of a setting
        "Write only while holding the Lease. Without it nothing keeps two processes from writing.",
    )
    lease_name: Name = setting(LEADING, "magicstick-operator", "The Lease.", allowed=NAME)
    lease_namespace: Label = derived(
        LEADING,
        lambda known: known["appliance_namespace"],
        "Namespace of the Lease.",
        allowed=LABEL,
        shown="APPLIANCE_NAMESPACE",
    )
    lease_duration_seconds: Seconds = setting(
        LEADING,
        35.0,
        "After how many seconds without renewal another process may take the Lease.",
        allowed="seconds above LEASE_RENEW_DEADLINE_SECONDS",
    )
    lease_renew_deadline_seconds: Seconds = setting(
        LEADING,
        30.0,
        "How many seconds after its last renewal this process still writes.",
        allowed="seconds above LEASE_RETRY_SECONDS",
    )
    lease_retry_seconds: Seconds = setting(
        LEADING, 5.0, "How many seconds lie between two renewals, or two attempts.", allowed=SECONDS
    )

    log_format: Literal["auto", "json", "console"] = setting(
        LOGGING,
        "auto",
        "Lines of JSON, or lines for people; auto is for people on a terminal outside of a cluster.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        LOGGING,
        "info",
        "The least important lines that are written.",
    )

    @model_validator(mode="before")
    @classmethod
    def _split(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return {name: _SPLIT[name](value) if name in _SPLIT else value for name, value in values.items()}

    @model_validator(mode="after")
    def _something_runs(self) -> Self:
        if not (self.magicstick_enable_appliance or self.magicstick_enable_palena):
            raise ValueError(
                "nothing is to run: one of MAGICSTICK_ENABLE_APPLIANCE (--enable-magicstick) and "
                "MAGICSTICK_ENABLE_PALENA (--enable-palena) must be true"
            )
        return self

    @property
    def settings_place(self) -> tuple[str, str]:
        """(namespace, name) of the settings ConfigMap."""
        return self.settings_namespace, self.settings_configmap_name

    @property
    def lease_place(self) -> tuple[str, str]:
        """(namespace, name) of the Lease."""
        return self.lease_namespace, self.lease_name

    def workers_of(self, controller: str) -> int:
        """How many objects this controller works on at a time."""
        return self.controller_workers.get(controller, self.workers)

    def check_controllers(self, known: Sequence[str]) -> None:
        """Refuse workers for controllers that do not exist, which only those who make them can tell.

        Raises:
            SettingsError: naming the first such controller, and those that there are.
        """
        for name in self.controller_workers:
            if name not in known:
                raise SettingsError(
                    f"CONTROLLER_WORKERS (--controller-workers) names controller {name!r}; "
                    f"there are {', '.join(known)}"
                )


_SPLIT: Final[Mapping[str, Callable[[object], object]]] = {
    "controller_workers": counts,
    "palena_controllers": words,
    "palena_watch_namespaces": words,
}
"""How the text of a setting becomes what its type expects."""


def same(name: str) -> Any:
    """A field of another program's settings that the operator has as well, with all that is said of it."""
    return copy(Settings.model_fields[name])


def described(model: type[BaseSettings] = Settings) -> tuple[Described, ...]:
    """All settings of a program, the operator's by default, in the order in which they are declared."""
    return describe(model)
