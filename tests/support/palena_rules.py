"""Rule by rule, what CEL must accept and refuse of Palena's kinds; which defaults appear; what is free.

Written down from the API's description, not from our schemas (spec: palena §1, §4 to §8).
"""

from typing import Any, Final

from tests.support.crd_bases import Overrides, RuleCase
from tests.support.schemas import ABSENT

SECRET: Final = {"secretRef": {"name": "a"}}
KEY: Final = {"name": "a", "key": "k"}


def _names(kind: str, limit: int) -> list[RuleCase]:
    longest = "a" * limit
    return [
        RuleCase(
            kind,
            "",
            f"the name must be at most {limit} characters",
            ({"metadata.name": longest},),
            ({"metadata.name": longest + "a"},),
        ),
        RuleCase(
            kind,
            "",
            "the name must be a DNS-1035 label",
            ({"metadata.name": "a"}, {"metadata.name": "a-1"}),
            ({"metadata.name": "1a"}, {"metadata.name": "a.b"}),
        ),
    ]


def _external(kind: str, node: str, internal: str, block: dict[str, Any]) -> RuleCase:
    """That a block `external` comes with its mode, and the mode with its block."""
    return RuleCase(
        kind,
        node,
        "external belongs to mode external",
        (
            {node: {}},
            {f"{node}.mode": internal},
            {f"{node}.mode": "external", f"{node}.external": block},
        ),
        (
            {f"{node}.mode": "external"},
            {f"{node}.mode": internal, f"{node}.external": block},
            {f"{node}.external": block},
        ),
    )


def _size(kind: str, node: str) -> RuleCase:
    return RuleCase(
        kind,
        node,
        "must be a quantity above 0",
        ({node: "10Gi"}, {node: "1.5Ti"}, {node: "1000"}),
        ({node: "ten"}, {node: "0"}, {node: "-1Gi"}, {node: "10GB"}),
    )


def _consumers(kind: str) -> RuleCase:
    node = "spec.allowedConsumers"
    return RuleCase(
        kind,
        node,
        "namespaces are listed for from: List alone",
        (
            {f"{node}.from": "List", f"{node}.namespaces": ["a"]},
            {f"{node}.from": "All"},
            {f"{node}.from": "Same", f"{node}.namespaces": []},
        ),
        (
            {f"{node}.from": "All", f"{node}.namespaces": ["a"]},
            {f"{node}.from": "Same", f"{node}.namespaces": ["a"]},
        ),
    )


EXTERNAL: Final = {"mode": "external", "external": SECRET}
SCALING: Final = {"enabled": True, "maxReplicas": 3}

