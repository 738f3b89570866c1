"""One more database in the gateway's Cluster, for Langfuse alone (spec: palena §7.4, fault F20).

The role comes first, as a DatabaseRole where there are any, or else as an entry of the Cluster's roles; then
the database, as a Database, or as an entry of the Cluster where its schema has such. Entries of others in
the Cluster's lists stay: a list is one value to the server. Nothing counts as made before it is read back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from magicstick.api.kinds import CNPG_CLUSTER, CNPG_DATABASE, CNPG_DATABASE_ROLE
from magicstick.api.palena.observability import PalenaObservabilitySpec
from magicstick.kube.objects import Resource
from magicstick.palena.common import gateway_names, labels
from magicstick.palena.common.addresses import service_host
from magicstick.palena.common.children import condition_holds, text
from magicstick.palena.common.desired import Desired, applied, conflict
from magicstick.palena.common.owners import manifest, metadata, part
from magicstick.palena.common.schemas import fit
from magicstick.palena.common.secrets import (
    NAME_CONFLICT,
    SECRET,
    SecretRecipe,
    SecretState,
    ensure,
    secret,
)
from magicstick.palena.common.verdicts import Verdict, failed, lost, waiting
from magicstick.palena.observability.connections import database_url
from magicstick.palena.observability.names import DATABASE_URL, LANGFUSE, Names
from magicstick.palena.observability.observation import ObservabilityObservation
from magicstick.runtime.plan import ApplyPart, Patch, Step

LANGFUSE_READY: Final = "LangfuseReady"
DATABASE_PENDING: Final = "DatabasePending"
DATABASE_FAILED: Final = "DatabaseFailed"
DATABASE_NOT_SHAREABLE: Final = "DatabaseNotShareable"
PASSWORD: Final = "password"  # noqa: S105 - the name of a key
BASIC_AUTH: Final = "kubernetes.io/basic-auth"


def role_recipe(names: Names, role: str, gateway_namespace: str) -> SecretRecipe:
    """The Secret from which CloudNativePG takes the role's password, at once when it changes."""
    return SecretRecipe(
        name=names.role,
        component=LANGFUSE,
        generated={PASSWORD: lambda entropy: entropy.alphanumeric(32)},
        derived=lambda _: {"username": role},  # CloudNativePG refuses the Secret of another role
        type=BASIC_AUTH,
        namespace=gateway_namespace,
        labels={labels.CNPG_RELOAD: labels.TRUE},
        vital=frozenset({PASSWORD}),
    )


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """What there is of the database, and what has to be written."""

    verdict: Verdict | None = None
    """Why it cannot be used; None when it can."""
    steps: tuple[Step, ...] = field(default=(), repr=False)
    applied: bool = False
    message: str = ""
    """What CloudNativePG says of it."""


