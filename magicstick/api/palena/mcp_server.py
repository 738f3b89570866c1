"""PalenaMCPServer: web search as tools, with everything it needs (spec: palena §8.2)."""

from typing import Annotated, Final, Literal, Self

from pydantic import ConfigDict, Field, StrictBool, StrictInt, model_validator

from magicstick.api.base import Count, FreeObject, Model
from magicstick.api.palena.shared import (
    AllowedConsumers,
    ConsumersFrom,
    EnvVars,
    HttpUrl,
    PalenaStatus,
    name_rules,
)
from magicstick.api.schema import Rule, rules

NAME_LIMIT: Final = 40
"""The longest generated Service is called `<server>-presidio-anonymizer`."""
NAME_RULES: Final = name_rules(NAME_LIMIT)

ImageName = Annotated[str, Field(min_length=1, max_length=1024)]
Decimal = Annotated[str, Field(max_length=16, pattern=r"^[0-9]+(\.[0-9]+)?$")]
SocketUrl = Annotated[str, Field(max_length=2048, pattern=r"^(https?|wss?)://[^\s]+$")]
Engines = Annotated[tuple[str, ...], Field(max_length=64)]

ALLOWLIST_NEEDED: Final = "mode allowlist admits listed domains alone: set at least one in allowlist"


class Service(Model):
    """The Service of the server."""

    port: Annotated[StrictInt, Field(ge=1, le=65535)] = 8080
    """Its port."""


class Searxng(Model):
    """The search engine, which is always there."""

    image: ImageName = "searxng/searxng:latest"
    """Its image."""
    resources: FreeObject = Field(default_factory=dict)
    """Requests and limits."""
    external_url: Annotated[HttpUrl | None, Field(alias="externalURL")] = None
    """One that somebody else runs, instead."""


class Chromium(Model):
    """The browser that opens pages."""

    enabled: StrictBool = True
    """Whether there is one."""
    engine: Literal["playwright", "cdp"] = "playwright"
    """How it is driven; cdp only with a server older than 0.9."""
    image: ImageName | None = None
    """Its image; left out, that of the engine."""
    resources: FreeObject = Field(default_factory=dict)
    """Requests and limits."""
    external_url: Annotated[SocketUrl | None, Field(alias="externalURL")] = None
    """One that somebody else runs, instead."""
    max_tabs: Annotated[StrictInt, Field(ge=1, le=64)] = 3
    """Pages that are open at once."""


class PresidioPart(Model):
    """One of the two programs of Presidio."""

    image: ImageName | None = None
    """Its image; left out, the latest."""
    resources: FreeObject = Field(default_factory=dict)
    """Requests and limits."""
    external_url: Annotated[HttpUrl | None, Field(alias="externalURL")] = None
    """One that somebody else runs, instead."""


class Presidio(Model):
    """The search for personal data in pages."""

    enabled: StrictBool = True
    """Whether pages are searched."""
    mode: Literal["audit", "redact", "block"] = "audit"
    """What is done with personal data."""
    language: Annotated[str, Field(min_length=2, max_length=16)] = "en"
    """Language of the pages."""
    score_threshold: Decimal = "0.5"
    """From which certainty on something counts."""
    block_threshold: Decimal = "5.0"
    """From which sum of certainties on a page is blocked."""
    entities: Annotated[tuple[str, ...], Field(max_length=64)] = ()
    """What counts as personal data; left out, the usual kinds."""
    analyzer: PresidioPart = Field(default_factory=PresidioPart)
    """Finds personal data."""
    anonymizer: PresidioPart = Field(default_factory=PresidioPart)
    """Takes it out."""


class Flashrank(Model):
    """The order of results by meaning. Its image is not published: build it, or name one."""

    enabled: StrictBool = True
    """Whether results are ordered."""
    model: Annotated[str, Field(min_length=1)] = "ms-marco-MiniLM-L-12-v2"
    """The model that does it."""
    image: ImageName = "ghcr.io/palenaai/palena-flashrank:0.9.1"
    """Its image."""
    resources: FreeObject = Field(default_factory=dict)
    """Requests and limits."""
    external_url: Annotated[HttpUrl | None, Field(alias="externalURL")] = None
    """One that somebody else runs, instead."""
    top_k: Annotated[StrictInt, Field(ge=1)] = 5
    """Results that are kept."""


class InjectionGuard(Model):
    """The search for instructions that are hidden in pages."""

    enabled: StrictBool = False
    """Whether pages are searched."""
    mode: Literal["audit", "annotate", "block"] = "audit"
    """What is done with such pages."""
    model: Annotated[str, Field(min_length=1)] = "deepset/deberta-v3-base-injection"
    """The model that does it."""
    image: ImageName = "ghcr.io/huggingface/text-embeddings-inference:cpu-1.9"
    """Its image, for x86 alone."""
    resources: FreeObject = Field(default_factory=dict)
    """Requests and limits."""
    external_url: Annotated[HttpUrl | None, Field(alias="externalURL")] = None
    """One that somebody else runs, instead."""


class Sidecars(Model):
    """What stands beside the server."""

    searxng: Searxng = Field(default_factory=Searxng)
    """The search engine."""
    chromium: Chromium = Field(default_factory=Chromium)
    """The browser."""
    presidio: Presidio = Field(default_factory=Presidio)
    """The search for personal data."""
    flashrank: Flashrank = Field(default_factory=Flashrank)
    """The order of results."""
    injection_guard: InjectionGuard = Field(default_factory=InjectionGuard)
    """The search for hidden instructions; left out, none."""


