"""PalenaGateway: LiteLLM with its database and its cache (spec: palena §4.1, §4.2)."""

from typing import Annotated, Final, Literal, Self

from pydantic import ConfigDict, Field, StrictBool, StrictInt, model_validator

from magicstick.api.base import Count, FreeObject, Model
from magicstick.api.palena.shared import (
    EXTERNAL_RULE,
    AllowedConsumers,
    Annotations,
    DeletionPolicy,
    EnvVars,
    Host,
    Image,
    IngressTls,
    Name,
    NamedRef,
    Namespace,
    PalenaStatus,
    ParentRef,
    SecretKeyRef,
    StatusSecretKeyRef,
    Storage,
    external_as_mode,
    name_rules,
    value_or,
)
from magicstick.api.schema import Rule, rules

Mode = Literal["managed", "external"]

NAME_LIMIT: Final = 30
"""Leaves room for the migration Job, and for a CNPG cluster whose backups can be restored."""
NAME_RULES: Final = name_rules(NAME_LIMIT)

HOST_NEEDED: Final = "an enabled ingress needs a host: set host"
PARENTS_NEEDED: Final = "an enabled route needs a Gateway: set parentRefs"
LEAST_ABOVE_MOST: Final = "minReplicas must be at most maxReplicas"
ONE_SCALING: Final = "replicas are not given while autoscaling is enabled: remove one of both"


class DatabaseBackup(Model):
    """Backups, made by the LiteLLM operator."""

    enabled: StrictBool = False
    """Whether backups are made."""
    schedule: str = ""
    """When, in cron's notation."""
    retention: Annotated[StrictInt, Field(ge=1)] | None = None
    """Days that a backup is kept."""
    method: Literal["snapshot", "barmanObjectStore"] | None = None
    """How backups are made."""


class ManagedDatabase(Model):
    """A CNPG Cluster of the gateway's own."""

    instances: Annotated[StrictInt, Field(ge=1, le=9)] = 1
    """PostgreSQL servers."""
    storage: Storage = Field(default_factory=Storage)
    """Volume of each server; 10Gi if no size is given."""
    image_name: str = ""
    """Image of PostgreSQL; left out, CloudNativePG's default."""
    resources: FreeObject = Field(default_factory=dict)
    """Requests and limits of each server."""
    parameters: dict[str, str] = Field(default_factory=dict)
    """Parameters of PostgreSQL."""
    backup: DatabaseBackup | None = None
    """Backups; left out, none are made."""


class DatabaseSecretRef(Model):
    """Where the address of a database is kept."""

    name: Name
    """Name of the Secret."""
    url_key: Annotated[str, Field(min_length=1)] = "DATABASE_URL"
    """Key that holds a URL postgres://… or postgresql://…."""


class ExternalDatabase(Model):
    """A database that somebody else runs."""

    secret_ref: DatabaseSecretRef
    """Where its address is kept."""


class Database(Model):
    """The database of LiteLLM."""

    model_config = ConfigDict(json_schema_extra=rules(EXTERNAL_RULE))

    mode: Mode = "managed"
    """`managed`: a CNPG Cluster is made. `external`: the one that a Secret names. Cannot be changed."""
    managed: ManagedDatabase = Field(default_factory=ManagedDatabase)
    """The Cluster, with `managed`."""
    external: ExternalDatabase | None = None
    """The database, with `external`."""

    _external_as_mode = model_validator(mode="after")(external_as_mode)


class ManagedRedis(Model):
    """A Redis of the gateway's own."""

    image: Annotated[str, Field(min_length=1)] = "redis:7-alpine"
    """Image of Redis."""
    storage: Storage = Field(default_factory=Storage)
    """Its volume; 1Gi if no size is given."""
    resources: FreeObject = Field(default_factory=dict)
    """Requests and limits; left out, 50m and 128Mi to 500m and 512Mi."""


class RedisSecretRef(Model):
    """Where the address of a Redis is kept."""

    name: Name
    """Name of the Secret."""
    url_key: Annotated[str, Field(min_length=1)] = "REDIS_URL"
    """Key that holds a URL redis://… or rediss://…."""


class ExternalRedis(Model):
    """A Redis that somebody else runs."""

    secret_ref: RedisSecretRef
    """Where its address is kept."""


class Redis(Model):
    """The cache of LiteLLM."""

    model_config = ConfigDict(json_schema_extra=rules(EXTERNAL_RULE))

    mode: Mode = "managed"
    """`managed`: a Redis is made. `external`: the one that a Secret names. Cannot be changed."""
    managed: ManagedRedis = Field(default_factory=ManagedRedis)
    """The Redis, with `managed`."""
    external: ExternalRedis | None = None
    """The Redis, with `external`."""

    _external_as_mode = model_validator(mode="after")(external_as_mode)


