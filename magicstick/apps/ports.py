"""The contract between an instance and its way in, as frozen values (spec: modules-and-apps §9).

`apps.decide` says what is wanted of the way in, and when; `apps.gateway` says how it is made. It offers:

    gateway.hosts.domains_of(data, mdns_default, public_default) -> Domains
        From the data of the settings ConfigMap; {} where there is none. Total.
    gateway.hosts.short_name(name, application, values) -> str
        Of an instance, whatever its values are; one label, perhaps too long to be served. Total.
    gateway.hosts.hosts_of(short, application, domains) -> Hosts
    gateway.hosts.hosts_problem(hosts) -> str | None
        What forbids to serve these names, with the limit: reason InvalidHostname. None if nothing does.
    gateway.hosts.owner_of(claimants) -> Resource | None
        Which of the instances that claim one host has it. All that exist are given, disabled and dying
        ones too: a host is handed over once its owner is gone.

    gateway.plan.references(instance, target_namespace, site) -> tuple[Reference, ...]
        Every place that an object of this instance's way in may have.
    gateway.plan.plan(access, live, site) -> AccessPlan
        The next steps to the way in as it is wanted, and whether the guard is accepted. What is there
        and not wanted is removed by the same steps, grants in other namespaces included.
        A route that is open while its policy is not accepted as wanted is closed by the first step, so
        that no later failure leaves it open.
    gateway.plan.hold(live, admitted) -> tuple[Step, ...]
        For an instance whose application cannot be told now: what stands stays as it is, while each of
        its policies is accepted and unedited by its own digest, and nobody gets in whom the instance
        does not admit any more. Otherwise like `close`.
    gateway.plan.close(live) -> tuple[Step, ...]
        Routes without backends, for an instance whose access cannot be understood; policies stay.
    gateway.plan.remove(live) -> tuple[Step, ...]
        Routes, grants, then policies. () once nothing of the instance is left, or all of it is dying.

All of it is pure and total. Steps are carried out in order up to the first that fails, and after any write
everything is observed and asked again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, Self

from magicstick.api.app_instance import Authentication, Exposure, Role
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.runtime.plan import Step


@dataclass(frozen=True, slots=True)
class Domains:
    """Under which names the appliance is served, normalised."""

    mdns: str
    """The local domain; ends in `.local`."""
    public: str
    """The public domain; never ends in `.local`."""
    dashboard: str
    """The public host of the dashboard, where public callbacks arrive."""


@dataclass(frozen=True, slots=True)
class Hosts:
    """The names of one instance."""

    short: str
    """The first label of both."""
    local: str
    public: str

    @property
    def local_name(self) -> str:
        """The local host without `.local`."""
        return self.local.removesuffix(".local")


@dataclass(frozen=True, slots=True)
class Backend:
    """The one Service that the routes lead to."""

    service: str
    namespace: str
    port: int


@dataclass(frozen=True, slots=True)
class Admitted:
    """Whom an instance admits, and from where: known even where nothing else of it is."""

    authentication: Authentication = "sso"
    role: Role = "user"
    exposure: Exposure = "localAndPublic"


@dataclass(frozen=True, slots=True)
class Access:
    """Everything that the way in to one enabled instance is made from."""

    instance: str
    """Name of the AppInstance: a DNS label of at most 53 characters."""
    uid: str
    """Of the AppInstance: one that is made again inherits no grant."""
    application: str
    hosts: Hosts
    domains: Domains
    authentication: Authentication
    role: Role
    exposure: Exposure
    backend: Backend
    request_timeout: str | None = None
    """`0s` or nothing, for application routes alone."""
    strip_cookies: bool = False
    """Whether the application never sees the browser's cookies."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A place that an object has, or may have."""

    kind: Kind
    key: ObjectKey


@dataclass(frozen=True, slots=True)
class Piece:
    """One live object of an instance's way in."""

    kind: Kind
    live: Resource

    @property
    def reference(self) -> Reference:
        """Where it is."""
        return Reference(self.kind, self.live.metadata.key)


@dataclass(frozen=True, slots=True)
class LiveAccess:
    """What there is now. Complete: asked for only while all three kinds can be read."""

    pieces: tuple[Piece, ...] = ()
    """All objects of ours with this instance's label, wherever they are: routes, policies, grants."""
    occupants: Mapping[Reference, Resource] = field(default_factory=dict)
    """What stands at the places of `references`, whosever it is; an object of this instance is in both."""
    rivals: tuple[Resource, ...] = ()
    """Routes of other instances that have one of the wanted hosts. Nothing is opened beside one that is
    open, so that a host that is handed over never leads to two applications."""


@dataclass(frozen=True, slots=True)
class AccessPlan:
    """The next steps for the way in, and what holds of it now, before them."""

    steps: tuple[Step, ...] = ()
    ready: bool = False
    """Whether every wanted policy is accepted as it is wanted, by every ancestor, and no rival is open."""
    refusal: str = ""
    """What the gateway has against a wanted policy, in its own words; "" while it has said nothing."""
    conflict: str = ""
    """Which object of somebody else has a name that is needed, as a sentence; reason NameConflict. The
    steps then only close what is open, and take the grant away."""


class GatewaySettings(Protocol):
    """What the way in needs of the settings; `runtime.settings.Settings` has all of it."""

    @property
    def identity_namespace(self) -> str: ...  # noqa: D102 - named like its variable
    @property
    def identity_gateway_name(self) -> str: ...  # noqa: D102 - named like its variable
    @property
    def gateway_section_name(self) -> str: ...  # noqa: D102 - named like its variable
    @property
    def guard_service(self) -> str: ...  # noqa: D102 - named like its variable
    @property
    def oidc_client_id(self) -> str: ...  # noqa: D102 - named like its variable
    @property
    def oidc_client_secret_name(self) -> str: ...  # noqa: D102 - named like its variable


@dataclass(frozen=True, slots=True)
class GatewaySite:
    """Where routes and policies live, and what they refer to."""

    namespace: str = "identity-system"
    gateway: str = "identity-pilot"
    section: str = ""
    """Listener of the Gateway; "" for every one."""
    guard_service: str = "magicstick-access-guard"
    guard_port: int = 8080
    client_id: str = "magicstick-human-gateway-local"
    client_secret: str = "magicstick-human-gateway-client"  # noqa: S105 - the name of a Secret

    @classmethod
    def of(cls, settings: GatewaySettings) -> Self:
        """The site that the settings describe."""
        service, _, port = settings.guard_service.partition(":")
        return cls(
            settings.identity_namespace,
            settings.identity_gateway_name,
            settings.gateway_section_name,
            service,
            int(port),
            settings.oidc_client_id,
            settings.oidc_client_secret_name,
        )
