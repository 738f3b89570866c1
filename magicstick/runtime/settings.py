"""Every setting of the operator: one model, from which flags, environment and documentation come.

The environment variables have no prefix; their names are those of the specification (spec:
magicstick-api §7, modules-and-apps §1). A flag of `magicstick run` wins over the environment, which wins
over the default. An empty variable counts as not set.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from ipaddress import IPv6Address
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    Protocol,
    Self,
    TypeVar,
    cast,
    get_args,
    get_origin,
)

from pydantic import AfterValidator, Field, JsonValue, StringConstraints, ValidationError, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

T = TypeVar("T")
MAX_PORT: Final = 65535
OFF: Final = "off"
SHOWN_CHARACTERS: Final = 80


def in_cluster() -> bool:
    """Whether this process runs in a Pod: Kubernetes sets the variable in every container."""
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST"))


class Listen(NamedTuple):
    """Where a server listens; an empty host means every interface, port 0 any free port."""

    host: str
    port: int

    @classmethod
    def parse(cls, address: str) -> "Listen | None":
        """`host:port`, `:port` or `[IPv6]:port`; None for `off`.

        Raises:
            ValueError: it is none of these.
        """
        if address == OFF:
            return None
        host, colon, port = address.rpartition(":")
        if not colon or not port.isascii() or not port.isdigit() or int(port) > MAX_PORT:
            raise ValueError("no port")
        if host.startswith("[") and host.endswith("]"):
            return cls(str(IPv6Address(host[1:-1])), int(port))
        if ":" in host or any(character.isspace() for character in host):
            raise ValueError("no host")
        return cls(host, int(port))


def _address(value: str) -> str:
    Listen.parse(value)
    return value


def _service(value: str) -> str:
    listen = Listen.parse(value)
    if listen is None or not listen.host or not listen.port:
        raise ValueError("no service")
    return value


def _counts(value: object) -> object:
    """`module=4,appliance=1` as a mapping; a mapping stays as it is."""
    if not isinstance(value, str):
        return value
    pairs = (part.partition("=") for part in value.split(",") if part.strip())
    return {name.strip(): count.strip() for name, _, count in pairs}


_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
Label = Annotated[str, StringConstraints(pattern=rf"^{_LABEL}$", max_length=63)]
OptionalLabel = Annotated[str, StringConstraints(pattern=rf"^({_LABEL})?$", max_length=63)]
Name = Annotated[str, StringConstraints(pattern=rf"^{_LABEL}(\.{_LABEL})*$", max_length=253)]
Service = Annotated[str, StringConstraints(pattern=rf"^{_LABEL}(\.{_LABEL})*:\d+$"), AfterValidator(_service)]
Url = Annotated[str, StringConstraints(pattern=r"^https?://[^\s/]+/?$")]
ApiUrl = Annotated[
    str, StringConstraints(pattern=r"^https?://[^\s]+$"), AfterValidator(lambda url: url.rstrip("/"))
]
Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Address = Annotated[str, AfterValidator(_address)]
Seconds = Annotated[float, Field(gt=0, le=86400)]
Count = Annotated[int, Field(ge=1, le=256)]

LABEL: Final = "a DNS label: lower-case letters, digits and '-', at most 63 characters"
NAME: Final = "a DNS name: labels of lower-case letters, digits and '-', joined by '.'"
SECONDS: Final = "seconds above 0, at most 86400"
API_URL: Final = "an http or https URL"
ADDRESS: Final = f"host:port, :port for every interface, or '{OFF}'"

APPLIANCE, CATALOGS, GATEWAY, CONNECTION, CONTROLLERS, PROBES, LEADING, LOGGING = GROUPS = (
    "Appliance",
    "Catalogs",
    "Gateway and identity",
    "Connection to the cluster",
    "Controllers",
    "Probes and metrics",
    "Leader election",
    "Logging",
)


def setting(group: str, default: T, text: str, *, allowed: str = "", shown: str = "") -> T:
    """A field and its documentation.

    Args:
        group: the heading under which it stands.
        default: the value where nothing else is said.
        text: what it is for, one sentence.
        allowed: which values are; choices say it by their type.
        shown: the default in words, where the value says too little.
    """
    extra: dict[str, JsonValue] = {"group": group, "allowed": allowed, "shown": shown}
    return Field(default=default, description=text, json_schema_extra=extra)


def derived(
    group: str, default: Callable[[dict[str, Any]], T], text: str, *, allowed: str = "", shown: str = ""
) -> T:
    """The same, with a default made from the settings that stand above it."""
    extra: dict[str, JsonValue] = {"group": group, "allowed": allowed, "shown": shown}
    return Field(default_factory=default, description=text, json_schema_extra=extra)


class SettingsError(Exception):
    """Settings have values that are not allowed: one line for each, with what is allowed."""


class ProgramSettings(BaseSettings):
    """The settings of a program of ours: from the environment and from flags, immutable."""

    model_config = SettingsConfigDict(
        frozen=True, case_sensitive=False, extra="ignore", env_ignore_empty=True, validate_default=True
    )

    @classmethod
    def load(cls, **flags: object) -> Self:
        """From the environment, with the flags that were given (not None) on top.

        Raises:
            SettingsError: naming every variable that is wrong, its value, and what is allowed.
        """
        given: dict[str, Any] = {name: value for name, value in flags.items() if value is not None}
        try:
            return cls(**given)
        except ValidationError as error:
            problems = [
                _sentence(cls, details)
                for details in error.errors(include_url=False)
                # It only repeats that the setting from which the default derives is wrong.
                if details["type"] != "default_factory_not_called"
            ]
            raise SettingsError("\n".join(problems)) from None


class LeaseDurations(Protocol):
    """Seconds that must fit each other."""

    @property
    def lease_duration_seconds(self) -> float: ...  # noqa: D102 - named like its variable
    @property
    def lease_renew_deadline_seconds(self) -> float: ...  # noqa: D102 - see above
    @property
    def lease_retry_seconds(self) -> float: ...  # noqa: D102 - see above


class LeasedSettings(ProgramSettings):
    """The settings of a program that writes while it holds a Lease; it declares all of `LeaseDurations`."""

    @model_validator(mode="after")
    def _durations_fit(self: LeaseDurations) -> LeaseDurations:
        if not self.lease_retry_seconds < self.lease_renew_deadline_seconds < self.lease_duration_seconds:
            raise ValueError(
                "LEASE_RETRY_SECONDS < LEASE_RENEW_DEADLINE_SECONDS < LEASE_DURATION_SECONDS must hold, "
                f"not {self.lease_retry_seconds:g} < {self.lease_renew_deadline_seconds:g} "
                f"< {self.lease_duration_seconds:g}"
            )
        return self


class Settings(LeasedSettings):
    """The settings, immutable. See the module's docstring."""

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
    def _split_counts(cls, values: Any) -> Any:
        if isinstance(values, dict) and "controller_workers" in values:
            return {**values, "controller_workers": _counts(values["controller_workers"])}
        return values

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


