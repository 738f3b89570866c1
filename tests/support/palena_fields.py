"""Field by field, what the API server must accept and refuse of Palena's kinds (spec: palena §4 to §8)."""

from collections.abc import Iterable
from typing import Any, Final

from tests.support.crd_bases import Case, Overrides
from tests.support.schemas import ABSENT

KINDS: Final = ("PalenaGateway", "PalenaModel", "PalenaUI", "PalenaObservability", "PalenaMCPServer")
GATEWAY, MODEL, UI, OBSERVABILITY, MCP_SERVER = KINDS
LONG: Final = 253
SECRET: Final = {"secretRef": {"name": "a"}}
EXTERNAL: Final = {"mode": "external", "external": SECRET}


def _text(
    kind: str,
    path: str,
    most: int | None = LONG,
    *,
    least: int = 1,
    required: bool = False,
    given: Overrides | None = None,
) -> Case:
    """A text of `least` to `most` characters."""
    accepted = ("a" * least, *(("a" * most,) if most else ()))
    refused: tuple[Any, ...] = (("a" * (least - 1),) if least else ()) + (("a" * (most + 1),) if most else ())
    return Case(kind, path, accepted, (*refused, *((ABSENT,) if required else ())), given or {})


def _texts(kind: str, paths: Iterable[str], most: int | None = LONG, *, least: int = 1) -> list[Case]:
    return [_text(kind, path, most, least=least) for path in paths]


def _ref(kind: str, path: str, *, namespaced: bool = False, given: Overrides | None = None) -> list[Case]:
    """A reference by name."""
    base = {path: {"name": "a"}, **(given or {})}
    found = [_text(kind, f"{path}.name", required=True, given=base)]
    return [*found, _text(kind, f"{path}.namespace", 63, least=0, given=base)] if namespaced else found


def _key_ref(kind: str, path: str, given: Overrides | None = None) -> list[Case]:
    base = {**(given or {}), path: {"name": "a", "key": "k"}}
    return [_text(kind, f"{path}.{name}", required=True, given=base) for name in ("name", "key")]


def _choice(kind: str, path: str, *those: str, given: Overrides | None = None) -> Case:
    return Case(kind, path, those, ("other", those[0].swapcase(), ""), given or {})


def _number(
    kind: str, path: str, least: int, most: int | None = None, given: Overrides | None = None
) -> Case:
    over = (most,) if most is not None else ()
    return Case(kind, path, (least, *over), (least - 1, *(each + 1 for each in over)), given or {})


def _many(kind: str, path: str, most: int, item: Any = "a", given: Overrides | None = None) -> Case:
    return Case(kind, path, ([], [item] * most), ([item] * (most + 1),), given or {})


def _image(kind: str, path: str) -> list[Case]:
    return [
        _choice(kind, f"{path}.pullPolicy", "Always", "IfNotPresent", "Never"),
        _text(
            kind, f"{path}.pullSecrets[].name", required=True, given={f"{path}.pullSecrets[]": {"name": "a"}}
        ),
    ]


def _env(kind: str, path: str) -> list[Case]:
    one, two = {"name": "A", "value": "1"}, {"name": "B"}
    return [
        Case(kind, path, ([one, two],), ([one, one],)),
        _text(kind, f"{path}[].name", required=True, given={f"{path}[]": one}),
    ]


def _size(kind: str, path: str) -> Case:
    longest = f"1.{'0' * 28}Gi"
    return Case(kind, path, ("1", longest), ("", f"1.{'0' * 29}Gi"))


def _storage(kind: str, path: str) -> list[Case]:
    return [
        _size(kind, f"{path}.size"),
        _text(kind, f"{path}.storageClassName", least=0),
    ]


def _host(kind: str, path: str) -> Case:
    longest = ".".join(("a" * 63, "a" * 63, "a" * 63, "a" * 61))
    return Case(
        kind, path, ("a", "a.example.com", longest), ("", "A.example.com", "a_b", "https://a", longest + "a")
    )


