"""The objects of LibreChat itself (spec: palena §6.3, §6.4)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from magicstick.api.palena.ui import PalenaUISpec
from magicstick.palena.common import labels
from magicstick.palena.common.addresses import CLUSTER_DOMAIN, service_url
from magicstick.palena.common.owners import Describe, Object
from magicstick.palena.common.workloads import (
    IN_PLACE,
    ROLLING,
    Port,
    User,
    claim,
    config_map,
    deployment,
    http_probe,
    merged_env,
    plain_env,
    resources,
    restricted,
    secret_env,
    service,
    unprivileged,
)
from magicstick.palena.ui import secrets
from magicstick.palena.ui.librechat import API_KEY
from magicstick.palena.ui.names import LIBRECHAT, LIBRECHAT_PORT, MEILISEARCH_PORT, Names

FILE: Final = "librechat.yaml"
FILE_PATH: Final = f"/app/{FILE}"
PORT_NAME: Final = "http"
USER: Final = User(uid=1000, gid=1000, fs_group=2000)
DATA: Final = "data"
DATA_PATHS: Final = {"uploads": "/app/uploads", "images": "/app/client/public/images"}
LOGS_PATH: Final = "/app/api/logs"
_REQUESTS: Final = {"cpu": "200m", "memory": "512Mi"}
_LIMITS: Final = {"cpu": "1", "memory": "2Gi"}


@dataclass(frozen=True, slots=True)
class SecretKey:
    """One key of a Secret beside the UI."""

    secret: str
    key: str


@dataclass(frozen=True, slots=True)
class ChatShape:
    """LibreChat as its objects are built from."""

    names: Names
    namespace: str
    spec: PalenaUISpec
    describe: Describe
    api_key: SecretKey
    """The key for the gateway."""
    mongo_uri: SecretKey
    config_hash: str = ""
    secret_hash: str = ""
    """Of every value in the environment that comes from a Secret."""
    domain: str = CLUSTER_DOMAIN

    @property
    def url(self) -> str:
        """Where the chat is opened."""
        if self.spec.host is None:
            return service_url(self.names.librechat, self.namespace, LIBRECHAT_PORT, domain=self.domain)
        tls = self.spec.ingress.tls
        return f"{'https' if tls is not None and tls.enabled else 'http'}://{self.spec.host}"


def meilisearch_url(names: Names, namespace: str, domain: str) -> str:
    """Where MeiliSearch is reached."""
    return service_url(names.meilisearch, namespace, MEILISEARCH_PORT, domain=domain)


def configuration(names: Names, describe: Describe, text: str) -> Object:
    """The ConfigMap of `librechat.yaml`."""
    return config_map(describe(names.configuration, LIBRECHAT), {FILE: text})


def data_claim(shape: ChatShape, size: str, storage_class: str) -> Object:
    """The volume of uploads and images."""
    wanted = shape.spec.persistence
    metadata = shape.describe(shape.names.data, LIBRECHAT)
    return claim(metadata, size, storage_class=storage_class, mode=wanted.access_mode)


def chat_service(shape: ChatShape) -> Object:
    """The Service in front of LibreChat."""
    return service(shape.describe(shape.names.librechat, LIBRECHAT), Port(PORT_NAME, LIBRECHAT_PORT))


def chat_ingress(shape: ChatShape) -> Object:
    """The Ingress of the public host."""
    wanted, host = shape.spec.ingress, shape.spec.host
    backend = {"service": {"name": shape.names.librechat, "port": {"number": LIBRECHAT_PORT}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    spec: Object = {"rules": [{"host": host, "http": {"paths": [path]}}]}
    if wanted.class_name:
        spec["ingressClassName"] = wanted.class_name
    if wanted.tls is not None and wanted.tls.enabled:
        certificate = {"secretName": wanted.tls.secret_name} if wanted.tls.secret_name else {}
        spec["tls"] = [{"hosts": [host], **certificate}]
    metadata = shape.describe(shape.names.librechat, LIBRECHAT)
    notes = {**metadata.get("annotations", {}), **wanted.annotations}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {**metadata, "annotations": notes} if notes else metadata,
        "spec": spec,
    }


def chat_deployment(shape: ChatShape) -> Object:
    """LibreChat. Another configuration or another secret is another Pod.

    Pods are replaced one after another; where only one node can mount the volume, the old one ends first.
    """
    spec = shape.spec
    single = spec.persistence.enabled and spec.persistence.access_mode == "ReadWriteOnce"
    return deployment(
        shape.describe(shape.names.librechat, LIBRECHAT),
        _pod(shape),
        replicas=spec.replicas,
        strategy=IN_PLACE if single else ROLLING,
        annotations={labels.CONFIG_HASH: shape.config_hash, labels.SECRET_HASH: shape.secret_hash},
    )


def environment(shape: ChatShape) -> list[Object]:
    """Everything that LibreChat is told by its environment; what the user adds wins."""
    spec, own = shape.spec, shape.names.secrets
    settings = {
        "HOST": "0.0.0.0",  # noqa: S104 - within its Pod
        "PORT": str(LIBRECHAT_PORT),
        "SEARCH": _said(spec.meilisearch.enabled),
        "MEILI_NO_ANALYTICS": "true",
        "DOMAIN_CLIENT": shape.url,
        "DOMAIN_SERVER": shape.url,
        "ALLOW_REGISTRATION": _said(spec.auth.allow_registration),
        "ALLOW_EMAIL_LOGIN": _said(spec.auth.allow_email_login),
        "ALLOW_SOCIAL_LOGIN": _said(spec.auth.oidc.enabled),
        "NO_INDEX": "true",
        "TRUST_PROXY": "1",
        "ENDPOINTS": "custom,agents",
    }
    kept = (secrets.CREDS_KEY, secrets.CREDS_IV, secrets.JWT_SECRET, secrets.JWT_REFRESH_SECRET)
    generated = [
        *plain_env(settings),
        secret_env("MONGO_URI", shape.mongo_uri.secret, shape.mongo_uri.key),
        *(secret_env(each, own, each) for each in kept),
        secret_env(API_KEY, shape.api_key.secret, shape.api_key.key),
        *_search(shape),
        *_oidc(shape),
    ]
    given = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in spec.extra_env]
    return merged_env(generated, given)


def referred(env: list[Object]) -> tuple[SecretKey, ...]:
    """The keys of Secrets that an environment is made from, each once."""
    found = (each.get("valueFrom", {}).get("secretKeyRef") for each in env)
    return tuple(
        dict.fromkeys(
            SecretKey(str(each.get("name")), str(each.get("key")))
            for each in found
            if isinstance(each, Mapping)
        )
    )


def _search(shape: ChatShape) -> list[Object]:
    if not shape.spec.meilisearch.enabled:
        return []
    host = meilisearch_url(shape.names, shape.namespace, shape.domain)
    key = secret_env(secrets.MEILI_MASTER_KEY, shape.names.secrets, secrets.MEILI_MASTER_KEY)
    return [*plain_env({"MEILI_HOST": host}), key]


def _oidc(shape: ChatShape) -> list[Object]:
    """Sign-in with OpenID Connect; the schema asks for issuer and client where it is enabled."""
    wanted = shape.spec.auth.oidc
    if not wanted.enabled or wanted.client_id_ref is None or wanted.client_secret_ref is None:
        return []
    settings = {
        "OPENID_ISSUER": wanted.issuer or "",
        "OPENID_SCOPE": wanted.scope,
        "OPENID_CALLBACK_URL": wanted.callback_path,
    }
    label = {"OPENID_BUTTON_LABEL": wanted.button_label} if wanted.button_label else {}
    return [
        *plain_env(settings | label),
        secret_env("OPENID_CLIENT_ID", wanted.client_id_ref.name, wanted.client_id_ref.key),
        secret_env("OPENID_CLIENT_SECRET", wanted.client_secret_ref.name, wanted.client_secret_ref.key),
        secret_env(secrets.OPENID_SESSION_SECRET, shape.names.secrets, secrets.OPENID_SESSION_SECRET),
    ]


def _pod(shape: ChatShape) -> Object:
    spec = shape.spec
    pod: Object = {
        "automountServiceAccountToken": False,
        "securityContext": restricted(USER),
        "containers": [_container(shape)],
        "volumes": [
            {"name": "configuration", "configMap": {"name": shape.names.configuration}},
            {"name": "logs", "emptyDir": {}},
            _data_volume(shape),
        ],
        "imagePullSecrets": [{"name": each.name} for each in spec.image.pull_secrets],
        "nodeSelector": dict(spec.node_selector),
        "tolerations": [dict(each) for each in spec.tolerations],
        "affinity": dict(spec.affinity),
    }
    return {name: value for name, value in pod.items() if value not in ([], {})}


def _container(shape: ChatShape) -> Object:
    image = shape.spec.image
    mounts = [
        {"name": "configuration", "mountPath": FILE_PATH, "subPath": FILE, "readOnly": True},
        {"name": "logs", "mountPath": LOGS_PATH},
        *({"name": DATA, "mountPath": path, "subPath": folder} for folder, path in DATA_PATHS.items()),
    ]
    return {
        "name": LIBRECHAT,
        "image": f"{image.repository}:{image.tag}",
        "imagePullPolicy": image.pull_policy,
        "ports": [{"name": PORT_NAME, "containerPort": LIBRECHAT_PORT, "protocol": "TCP"}],
        "env": environment(shape),
        "startupProbe": http_probe("/health", PORT_NAME, failures=30),
        "readinessProbe": http_probe("/health", PORT_NAME),
        "livenessProbe": http_probe("/health", PORT_NAME, period_s=20, failures=6),
        "resources": resources(shape.spec.resources, _REQUESTS, _LIMITS),
        "securityContext": unprivileged(),
        "volumeMounts": mounts,
    }


def _data_volume(shape: ChatShape) -> Object:
    if not shape.spec.persistence.enabled:
        return {"name": DATA, "emptyDir": {}}
    return {"name": DATA, "persistentVolumeClaim": {"claimName": shape.names.data}}


def _said(value: bool) -> str:  # noqa: FBT001 - the value itself, not a mode
    return "true" if value else "false"
