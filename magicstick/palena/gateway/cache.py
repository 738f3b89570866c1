"""The cache of a gateway: a Redis of its own, or one that a Secret leads to (spec: palena §4.3, §4.6)."""

import re
from collections.abc import Mapping
from typing import Any, Final

from magicstick.api.palena.gateway import ManagedRedis, PalenaGatewaySpec
from magicstick.kube.kinds import Kind
from magicstick.kube.objects import Resource
from magicstick.palena.common.children import replicas
from magicstick.palena.common.desired import Desired, applied, conflict
from magicstick.palena.common.growth import Volume, grown, larger
from magicstick.palena.common.hashes import secret_hash
from magicstick.palena.common.kinds import PERSISTENT_VOLUME_CLAIM, SERVICE, STATEFUL_SET
from magicstick.palena.common.owners import metadata
from magicstick.palena.common.secrets import (
    NAME_CONFLICT,
    SECRET,
    SECRET_INVALID,
    SECRET_LOST,
    SecretState,
    ensure,
    read_key,
    values_of,
)
from magicstick.palena.common.verdicts import Verdict, failed, fine, lost, waiting
from magicstick.palena.gateway import names
from magicstick.palena.gateway.component import EXTERNAL_SECRET_VALID, REDIS_READY, ROLE, Component, ignored
from magicstick.palena.gateway.litellm import redis_url
from magicstick.palena.gateway.observation import GatewayObservation, redis_recipe
from magicstick.palena.gateway.redis import COMPONENT, RedisShape, redis_services, redis_stateful_set
from magicstick.runtime.plan import Notice, Patch, Step

SCHEMES: Final = ("redis://", "rediss://")
DEFAULT_SIZE: Final = "1Gi"
PASSWORD: Final = re.compile(r"[!#-\[\]-~]+")
"""Printable, without blanks, quotes and backslashes: what the configuration of Redis takes as it stands."""


def cache(o: GatewayObservation, spec: PalenaGatewaySpec) -> Component:
    """The step of the cache."""
    return _Managed(o, spec).component() if spec.redis.mode == "managed" else _external(o, spec)


def cache_url(o: GatewayObservation, spec: PalenaGatewaySpec) -> str:
    """The URL of Redis as LiteLLM gets it; "" while there is none."""
    place = redis_url(o.name, spec)
    return values_of(o.find(SECRET, place.secret)).get(place.key, "")


def _external(o: GatewayObservation, spec: PalenaGatewaySpec) -> Component:
    place = redis_url(o.name, spec)
    found = read_key(o.find(SECRET, place.secret), o.namespace, place.secret, place.key, schemes=SCHEMES)
    fields = {"redis": {"mode": "external", "secretName": place.secret, "ready": found.valid}}
    if not found.valid:
        return Component(found.verdict(REDIS_READY), fields=fields)
    message = f"Secret {place.secret} says how to reach Redis."
    return Component(fine(REDIS_READY, EXTERNAL_SECRET_VALID, message), fields=fields)


