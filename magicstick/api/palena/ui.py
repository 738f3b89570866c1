"""PalenaUI: LibreChat on a gateway (spec: palena §6.1)."""

from typing import Annotated, Final, Literal, Self

from pydantic import ConfigDict, Field, StrictBool, StrictInt, model_validator

from magicstick.api.base import Count, FreeObject, Model
from magicstick.api.palena.shared import (
    Annotations,
    DeletionPolicy,
    EnvVars,
    Host,
    Image,
    IngressTls,
    Name,
    PalenaStatus,
    Reference,
    SecretKeyRef,
    Size,
    Storage,
    name_rules,
)
from magicstick.api.schema import Rule, rules

NAME_LIMIT: Final = 40
"""Names of StatefulSets over 52 characters break the label of their revisions."""
NAME_RULES: Final = name_rules(NAME_LIMIT)

KEY_AS_MODE: Final = "secretRef belongs to mode secret: set it there, and remove it elsewhere"
MONGODB_AS_MODE: Final = "secretRef belongs to mode external: set it there, and remove it elsewhere"
ALIAS_ONCE: Final = "each MCP server has an alias of its own: set alias where two names are the same"
SHARED_VOLUME_NEEDED: Final = (
    "several replicas share their files: set persistence.accessMode to ReadWriteMany, or enabled to false"
)
HOST_NEEDED: Final = "an enabled ingress needs a host: set spec.host"
OIDC_NEEDS: Final = "enabled OIDC needs a client: set issuer, clientIdRef and clientSecretRef"


class GatewayKey(Model):
    """The key with which LibreChat asks the gateway."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                "has(self.secretRef) == (self.mode == 'secret')",
                KEY_AS_MODE,
                field_path=".secretRef",
            )
        )
    )

    mode: Literal["virtualKey", "masterKey", "secret"] = "virtualKey"
    """`virtualKey`: one of its own, minted by the gateway. `masterKey`: the gateway's, in the same \
    namespace alone. `secret`: one that a Secret holds."""
    secret_ref: SecretKeyRef | None = None
    """Where the key is kept, with `secret`."""
    max_budget: Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?$")] | None = None
    """Most that may be spent, with `virtualKey`."""
    budget_duration: str = ""
    """After how long the budget starts anew, for example 30d."""
    rpm_limit: Count | None = None
    """Requests per minute, with `virtualKey`."""
    tpm_limit: Count | None = None
    """Tokens per minute, with `virtualKey`."""

    @model_validator(mode="after")
    def _secret_as_mode(self) -> Self:
        if (self.secret_ref is not None) != (self.mode == "secret"):
            raise ValueError(KEY_AS_MODE)
        return self


class MCPServerRef(Reference):
    """A PalenaMCPServer whose tools are offered."""

    alias: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-zA-Z0-9_-]+$")] | None = None
    """Name of its entry in librechat.yaml; left out, that of the server."""
    timeout_ms: Annotated[StrictInt, Field(ge=1)] | None = None
    """Longest call of a tool, in milliseconds."""

    @property
    def key(self) -> str:
        """Name of its entry in librechat.yaml."""
        return self.alias or self.name


class UIImage(Image):
    """The image of LibreChat."""

    repository: Annotated[str, Field(min_length=1)] = "ghcr.io/danny-avila/librechat"
    """Where the image is, without its tag."""
    tag: Annotated[str, Field(min_length=1)] = "v0.8.7"
    """Tag of the image."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """When the image is fetched."""


class UIIngress(Model):
    """The Ingress of LibreChat."""

    enabled: StrictBool = False
    """Whether there is one."""
    class_name: str = ""
    """IngressClass; left out, the cluster's default."""
    annotations: Annotations = Field(default_factory=dict)
    """Annotations of the Ingress."""
    tls: IngressTls | None = None
    """TLS of the Ingress."""