class Search(Model):
    """How is searched."""

    default_language: Annotated[str, Field(min_length=2, max_length=16)] = "en"
    """Language of searches that name none."""
    safe_search: Annotated[StrictInt, Field(ge=0, le=2)] = 1
    """How strictly results are filtered: 0 not at all, 1 moderately, 2 strictly."""
    max_results: Annotated[StrictInt, Field(ge=1)] = 10
    """Most results of a search."""
    engines: Engines = ()
    """Engines that are asked; left out, google, duckduckgo and brave."""
    engine_routes: dict[str, Engines] = Field(default_factory=dict)
    """Engines by the kind of a search: general, news, code, science; left out, the usual ones."""


class Robots(Model):
    """Respect for robots.txt."""

    enabled: StrictBool = True
    """Whether it is respected."""
    cache_seconds: Count = 3600
    """How long one is remembered."""


class Domains(Model):
    """Which pages may be opened."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                "self.mode != 'allowlist' || (has(self.allowlist) && size(self.allowlist) > 0)",
                ALLOWLIST_NEEDED,
                "FieldValueRequired",
                ".allowlist",
            )
        )
    )

    mode: Literal["blocklist", "allowlist"] = "blocklist"
    """`blocklist`: all but the listed domains. `allowlist`: the listed domains alone."""
    allowlist: Annotated[tuple[str, ...], Field(max_length=1024)] = ()
    """Domains that may be opened."""
    blocklist: Annotated[tuple[str, ...], Field(max_length=1024)] = ()
    """Domains that may not be opened."""

    @model_validator(mode="after")
    def _allowlist_needed(self) -> Self:
        if self.mode == "allowlist" and not self.allowlist:
            raise ValueError(ALLOWLIST_NEEDED)
        return self


class RateLimit(Model):
    """How often a domain is asked."""

    enabled: StrictBool = True
    """Whether there is a limit."""
    requests_per_domain_per_minute: Annotated[StrictInt, Field(ge=1)] = 10
    """The limit."""


class Policy(Model):
    """What the server may do on the web."""

    robots: Robots = Field(default_factory=Robots)
    """Respect for robots.txt."""
    domains: Domains = Field(default_factory=Domains)
    """Which pages may be opened."""
    rate_limit: RateLimit = Field(default_factory=RateLimit)
    """How often a domain is asked."""


class Logging(Model):
    """What the server logs."""

    level: Literal["debug", "info", "warn", "error"] = "info"
    """The least important lines."""
    format: Literal["json", "text"] = "json"
    """How they are written."""


class Otel(Model):
    """Traces and metrics of the server."""

    enabled: StrictBool = False
    """Whether they are sent."""
    trace_exporter: str = ""
    """How traces are sent."""
    trace_endpoint: str = ""
    """Where traces are sent to."""
    metric_exporter: str = ""
    """How metrics are sent."""
    metric_endpoint: str = ""
    """Where metrics are sent to."""


class ServerNetworkPolicy(Model):
    """Who reaches the sidecars."""

    enabled: StrictBool = True
    """Whether only the server does."""


class MCPConsumers(AllowedConsumers):
    """From which namespaces UIs may refer to the server."""

    from_: Annotated[ConsumersFrom, Field(alias="from")] = "All"
    """`Same`: the own namespace. `All`: every namespace. `List`: the own and the listed ones."""


class PalenaMCPServerSpec(Model):
    """The server that is wanted."""

    image: ImageName = "ghcr.io/palenaai/palena-websearch-mcp:0.9.1"
    """Image of the server."""
    replicas: Annotated[StrictInt, Field(ge=1, le=50)] = 1
    """Replicas of the server."""
    resources: FreeObject = Field(default_factory=dict)
    """Requests and limits of the server."""
    service: Service = Field(default_factory=Service)
    """The Service of the server."""
    sidecars: Sidecars = Field(default_factory=Sidecars)
    """What stands beside the server."""
    search: Search = Field(default_factory=Search)
    """How is searched."""
    policy: Policy = Field(default_factory=Policy)
    """What the server may do on the web."""
    logging: Logging = Field(default_factory=Logging)
    """What the server logs."""
    otel: Otel = Field(default_factory=Otel)
    """Traces and metrics of the server; left out, none."""
    config: FreeObject = Field(default_factory=dict)
    """Further content of palena.yaml; server.port and the endpoints of sidecars cannot be set."""
    env: EnvVars = ()
    """Further environment of the server."""
    network_policy: ServerNetworkPolicy = Field(default_factory=ServerNetworkPolicy)
    """Who reaches the sidecars."""
    allowed_consumers: MCPConsumers = Field(default_factory=MCPConsumers)
    """From which namespaces UIs may refer to the server."""


class SidecarStatus(Model):
    """One sidecar."""

    name: str = ""
    """What it is."""
    enabled: StrictBool = False
    """Whether it is wanted."""
    external: StrictBool = False
    """Whether somebody else runs it."""
    endpoint: str = ""
    """Where it is reached."""
    ready: StrictBool = False
    """Whether it answers, as far as is known."""


class PalenaMCPServerStatus(PalenaStatus):
    """What became of the server, and where it is reached."""

    endpoint: str = ""
    """Where tools are called."""
    config_hash: str = ""
    """SHA-256 of palena.yaml, in hex."""
    sidecars: tuple[SidecarStatus, ...] = ()
    """The sidecars."""
    sidecars_summary: str = ""
    """Ready and wanted sidecars, as `4/5`."""
    replicas: Count | None = None
    """Replicas that are wanted."""
    ready_replicas: Count | None = None
    """Replicas that are ready."""
