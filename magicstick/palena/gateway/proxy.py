"""LiteLLM in front of a gateway's database and cache (spec: palena §4.3, §4.4, §4.6).

It is first made when both are ready; from then on it is kept as wanted although they come and go.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from magicstick.api.kinds import CNPG_CLUSTER, LITELLM_INSTANCE
from magicstick.api.palena.gateway import PalenaGatewaySpec
from magicstick.kube.objects import Resource
from magicstick.palena.common.children import condition_holds, condition_of, number, text
from magicstick.palena.common.desired import Desired, applied, conflict
from magicstick.palena.common.hashes import secret_hash
from magicstick.palena.common.owners import is_foreign, metadata
from magicstick.palena.common.schemas import Fitted, fit
from magicstick.palena.common.secrets import (
    NAME_CONFLICT,
    SECRET,
    SECRET_LOST,
    SecretState,
    ensure,
    read_key,
    values_of,
)
from magicstick.palena.common.verdicts import Verdict, failed, fine, waiting
from magicstick.palena.gateway import names
from magicstick.palena.gateway.cache import cache_url
from magicstick.palena.gateway.component import GATEWAY_READY, Component, unknown
from magicstick.palena.gateway.database import connection
from magicstick.palena.gateway.litellm import forbidden_overrides, litellm_instance, master_key
from magicstick.palena.gateway.observation import KEY_PREFIX, GatewayObservation, keys_recipe

KEYS_SECRET_MISSING: Final = "KeysSecretMissing"  # noqa: S105 - a reason
MIGRATION_FAILED: Final = "MigrationFailed"
READY: Final = "Ready"
MIGRATION: Final = "DatabaseReady"
"""The condition of a LiteLLMInstance that tells how the migration went."""
REVISION_VARIABLE: Final = "PALENA_SECRETS_REVISION"
"""Another value restarts LiteLLM: its operator does not watch the Secrets that it hands on (fault F19)."""


def proxy(o: GatewayObservation, spec: PalenaGatewaySpec, *, may_start: bool) -> Component:
    """The step of LiteLLM. `may_start`: database and cache are ready."""
    return _Proxy(o, spec, may_start=may_start).component()


def told(o: GatewayObservation, spec: PalenaGatewaySpec) -> dict[str, Any]:
    """What consumers need to know of LiteLLM, whatever else is wrong; nothing before there is one of ours."""
    live, name = o.find(LITELLM_INSTANCE, names.instance(o.name)), names.instance(o.name)
    if live is None or is_foreign(live, o.owner):
        return {}
    default = f"http://{name}.{o.namespace}.svc:{names.LITELLM_PORT}"
    return {
        "endpoint": text(live.status, "endpoint") or default,
        "litellmInstanceRef": {"name": name},
        "masterKeySecretRef": master_key(o.name, spec.litellm).ref,
        "gateway": {
            "replicas": number(live.status, "replicas") or 0,
            "readyReplicas": number(live.status, "readyReplicas") or 0,
            "version": text(live.status, "version"),
        },
    }


def made_at(live: Resource | None) -> datetime | None:
    """When an object was made; None where it does not say."""
    moment = live.metadata.creation_timestamp if live is not None else ""
    return datetime.fromisoformat(moment) if moment else None


class _Proxy:
    def __init__(self, o: GatewayObservation, spec: PalenaGatewaySpec, *, may_start: bool) -> None:
        self._o = o
        self._spec = spec
        self._may_start = may_start
        self._name = names.instance(o.name)
        found = o.find(LITELLM_INSTANCE, self._name)
        self._taken = found if is_foreign(found, o.owner) else None
        self._live = None if is_foreign(found, o.owner) else found
        self._master_key = master_key(o.name, spec.litellm)

    def component(self) -> Component:
        """What there is to do, and how far it is."""
        keys = self._keys()
        problem = self._problem(keys)
        if problem is not None:
            return Component(problem)
        if self._live is None and not self._may_start:
            message = "LiteLLM starts once its database and its cache are ready."
            return Component(waiting(GATEWAY_READY, "WaitingForDependencies", message), keys.steps)
        if not keys.complete:
            message = f"Making Secret {names.keys_secret(self._o.name)}."
            return Component(waiting(GATEWAY_READY, "InstanceCreating", message), keys.steps)
        body = self._body()
        wanted = Desired(LITELLM_INSTANCE, body.value, self._live)
        steps = (*keys.steps, *applied(self._o.owner, (wanted,)))
        return Component(self._state(), steps, notices=unknown("LiteLLM operator", body.dropped))

    # --- keys ------------------------------------------------------------------------------------

    def _keys(self) -> SecretState:
        return ensure(
            keys_recipe(self._o.name),
            self._o.owner,
            self._keys_secret,
            self._o.fresh_keys,
            data_lives=self._encrypted,
        )

    @property
    def _keys_secret(self) -> Resource | None:
        return self._o.find(SECRET, names.keys_secret(self._o.name))

    @property
    def _encrypted(self) -> str:
        """What was encrypted with the salt, while it exists; a database that is older was taken over."""
        if self._live is not None:
            return f"LiteLLMInstance {self._name}"
        cluster = self._o.find(CNPG_CLUSTER, names.cluster(self._o.name))
        database, gateway = made_at(cluster), made_at(self._o.subject.live)
        if database is not None and gateway is not None and database < gateway:
            return f"Cluster {names.cluster(self._o.name)}"
        return ""

    def _problem(self, keys: SecretState) -> Verdict | None:
        if self._taken is not None:
            wanted = Desired(LITELLM_INSTANCE, self._body().value, self._taken)
            return failed(GATEWAY_READY, NAME_CONFLICT, conflict(self._o.owner, (wanted,)))
        if refused := forbidden_overrides(self._spec.litellm):
            message = f"spec.litellm.overrides must not set {', '.join(refused)}."
            return failed(GATEWAY_READY, "ForbiddenOverride", message)
        if keys.problem == SECRET_LOST:
            return failed(GATEWAY_READY, KEYS_SECRET_MISSING, keys.message)
        if keys.problem:
            return failed(GATEWAY_READY, keys.problem, keys.message)
        return self._own_master_key()

    def _own_master_key(self) -> Verdict | None:
        if self._spec.litellm.master_key_secret_ref is None:
            return None
        place = self._master_key
        found = read_key(
            self._o.find(SECRET, place.secret),
            self._o.namespace,
            place.secret,
            place.key,
            schemes=(KEY_PREFIX,),
        )
        return None if found.valid else found.verdict(GATEWAY_READY)

    # --- instance --------------------------------------------------------------------------------

    def _body(self) -> Fitted:
        described = metadata(self._o.owner, self._name, "litellm")
        made = litellm_instance(self._o.name, self._spec, described)
        made["spec"] |= self._environment(made["spec"].get("extraEnvVars"))
        return fit(made, self._o.instance_schema)

    def _environment(self, given: object) -> dict[str, Any]:
        """What a user gives and the revision; what is no list is left for the server to refuse."""
        variables = [] if given is None else given
        if not isinstance(variables, list):
            return {}
        others = [each for each in variables if not _is_revision(each)]
        revision = self._revision()
        wanted = [*others, *([{"name": REVISION_VARIABLE, "value": revision}] if revision else [])]
        return {"extraEnvVars": wanted} if wanted or given is not None else {}

    def _revision(self) -> str:
        """A hash of every value that LiteLLM is started with; while one is missing, the one in use."""
        values = {
            "database": connection(self._o, self._spec),
            "redis": cache_url(self._o, self._spec),
            "master": values_of(self._o.find(SECRET, self._master_key.secret)).get(self._master_key.key, ""),
            "salt": values_of(self._keys_secret).get(names.SALT_KEY, ""),
        }
        return secret_hash(values) if all(values.values()) else self._revision_in_use()

    def _revision_in_use(self) -> str:
        variables = self._live.spec.get("extraEnvVars") if self._live is not None else None
        given = variables if isinstance(variables, list | tuple) else ()
        return next((text(each, "value") for each in given if _is_revision(each)), "")

    def _state(self) -> Verdict:
        live = self._live
        if live is None or not live.status:
            message = f"Waiting for the LiteLLM operator to take up LiteLLMInstance {self._name}."
            return waiting(GATEWAY_READY, "InstanceCreating", message)
        migration = condition_of(live, MIGRATION)
        if migration.get("status") == "False" and migration.get("reason") == MIGRATION_FAILED:
            why = text(migration, "message") or "LiteLLM's database could not be migrated."
            return failed(GATEWAY_READY, MIGRATION_FAILED, why)
        if live.status.get("ready") is True and condition_holds(live, READY):
            return fine(GATEWAY_READY, "InstanceReady", "LiteLLM is ready.")
        return waiting(GATEWAY_READY, "InstanceNotReady", _complaint(live.status, condition_of(live, READY)))


def _is_revision(variable: object) -> bool:
    return isinstance(variable, Mapping) and variable.get("name") == REVISION_VARIABLE


def _complaint(status: Mapping[str, Any], ready: Mapping[str, Any]) -> str:
    """What the LiteLLM operator says, and which Pods it complains of."""
    said = [text(ready, "message") or "LiteLLM is not ready yet."]
    pods = status.get("unhealthyPods")
    for pod in pods if isinstance(pods, list | tuple) else ():
        why = text(pod, "message") or text(pod, "reason") or text(pod, "phase")
        said.append(f"Pod {text(pod, 'name')}: {why}.")
    return " ".join(said)