class UIOidc(Model):
    """Sign-in with OpenID Connect."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                "!self.enabled || (has(self.issuer) && has(self.clientIdRef) && has(self.clientSecretRef))",
                OIDC_NEEDS,
                field_path=".enabled",
            )
        )
    )

    enabled: StrictBool = False
    """Whether it is offered."""
    issuer: str | None = None
    """Issuer of the tokens."""
    client_id_ref: SecretKeyRef | None = None
    """Where the client's name is kept."""
    client_secret_ref: SecretKeyRef | None = None
    """Where the client's secret is kept."""
    scope: str = "openid profile email"
    """Scopes that are asked for."""
    button_label: str = ""
    """Text of the button."""
    callback_path: Annotated[str, Field(pattern=r"^/")] = "/oauth/openid/callback"
    """Where the issuer sends users back to."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.enabled and not (self.issuer and self.client_id_ref and self.client_secret_ref):
            raise ValueError(OIDC_NEEDS)
        return self


class UIAuth(Model):
    """How users sign in."""

    allow_registration: StrictBool = False
    """Whether anybody may make an account."""
    allow_email_login: StrictBool = True
    """Whether e-mail and password are accepted."""
    oidc: UIOidc = Field(default_factory=UIOidc)
    """Sign-in with OpenID Connect; left out, none."""


class UIModels(Model):
    """The models that are offered."""

    default: Annotated[tuple[str, ...], Field(max_length=256)] = ()
    """Models that are listed first; left out, the PalenaModels of the gateway."""
    fetch: StrictBool = True
    """Whether the gateway is asked for its models."""
    title_model: str = ""
    """Model that finds titles; left out, the first one."""


class MongoDBSecretRef(Model):
    """Where the address of a MongoDB is kept."""

    name: Name
    """Name of the Secret."""
    uri_key: Annotated[str, Field(min_length=1)] = "MONGO_URI"
    """Key that holds a URI mongodb://… or mongodb+srv://…."""


class MongoDB(Model):
    """The database of LibreChat."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                "has(self.secretRef) == (self.mode == 'external')",
                MONGODB_AS_MODE,
                field_path=".secretRef",
            )
        )
    )

    mode: Literal["managed", "external"] = "managed"
    """`managed`: a MongoDB is made. `external`: the one that a Secret names."""
    image: Annotated[str, Field(min_length=1)] = "mongo:8.0"
    """Image of MongoDB."""
    storage: Storage = Field(default_factory=Storage)
    """Its volume; 8Gi if no size is given."""
    resources: FreeObject = Field(default_factory=dict)
    """Requests and limits."""
    secret_ref: MongoDBSecretRef | None = None
    """Where its address is kept, with `external`."""

    @model_validator(mode="after")
    def _secret_as_mode(self) -> Self:
        if (self.secret_ref is not None) != (self.mode == "external"):
            raise ValueError(MONGODB_AS_MODE)
        return self


class MeiliSearch(Model):
    """Search in conversations."""

    enabled: StrictBool = True
    """Whether there is one."""
    image: Annotated[str, Field(min_length=1)] = "getmeili/meilisearch:v1.12.3"
    """Image of MeiliSearch."""
    storage: Storage = Field(default_factory=Storage)
    """Its volume; 5Gi if no size is given."""
    resources: FreeObject = Field(default_factory=dict)
    """Requests and limits."""


class Persistence(Model):
    """The volume of uploads and images."""

    enabled: StrictBool = True
    """Whether there is one; without, uploads go with the Pod."""
    size: Size = "10Gi"
    """Its size; it may only grow."""
    storage_class_name: Annotated[str, Field(max_length=253)] = ""
    """Its StorageClass; left out, the cluster's default."""
    access_mode: Literal["ReadWriteOnce", "ReadWriteMany"] = "ReadWriteOnce"
    """ReadWriteMany where several replicas use it."""