class Autoscaling(Model):
    """Replicas by load."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",
                LEAST_ABOVE_MOST,
                field_path=".minReplicas",
            )
        )
    )

    enabled: StrictBool
    """Whether replicas follow the load."""
    min_replicas: Annotated[StrictInt, Field(ge=1)] | None = None
    """Least replicas."""
    max_replicas: Annotated[StrictInt, Field(ge=1)]
    """Most replicas."""
    target_cpu_utilization: Annotated[StrictInt, Field(ge=1, le=100)] | None = Field(
        None, alias="targetCPUUtilization"
    )
    """Per cent of the requested CPU to aim at."""
    target_memory_utilization: Annotated[StrictInt, Field(ge=1, le=100)] | None = None
    """Per cent of the requested memory to aim at."""

    @model_validator(mode="after")
    def _least_below_most(self) -> Self:
        if self.min_replicas is not None and self.min_replicas > self.max_replicas:
            raise ValueError(LEAST_ABOVE_MOST)
        return self


class LiteLLM(Model):
    """The LiteLLMInstance. What the LiteLLM operator knows of it is handed on as it stands."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                "!(has(self.replicas) && has(self.autoscaling) && self.autoscaling.enabled)",
                ONE_SCALING,
                field_path=".replicas",
            )
        )
    )

    image: Image | None = None
    """Image of LiteLLM; left out, the LiteLLM operator's default. Pin it in production."""
    replicas: Annotated[StrictInt, Field(ge=1, le=50)] | None = None
    """Replicas; left out, one."""
    autoscaling: Autoscaling | None = None
    """Replicas by load, instead of a fixed number."""
    master_key_secret_ref: SecretKeyRef | None = None
    """A master key of one's own, which must begin with sk-; left out, one is generated."""
    resources: FreeObject = Field(default_factory=dict)
    """Requests and limits."""
    router_settings: FreeObject = Field(default_factory=dict)
    """How requests are spread."""
    general_settings: FreeObject = Field(default_factory=dict)
    """General settings of LiteLLM."""
    fallbacks: FreeObject = Field(default_factory=dict)
    """Which models stand in for which."""
    caching: FreeObject = Field(default_factory=dict)
    """Cache of answers."""
    sso: FreeObject = Field(default_factory=dict)
    """Sign-in of the admin page."""
    admin_ui: Annotated[FreeObject, Field(alias="adminUI")] = Field(default_factory=dict)
    """The admin page."""
    extra_env_vars: EnvVars = ()
    """Further environment of LiteLLM."""
    overrides: FreeObject = Field(default_factory=dict)
    """Merged last into the LiteLLMInstance; masterKey, saltKey, database, redis, callbacks and \
    service cannot be set."""

    @model_validator(mode="after")
    def _one_scaling(self) -> Self:
        if self.replicas is not None and self.autoscaling is not None and self.autoscaling.enabled:
            raise ValueError(ONE_SCALING)
        return self


class GatewayIngress(Model):
    """The Ingress of LiteLLM."""

    model_config = ConfigDict(
        json_schema_extra=rules(Rule("!self.enabled || has(self.host)", HOST_NEEDED, field_path=".host"))
    )

    enabled: StrictBool = False
    """Whether there is one."""
    class_name: str = ""
    """IngressClass; left out, the cluster's default."""
    host: Host | None = None
    """Host that LiteLLM is served under."""
    annotations: Annotations = Field(default_factory=dict)
    """Annotations of the Ingress."""
    tls: IngressTls | None = None
    """TLS of the Ingress."""

    @model_validator(mode="after")
    def _host_needed(self) -> Self:
        if self.enabled and self.host is None:
            raise ValueError(HOST_NEEDED)
        return self


class GatewayRoute(Model):
    """The HTTPRoute of LiteLLM."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                "!self.enabled || (has(self.parentRefs) && size(self.parentRefs) > 0)",
                PARENTS_NEEDED,
                field_path=".parentRefs",
            )
        )
    )

    enabled: StrictBool = False
    """Whether there is one."""
    host: Host | None = None
    """Host that LiteLLM is served under; left out, every host of the Gateway's."""
    parent_refs: Annotated[tuple[ParentRef, ...], Field(max_length=32)] = ()
    """Gateways that the route attaches to."""

    @model_validator(mode="after")
    def _parents_needed(self) -> Self:
        if self.enabled and not self.parent_refs:
            raise ValueError(PARENTS_NEEDED)
        return self