class SharedDatabase:
    """The database, the role and their Secrets for one observability that shares its gateway's Cluster."""

    def __init__(self, o: ObservabilityObservation, spec: PalenaObservabilitySpec) -> None:
        self._o = o
        self._spec = spec
        self._wanted = spec.database
        self._cluster_name = gateway_names.cluster(o.gateway.name)
        self._database = o.ours(o.at_gateway(CNPG_DATABASE, o.names.langfuse))
        self._in_cluster = _offers_databases(o)
        self._secret: SecretState = ensure(
            role_recipe(o.names, spec.database.owner, o.gateway.namespace),
            o.owner,
            o.at_gateway(SECRET, o.names.role),
            o.fresh_role,
            data_lives=self._data(),
        )

    def state(self) -> DatabaseState:
        """All steps, and what they came to."""
        taken = conflict(self._o.owner, self._objects())
        problem = self._secret.problem or (NAME_CONFLICT if taken else "")
        if problem:
            message = self._secret.message or taken
            told = failed if problem == NAME_CONFLICT else lost
            return DatabaseState(told(LANGFUSE_READY, problem, message))
        steps = (
            *self._secret.steps,
            *self._cluster_part(),
            *self._given_back(),
            *applied(self._o.owner, self._objects()),
        )
        made, said = self._applied()
        return DatabaseState(None if made else self._pending(said), steps, made, said)

    def _data(self) -> str:
        """The database that the role owns, once it is there."""
        return f"Database {self._o.names.langfuse}" if self._applied()[0] else ""

    # --- what has to be there ------------------------------------------------------------------------

    def _objects(self) -> tuple[Desired, ...]:
        """The role and the database, as objects of their own where there are such; and the address."""
        o, found = self._o, list[Desired]()
        if o.schemas.roles_served:
            found.append(
                Desired(CNPG_DATABASE_ROLE, self._role(), o.at_gateway(CNPG_DATABASE_ROLE, o.names.langfuse))
            )
        if not self._in_cluster:
            found.append(
                Desired(CNPG_DATABASE, self._database_body(), o.at_gateway(CNPG_DATABASE, o.names.langfuse))
            )
        if self._secret.complete:
            found.append(Desired(SECRET, self._address(), o.beside(SECRET, o.names.database)))
        return tuple(found)

    def _role(self) -> dict[str, Any]:
        spec = {
            "cluster": {"name": self._cluster_name},
            "name": self._wanted.owner,
            "login": True,
            "passwordSecret": {"name": self._o.names.role},
            "databaseRoleReclaimPolicy": "retain",
        }
        return fit(manifest(CNPG_DATABASE_ROLE, self._metadata(), spec), self._o.schemas.role).value

    def _database_body(self) -> dict[str, Any]:
        spec = {
            "cluster": {"name": self._cluster_name},
            "name": self._wanted.name,
            "owner": self._wanted.owner,
            "ensure": "present",
            "databaseReclaimPolicy": "delete" if self._spec.deletion_policy == "Delete" else "retain",
        }
        return fit(manifest(CNPG_DATABASE, self._metadata(), spec), self._o.schemas.database).value

    def _metadata(self) -> dict[str, Any]:
        o = self._o
        return metadata(o.owner, o.names.langfuse, LANGFUSE, role="database", namespace=o.gateway.namespace)

    def _address(self) -> dict[str, Any]:
        o = self._o
        host = service_host(f"{self._cluster_name}-rw", o.gateway.namespace, o.domain)
        password, port = self._secret.values[PASSWORD], gateway_names.POSTGRES_PORT
        url = database_url(self._wanted.owner, password, host, port, self._wanted.name)
        return secret(metadata(o.owner, o.names.database, LANGFUSE), {DATABASE_URL: url})

    def _cluster_part(self) -> tuple[Step, ...]:
        """Our entries in the lists of the Cluster, next to those of others."""
        cluster = self._o.cluster
        if cluster is None:
            return ()
        managed: dict[str, Any] = {}
        if not self._o.schemas.roles_served:
            managed["roles"] = with_role(cluster, self._wanted.owner, self._o.names.role)
        if self._in_cluster:
            entry = {"name": self._wanted.name, "owner": self._wanted.owner, "ensure": "present"}
            managed["databases"] = _with(_managed(cluster, "databases"), entry)
        if not managed:
            return ()
        fitted = fit(part(CNPG_CLUSTER, cluster, {"spec": {"managed": managed}}), self._o.schemas.cluster)
        return (ApplyPart(CNPG_CLUSTER, fitted.value),)

    def _given_back(self) -> tuple[Step, ...]:
        """An entry from before there were DatabaseRoles, which the Cluster would prefer to ours."""
        if not self._o.schemas.roles_served:
            return ()
        return without_role(self._o.cluster, self._o.names.role)

    # --- what there is -------------------------------------------------------------------------------

    def _applied(self) -> tuple[bool, str]:
        """Whether the database is there for what is wanted now, and what is said of it."""
        if self._in_cluster:
            cluster = self._o.cluster
            there = cluster is not None and self._wanted.name in map(_name, _managed(cluster, "databases"))
            return there and condition_holds(cluster, "Ready"), ""
        if self._database is None:
            return False, ""
        status = self._database.status
        current = status.get("observedGeneration") == self._database.metadata.generation
        return current and status.get("applied") is True, text(status, "message")

    def _pending(self, said: str) -> Verdict:
        """A role that is missing comes by itself; anything else that CloudNativePG refuses does not."""
        refusal = _refusal(self._o.cluster, self._wanted.owner)
        if refusal:
            return failed(LANGFUSE_READY, DATABASE_FAILED, refusal)
        where = f"database {self._wanted.name} in Cluster {self._cluster_name}"
        if not said:
            return waiting(LANGFUSE_READY, DATABASE_PENDING, f"waits for {where}")
        if "role" in said.lower():
            return waiting(LANGFUSE_READY, DATABASE_PENDING, f"waits for {where}: {said}")
        return failed(LANGFUSE_READY, DATABASE_FAILED, f"{where}: {said}")