_GATEWAY: Final = (
    *_names("PalenaGateway", 30),
    _external("PalenaGateway", "spec.database", "managed", SECRET),
    _external("PalenaGateway", "spec.redis", "managed", SECRET),
    _size("PalenaGateway", "spec.database.managed.storage.size"),
    _size("PalenaGateway", "spec.redis.managed.storage.size"),
    _consumers("PalenaGateway"),
    *(
        RuleCase(
            "PalenaGateway",
            "spec",
            f"the mode of {what} cannot be changed",
            ({}, {f"spec.{field}": {"mode": "managed"}}, {f"spec.{field}": {}}),
            ({f"spec.{field}": EXTERNAL},),
            before={},
        )
        for field, what in (("database", "the database"), ("redis", "Redis"))
    ),
    *(
        RuleCase(
            "PalenaGateway",
            "spec",
            f"the mode of {what} cannot be changed",
            ({f"spec.{field}.external": {"secretRef": {"name": "another"}}},),
            ({f"spec.{field}": ABSENT}, {f"spec.{field}": {}}),
            before={f"spec.{field}": EXTERNAL},
        )
        for field, what in (("database", "the database"), ("redis", "Redis"))
    ),
    RuleCase(
        "PalenaGateway",
        "spec",
        "the StorageClass of the database cannot be changed",
        ({"spec.database.managed.storage.size": "20Gi"}, {"spec.database.managed.instances": 3}),
        (
            {"spec.database": ABSENT},
            {"spec.database.managed.storage": ABSENT},
            {"spec.database.managed.storage.storageClassName": "slow"},
        ),
        before={"spec.database.managed.storage": {"size": "10Gi", "storageClassName": "fast"}},
    ),
    RuleCase(
        "PalenaGateway",
        "spec",
        "the StorageClass of the database cannot be changed",
        ({"spec.database.managed.storage.size": "20Gi"},),
        ({"spec.database.managed.storage.storageClassName": "fast"},),
        before={},
    ),
    RuleCase(
        "PalenaGateway",
        "spec.litellm",
        "replicas are not given while autoscaling is enabled",
        (
            {"spec.litellm.replicas": 2},
            {"spec.litellm.autoscaling": SCALING},
            {"spec.litellm.replicas": 2, "spec.litellm.autoscaling": {"enabled": False, "maxReplicas": 3}},
        ),
        ({"spec.litellm.replicas": 2, "spec.litellm.autoscaling": SCALING},),
    ),
    RuleCase(
        "PalenaGateway",
        "spec.litellm.autoscaling",
        "minReplicas must be at most maxReplicas",
        (
            {"spec.litellm.autoscaling": SCALING},
            {"spec.litellm.autoscaling": {**SCALING, "minReplicas": 3}},
        ),
        ({"spec.litellm.autoscaling": {**SCALING, "minReplicas": 4}},),
    ),
    RuleCase(
        "PalenaGateway",
        "spec.ingress",
        "an enabled ingress needs a host",
        ({"spec.ingress": {}}, {"spec.ingress": {"enabled": True, "host": "a.example.com"}}),
        ({"spec.ingress": {"enabled": True}},),
    ),
    RuleCase(
        "PalenaGateway",
        "spec.gatewayRoute",
        "an enabled route needs a Gateway",
        ({"spec.gatewayRoute": {}}, {"spec.gatewayRoute": {"enabled": True, "parentRefs": [{"name": "a"}]}}),
        (
            {"spec.gatewayRoute": {"enabled": True}},
            {"spec.gatewayRoute": {"enabled": True, "parentRefs": []}},
        ),
    ),
)

PROVIDER: Final = "spec.provider"
_MODEL: Final = (
    _names("PalenaModel", 120)[0],
    RuleCase(
        "PalenaModel",
        "spec",
        "a model is needed",
        ({}, {PROVIDER: ABSENT, "spec.modelActivationRef": {"name": "a"}}),
        ({PROVIDER: ABSENT}, {PROVIDER: {}}, {PROVIDER: {"apiBase": "https://models.example.com"}}),
    ),
    RuleCase(
        "PalenaModel",
        "spec",
        "modelActivationRef says what is served",
        ({PROVIDER: {"params": {"seed": 1}}, "spec.modelActivationRef": {"name": "a"}},),
        (
            {"spec.modelActivationRef": {"name": "a"}},
            {PROVIDER: {"apiBase": "https://a.example.com"}, "spec.modelActivationRef": {"name": "a"}},
        ),
    ),
    RuleCase(
        "PalenaModel",
        "spec",
        "each gateway is named once",
        ({"spec.gatewayRefs": [{"name": "a"}, {"name": "b"}, {"name": "a", "namespace": "c"}]},),
        (
            {"spec.gatewayRefs": [{"name": "a"}, {"name": "b"}, {"name": "a"}]},
            {"spec.gatewayRefs": [{"name": "a", "namespace": "c"}, {"name": "a", "namespace": "c"}]},
        ),
    ),
    RuleCase(
        "PalenaModel",
        PROVIDER,
        "apiKeySecretRef and credentialRef exclude each other",
        ({f"{PROVIDER}.apiKeySecretRef": KEY}, {f"{PROVIDER}.credentialRef": {"name": "a"}}),
        ({f"{PROVIDER}.apiKeySecretRef": KEY, f"{PROVIDER}.credentialRef": {"name": "a"}},),
    ),
    RuleCase(
        "PalenaModel",
        f"{PROVIDER}.params",
        "params cannot hold model",
        ({f"{PROVIDER}.params": {"temperature": 1, "modelName": "a"}},),
        (
            {f"{PROVIDER}.params": {"model": "a"}},
            {f"{PROVIDER}.params": {"apiBase": "a"}},
            {f"{PROVIDER}.params": {"apiKeySecretRef": KEY}},
            {f"{PROVIDER}.params": {"credentialRef": {"name": "a"}}},
        ),
    ),
)

