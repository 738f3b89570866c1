"""PalenaObservability: Langfuse for a gateway (spec: palena §7.1)."""

from typing import Annotated, Final, Literal, Self

from pydantic import ConfigDict, Field, StrictBool, StrictInt, model_validator

from magicstick.api.base import FreeObject, Model
from magicstick.api.palena.gateway import ExternalDatabase
from magicstick.api.palena.shared import (
    EXTERNAL_RULE,
    DeletionPolicy,
    EnvVars,
    HttpUrl,
    Image,
    Name,
    NamedRef,
    PalenaStatus,
    Reference,
    SecretKeyRef,
    external_as_mode,
    name_rules,
    value_or,
)
from magicstick.api.schema import Keywords, Rule, rules

NAME_LIMIT: Final = 30
"""Langfuse's own StatefulSet is called `<observability>-langfuse-clickhouse`."""
NAME_RULES: Final = name_rules(NAME_LIMIT)

RoleName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z_][a-z0-9_]*$")]
_RESERVED_DATABASES: Final = ("postgres", "template0", "template1")

PROVIDER_BLOCK: Final = "set the block of the provider, s3, azure or gcs, and remove the others"
GATEWAY_STAYS: Final = "the gateway cannot be changed: create another observability"
DATABASE_RESERVED: Final = "the name must be another than postgres, template0 and template1"


class LangfuseImage(Image):
    """The image of Langfuse."""

    tag: Annotated[str, Field(min_length=1)] = "3"
    """Tag of the image."""


class LangfuseComponent(Model):
    """One of the two programs of Langfuse."""

    replicas: Annotated[StrictInt, Field(ge=1, le=50)] = 1
    """Replicas."""
    resources: FreeObject = Field(default_factory=dict)
    """Requests and limits."""
    extra_env: EnvVars = ()
    """Further environment."""


class LangfuseAuth(Model):
    """How users sign in, by the Langfuse operator's names."""

    oidc: FreeObject = Field(default_factory=dict)
    """Sign-in with OpenID Connect."""
    email_password: FreeObject = Field(default_factory=dict)
    """Sign-in with e-mail and password."""


class Langfuse(Model):
    """The LangfuseInstance. What the Langfuse operator knows of it is handed on as it stands."""

    image: LangfuseImage = Field(default_factory=LangfuseImage)
    """The image of Langfuse."""
    url: HttpUrl | None = None
    """Where users open Langfuse; left out, the ingress' host or the address within the cluster."""
    web: LangfuseComponent = Field(default_factory=LangfuseComponent)
    """The program that answers."""
    worker: LangfuseComponent = Field(default_factory=LangfuseComponent)
    """The program that works on traces."""
    ingress: FreeObject = Field(default_factory=dict)
    """The Ingress of Langfuse."""
    gateway_api: Annotated[FreeObject, Field(alias="gatewayAPI")] = Field(default_factory=dict)
    """The HTTPRoute of Langfuse."""
    auth: LangfuseAuth = Field(default_factory=LangfuseAuth)
    """How users sign in."""
    overrides: FreeObject = Field(default_factory=dict)
    """Merged last into the LangfuseInstance; database and redis cannot be set, nor image.tag emptied."""


class TraceDatabase(Model):
    """The database of Langfuse."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            EXTERNAL_RULE,
            Rule(
                "!(self.name in ['postgres', 'template0', 'template1'])",
                DATABASE_RESERVED,
                field_path=".name",
            ),
        )
    )

    mode: Literal["shared", "external"] = "shared"
    """`shared`: one more database in the gateway's Cluster. `external`: the one that a Secret names."""
    name: RoleName = "langfuse"
    """Name of the database, with `shared`."""
    owner: RoleName = "langfuse"
    """Role that owns it, with `shared`."""
    external: ExternalDatabase | None = None
    """The database, with `external`."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        external_as_mode(self)
        if self.name in _RESERVED_DATABASES:
            raise ValueError(DATABASE_RESERVED)
        return self


class RedisPartsRef(Model):
    """Where the parts of a Redis' address are kept."""

    name: Name
    """Name of the Secret."""
    host_key: Annotated[str, Field(min_length=1)] = "host"
    """Key that holds the host."""
    port_key: Annotated[str, Field(min_length=1)] = "port"
    """Key that holds the port."""
    password_key: Annotated[str, Field(min_length=1)] = "password"  # noqa: S105 - the name of a key
    """Key that holds the password."""


class ExternalRedisParts(Model):
    """A Redis that somebody else runs."""

    secret_ref: RedisPartsRef
    """Where its address is kept."""


class TraceRedis(Model):
    """The queue of Langfuse."""

    model_config = ConfigDict(json_schema_extra=rules(EXTERNAL_RULE))

    mode: Literal["shared", "managed", "external"] = "shared"
    """`shared`: the gateway's Redis. `managed`: one that the Langfuse operator makes. `external`: the \
    one that a Secret names."""
    external: ExternalRedisParts | None = None
    """The Redis, with `external`."""

    _external_as_mode = model_validator(mode="after")(external_as_mode)


class ClickHouseSecretRef(Model):
    """Where the address of a ClickHouse is kept."""

    name: Name
    """Name of the Secret."""
    keys: dict[str, str] = Field(default_factory=dict)
    """Keys of the Secret, by the Langfuse operator's names: url, migrationUrl, username, password."""


class ExternalClickHouse(Model):
    """A ClickHouse that somebody else runs."""

    secret_ref: ClickHouseSecretRef
    """Where its address is kept."""


