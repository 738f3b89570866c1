"""How settings of programs are declared, read, described, and refused in words."""

import os
from collections.abc import Callable, Mapping
from ipaddress import IPv6Address
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
from pydantic_settings import BaseSettings, SettingsConfigDict

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


def counts(value: object) -> object:
    """`module=4,appliance=1` as a mapping; a mapping stays as it is."""
    if not isinstance(value, str):
        return value
    pairs = (part.partition("=") for part in value.split(",") if part.strip())
    return {name.strip(): count.strip() for name, _, count in pairs}


def words(value: object) -> object:
    """`a,b` as a tuple; what is no text stays as it is."""
    if not isinstance(value, str):
        return value
    return tuple(part.strip() for part in value.split(",") if part.strip())


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

HALVES, APPLIANCE, CATALOGS, GATEWAY, PALENA, CONNECTION, CONTROLLERS, PROBES, LEADING, LOGGING = GROUPS = (
    "What runs",
    "Appliance",
    "Catalogs",
    "Gateway and identity",
    "Palena",
    "Connection to the cluster",
    "Controllers",
    "Probes and metrics",
    "Leader election",
    "Logging",
)


def setting(group: str, default: T, text: str, *, allowed: str = "", shown: str = "", flag: str = "") -> T:
    """A field and its documentation.

    Args:
        group: the heading under which it stands.
        default: the value where nothing else is said.
        text: what it is for, one sentence.
        allowed: which values are; choices say it by their type.
        shown: the default in words, where the value says too little.
        flag: the flag, where it is not called like the variable.
    """
    extra: dict[str, JsonValue] = {"group": group, "allowed": allowed, "shown": shown, "flag": flag}
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


class Described(NamedTuple):
    """What the documentation says of a setting."""

    name: str
    group: str
    text: str
    allowed: str
    default: str
    choices: tuple[str, ...]
    given_flag: str = ""

    @property
    def variable(self) -> str:
        """The environment variable."""
        return self.name.upper()

    @property
    def flag(self) -> str:
        """The flag of `magicstick run`."""
        return self.given_flag or "--" + self.name.replace("_", "-")


def describe(model: type[BaseSettings]) -> tuple[Described, ...]:
    """All settings of a program, in the order in which they are declared."""
    return tuple(_described(model, name) for name in model.model_fields)


def _described(model: type[BaseSettings], name: str) -> Described:
    field = model.model_fields[name]
    extra = cast("Mapping[str, str]", field.json_schema_extra)
    choices = _choices(field.annotation)
    allowed = f"one of {', '.join(choices)}" if choices else extra["allowed"]
    default = extra["shown"] or _plain(field.default)
    text = field.description or ""
    return Described(name, extra["group"], text, allowed, default, choices, extra.get("flag", ""))


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
    where = "".join(f" for {part}" for part in details["loc"][1:2] if isinstance(part, str))
    default = f"; the default is {known.default}" if known.default else ""
    return f"{known.variable} ({known.flag}) is {shown!r}{where}; allowed is {known.allowed}{default}"