_UI: Final = (
    *_names("PalenaUI", 40),
    _size("PalenaUI", "spec.mongodb.storage.size"),
    _size("PalenaUI", "spec.meilisearch.storage.size"),
    _size("PalenaUI", "spec.persistence.size"),
    RuleCase(
        "PalenaUI",
        "spec.gatewayKey",
        "secretRef belongs to mode secret",
        (
            {"spec.gatewayKey": {}},
            {"spec.gatewayKey": {"mode": "masterKey"}},
            {"spec.gatewayKey": {"mode": "secret", "secretRef": KEY}},
        ),
        ({"spec.gatewayKey": {"mode": "secret"}}, {"spec.gatewayKey": {"secretRef": KEY}}),
    ),
    RuleCase(
        "PalenaUI",
        "spec.mongodb",
        "secretRef belongs to mode external",
        ({"spec.mongodb": {}}, {"spec.mongodb": {"mode": "external", "secretRef": {"name": "a"}}}),
        ({"spec.mongodb": {"mode": "external"}}, {"spec.mongodb": {"secretRef": {"name": "a"}}}),
    ),
    RuleCase(
        "PalenaUI",
        "spec.auth.oidc",
        "enabled OIDC needs a client",
        (
            {"spec.auth.oidc": {}},
            {
                "spec.auth.oidc": {
                    "enabled": True,
                    "issuer": "https://login.example.com",
                    "clientIdRef": KEY,
                    "clientSecretRef": KEY,
                }
            },
        ),
        (
            {"spec.auth.oidc": {"enabled": True}},
            {"spec.auth.oidc": {"enabled": True, "issuer": "a", "clientIdRef": KEY}},
        ),
    ),
    RuleCase(
        "PalenaUI",
        "spec",
        "several replicas share their files",
        (
            {"spec.replicas": 1},
            {"spec.replicas": 2, "spec.persistence.accessMode": "ReadWriteMany"},
            {"spec.replicas": 2, "spec.persistence.enabled": False},
        ),
        ({"spec.replicas": 2}, {"spec.replicas": 2, "spec.persistence.enabled": True}),
    ),
    RuleCase(
        "PalenaUI",
        "spec",
        "an enabled ingress needs a host",
        (
            {"spec.ingress": {}},
            {"spec.ingress.enabled": True, "spec.host": "chat.example.com"},
        ),
        ({"spec.ingress.enabled": True},),
    ),
    RuleCase(
        "PalenaUI",
        "spec",
        "each MCP server has an alias of its own",
        (
            {"spec.mcpServerRefs": [{"name": "a"}, {"name": "a", "namespace": "b", "alias": "c"}]},
            {"spec.mcpServerRefs": []},
        ),
        (
            {"spec.mcpServerRefs": [{"name": "a"}, {"name": "a", "namespace": "b"}]},
            {"spec.mcpServerRefs": [{"name": "a"}, {"name": "b", "alias": "a"}]},
        ),
    ),
)

