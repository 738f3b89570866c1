"""The database of a gateway: its own Cluster, or one that a Secret leads to (spec: palena §4.3, §4.6)."""

from typing import Any, Final

from magicstick.api.kinds import CNPG_CLUSTER
from magicstick.api.palena.gateway import PalenaGatewaySpec
from magicstick.kube.objects import Resource
from magicstick.palena.common.children import number, text
from magicstick.palena.common.desired import Desired, applied, conflict
from magicstick.palena.common.labels import OWNER_LABELS, PALENA, PART_OF
from magicstick.palena.common.owners import metadata
from magicstick.palena.common.schemas import fit
from magicstick.palena.common.secrets import NAME_CONFLICT, SECRET, SecretValue, read_key, values_of
from magicstick.palena.common.verdicts import Verdict, failed, fine, waiting
from magicstick.palena.gateway import names
from magicstick.palena.gateway.cluster import HEALTHY, TERMINAL, cluster, cluster_volume
from magicstick.palena.gateway.component import (
    DATABASE_READY,
    EXTERNAL_SECRET_VALID,
    ROLE,
    Component,
    ignored,
    unknown,
)
from magicstick.palena.gateway.litellm import database_url
from magicstick.palena.gateway.observation import GatewayObservation

SCHEMES: Final = ("postgres://", "postgresql://")


def database(o: GatewayObservation, spec: PalenaGatewaySpec) -> Component:
    """The step of the database."""
    return _managed(o, spec) if spec.database.mode == "managed" else _external(o, spec)


def connection(o: GatewayObservation, spec: PalenaGatewaySpec) -> str:
    """The URL of the database as LiteLLM gets it; "" while there is none."""
    external = database_url(spec)
    if external is not None:
        return values_of(o.find(SECRET, external.secret)).get(external.key, "")
    return values_of(o.find(SECRET, names.connection_secret(o.name))).get(names.CONNECTION_URI, "")


def _external(o: GatewayObservation, spec: PalenaGatewaySpec) -> Component:
    place = database_url(spec)
    if place is None:
        return Component(failed(DATABASE_READY, "SecretNotFound", "spec.database.external is missing."))
    found: SecretValue = read_key(
        o.find(SECRET, place.secret), o.namespace, place.secret, place.key, schemes=SCHEMES
    )
    fields = {"database": {"mode": "external", "secretName": place.secret}}
    if not found.valid:
        return Component(found.verdict(DATABASE_READY), fields=fields)
    message = f"Secret {place.secret} says how to reach the database."
    return Component(fine(DATABASE_READY, EXTERNAL_SECRET_VALID, message), fields=fields)


def _managed(o: GatewayObservation, spec: PalenaGatewaySpec) -> Component:
    live = o.find(CNPG_CLUSTER, names.cluster(o.name))
    volume = cluster_volume(spec.database.managed, live)
    described = metadata(o.owner, names.cluster(o.name), "postgresql", role=ROLE["postgresql"])
    inherited = {OWNER_LABELS[o.owner.kind]: o.name, PART_OF: PALENA}
    body = fit(cluster(spec.database.managed, volume, described, inherited), o.cluster_schema)
    wanted = Desired(CNPG_CLUSTER, body.value, live)
    if taken := conflict(o.owner, (wanted,)):
        return Component(failed(DATABASE_READY, NAME_CONFLICT, taken))
    grudges = ignored(f"Cluster {names.cluster(o.name)}: {volume.ignored}" if volume.ignored else "")
    return Component(
        _state(o, live),
        applied(o.owner, (wanted,)),
        {"database": _told(o, live, spec.database.managed.instances)},
        (*grudges, *unknown("CloudNativePG", body.dropped)),
    )


def _state(o: GatewayObservation, live: Resource | None) -> Verdict:
    phase = text(live.status, "phase") if live is not None else ""
    if live is None or not phase:
        message = f"Waiting for CloudNativePG to take up Cluster {names.cluster(o.name)}."
        return waiting(DATABASE_READY, "ClusterCreating", message)
    if phase in TERMINAL:
        why = text(live.status, "phaseReason")
        return failed(DATABASE_READY, "ClusterFailed", f"{phase}{f': {why}' if why else ''}.")
    if phase != HEALTHY:
        return waiting(DATABASE_READY, "ClusterNotReady", f"CloudNativePG says: {phase}.")
    if not values_of(o.find(SECRET, names.connection_secret(o.name))).get(names.CONNECTION_URI):
        message = f"Waiting for Secret {names.connection_secret(o.name)} with key {names.CONNECTION_URI}."
        return waiting(DATABASE_READY, "ConnectionSecretMissing", message)
    return fine(DATABASE_READY, "ClusterReady", "CloudNativePG cluster is ready")


def _told(o: GatewayObservation, live: Resource | None, instances: int) -> dict[str, Any]:
    status = live.status if live is not None else {}
    return {
        "mode": "managed",
        "clusterName": names.cluster(o.name),
        "phase": text(status, "phase"),
        "instances": instances,
        "readyInstances": number(status, "readyInstances") or 0,
        "secretName": names.connection_secret(o.name),
    }
