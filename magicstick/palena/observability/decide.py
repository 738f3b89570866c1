"""The decision about one observability (spec: palena §7.2, §7.7).

Langfuse is first made when everything that it needs is there, since its migration is tried a few times only;
from then on it is kept, whatever flaps around it. Ways through the gateway's walls come first.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from magicstick.api.kinds import (
    CNPG_CLUSTER,
    CNPG_DATABASE,
    LANGFUSE_INSTANCE,
    LITELLM_INSTANCE,
    PALENA_OBSERVABILITY,
)
from magicstick.api.palena.gateway import PalenaGatewaySpec
from magicstick.api.palena.observability import PalenaObservabilitySpec
from magicstick.kube.errors import ApiError
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.palena.common import frame, gateway_names
from magicstick.palena.common.children import condition_of, text
from magicstick.palena.common.desired import Desired, applied, conflict, removed
from magicstick.palena.common.frame import Findings, KindFrame
from magicstick.palena.common.gateways import GATEWAY_READY, gateway_ready
from magicstick.palena.common.kinds import NETWORK_POLICY
from magicstick.palena.common.owners import manifest, metadata
from magicstick.palena.common.references import REF_NOT_PERMITTED
from magicstick.palena.common.schemas import fit
from magicstick.palena.common.secrets import NAME_CONFLICT, SECRET, SecretValue, read_key
from magicstick.palena.common.verdicts import (
    PREREQUISITES_MET,
    Verdict,
    failed,
    fine,
    lost,
    waiting,
)
from magicstick.palena.observability.database import (
    DATABASE_NOT_SHAREABLE,
    LANGFUSE_READY,
    DatabaseState,
    SharedDatabase,
)
from magicstick.palena.observability.keys import KeysState, internal_url, keys_state
from magicstick.palena.observability.langfuse import (
    LangfuseShape,
    langfuse_spec,
    override_problem,
    public_url,
)
from magicstick.palena.observability.named import named_keys
from magicstick.palena.observability.names import LANGFUSE
from magicstick.palena.observability.observation import ObservabilityObservation
from magicstick.palena.observability.redis import RedisState, redis_state
from magicstick.palena.observability.revision import revision
from magicstick.palena.observability.teardown import stages
from magicstick.palena.observability.walls import ways_in
from magicstick.palena.observability.wiring import (
    CALLBACK_CONFIGURED,
    SHAPE_UNSUPPORTED,
    Wiring,
    chosen_shape,
    unwired,
    wiring,
)
from magicstick.runtime.conditions import READY
from magicstick.runtime.plan import Plan, Step

FORBIDDEN_OVERRIDE: Final = "ForbiddenOverride"
POSTGRES_SCHEMES: Final = ("postgres://", "postgresql://")


def _blames(kind: Kind, _key: ObjectKey) -> str:
    """The condition that tells of a write that failed."""
    return CALLBACK_CONFIGURED if kind == LITELLM_INSTANCE else LANGFUSE_READY


FRAME: Final = KindFrame(
    kind=PALENA_OBSERVABILITY,
    order=(PREREQUISITES_MET, GATEWAY_READY, LANGFUSE_READY, CALLBACK_CONFIGURED, READY),
    ready_reason="AllComponentsReady",
    ready_message="requests through the gateway are traced",
    blames=_blames,
    refusals={CALLBACK_CONFIGURED: SHAPE_UNSUPPORTED},
)


def decide(o: ObservabilityObservation, now: datetime) -> Plan:
    """What to do next for this observability, and the status that it has now."""
    return frame.decide(
        o.subject,
        FRAME,
        findings=lambda spec: _Observability(o, spec).findings(),
        stages=lambda: stages(o),
        now=now,
    )


def decide_failure(o: ObservabilityObservation, error: ApiError, now: datetime) -> Plan:
    """What to report after a step failed."""
    return frame.decide_failure(o.subject, FRAME, error, now)


def needed_kinds(spec: PalenaObservabilitySpec) -> tuple[Kind, ...]:
    """The kinds of others without which nothing can be done."""
    shared = (CNPG_CLUSTER, CNPG_DATABASE) if spec.database.mode == "shared" else ()
    return (LANGFUSE_INSTANCE, LITELLM_INSTANCE, *shared)


class _Observability:
    """One live observability with a spec that can be read."""

    def __init__(self, o: ObservabilityObservation, spec: PalenaObservabilitySpec) -> None:
        self._o = o
        self._spec = spec
        self._live = o.beside(LANGFUSE_INSTANCE, o.names.langfuse)

    def findings(self) -> Findings:
        """All steps, and what they came to."""
        o = self._o
        gateway = gateway_ready(o.gateway, o.namespace)
        reachable = o.gateway_lives and o.gateway.permitted and o.gateway_spec is not None
        if not reachable or o.gateway_spec is None or not (gateway.holds or self._live is not None):
            told = (gateway, *([self._instance_ready()] if self._live is not None else []))
            return self._revoked(told) or Findings(told, (), self._fields(DatabaseState(), None))
        keys = keys_state(o)
        redis = redis_state(o, self._spec, o.gateway_spec)
        database = self._database(o.gateway_spec)
        langfuse = self._langfuse_ready(keys, redis, database)
        wired = wiring(
            o, self._spec, langfuse_ready=langfuse.holds, keys_there=keys.beside_gateway and not keys.problem
        )
        steps = self._steps(o.gateway_spec, keys, redis, database)
        return Findings(
            (gateway, langfuse, wired.verdict), (*steps, *wired.steps), self._fields(database, wired)
        )

    def _revoked(self, told: tuple[Verdict, ...]) -> Findings | None:
        """Whoever may not use the gateway any more gets no traces and no way to its stores.

        None where that is not so, or cannot be read.
        """
        if self._o.gateway_spec is None or self._o.gateway.permitted:
            return None
        message = "the gateway does not admit this namespace, so its LiteLLM traces nothing to here"
        wired = Wiring(failed(CALLBACK_CONFIGURED, REF_NOT_PERMITTED, message))
        steps = (*unwired(self._o), *removed(self._o.owner, self._closed(set())))
        return Findings((*told, wired.verdict), steps, self._fields(DatabaseState(), wired))

    # --- steps -------------------------------------------------------------------------------------

    def _steps(
        self, gateway: PalenaGatewaySpec, keys: KeysState, redis: RedisState, database: DatabaseState
    ) -> tuple[Step, ...]:
        o = self._o
        ways = ways_in(o, self._spec, gateway)
        instance = [self._instance(redis)] if self._may_start(keys, redis, database) else []
        return (
            *applied(o.owner, ways),
            *removed(o.owner, self._closed({each.body["metadata"]["name"] for each in ways})),
            *keys.steps,
            *database.steps,
            *applied(o.owner, redis.wanted),
            *applied(o.owner, instance),
        )

    def _closed(self, open_: set[str]) -> list[tuple[Kind, Any]]:
        """Ways that there are to be no more."""
        names = {self._o.names.to_postgres, self._o.names.to_redis} - open_
        return [(NETWORK_POLICY, self._o.at_gateway(NETWORK_POLICY, each)) for each in sorted(names)]

    def _database(self, gateway: PalenaGatewaySpec) -> DatabaseState:
        external = self._spec.database.external
        if self._spec.database.mode == "external" and external is not None:
            name, key = external.secret_ref.name, external.secret_ref.url_key
            live = self._o.beside(SECRET, name)
            found = read_key(live, self._o.namespace, name, key, schemes=POSTGRES_SCHEMES)
            return DatabaseState(None if found.valid else found.verdict(LANGFUSE_READY))
        if gateway.database.mode != "managed":
            message = "the gateway's database is external: set database.mode external here as well"
            return DatabaseState(failed(LANGFUSE_READY, DATABASE_NOT_SHAREABLE, message))
        return SharedDatabase(self._o, self._spec).state()

    def _may_start(self, keys: KeysState, redis: RedisState, database: DatabaseState) -> bool:
        """Once it is there it is kept; overrides that are refused leave it as it is."""
        if override_problem(self._spec) or keys.problem:
            return False
        if self._live is not None:
            return redis.trouble is None
        return keys.complete and self._trouble(keys, redis, database) is None

    def _instance(self, redis: RedisState) -> Desired:
        o = self._o
        described = metadata(o.owner, o.names.langfuse, LANGFUSE)
        shape = replace(self._shape, redis_tls=redis.tls, revision=revision(o, self._spec, redis))
        body = manifest(LANGFUSE_INSTANCE, described, langfuse_spec(shape, self._spec))
        return Desired(LANGFUSE_INSTANCE, fit(body, o.schemas.langfuse).value, self._live)

    @property
    def _shape(self) -> LangfuseShape:
        o = self._o
        url = internal_url(o.names, o.namespace, o.domain)
        return LangfuseShape(o.names, o.gateway.namespace, o.gateway.name, url)

    # --- what they came to ---------------------------------------------------------------------------

    def _langfuse_ready(self, keys: KeysState, redis: RedisState, database: DatabaseState) -> Verdict:
        return self._trouble(keys, redis, database) or self._instance_ready()

    def _trouble(self, keys: KeysState, redis: RedisState, database: DatabaseState) -> Verdict | None:
        """What Langfuse lacks, in the order in which it is made; None when nothing is."""
        if problem := override_problem(self._spec):
            return failed(LANGFUSE_READY, FORBIDDEN_OVERRIDE, problem)
        wanted = (*redis.wanted, self._instance(redis))
        if taken := conflict(self._o.owner, wanted):
            return failed(LANGFUSE_READY, NAME_CONFLICT, taken)
        if keys.problem:
            told = failed if keys.problem == NAME_CONFLICT else lost
            return told(LANGFUSE_READY, keys.problem, keys.message)
        secret = redis.trouble or self._named()
        if secret is not None:
            return secret.verdict(LANGFUSE_READY)
        return database.verdict

    def _named(self) -> SecretValue | None:
        """The first key of a Secret that the spec names and that cannot be used."""
        for name, key in named_keys(self._spec):
            found = read_key(self._o.beside(SECRET, name), self._o.namespace, name, key)
            if not found.valid:
                return found
        return None

    def _instance_ready(self) -> Verdict:
        """What Langfuse's operator says."""
        if self._live is None or not self._live.status:
            return waiting(LANGFUSE_READY, "InstanceCreating", "waits for Langfuse's operator")
        status, ready = self._live.status, condition_of(self._live, READY)
        phase, said = text(status, "phase"), text(ready, "message")
        if phase == "Error" or ready.get("reason") == "ConfigError":
            return failed(LANGFUSE_READY, "InstanceFailed", said or "Langfuse's operator reports an error")
        if phase == "Migrating":
            return waiting(LANGFUSE_READY, "InstanceMigrating", said or "the database is being migrated")
        if status.get("ready") is True and phase == "Running":
            return fine(LANGFUSE_READY, "InstanceReady", self._ready_message())
        return waiting(LANGFUSE_READY, "InstanceNotReady", said or f"Langfuse is {phase or 'not ready'}")

    def _ready_message(self) -> str:
        if self._spec.clickhouse.mode == "external":
            return "Langfuse is ready"
        return "Langfuse is ready; its operator will drop clickhouse.mode managed: plan for an external one"

    def _fields(self, database: DatabaseState, wired: Wiring | None) -> dict[str, Any]:
        o, shape = self._o, self._shape
        return {
            "langfuseInstanceRef": {"name": o.names.langfuse} if self._live is not None else None,
            "url": public_url(shape, self._spec),
            "internalUrl": shape.internal_url,
            "database": self._told(database),
            "apiKeysSecretName": o.names.api_keys,
            "callback": self._callback(wired),
        }

    def _told(self, database: DatabaseState) -> dict[str, Any] | None:
        """What is known of the shared database; what was known before stays where it was not reached."""
        if self._spec.database.mode != "shared":
            return None
        return {
            "name": self._spec.database.name,
            "clusterName": gateway_names.cluster(self._o.gateway.name),
            "applied": database.applied,
            "message": database.message,
        }

    def _callback(self, wired: Wiring | None) -> dict[str, Any]:
        if wired is None:
            return dict(self._o.subject.live.status.get("callback", {}))
        return {
            "shape": chosen_shape(self._o) or "",
            "configured": wired.configured,
            "litellmInstanceRef": {"name": gateway_names.instance(self._o.gateway.name)},
        }