def _url(kind: str, path: str, *schemes: str) -> Case:
    first = f"{schemes[0]}://"
    longest = first + "a" * (2048 - len(first))
    good = tuple(f"{scheme}://a.example.com:80/x" for scheme in schemes)
    return Case(kind, path, (*good, longest), ("a.example.com", "ftp://a", f"{first}a b", longest + "a"))


def _consumers(kind: str) -> list[Case]:
    path = "spec.allowedConsumers"
    listed = {f"{path}.from": "List"}
    return [
        _choice(kind, f"{path}.from", "Same", "All", "List"),
        _many(kind, f"{path}.namespaces", 64, given=listed),
        _text(kind, f"{path}.namespaces[]", 63, least=0, given=listed),
    ]


def _status(kind: str, *counts: str) -> list[Case]:
    return [
        Case(kind, "status.readySince", ("2026-01-01T00:00:00Z",), ("soon", "")),
        *[_number(kind, f"status.{name}", 0) for name in ("observedGeneration", *counts)],
    ]


def _gateway() -> list[Case]:
    scaling = {"spec.litellm.autoscaling": {"enabled": True, "maxReplicas": 1}}
    return [
        Case(GATEWAY, "spec", ({},), (ABSENT,)),
        _choice(GATEWAY, "spec.deletionPolicy", "Delete", "Retain"),
        Case(GATEWAY, "spec.database.mode", ("managed",), ("Managed", "", "shared")),
        Case(GATEWAY, "spec.database.mode", ("external",), ("other",), {"spec.database": EXTERNAL}),
        Case(GATEWAY, "spec.redis.mode", ("managed",), ("Managed", "", "shared")),
        Case(GATEWAY, "spec.redis.mode", ("external",), ("other",), {"spec.redis": EXTERNAL}),
        *[
            case
            for part in ("database", "redis")
            for case in (
                Case(
                    GATEWAY,
                    f"spec.{part}.external.secretRef",
                    ({"name": "a"},),
                    (ABSENT,),
                    {f"spec.{part}": EXTERNAL},
                ),
                *_ref(GATEWAY, f"spec.{part}.external.secretRef", given={f"spec.{part}.mode": "external"}),
                _text(
                    GATEWAY,
                    f"spec.{part}.external.secretRef.urlKey",
                    None,
                    given={f"spec.{part}": EXTERNAL},
                ),
                *_storage(GATEWAY, f"spec.{part}.managed.storage"),
            )
        ],
        _number(GATEWAY, "spec.database.managed.instances", 1, 9),
        _choice(GATEWAY, "spec.database.managed.backup.method", "snapshot", "barmanObjectStore"),
        _number(GATEWAY, "spec.database.managed.backup.retention", 1),
        _text(GATEWAY, "spec.redis.managed.image", None),
        _number(GATEWAY, "spec.litellm.replicas", 1, 50),
        Case(GATEWAY, "spec.litellm.autoscaling.enabled", (True, False), (ABSENT, "yes"), scaling),
        Case(GATEWAY, "spec.litellm.autoscaling.maxReplicas", (1, 9), (0, ABSENT), scaling),
        _number(GATEWAY, "spec.litellm.autoscaling.minReplicas", 1, given=scaling),
        _number(GATEWAY, "spec.litellm.autoscaling.targetCPUUtilization", 1, 100, scaling),
        _number(GATEWAY, "spec.litellm.autoscaling.targetMemoryUtilization", 1, 100, scaling),
        *_key_ref(GATEWAY, "spec.litellm.masterKeySecretRef"),
        *_image(GATEWAY, "spec.litellm.image"),
        *_env(GATEWAY, "spec.litellm.extraEnvVars"),
        _host(GATEWAY, "spec.ingress.host"),
        _text(GATEWAY, "spec.ingress.tls.secretName", least=0),
        _host(GATEWAY, "spec.gatewayRoute.host"),
        _many(GATEWAY, "spec.gatewayRoute.parentRefs", 32, {"name": "a"}),
        *_ref(GATEWAY, "spec.gatewayRoute.parentRefs[]", namespaced=True),
        _choice(GATEWAY, "spec.networkPolicy.scope", "Gateway", "Namespace"),
        _many(GATEWAY, "spec.networkPolicy.ingressFrom", 64, {}),
        _text(GATEWAY, "spec.networkPolicy.cnpgNamespace", 63, least=0),
        _text(GATEWAY, "spec.networkPolicy.litellmOperatorNamespace", 63, least=0),
        *_consumers(GATEWAY),
        *_status(
            GATEWAY,
            *("database.instances", "database.readyInstances", "redis.port", "modelCount"),
            *("gateway.replicas", "gateway.readyReplicas"),
        ),
    ]