class _Managed:
    """Secret, Services and StatefulSet of one gateway's Redis."""

    def __init__(self, o: GatewayObservation, spec: PalenaGatewaySpec) -> None:
        self._o = o
        self._redis: ManagedRedis = spec.redis.managed
        self._retain = spec.deletion_policy == "Retain"
        self._live = o.find(STATEFUL_SET, names.redis(o.name))
        self._claim = o.find(PERSISTENT_VOLUME_CLAIM, names.redis_claim(o.name))
        self._volume = self._decided_volume()

    def component(self) -> Component:
        """What there is to do, and how far it is."""
        secret = self._secret()
        wanted = (*self._services(), *self._stateful_set(secret))
        problem = self._problem(secret) or self._conflict(wanted)
        if problem is not None and problem.reason != SECRET_LOST:
            return Component(problem)
        steps = (*secret.steps, *applied(self._o.owner, wanted), *self._growth())
        verdict = problem or self._state()
        return Component(verdict, steps, {"redis": self._told(verdict)}, self._notices())

    # --- Secret ----------------------------------------------------------------------------------

    def _secret(self) -> SecretState:
        lives = f"PersistentVolumeClaim {names.redis_claim(self._o.name)}" if self._claim is not None else ""
        return ensure(
            redis_recipe(self._o.name, self._o.namespace),
            self._o.owner,
            self._o.find(SECRET, names.redis(self._o.name)),
            self._o.fresh_redis,
            data_lives=lives,
        )

    def _problem(self, secret: SecretState) -> Verdict | None:
        """A lost Secret leaves what runs alone and degrades the gateway; anything else is an error."""
        if secret.problem:
            told = lost if secret.problem == SECRET_LOST else failed
            return told(REDIS_READY, secret.problem, secret.message)
        password = secret.values.get(names.PASSWORD)
        if password is None or PASSWORD.fullmatch(password):
            return None
        message = (
            f"Key {names.PASSWORD} of Secret {names.redis(self._o.name)} must be printable characters "
            "without blanks, quotes and backslashes."
        )
        return failed(REDIS_READY, SECRET_INVALID, message)

    # --- workload --------------------------------------------------------------------------------

    def _services(self) -> tuple[Desired, ...]:
        headless, reachable = redis_services(
            self._described(names.redis_headless(self._o.name)), self._described(names.redis(self._o.name))
        )
        return (self._desired(SERVICE, headless), self._desired(SERVICE, reachable))

    def _stateful_set(self, secret: SecretState) -> tuple[Desired, ...]:
        """None before its password is in the cluster, and none anew while that is lost."""
        password = secret.values.get(names.PASSWORD)
        if password is None:
            return ()
        shape = RedisShape(
            gateway=self._o.name,
            image=self._redis.image,
            size=self._template.size,
            storage_class=self._template.storage_class,
            resources=self._redis.resources,
            secret_hash=secret_hash({names.PASSWORD: password}),
            retain=self._retain,
        )
        body = redis_stateful_set(shape, self._described(names.redis(self._o.name)))
        return (self._desired(STATEFUL_SET, body),)

    def _described(self, name: str) -> dict[str, Any]:
        return metadata(self._o.owner, name, COMPONENT, role=ROLE[COMPONENT])

    def _desired(self, kind: Kind, body: dict[str, Any]) -> Desired:
        return Desired(kind, body, self._o.find(kind, body["metadata"]["name"]))

    def _conflict(self, wanted: tuple[Desired, ...]) -> Verdict | None:
        taken = conflict(self._o.owner, wanted)
        return failed(REDIS_READY, NAME_CONFLICT, taken) if taken else None

    # --- volume ----------------------------------------------------------------------------------

    @property
    def _wanted(self) -> Volume:
        return Volume(self._redis.storage.size or DEFAULT_SIZE, self._redis.storage.storage_class_name)

    @property
    def _template(self) -> Volume:
        """What the StatefulSet asks for: it cannot be changed, so the volume itself is."""
        return _template_of(self._live) or self._wanted

    def _decided_volume(self) -> Volume:
        return grown(_claimed(self._claim) or self._template, self._wanted)

    def _growth(self) -> tuple[Step, ...]:
        if self._claim is None or not self._o.claim_grows or not self._too_small():
            return ()
        requests = {"requests": {"storage": self._volume.size}}
        where = self._claim.metadata
        return (Patch(PERSISTENT_VOLUME_CLAIM, where.key, where.uid, {"spec": {"resources": requests}}),)

    def _too_small(self) -> bool:
        claimed = _claimed(self._claim)
        return claimed is not None and larger(self._volume.size, claimed.size)

    def _notices(self) -> tuple[Notice, ...]:
        stuck = ""
        if self._too_small() and not self._o.claim_grows:
            stuck = f"Ignored: the volume of Redis cannot grow to {self._volume.size}."
        return ignored(f"Redis: {self._volume.ignored}" if self._volume.ignored else "", stuck)

    # --- what it came to -------------------------------------------------------------------------

    def _state(self) -> Verdict:
        if replicas(self._live).available:
            return fine(REDIS_READY, "StatefulSetReady", "Redis is ready.")
        message = f"Waiting for the Pod of StatefulSet {names.redis(self._o.name)}."
        return waiting(REDIS_READY, "StatefulSetNotReady", message)

    def _told(self, verdict: Verdict) -> dict[str, Any]:
        return {
            "mode": "managed",
            "host": names.redis_host(self._o.name, self._o.namespace),
            "port": names.REDIS_PORT,
            "secretName": names.redis(self._o.name),
            "ready": verdict.holds,
        }


def _template_of(live: Resource | None) -> Volume | None:
    claims = live.spec.get("volumeClaimTemplates") if live is not None else None
    return _volume(claims[0].get("spec", {})) if claims else None


def _claimed(claim: Resource | None) -> Volume | None:
    return _volume(claim.spec) if claim is not None else None


def _volume(spec: Mapping[str, Any]) -> Volume:
    requests = (spec.get("resources") or {}).get("requests") or {}
    return Volume(str(requests.get("storage", "")), str(spec.get("storageClassName") or ""))
