"""AppInstance: one use of an application, installed as a HelmRelease (spec: magicstick-api §2.4)."""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, StrictBool, model_validator

from magicstick.api.base import (
    DEFAULT_TARGET_NAMESPACE,
    ApplianceRef,
    Conditions,
    FreeObject,
    Model,
    ObservedGeneration,
)
from magicstick.api.schema import LIST_SET, Rule, rules

Authentication = Literal["sso", "none"]
Role = Literal["user", "viewer", "operator", "admin"]
Exposure = Literal["local", "localAndPublic"]
SharingMode = Literal["all", "selected"]

Principal = Annotated[str, Field(pattern=r"^[A-Za-z0-9._:-]{1,160}$")]
Principals = Annotated[tuple[Principal, ...], Field(max_length=100), LIST_SET]

SELECTED_NEEDS_SSO = "sharing mode selected needs sign-in: set authentication to sso, or remove sharing"
ALL_LISTS_NOBODY = "sharing mode all admits everybody: remove users and groups, or set mode to selected"


class Sharing(Model):
    """Who may use the instance, on top of the role."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                "self.mode == 'selected' || "
                "((!has(self.users) || size(self.users) == 0) && "
                "(!has(self.groups) || size(self.groups) == 0))",
                ALL_LISTS_NOBODY,
                field_path=".mode",
            )
        )
    )

    mode: SharingMode
    """`all`: everybody who holds the role. `selected`: the listed users and groups alone."""
    users: Principals = ()
    """Identifiers of users who are admitted."""
    groups: Principals = ()
    """Identifiers of groups whose members are admitted."""

    @model_validator(mode="after")
    def _all_lists_nobody(self) -> Self:
        if self.mode == "all" and (self.users or self.groups):
            raise ValueError(ALL_LISTS_NOBODY)
        return self


class Access(Model):
    """Who reaches the instance, and how."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                "!has(self.sharing) || self.sharing.mode != 'selected' || "
                "!has(self.authentication) || self.authentication == 'sso'",
                SELECTED_NEEDS_SSO,
                field_path=".authentication",
            )
        )
    )

    authentication: Authentication = "sso"
    """`sso`: the shared sign-in stands before the instance. `none`: whoever reaches it may use it."""
    role: Role = "user"
    """The least role that is admitted; a higher role includes the lower ones."""
    exposure: Exposure = "localAndPublic"
    """`local`: served in the local network alone. `localAndPublic`: under the public domain too."""
    sharing: Sharing | None = None
    """Restricts the instance to users and groups; left out, the role alone decides."""

    @model_validator(mode="after")
    def _selected_needs_sso(self) -> Self:
        if self.sharing is not None and self.sharing.mode == "selected" and self.authentication != "sso":
            raise ValueError(SELECTED_NEEDS_SSO)
        return self


class AppInstanceSpec(Model):
    """The application that is wanted, where, for whom, and with which values."""

    application: Annotated[str, Field(min_length=1)]
    """Key of an application in the app catalog."""
    enabled: StrictBool = True
    """False suspends the release and removes its routes; data stays."""
    target_namespace: str = DEFAULT_TARGET_NAMESPACE
    """Namespace that the application runs in."""
    appliance_ref: ApplianceRef = Field(default_factory=ApplianceRef)
    """The Appliance that this instance belongs to."""
    access: Access = Field(default_factory=Access)
    """Who reaches the instance; left out, users who signed in, locally and publicly."""
    values: FreeObject = Field(default_factory=dict)
    """Values for the application's chart."""


class AppInstanceStatus(Model):
    """What became of the instance, and where it is served."""

    observed_generation: ObservedGeneration = None
    """The generation of the spec that this status speaks of."""
    phase: str = ""
    """Summary: Ready, Reconciling, Degraded, WaitingForModules, WaitingForCRD, Suspended, Removing \
    or Disabled."""
    kind: str = ""
    """Kind of the object that installs the instance."""
    name: str = ""
    """Name of the object that installs the instance."""
    namespace: str = ""
    """Namespace of the object that installs the instance."""
    url: str = ""
    """Where to open the instance."""
    local_url: Annotated[str, Field(alias="localURL")] = ""
    """Address in the local network."""
    public_url: Annotated[str, Field(alias="publicURL")] = ""
    """Address under the public domain; empty when there is none."""
    authentication: str = ""
    """The sign-in in effect."""
    required_role: str = ""
    """The least role in effect."""
    access_guard_ready: StrictBool = False
    """True only while the gateway has accepted the current policies."""
    message: str = ""
    """The state in a sentence."""
    conditions: Conditions = ()
    """The state by aspects; `Ready` is always among them."""