def with_role(cluster: Resource, role: str, password: str) -> list[Any]:
    """The Cluster's roles with ours among them."""
    entry = {"name": role, "ensure": "present", "login": True, "passwordSecret": {"name": password}}
    return _with(_managed(cluster, "roles"), entry)


def without_role(cluster: Resource | None, password: str) -> tuple[Step, ...]:
    """Takes our entry out of the Cluster's roles: the one with our Secret. What the role owns stays."""
    if cluster is None:
        return ()
    roles = _managed(cluster, "roles")
    left = [each for each in roles if not _is_ours(each, password)]
    return () if len(left) == len(roles) else (_patch(cluster, {"roles": left or None}),)


def without_database(cluster: Resource | None, database: str, role: str) -> tuple[Step, ...]:
    """Takes our entry out of the Cluster's databases, where it has such a list."""
    if cluster is None:
        return ()
    entries = _managed(cluster, "databases")
    left = [each for each in entries if (_name(each), _owner(each)) != (database, role)]
    return () if len(left) == len(entries) else (_patch(cluster, {"databases": left or None}),)


def dropped_role(cluster: Resource | None, password: str) -> tuple[Step, ...]:
    """Has our role of the Cluster dropped."""
    if cluster is None:
        return ()
    roles = _managed(cluster, "roles")
    changed = [
        {"name": _name(each), "ensure": "absent"} if _is_ours(each, password) else each for each in roles
    ]
    return () if changed == list(roles) else (_patch(cluster, {"roles": changed}),)


def _patch(cluster: Resource, managed: Mapping[str, Any]) -> Patch:
    body = {"spec": {"managed": dict(managed)}}
    return Patch(CNPG_CLUSTER, cluster.metadata.key, cluster.metadata.uid, body)


def _with(entries: Sequence[Any], wanted: Mapping[str, Any]) -> list[Any]:
    """The list with `wanted` in it, at the place of the entry that has its name."""
    kept = [wanted if _name(each) == wanted["name"] else each for each in entries]
    return kept if wanted in kept else [*kept, wanted]


def _managed(cluster: Resource, field_name: str) -> Sequence[Any]:
    managed = cluster.spec.get("managed")
    found = managed.get(field_name) if isinstance(managed, Mapping) else None
    return found if isinstance(found, list | tuple) else ()


def _is_ours(entry: Any, password: str) -> bool:
    return isinstance(entry, Mapping) and text(entry, "passwordSecret", "name") == password


def _name(entry: Any) -> str:
    return text(entry, "name") if isinstance(entry, Mapping) else ""


def _owner(entry: Any) -> str:
    return text(entry, "owner") if isinstance(entry, Mapping) else ""


def _refusal(cluster: Resource | None, role: str) -> str:
    """What CloudNativePG says of a role that it cannot make; "" when it says nothing."""
    status = cluster.status.get("managedRolesStatus") if cluster is not None else None
    refused = status.get("cannotReconcile") if isinstance(status, Mapping) else None
    messages = refused.get(role) if isinstance(refused, Mapping) else None
    said = messages if isinstance(messages, list | tuple) else ()
    return f"role {role} cannot be made: {'; '.join(map(str, said))}" if said else ""


def _offers_databases(o: ObservabilityObservation) -> bool:
    """Whether the served Cluster takes databases itself, as some versions may."""
    schema = o.schemas.cluster
    return schema is not None and schema.at("spec", "managed", "databases") is not None