BLOBS: Final = "spec.blobStorage"
_OBSERVABILITY: Final = (
    *_names("PalenaObservability", 30),
    _external("PalenaObservability", "spec.database", "shared", SECRET),
    _external("PalenaObservability", "spec.redis", "managed", SECRET),
    _external("PalenaObservability", "spec.clickhouse", "managed", SECRET),
    RuleCase(
        "PalenaObservability",
        "spec.database",
        "the name must be another than postgres",
        ({"spec.database.name": "traces"},),
        tuple({"spec.database.name": name} for name in ("postgres", "template0", "template1")),
    ),
    RuleCase(
        "PalenaObservability",
        BLOBS,
        "set the block of the provider",
        tuple({BLOBS: {"provider": name, name: {}}} for name in ("s3", "azure", "gcs")),
        ({BLOBS: {"provider": "s3"}}, {BLOBS: {"provider": "s3", "s3": {}, "gcs": {}}}),
    ),
    RuleCase(
        "PalenaObservability",
        "spec.gatewayRef",
        "the gateway cannot be changed",
        ({"spec.callback.enabled": False},),
        ({"spec.gatewayRef.name": "another"}, {"spec.gatewayRef.namespace": "another"}),
        before={},
    ),
)

DOMAINS: Final = "spec.policy.domains"
_MCP_SERVER: Final = (
    *_names("PalenaMCPServer", 40),
    _consumers("PalenaMCPServer"),
    RuleCase(
        "PalenaMCPServer",
        DOMAINS,
        "mode allowlist admits listed domains alone",
        ({DOMAINS: {}}, {DOMAINS: {"mode": "allowlist", "allowlist": ["example.com"]}}),
        ({DOMAINS: {"mode": "allowlist"}}, {DOMAINS: {"mode": "allowlist", "allowlist": []}}),
    ),
)

RULE_CASES: Final = (*_GATEWAY, *_MODEL, *_UI, *_OBSERVABILITY, *_MCP_SERVER)

DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "PalenaGateway": {
        "spec.database.mode": "managed",
        "spec.database.managed.instances": 1,
        "spec.database.managed.backup.enabled": False,
        "spec.database.external.secretRef.urlKey": "DATABASE_URL",
        "spec.redis.mode": "managed",
        "spec.redis.managed.image": "redis:7-alpine",
        "spec.redis.external.secretRef.urlKey": "REDIS_URL",
        "spec.ingress.enabled": False,
        "spec.ingress.tls.enabled": False,
        "spec.gatewayRoute.enabled": False,
        "spec.networkPolicy.enabled": True,
        "spec.networkPolicy.scope": "Gateway",
        "spec.allowedConsumers.from": "Same",
        "spec.deletionPolicy": "Delete",
    },
    "PalenaModel": {"spec.modelActivationRef.namespace": "ai-system"},
    "PalenaUI": {
        "spec.gatewayKey.mode": "virtualKey",
        "spec.image.repository": "ghcr.io/danny-avila/librechat",
        "spec.image.tag": "v0.8.7",
        "spec.image.pullPolicy": "IfNotPresent",
        "spec.replicas": 1,
        "spec.ingress.enabled": False,
        "spec.ingress.tls.enabled": False,
        "spec.auth.allowRegistration": False,
        "spec.auth.allowEmailLogin": True,
        "spec.auth.oidc.enabled": False,
        "spec.auth.oidc.scope": "openid profile email",
        "spec.auth.oidc.callbackPath": "/oauth/openid/callback",
        "spec.models.fetch": True,
        "spec.endpointName": "Palena",
        "spec.configVersion": "1.3.17",
        "spec.mongodb.mode": "managed",
        "spec.mongodb.image": "mongo:8.0",
        "spec.mongodb.secretRef.uriKey": "MONGO_URI",
        "spec.meilisearch.enabled": True,
        "spec.meilisearch.image": "getmeili/meilisearch:v1.12.3",
        "spec.persistence.enabled": True,
        "spec.persistence.size": "10Gi",
        "spec.persistence.accessMode": "ReadWriteOnce",
        "spec.deletionPolicy": "Retain",
    },
    "PalenaObservability": {
        "spec.langfuse.image.tag": "3",
        "spec.langfuse.web.replicas": 1,
        "spec.langfuse.worker.replicas": 1,
        "spec.database.mode": "shared",
        "spec.database.name": "langfuse",
        "spec.database.owner": "langfuse",
        "spec.database.external.secretRef.urlKey": "DATABASE_URL",
        "spec.redis.mode": "shared",
        "spec.redis.external.secretRef.hostKey": "host",
        "spec.redis.external.secretRef.portKey": "port",
        "spec.redis.external.secretRef.passwordKey": "password",
        "spec.clickhouse.mode": "managed",
        "spec.seed.orgId": "palena",
        "spec.seed.orgName": "Palena",
        "spec.callback.enabled": True,
        "spec.callback.type": "langfuse",
        "spec.deletionPolicy": "Retain",
    },
    "PalenaMCPServer": {
        "spec.image": "ghcr.io/palenaai/palena-websearch-mcp:0.9.1",
        "spec.replicas": 1,
        "spec.service.port": 8080,
        "spec.sidecars.searxng.image": "searxng/searxng:latest",
        "spec.sidecars.chromium.enabled": True,
        "spec.sidecars.chromium.engine": "playwright",
        "spec.sidecars.chromium.maxTabs": 3,
        "spec.sidecars.presidio.enabled": True,
        "spec.sidecars.presidio.mode": "audit",
        "spec.sidecars.presidio.language": "en",
        "spec.sidecars.presidio.scoreThreshold": "0.5",
        "spec.sidecars.presidio.blockThreshold": "5.0",
        "spec.sidecars.flashrank.enabled": True,
        "spec.sidecars.flashrank.model": "ms-marco-MiniLM-L-12-v2",
        "spec.sidecars.flashrank.image": "ghcr.io/palenaai/palena-flashrank:0.9.1",
        "spec.sidecars.flashrank.topK": 5,
        "spec.sidecars.injectionGuard.enabled": False,
        "spec.sidecars.injectionGuard.mode": "audit",
        "spec.sidecars.injectionGuard.model": "deepset/deberta-v3-base-injection",
        "spec.sidecars.injectionGuard.image": "ghcr.io/huggingface/text-embeddings-inference:cpu-1.9",
        "spec.search.defaultLanguage": "en",
        "spec.search.safeSearch": 1,
        "spec.search.maxResults": 10,
        "spec.policy.robots.enabled": True,
        "spec.policy.robots.cacheSeconds": 3600,
        "spec.policy.domains.mode": "blocklist",
        "spec.policy.rateLimit.enabled": True,
        "spec.policy.rateLimit.requestsPerDomainPerMinute": 10,
        "spec.logging.level": "info",
        "spec.logging.format": "json",
        "spec.otel.enabled": False,
        "spec.networkPolicy.enabled": True,
        "spec.allowedConsumers.from": "All",
    },
}

DEFAULT_PARENTS: Final[dict[str, tuple[Overrides, ...]]] = {
    "PalenaGateway": (
        {
            "spec.database": {"managed": {"backup": {}}},
            "spec.redis": {"managed": {}},
            "spec.ingress": {"tls": {}},
            "spec.gatewayRoute": {},
            "spec.networkPolicy": {},
            "spec.allowedConsumers": {},
        },
        {"spec.database": EXTERNAL, "spec.redis": EXTERNAL},
    ),
    "PalenaModel": ({"spec.provider": ABSENT, "spec.modelActivationRef": {"name": "a"}},),
    "PalenaUI": (
        {
            "spec.gatewayKey": {},
            "spec.image": {},
            "spec.ingress": {"tls": {}},
            "spec.auth": {"oidc": {}},
            "spec.models": {},
            "spec.mongodb": {},
            "spec.meilisearch": {},
            "spec.persistence": {},
        },
        {"spec.mongodb": {"mode": "external", "secretRef": {"name": "a"}}},
    ),
    "PalenaObservability": (
        {
            "spec.langfuse": {"image": {}, "web": {}, "worker": {}},
            "spec.database": {},
            "spec.redis": {},
            "spec.clickhouse": {},
            "spec.seed": {},
            "spec.callback": {},
        },
        {"spec.database": EXTERNAL, "spec.redis": EXTERNAL},
    ),
    "PalenaMCPServer": (
        {
            "spec.service": {},
            "spec.sidecars": {
                "searxng": {},
                "chromium": {},
                "presidio": {},
                "flashrank": {},
                "injectionGuard": {},
            },
            "spec.search": {},
            "spec.policy": {"robots": {}, "domains": {}, "rateLimit": {}},
            "spec.logging": {},
            "spec.otel": {},
            "spec.networkPolicy": {},
            "spec.allowedConsumers": {},
        },
    ),
}
"""What has to be there for the defaults to appear; where it excludes itself, in several objects."""