def _model() -> list[Case]:
    bridged = {"spec.provider": ABSENT, "spec.modelActivationRef": {"name": "a"}}
    names = [{"name": f"a{number}"} for number in range(33)]
    return [
        Case(MODEL, "spec", ({"gatewayRefs": [{"name": "a"}], "provider": {"model": "m"}},), (ABSENT,)),
        Case(MODEL, "spec.gatewayRefs", (names[:1], names[:32]), ([], names, ABSENT)),
        *_ref(MODEL, "spec.gatewayRefs[]", namespaced=True),
        _text(MODEL, "spec.modelName"),
        _text(MODEL, "spec.provider.model", 1024),
        *_key_ref(MODEL, "spec.provider.apiKeySecretRef"),
        *_ref(MODEL, "spec.provider.credentialRef"),
        *[
            _number(MODEL, f"spec.limits.{name}", 0)
            for name in ("rpm", "tpm", "timeoutSeconds", "streamTimeoutSeconds", "maxRetries")
        ],
        _number(MODEL, "spec.routing.weight", 0),
        _many(MODEL, "spec.routing.tags", 64),
        *_ref(MODEL, "spec.modelActivationRef", namespaced=True, given=bridged),
        *_status(MODEL, "syncedCount", "totalCount"),
    ]


def _ui() -> list[Case]:
    names = [{"name": f"a{number}"} for number in range(33)]
    secret = {"spec.gatewayKey.mode": "secret"}
    external = {"spec.mongodb": {"mode": "external", "secretRef": {"name": "a"}}}
    return [
        Case(UI, "spec", ({"gatewayRef": {"name": "a"}},), (ABSENT,)),
        Case(UI, "spec.gatewayRef", ({"name": "a"},), (ABSENT,)),
        *_ref(UI, "spec.gatewayRef", namespaced=True),
        Case(UI, "spec.gatewayKey.mode", ("virtualKey", "masterKey"), ("VirtualKey", "")),
        Case(
            UI,
            "spec.gatewayKey.mode",
            ("secret",),
            ("other",),
            {"spec.gatewayKey.secretRef": {"name": "a", "key": "k"}},
        ),
        *_key_ref(UI, "spec.gatewayKey.secretRef", secret),
        Case(UI, "spec.gatewayKey.maxBudget", ("10", "0.5"), ("", "ten", "-1", "1.", ".5")),
        _number(UI, "spec.gatewayKey.rpmLimit", 0),
        _number(UI, "spec.gatewayKey.tpmLimit", 0),
        Case(UI, "spec.mcpServerRefs", ([], names[:32]), (names,)),
        *_ref(UI, "spec.mcpServerRefs[]", namespaced=True),
        Case(
            UI,
            "spec.mcpServerRefs[].alias",
            ("a", "Web_1-b", "a" * 63),
            ("", "a" * 64, "a b", "a.b"),
            {"spec.mcpServerRefs[]": {"name": "a"}},
        ),
        _number(UI, "spec.mcpServerRefs[].timeoutMs", 1, given={"spec.mcpServerRefs[]": {"name": "a"}}),
        *_texts(UI, ("spec.image.repository", "spec.image.tag", "spec.configVersion"), None),
        *_image(UI, "spec.image"),
        Case(UI, "spec.replicas", (1,), (0,)),
        Case(UI, "spec.replicas", (10,), (11,), {"spec.persistence.enabled": False}),
        _many(UI, "spec.tolerations", 64, {}),
        _host(UI, "spec.host"),
        _text(UI, "spec.ingress.tls.secretName", least=0),
        *_key_ref(UI, "spec.auth.oidc.clientIdRef"),
        *_key_ref(UI, "spec.auth.oidc.clientSecretRef"),
        Case(UI, "spec.auth.oidc.callbackPath", ("/", "/a"), ("", "a/")),
        _many(UI, "spec.models.default", 256),
        _text(UI, "spec.endpointName", 63),
        *_env(UI, "spec.extraEnv"),
        Case(UI, "spec.mongodb.mode", ("managed",), ("Managed", "")),
        Case(UI, "spec.mongodb.mode", ("external",), ("other",), external),
        *_ref(UI, "spec.mongodb.secretRef", given={"spec.mongodb.mode": "external"}),
        _text(UI, "spec.mongodb.secretRef.uriKey", None, given=external),
        *_texts(UI, ("spec.mongodb.image", "spec.meilisearch.image"), None),
        *_storage(UI, "spec.mongodb.storage"),
        *_storage(UI, "spec.meilisearch.storage"),
        *_storage(UI, "spec.persistence"),
        _choice(UI, "spec.persistence.accessMode", "ReadWriteOnce", "ReadWriteMany"),
        _choice(UI, "spec.deletionPolicy", "Delete", "Retain"),
        *_status(UI, "replicas", "readyReplicas"),
    ]