class GatewayNetworkPolicy(Model):
    """Who reaches the gateway's Pods."""

    enabled: StrictBool = True
    """Whether NetworkPolicies are made."""
    scope: Literal["Gateway", "Namespace"] = "Gateway"
    """What is closed by default: the gateway's Pods, or all of its namespace."""
    ingress_from: Annotated[tuple[FreeObject, ...], Field(max_length=64)] = ()
    """Peers, as in a NetworkPolicy, that reach LiteLLM; left out, everybody does."""
    cnpg_namespace: Namespace = ""
    """Namespace of the CloudNativePG operator; left out, the operator's setting."""
    litellm_operator_namespace: Namespace = ""
    """Namespace of the LiteLLM operator; left out, the operator's setting."""


def _same(path: str, absent: str, message: str, field_path: str) -> Rule:
    """That a field keeps its value, also while blocks around it come and go."""
    return Rule(
        f"{value_or('self', path, absent)} == {value_or('oldSelf', path, absent)}",
        message,
        "FieldValueForbidden",
        field_path,
    )


class PalenaGatewaySpec(Model):
    """The gateway that is wanted."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            _same(
                "database.mode",
                "managed",
                "the mode of the database cannot be changed: create another gateway",
                ".database",
            ),
            _same(
                "redis.mode",
                "managed",
                "the mode of Redis cannot be changed: create another gateway",
                ".redis",
            ),
            _same(
                "database.managed.storage.storageClassName",
                "",
                "the StorageClass of the database cannot be changed: create another gateway",
                ".database",
            ),
        )
    )

    database: Database = Field(default_factory=Database)
    """The database of LiteLLM; left out, a managed one."""
    redis: Redis = Field(default_factory=Redis)
    """The cache of LiteLLM; left out, a managed one."""
    litellm: LiteLLM = Field(default_factory=LiteLLM)
    """LiteLLM itself."""
    ingress: GatewayIngress = Field(default_factory=GatewayIngress)
    """The Ingress of LiteLLM; left out, none."""
    gateway_route: GatewayRoute = Field(default_factory=GatewayRoute)
    """The HTTPRoute of LiteLLM; left out, none."""
    network_policy: GatewayNetworkPolicy = Field(default_factory=GatewayNetworkPolicy)
    """Who reaches the gateway's Pods; left out, LiteLLM is open and the rest is closed."""
    allowed_consumers: AllowedConsumers = Field(default_factory=AllowedConsumers)
    """From which namespaces models, UIs and observability may refer to this gateway."""
    deletion_policy: DeletionPolicy = "Delete"
    """What becomes of the data of database and cache with the gateway."""


class DatabaseStatus(Model):
    """The database in use."""

    mode: str = ""
    """Who runs it."""
    cluster_name: str = ""
    """The CNPG Cluster."""
    phase: str = ""
    """What CloudNativePG says of it."""
    instances: Count | None = None
    """PostgreSQL servers that are wanted."""
    ready_instances: Count | None = None
    """PostgreSQL servers that are ready."""
    secret_name: str = ""
    """Secret with its address."""


class RedisStatus(Model):
    """The cache in use."""

    mode: str = ""
    """Who runs it."""
    host: str = ""
    """Where it is."""
    port: Count | None = None
    """Its port."""
    secret_name: str = ""
    """Secret with its address."""
    ready: StrictBool = False
    """Whether it answers, as far as its Pod tells."""


class LiteLLMStatus(Model):
    """LiteLLM, as its operator reports it."""

    replicas: Count | None = None
    """Replicas that are wanted."""
    ready_replicas: Count | None = None
    """Replicas that are ready."""
    version: str = ""
    """Version of LiteLLM."""


class PalenaGatewayStatus(PalenaStatus):
    """What became of the gateway, and where it is reached."""

    endpoint: str = ""
    """Where LiteLLM is reached within the cluster."""
    litellm_instance_ref: NamedRef | None = None
    """The LiteLLMInstance."""
    master_key_secret_ref: StatusSecretKeyRef | None = None
    """Where the master key is kept."""
    database: DatabaseStatus | None = None
    """The database in use."""
    redis: RedisStatus | None = None
    """The cache in use."""
    gateway: LiteLLMStatus | None = None
    """LiteLLM, as its operator reports it."""
    model_count: Count | None = None
    """PalenaModels that refer to the gateway."""