FREE_FIELDS: Final[dict[str, frozenset[str]]] = {
    "PalenaGateway": frozenset(
        {
            "spec.database.managed.resources",
            "spec.redis.managed.resources",
            "spec.networkPolicy.ingressFrom[]",
            "spec.litellm.extraEnvVars[].valueFrom",
            *(
                f"spec.litellm.{name}"
                for name in (
                    *("resources", "routerSettings", "generalSettings", "fallbacks", "caching", "sso"),
                    *("adminUI", "overrides"),
                )
            ),
        }
    ),
    "PalenaModel": frozenset(
        {
            "spec.info",
            "spec.provider.params",
            "spec.provider.params.apiKeySecretRef",
            "spec.provider.params.credentialRef",
        }
    ),
    "PalenaUI": frozenset(
        {
            "spec.resources",
            "spec.tolerations[]",
            "spec.affinity",
            "spec.config",
            "spec.extraEnv[].valueFrom",
            "spec.mongodb.resources",
            "spec.meilisearch.resources",
        }
    ),
    "PalenaObservability": frozenset(
        {
            *(f"spec.langfuse.{name}" for name in ("ingress", "gatewayAPI", "overrides")),
            *(f"spec.langfuse.auth.{name}" for name in ("oidc", "emailPassword")),
            *(
                f"spec.langfuse.{program}.{name}"
                for program in ("web", "worker")
                for name in ("resources", "extraEnv[].valueFrom")
            ),
            "spec.clickhouse.managed",
            *(f"spec.blobStorage.{name}" for name in ("s3", "azure", "gcs")),
        }
    ),
    "PalenaMCPServer": frozenset(
        {
            "spec.resources",
            "spec.config",
            "spec.env[].valueFrom",
            *(
                f"spec.sidecars.{name}.resources"
                for name in (
                    *("searxng", "chromium", "flashrank", "injectionGuard"),
                    *("presidio.analyzer", "presidio.anonymizer"),
                )
            ),
        }
    ),
}
FORBIDDEN_FREE: Final = frozenset(
    {"spec.provider.params.apiKeySecretRef", "spec.provider.params.credentialRef"}
)
"""Free in the schema, so that what is in them does not matter: a rule refuses them whole."""

FREE_PARENTS: Final[dict[str, Overrides]] = {
    "spec.litellm.extraEnvVars[].valueFrom": {"spec.litellm.extraEnvVars[]": {"name": "A"}},
    "spec.extraEnv[].valueFrom": {"spec.extraEnv[]": {"name": "A"}},
    "spec.env[].valueFrom": {"spec.env[]": {"name": "A"}},
    "spec.langfuse.web.extraEnv[].valueFrom": {"spec.langfuse.web.extraEnv[]": {"name": "A"}},
    "spec.langfuse.worker.extraEnv[].valueFrom": {"spec.langfuse.worker.extraEnv[]": {"name": "A"}},
    "spec.blobStorage.azure": {"spec.blobStorage": {"provider": "azure"}},
    "spec.blobStorage.gcs": {"spec.blobStorage": {"provider": "gcs"}},
}
"""What a free object needs beside it."""