def _observability() -> list[Case]:
    kind = OBSERVABILITY
    storage = {"provider": "s3", "s3": {}}
    admin = {"spec.seed.adminUser": {"email": "a@b", "passwordSecretRef": {"name": "a", "key": "k"}}}
    longest = "a@" + "b" * 252
    identifiers = ("a", "_a1", "a" * 63), ("", "a" * 64, "1a", "A", "a-b")
    return [
        Case(kind, "spec", ({"gatewayRef": {"name": "a"}, "blobStorage": storage},), (ABSENT,)),
        Case(kind, "spec.gatewayRef", ({"name": "a"},), (ABSENT,)),
        *_ref(kind, "spec.gatewayRef", namespaced=True),
        Case(kind, "spec.blobStorage", (storage,), (ABSENT,)),
        Case(kind, "spec.blobStorage.provider", ("s3",), ("S3", "", ABSENT)),
        Case(kind, "spec.blobStorage.provider", ("gcs",), ("other",), {"spec.blobStorage": {"gcs": {}}}),
        *[
            case
            for part, internal in (
                ("database", ("shared",)),
                ("redis", ("shared", "managed")),
                ("clickhouse", ("managed",)),
            )
            for case in (
                Case(kind, f"spec.{part}.mode", internal, ("Shared", "")),
                Case(kind, f"spec.{part}.mode", ("external",), ("other",), {f"spec.{part}": EXTERNAL}),
                Case(
                    kind,
                    f"spec.{part}.external.secretRef",
                    ({"name": "a"},),
                    (ABSENT,),
                    {f"spec.{part}": EXTERNAL},
                ),
                *_ref(kind, f"spec.{part}.external.secretRef", given={f"spec.{part}.mode": "external"}),
            )
        ],
        _text(kind, "spec.database.external.secretRef.urlKey", None, given={"spec.database": EXTERNAL}),
        *[
            _text(kind, f"spec.redis.external.secretRef.{name}Key", None, given={"spec.redis": EXTERNAL})
            for name in ("host", "port", "password")
        ],
        Case(kind, "spec.database.name", *identifiers),
        Case(kind, "spec.database.owner", *identifiers),
        *_image(kind, "spec.langfuse.image"),
        _text(kind, "spec.langfuse.image.tag", None),
        _url(kind, "spec.langfuse.url", "http", "https"),
        *[
            case
            for program in ("web", "worker")
            for case in (
                _number(kind, f"spec.langfuse.{program}.replicas", 1, 50),
                *_env(kind, f"spec.langfuse.{program}.extraEnv"),
            )
        ],
        Case(
            kind,
            "spec.seed.adminUser.email",
            ("a@b", "admin@example.com", longest),
            ("", "ab", "admin", "a b@c", longest + "b", ABSENT),
            admin,
        ),
        Case(
            kind,
            "spec.seed.adminUser.passwordSecretRef",
            ({"name": "a", "key": "k"},),
            (ABSENT,),
            admin,
        ),
        *_key_ref(kind, "spec.seed.adminUser.passwordSecretRef", admin),
        *_texts(kind, ("spec.seed.orgId", "spec.seed.orgName")),
        *_texts(kind, ("spec.seed.projectId", "spec.seed.projectName"), least=0),
        _choice(kind, "spec.callback.type", "langfuse", "langfuse_otel"),
        _choice(kind, "spec.deletionPolicy", "Delete", "Retain"),
        *_status(kind),
    ]