class ClickHouse(Model):
    """The store of traces."""

    model_config = ConfigDict(json_schema_extra=rules(EXTERNAL_RULE))

    mode: Literal["managed", "external"] = "managed"
    """`managed`: one that the Langfuse operator makes, which it has announced to give up. `external`: \
    the one that a Secret names."""
    managed: FreeObject = Field(default_factory=dict)
    """The ClickHouse, with `managed`, by the Langfuse operator's names."""
    external: ExternalClickHouse | None = None
    """The ClickHouse, with `external`."""

    _external_as_mode = model_validator(mode="after")(external_as_mode)


class BlobStorage(Model):
    """Where Langfuse keeps events and media; it does not start without."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                "has(self.s3) == (self.provider == 's3') && has(self.azure) == (self.provider == 'azure') && "
                "has(self.gcs) == (self.provider == 'gcs')",
                PROVIDER_BLOCK,
                field_path=".provider",
            )
        )
    )

    provider: Literal["s3", "azure", "gcs"]
    """Whose storage it is."""
    s3: FreeObject | None = None
    """An S3 bucket, by the Langfuse operator's names."""
    azure: FreeObject | None = None
    """An Azure container, by the Langfuse operator's names."""
    gcs: FreeObject | None = None
    """A bucket of Google's, by the Langfuse operator's names."""

    @model_validator(mode="after")
    def _block_of_provider(self) -> Self:
        given = {name for name in ("s3", "azure", "gcs") if getattr(self, name) is not None}
        if given != {self.provider}:
            raise ValueError(PROVIDER_BLOCK)
        return self


class AdminUser(Model):
    """The first user of Langfuse."""

    email: Annotated[str, Field(min_length=3, max_length=254, pattern=r"^[^@\s]+@[^@\s]+$")]
    """E-mail address."""
    password_secret_ref: SecretKeyRef
    """Where the password is kept."""


class Seed(Model):
    """What Langfuse starts with."""

    org_id: Annotated[str, Field(min_length=1, max_length=253)] = "palena"
    """Identifier of the organisation."""
    org_name: Annotated[str, Field(min_length=1, max_length=253)] = "Palena"
    """Name of the organisation."""
    project_id: Annotated[str, Field(max_length=253)] = ""
    """Identifier of the project; left out, made from the gateway's namespace and name."""
    project_name: Annotated[str, Field(max_length=253)] = ""
    """Name of the project; left out, that of the gateway."""
    admin_user: AdminUser | None = None
    """The first user; left out, whoever signs up."""


class Callback(Model):
    """How the gateway tells Langfuse of requests."""

    enabled: StrictBool = True
    """Whether it does."""
    type: Literal["langfuse", "langfuse_otel"] = "langfuse"
    """LiteLLM's name of the callback."""


class PalenaObservabilitySpec(Model):
    """The observability that is wanted."""

    gateway_ref: Annotated[
        Reference,
        Keywords(
            rules(
                Rule(
                    "self.name == oldSelf.name && "
                    f"{value_or('self', '__namespace__', '')} == {value_or('oldSelf', '__namespace__', '')}",
                    GATEWAY_STAYS,
                    "FieldValueForbidden",
                )
            )
        ),
    ]
    """The gateway whose requests are traced. Cannot be changed."""
    langfuse: Langfuse = Field(default_factory=Langfuse)
    """Langfuse itself."""
    database: TraceDatabase = Field(default_factory=TraceDatabase)
    """The database of Langfuse; left out, one more in the gateway's Cluster."""
    redis: TraceRedis = Field(default_factory=TraceRedis)
    """The queue of Langfuse; left out, the gateway's Redis."""
    clickhouse: ClickHouse = Field(default_factory=ClickHouse)
    """The store of traces; left out, one that the Langfuse operator makes."""
    blob_storage: BlobStorage
    """Where Langfuse keeps events and media."""
    seed: Seed = Field(default_factory=Seed)
    """What Langfuse starts with."""
    callback: Callback = Field(default_factory=Callback)
    """How the gateway tells Langfuse of requests."""
    deletion_policy: DeletionPolicy = "Retain"
    """What becomes of the database with the observability."""


class TraceDatabaseStatus(Model):
    """The database in use."""

    name: str = ""
    """Name of the database."""
    cluster_name: str = ""
    """The CNPG Cluster that it is in."""
    applied: StrictBool = False
    """Whether CloudNativePG has made it."""
    message: str = ""
    """What CloudNativePG says of it."""


class CallbackStatus(Model):
    """How the gateway tells Langfuse of requests."""

    shape: str = ""
    """`seed` or `types`: how the served LiteLLMInstance takes callbacks."""
    configured: StrictBool = False
    """Whether the LiteLLMInstance has it."""
    litellm_instance_ref: NamedRef | None = None
    """The LiteLLMInstance."""


class PalenaObservabilityStatus(PalenaStatus):
    """What became of the observability, and where it is served."""

    langfuse_instance_ref: NamedRef | None = None
    """The LangfuseInstance."""
    url: str = ""
    """Where users open Langfuse."""
    internal_url: str = ""
    """Where Langfuse is reached within the cluster."""
    database: TraceDatabaseStatus | None = None
    """The database in use."""
    api_keys_secret_name: Annotated[str, Field(alias="apiKeysSecretName")] = ""
    """Secret with the keys of the project."""
    callback: CallbackStatus | None = None
    """How the gateway tells Langfuse of requests."""
