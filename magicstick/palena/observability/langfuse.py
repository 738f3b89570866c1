"""The LangfuseInstance of an observability (spec: palena §3.5, §7.3).

Its database is always told by a Secret: for a Cluster, Langfuse's operator ignores which database is meant
and takes LiteLLM's. Organisation, project and keys go into the environment, since the kind has no fields
for identifiers and keys; `security` is left out, since its mere presence makes the root read-only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from magicstick.api.palena.observability import AdminUser, LangfuseComponent, PalenaObservabilitySpec, Seed
from magicstick.api.palena.shared import EnvVars
from magicstick.palena.common.merging import deep_merge
from magicstick.palena.common.workloads import merged_env, plain_env, secret_env
from magicstick.palena.observability.callbacks import PUBLIC_KEY, SECRET_KEY
from magicstick.palena.observability.names import DATABASE_URL, Names

Object = dict[str, Any]

FORBIDDEN_OVERRIDES: Final = ("database", "redis")
REVISION_VARIABLE: Final = "PALENA_SECRETS_REVISION"
"""Another value of it restarts Langfuse."""
INIT: Final = "LANGFUSE_INIT"
"""Langfuse makes what these variables name at its start, if it is not there."""


@dataclass(frozen=True, slots=True)
class LangfuseShape:
    """What the instance is built from, beside its spec."""

    names: Names
    gateway_namespace: str
    gateway: str
    internal_url: str
    redis_tls: bool = False
    """Whether the shared Redis speaks TLS."""
    revision: str = ""
    """Of the secret values that Langfuse starts with; "" while it is not known."""


def langfuse_spec(shape: LangfuseShape, spec: PalenaObservabilitySpec) -> Object:
    """The spec of the instance. Overrides must have been checked (`override_problem`)."""
    wanted = spec.langfuse
    made: Object = {
        "image": wanted.image.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
        | {"tag": wanted.image.tag},
        "auth": _auth(shape, spec),
        "web": _component(wanted.web, [*_seeding(shape, spec), *_restarting(shape)]),
        "worker": _component(wanted.worker, _restarting(shape)),
        "database": _database(shape, spec),
        "redis": _redis(shape, spec),
        "clickhouse": _clickhouse(spec),
        "blobStorage": spec.blob_storage.model_dump(mode="json", by_alias=True, exclude_none=True),
    }
    if wanted.ingress:
        made["ingress"] = wanted.ingress
    if wanted.gateway_api:
        made["gatewayAPI"] = wanted.gateway_api
    return deep_merge(made, wanted.overrides)


def override_problem(spec: PalenaObservabilitySpec) -> str:
    """What is wrong with the overrides; "" when nothing is."""
    given = spec.langfuse.overrides
    forbidden = [name for name in FORBIDDEN_OVERRIDES if name in given]
    if forbidden:
        return f"spec.langfuse.overrides must not have {' and '.join(forbidden)}: set spec.{forbidden[0]}"
    image = given.get("image", {})
    if "image" in given and (not isinstance(image, Mapping) or ("tag" in image and not image["tag"])):
        return "spec.langfuse.overrides.image.tag must not be empty"
    return ""


def public_url(shape: LangfuseShape, spec: PalenaObservabilitySpec) -> str:
    """Where users open Langfuse: as given, or by the host of its ingress, or within the cluster."""
    if spec.langfuse.url:
        return spec.langfuse.url
    ingress = spec.langfuse.ingress
    host = ingress.get("host")
    if not ingress.get("enabled") or not isinstance(host, str) or not host:
        return shape.internal_url
    tls = ingress.get("tls")
    return f"{'https' if isinstance(tls, Mapping) and tls.get('enabled') else 'http'}://{host}"


def _auth(shape: LangfuseShape, spec: PalenaObservabilitySpec) -> Object:
    auth: Object = {"nextAuthUrl": public_url(shape, spec)}
    if spec.langfuse.auth.oidc:
        auth["oidc"] = spec.langfuse.auth.oidc
    if spec.langfuse.auth.email_password:
        auth["emailPassword"] = spec.langfuse.auth.email_password
    if spec.seed.admin_user is not None:
        auth["initUser"] = _first_user(shape, spec.seed, spec.seed.admin_user)
    return auth


def _first_user(shape: LangfuseShape, seed: Seed, user: AdminUser) -> Object:
    """With a first user, the names of organisation and project stand here and nowhere else."""
    return {
        "enabled": True,
        "email": user.email,
        "password": {"name": user.password_secret_ref.name, "key": user.password_secret_ref.key},
        "orgName": seed.org_name,
        "projectName": _project_name(shape, seed),
    }


def _project_name(shape: LangfuseShape, seed: Seed) -> str:
    return seed.project_name or shape.gateway


def _component(wanted: LangfuseComponent, env: list[Object]) -> Object:
    """What a user adds to the environment comes first: the seeding is ours."""
    made: Object = {"replicas": wanted.replicas}
    if wanted.resources:
        made["resources"] = wanted.resources
    variables = merged_env(_given(wanted.extra_env), env)
    return {**made, "extraEnv": variables} if variables else made


def _given(variables: EnvVars) -> list[Object]:
    return [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in variables]


def _seeding(shape: LangfuseShape, spec: PalenaObservabilitySpec) -> list[Object]:
    """The organisation, the project and its keys that Langfuse starts with."""
    seed, keys = spec.seed, shape.names.api_keys
    identifiers = {
        f"{INIT}_ORG_ID": seed.org_id,
        f"{INIT}_PROJECT_ID": seed.project_id or f"{shape.gateway_namespace}-{shape.gateway}",
    }
    if seed.admin_user is None:
        identifiers |= {
            f"{INIT}_ORG_NAME": seed.org_name,
            f"{INIT}_PROJECT_NAME": _project_name(shape, seed),
        }
    return [
        *plain_env(identifiers),
        secret_env(f"{INIT}_PROJECT_PUBLIC_KEY", keys, PUBLIC_KEY),
        secret_env(f"{INIT}_PROJECT_SECRET_KEY", keys, SECRET_KEY),
    ]


def _restarting(shape: LangfuseShape) -> list[Object]:
    return plain_env({REVISION_VARIABLE: shape.revision}) if shape.revision else []


def _database(shape: LangfuseShape, spec: PalenaObservabilitySpec) -> Object:
    external = spec.database.external
    secret, key = shape.names.database, DATABASE_URL
    if spec.database.mode == "external" and external is not None:
        secret, key = external.secret_ref.name, external.secret_ref.url_key
    reference = {"name": secret, "keys": {"url": key}}
    return {"external": {"secretRef": reference}, "migration": {"runOnDeploy": True}}


def _redis(shape: LangfuseShape, spec: PalenaObservabilitySpec) -> Object:
    if spec.redis.mode == "managed":
        return {"managed": {}}
    external = spec.redis.external
    if spec.redis.mode == "external" and external is not None:
        given = external.secret_ref
        keys = {"host": given.host_key, "port": given.port_key, "password": given.password_key}
        return {"external": {"secretRef": {"name": given.name, "keys": keys}}}
    keys = {name: name for name in ("host", "port", "password")}
    if not shape.redis_tls:
        return {"external": {"secretRef": {"name": shape.names.redis, "keys": keys}}}
    reference = {"name": shape.names.redis, "keys": {**keys, "tls": "tls"}}
    return {"external": {"secretRef": reference, "tls": {"enabled": True}}}


def _clickhouse(spec: PalenaObservabilitySpec) -> Object:
    external = spec.clickhouse.external
    if spec.clickhouse.mode == "external" and external is not None:
        return {"external": {"secretRef": external.secret_ref.model_dump(mode="json", by_alias=True)}}
    return {"managed": {"storageSize": "50Gi", **spec.clickhouse.managed}}