def _mcp_server() -> list[Case]:
    kind, sidecars = MCP_SERVER, "spec.sidecars"
    images = (
        "searxng",
        "chromium",
        "flashrank",
        "injectionGuard",
        "presidio.analyzer",
        "presidio.anonymizer",
    )
    decimals = ("0", "0.5", "1" * 16), ("", "-1", "half", ".5", "1.", "1" * 17)
    lists = ("presidio.entities",)
    return [
        Case(kind, "spec", ({},), (ABSENT,)),
        _text(kind, "spec.image", 1024),
        _number(kind, "spec.replicas", 1, 50),
        _number(kind, "spec.service.port", 1, 65535),
        *_texts(kind, (f"{sidecars}.{name}.image" for name in images), 1024),
        *[
            _url(kind, f"{sidecars}.{name}.externalURL", "http", "https")
            for name in images
            if name != "chromium"
        ],
        _url(kind, f"{sidecars}.chromium.externalURL", "ws", "wss", "http", "https"),
        _choice(kind, f"{sidecars}.chromium.engine", "playwright", "cdp"),
        _number(kind, f"{sidecars}.chromium.maxTabs", 1, 64),
        _choice(kind, f"{sidecars}.presidio.mode", "audit", "redact", "block"),
        _text(kind, f"{sidecars}.presidio.language", 16, least=2),
        Case(kind, f"{sidecars}.presidio.scoreThreshold", *decimals),
        Case(kind, f"{sidecars}.presidio.blockThreshold", *decimals),
        *[_many(kind, f"{sidecars}.{name}", 64) for name in lists],
        *_texts(kind, (f"{sidecars}.flashrank.model", f"{sidecars}.injectionGuard.model"), None),
        _number(kind, f"{sidecars}.flashrank.topK", 1),
        _choice(kind, f"{sidecars}.injectionGuard.mode", "audit", "annotate", "block"),
        _text(kind, "spec.search.defaultLanguage", 16, least=2),
        _number(kind, "spec.search.safeSearch", 0, 2),
        _number(kind, "spec.search.maxResults", 1),
        _many(kind, "spec.search.engines", 64),
        _many(kind, "spec.search.engineRoutes.*", 64),
        _number(kind, "spec.policy.robots.cacheSeconds", 0),
        Case(kind, "spec.policy.domains.mode", ("blocklist",), ("Blocklist", "")),
        Case(
            kind,
            "spec.policy.domains.mode",
            ("allowlist",),
            ("other",),
            {"spec.policy.domains.allowlist": ["example.com"]},
        ),
        _many(kind, "spec.policy.domains.allowlist", 1024),
        _many(kind, "spec.policy.domains.blocklist", 1024),
        _number(kind, "spec.policy.rateLimit.requestsPerDomainPerMinute", 1),
        _choice(kind, "spec.logging.level", "debug", "info", "warn", "error"),
        _choice(kind, "spec.logging.format", "json", "text"),
        *_env(kind, "spec.env"),
        *_consumers(kind),
        *_status(kind, "replicas", "readyReplicas"),
    ]


CASES: Final = (*_gateway(), *_model(), *_ui(), *_observability(), *_mcp_server())