class PalenaUISpec(Model):
    """The chat that is wanted."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                "self.replicas <= 1 || (has(self.persistence) && "
                "(self.persistence.accessMode == 'ReadWriteMany' || !self.persistence.enabled))",
                SHARED_VOLUME_NEEDED,
                field_path=".replicas",
            ),
            Rule(
                "!has(self.ingress) || !self.ingress.enabled || has(self.host)",
                HOST_NEEDED,
                "FieldValueRequired",
                ".ingress",
            ),
            Rule(
                # Spelled out, since the server takes what a conditional yields for a text of any length.
                "!has(self.mcpServerRefs) || self.mcpServerRefs.all(x, self.mcpServerRefs.exists_one(y, "
                "has(x.alias) "
                "? (has(y.alias) ? x.alias == y.alias : x.alias == y.name) "
                ": (has(y.alias) ? x.name == y.alias : x.name == y.name)))",
                ALIAS_ONCE,
                field_path=".mcpServerRefs",  # by the reason Duplicate the server would leave the message out
            ),
        )
    )

    gateway_ref: Reference
    """The gateway whose models are offered."""
    gateway_key: GatewayKey = Field(default_factory=GatewayKey)
    """The key with which LibreChat asks the gateway."""
    mcp_server_refs: Annotated[tuple[MCPServerRef, ...], Field(max_length=32)] = ()
    """MCP servers whose tools are offered."""
    image: UIImage = Field(default_factory=UIImage)
    """The image of LibreChat."""
    replicas: Annotated[StrictInt, Field(ge=1, le=10)] = 1
    """Replicas; more than one also need USE_REDIS and REDIS_URI in extraEnv."""
    resources: FreeObject = Field(default_factory=dict)
    """Requests and limits."""
    node_selector: dict[str, str] = Field(default_factory=dict)
    """Labels of nodes that LibreChat may run on."""
    tolerations: Annotated[tuple[FreeObject, ...], Field(max_length=64)] = ()
    """Taints that LibreChat tolerates."""
    affinity: FreeObject = Field(default_factory=dict)
    """Where LibreChat prefers to run."""
    host: Host | None = None
    """Public host of the chat."""
    ingress: UIIngress = Field(default_factory=UIIngress)
    """The Ingress; left out, none."""
    auth: UIAuth = Field(default_factory=UIAuth)
    """How users sign in."""
    models: UIModels = Field(default_factory=UIModels)
    """The models that are offered."""
    endpoint_name: Annotated[str, Field(min_length=1, max_length=63)] = "Palena"
    """What the gateway is called in the chat."""
    config: FreeObject = Field(default_factory=dict)
    """Further content of librechat.yaml; what is generated wins."""
    config_version: Annotated[str, Field(min_length=1)] = "1.3.17"
    """Version of the format of librechat.yaml."""
    extra_env: EnvVars = ()
    """Further environment of LibreChat."""
    mongodb: MongoDB = Field(default_factory=MongoDB)
    """The database of LibreChat."""
    meilisearch: MeiliSearch = Field(default_factory=MeiliSearch)
    """Search in conversations."""
    persistence: Persistence = Field(default_factory=Persistence)
    """The volume of uploads and images."""
    deletion_policy: DeletionPolicy = "Retain"
    """What becomes of conversations and keys with the chat."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        shared = self.persistence.access_mode == "ReadWriteMany" or not self.persistence.enabled
        if self.replicas > 1 and not shared:
            raise ValueError(SHARED_VOLUME_NEEDED)
        if self.ingress.enabled and self.host is None:
            raise ValueError(HOST_NEEDED)
        aliases = [each.key for each in self.mcp_server_refs]
        if len(set(aliases)) < len(aliases):
            raise ValueError(ALIAS_ONCE)
        return self


class UIEndpoints(Model):
    """Where the chat's own services are."""

    mongodb: str = ""
    """Host and port of MongoDB."""
    meilisearch: str = ""
    """Address of MeiliSearch."""


class MCPServerEntry(Model):
    """One MCP server, as the chat sees it."""

    name: str = ""
    """Name of the server."""
    namespace: str = ""
    """Namespace of the server."""
    alias: str = ""
    """Name of its entry in librechat.yaml."""
    url: str = ""
    """Where it is reached."""
    found: StrictBool = False
    """Whether it exists and may be used from here."""
    ready: StrictBool = False
    """Whether it is ready."""


class PalenaUIStatus(PalenaStatus):
    """What became of the chat, and where it is served."""

    url: str = ""
    """Where to open the chat."""
    service_name: str = ""
    """Service of LibreChat."""
    config_hash: str = ""
    """SHA-256 of librechat.yaml, in hex."""
    endpoints: UIEndpoints | None = None
    """Where the chat's own services are."""
    mcp_servers: tuple[MCPServerEntry, ...] = ()
    """The MCP servers, in the order of the spec."""
    replicas: Count | None = None
    """Replicas that are wanted."""
    ready_replicas: Count | None = None
    """Replicas that are ready."""
