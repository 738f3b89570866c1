"""The LiteLLMInstance of a gateway, and how it is wired to database and cache (spec: palena §3.2, §4.4).

`callbacks` belongs to the observability of the gateway, and is never named here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from magicstick.api.palena.gateway import LiteLLM, PalenaGatewaySpec
from magicstick.palena.common.merging import deep_merge
from magicstick.palena.gateway import names

Object = dict[str, Any]

FORBIDDEN_OVERRIDES: Final = ("masterKey", "saltKey", "database", "redis", "callbacks", "service")
"""What the wiring or somebody else decides."""
MIGRATION_TIMEOUT: Final = "300s"


@dataclass(frozen=True, slots=True)
class KeyRef:
    """One key of a Secret."""

    secret: str
    key: str

    @property
    def ref(self) -> Object:
        """As objects refer to it."""
        return {"name": self.secret, "key": self.key}


def master_key(gateway: str, litellm: LiteLLM) -> KeyRef:
    """Where LiteLLM's master key stands: in the user's own Secret, or in ours."""
    own = litellm.master_key_secret_ref
    if own is not None:
        return KeyRef(own.name, own.key)
    return KeyRef(names.keys_secret(gateway), names.MASTER_KEY)


def database_url(spec: PalenaGatewaySpec) -> KeyRef | None:
    """Where the URL of an external database stands; None for a managed one."""
    external = spec.database.external
    if spec.database.mode != "external" or external is None:
        return None
    return KeyRef(external.secret_ref.name, external.secret_ref.url_key)


def redis_url(gateway: str, spec: PalenaGatewaySpec) -> KeyRef:
    """Where the URL of Redis stands.

    LiteLLM gets a URL, never host and password: its operator would export a URL without the password too.
    """
    external = spec.redis.external
    if spec.redis.mode != "external" or external is None:
        return KeyRef(names.redis(gateway), names.URL)
    return KeyRef(external.secret_ref.name, external.secret_ref.url_key)


def litellm_instance(gateway: str, spec: PalenaGatewaySpec, metadata: Object) -> Object:
    """The LiteLLMInstance. Overrides must have been checked (`forbidden_overrides`)."""
    return {
        "apiVersion": "litellm.palena.ai/v1alpha1",
        "kind": "LiteLLMInstance",
        "metadata": metadata,
        "spec": deep_merge(_wired(gateway, spec), spec.litellm.overrides),
    }


def forbidden_overrides(litellm: LiteLLM) -> tuple[str, ...]:
    """The overrides that are refused."""
    return tuple(name for name in FORBIDDEN_OVERRIDES if name in litellm.overrides)


def _wired(gateway: str, spec: PalenaGatewaySpec) -> Object:
    made: Object = {
        "masterKey": {"secretRef": master_key(gateway, spec.litellm).ref},
        "saltKey": {"secretRef": KeyRef(names.keys_secret(gateway), names.SALT_KEY).ref},
        "database": _database(gateway, spec),
        "redis": {"enabled": True, "connectionSecretRef": redis_url(gateway, spec).ref},
        "service": {"type": "ClusterIP", "port": names.LITELLM_PORT},
        "security": {"networkPolicy": {"enabled": False}},
    }
    return {**made, **_sized(spec.litellm), **_passed_on(spec.litellm), **_ways_in(spec)}


def _database(gateway: str, spec: PalenaGatewaySpec) -> Object:
    """Migration is asked for in words: its operator skips it where the block is missing."""
    migration = {"enabled": True, "timeout": MIGRATION_TIMEOUT}
    external = database_url(spec)
    if external is not None:
        return {"external": {"connectionSecretRef": external.ref}, "migration": migration}
    cloudnativepg: Object = {"clusterName": names.cluster(gateway)}
    if (backup := spec.database.managed.backup) is not None:
        cloudnativepg["backup"] = _stated(backup)
    return {"cloudnativepg": cloudnativepg, "migration": migration}


def _sized(litellm: LiteLLM) -> Object:
    made: Object = {}
    if litellm.image is not None:
        made["image"] = _stated(litellm.image)
    if litellm.autoscaling is not None:
        made["autoscaling"] = _stated(litellm.autoscaling)
    if litellm.autoscaling is None or not litellm.autoscaling.enabled:
        made["replicas"] = litellm.replicas or 1
    return made


def _passed_on(litellm: LiteLLM) -> Object:
    """What is copied as it stands, where there is any."""
    given = {
        "resources": litellm.resources,
        "routerSettings": litellm.router_settings,
        "generalSettings": litellm.general_settings,
        "fallbacks": litellm.fallbacks,
        "caching": litellm.caching,
        "sso": litellm.sso,
        "adminUI": litellm.admin_ui,
        "extraEnvVars": [_stated(each) for each in litellm.extra_env_vars],
    }
    return _filled(given)


def _ways_in(spec: PalenaGatewaySpec) -> Object:
    made: Object = {}
    if spec.ingress.enabled:
        given = _stated(spec.ingress)
        made["ingress"] = _renamed(given, {"className": "ingressClassName"})
    if spec.gateway_route.enabled:
        made["gatewayHTTPRoute"] = _stated(spec.gateway_route)
    return made


def _stated(model: BaseModel) -> Object:
    """A part of the spec as the user wrote it: what was left out is left to the foreign kind."""
    return _filled(model.model_dump(by_alias=True, exclude_unset=True, mode="json"))


def _filled(fields: Mapping[str, Any]) -> Object:
    """Without empty maps, lists and texts, which the server would not keep as ours."""
    return {name: value for name, value in fields.items() if value not in ({}, [], "", None)}


def _renamed(fields: Object, new_names: Mapping[str, str]) -> Object:
    return {new_names.get(name, name): value for name, value in fields.items()}