def same(name: str) -> Any:
    """A field of another program's settings that the operator has as well, with all that is said of it."""
    return copy(Settings.model_fields[name])


class Described(NamedTuple):
    """What the documentation says of a setting."""

    name: str
    group: str
    text: str
    allowed: str
    default: str
    choices: tuple[str, ...]

    @property
    def variable(self) -> str:
        """The environment variable."""
        return self.name.upper()

    @property
    def flag(self) -> str:
        """The flag of `magicstick run`."""
        return "--" + self.name.replace("_", "-")


def described(model: type[BaseSettings] = Settings) -> tuple[Described, ...]:
    """All settings of a program, in the order in which they are declared."""
    return tuple(_described(model, name) for name in model.model_fields)


def _described(model: type[BaseSettings], name: str) -> Described:
    field = model.model_fields[name]
    extra = cast("Mapping[str, str]", field.json_schema_extra)
    choices = _choices(field.annotation)
    allowed = f"one of {', '.join(choices)}" if choices else extra["allowed"]
    default = extra["shown"] or _plain(field.default)
    return Described(name, extra["group"], field.description or "", allowed, default, choices)


def _choices(annotation: object) -> tuple[str, ...]:
    if annotation is bool:
        return ("true", "false")
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _plain(value: object) -> str:
    """A default as one would write it into the environment."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _sentence(model: type[BaseSettings], details: ErrorDetails) -> str:
    """One problem in words: the variable, what it is, what it should be."""
    message = str(details["msg"]).removeprefix("Value error, ")
    if not details["loc"]:
        return message
    known = _described(model, str(details["loc"][0]))
    value = str(details["input"])
    shown = value if len(value) <= SHOWN_CHARACTERS else value[:SHOWN_CHARACTERS] + "…"
    where = "".join(f" for {part}" for part in details["loc"][1:2])
    default = f"; the default is {known.default}" if known.default else ""
    return f"{known.variable} ({known.flag}) is {shown!r}{where}; allowed is {known.allowed}{default}"
