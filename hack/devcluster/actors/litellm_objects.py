"""What the LiteLLM operator makes of a LiteLLMInstance (spec: palena §3.2, §3.6)."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any, Final

from hack.devcluster.actors.following import Object
from hack.devcluster.actors.foreign import MANAGED_BY, deployment, job, service

MANAGER: Final = "litellm-operator"
INSTANCE_LABEL: Final = "litellm.palena.ai/instance"
MASTER_KEY, SALT_KEY = "LITELLM_MASTER_KEY", "LITELLM_SALT_KEY"
DATABASE_URL, REDIS_URL = "DATABASE_URL", "REDIS_URL"
SEED_VARIABLES: Final = {
    "publicKey": "LANGFUSE_PUBLIC_KEY",
    "secretKey": "LANGFUSE_SECRET_KEY",
    "host": "LANGFUSE_HOST",
}


def labels_of(instance: Object) -> dict[str, str]:
    """Of all that is made for an instance, its Pods included."""
    return {
        "app.kubernetes.io/name": "litellm",
        MANAGED_BY: MANAGER,
        INSTANCE_LABEL: instance["metadata"]["name"],
    }


def needed_secrets(instance: Object) -> Iterator[tuple[str, str]]:
    """Name and key of all that has to be there before anything is started."""
    for variable in _connections(instance):
        reference = variable["valueFrom"]["secretKeyRef"]
        yield reference["name"], reference["key"]


def migrates(instance: Object) -> bool:
    """Whether there is a migration Job; without the block there is none."""
    asked = instance["spec"]["database"].get("migration")
    return asked is not None and asked.get("enabled", True)


def account(instance: Object) -> dict[str, Any]:
    """Of the proxy's Pods."""
    metadata = {"name": instance["metadata"]["name"], "labels": labels_of(instance)}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def configuration(instance: Object) -> dict[str, Any]:
    """The proxy's own configuration, as far as anybody here looks at it."""
    spec, callbacks = instance["spec"], _callback_types(instance)
    document = {
        "general_settings": spec.get("generalSettings", {}),
        "router_settings": spec.get("routerSettings", {}),
        "litellm_settings": {"success_callback": callbacks, "failure_callback": callbacks},
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{instance['metadata']['name']}-config", "labels": labels_of(instance)},
        "data": {"config.yaml": json.dumps(document, sort_keys=True)},
    }


def migration(instance: Object) -> dict[str, Any]:
    """The Job that migrates the database, a new one for another image or another database."""
    wanted = [_image(instance), instance["spec"]["database"]]
    digest = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:8]
    container = {"name": "migrate", "image": _image(instance), "env": _connections(instance)}
    return job(f"{instance['metadata']['name']}-migrate-{digest}", labels_of(instance), container)


def proxy(instance: Object) -> dict[str, Any]:
    """The proxy's Deployment; a change of its configuration rolls it out."""
    spec, name, labels = instance["spec"], instance["metadata"]["name"], labels_of(instance)
    container = {
        "name": "litellm",
        "image": _image(instance),
        "ports": [{"name": "http", "containerPort": 4000}],
        "env": [*_connections(instance), *_callback_variables(instance), *spec.get("extraEnvVars", ())],
        "resources": spec.get("resources", {}),
        "readinessProbe": {"httpGet": {"path": "/health/readiness", "port": "http"}},
    }
    made = deployment(name, labels, spec.get("replicas", 1), container, serviceAccountName=name)
    text = configuration(instance)["data"]["config.yaml"]
    digest = hashlib.sha256(text.encode()).hexdigest()
    made["spec"]["template"]["metadata"]["annotations"] = {"litellm.palena.ai/config-hash": digest}
    return made


def proxy_service(instance: Object) -> dict[str, Any]:
    """How the proxy is reached."""
    labels = labels_of(instance)
    port = instance["spec"].get("service", {}).get("port", 4000)
    return service(instance["metadata"]["name"], labels, labels, port)


def _image(instance: Object) -> str:
    image = instance["spec"].get("image", {})
    return f"{image.get('repository', 'ghcr.io/berriai/litellm')}:{image.get('tag', 'latest')}"


def _connections(instance: Object) -> list[dict[str, Any]]:
    """The environment by which the proxy reaches its database and its cache, and its own keys."""
    spec = instance["spec"]
    database = spec["database"]
    given: dict[str, Any] = {}
    if "cloudnativepg" in database:
        given[DATABASE_URL] = {"name": f"{database['cloudnativepg']['clusterName']}-app", "key": "uri"}
    elif "external" in database:
        given[DATABASE_URL] = database["external"]["connectionSecretRef"]
    redis = spec.get("redis", {})
    if redis.get("enabled") and "connectionSecretRef" in redis:
        given[REDIS_URL] = redis["connectionSecretRef"]
    for variable, field in ((MASTER_KEY, "masterKey"), (SALT_KEY, "saltKey")):
        if "secretRef" in spec.get(field, {}):
            given[variable] = spec[field]["secretRef"]
    return [_from_secret(name, reference["name"], reference["key"]) for name, reference in given.items()]


def _callback_types(instance: Object) -> list[str]:
    callbacks = instance["spec"].get("callbacks", {})
    seed = ["langfuse"] if callbacks.get("langfuse", {}).get("enabled") else []
    return [*callbacks.get("types", ()), *seed]


def _callback_variables(instance: Object) -> list[dict[str, Any]]:
    callbacks = instance["spec"].get("callbacks", {})
    seed = callbacks.get("langfuse", {})
    if not seed.get("enabled"):
        return list(callbacks.get("envVars", ()))
    secret, keys = seed["secretRef"]["name"], seed["secretRef"]["keys"]
    return [_from_secret(SEED_VARIABLES[each], secret, key) for each, key in keys.items()]


def _from_secret(variable: str, secret: str, key: str) -> dict[str, Any]:
    return {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
