"""The end of an observability, in order (spec: palena §7.8).

LiteLLM is told first to trace no more, and only then loses the keys that its Pods would not start without.
What belongs to a gateway that is gone itself is not waited for.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from magicstick.api.kinds import CNPG_DATABASE, CNPG_DATABASE_ROLE, LANGFUSE_INSTANCE
from magicstick.kube.kinds import Kind
from magicstick.kube.objects import Resource
from magicstick.palena.common.children import text
from magicstick.palena.common.kinds import NETWORK_POLICY
from magicstick.palena.common.owners import is_owned_by
from magicstick.palena.common.secrets import SECRET
from magicstick.palena.common.teardown import Stage, Target
from magicstick.palena.observability.database import dropped_role, without_database, without_role
from magicstick.palena.observability.observation import ObservabilityObservation
from magicstick.palena.observability.wiring import unwired
from magicstick.runtime.plan import Patch, Step

RETAIN: Final = "retain"
DELETE: Final = "delete"


def stages(o: ObservabilityObservation) -> tuple[Stage, ...]:
    """All stages of the end."""
    names = o.names
    unwire = Stage("the callback of LiteLLM", steps=unwired(o) if o.gateway_lives else ())
    copy = o.at_gateway(SECRET, names.api_keys) if o.elsewhere else None
    langfuse = o.beside(LANGFUSE_INSTANCE, names.langfuse)
    ways = [
        (NETWORK_POLICY, o.at_gateway(NETWORK_POLICY, each)) for each in (names.to_postgres, names.to_redis)
    ]
    return (
        unwire,
        Stage("the copy of the API keys", targets=_targets(o, [(SECRET, copy)])),
        Stage(f"LangfuseInstance {names.langfuse}", targets=_targets(o, [(LANGFUSE_INSTANCE, langfuse)])),
        Stage("the ways to the gateway's stores", targets=_targets(o, ways)),
        *(_database(o) if o.gateway_lives else _orphaned(o)),
        Stage(
            f"Secret {names.role}",
            targets=_targets(o, [(SECRET, o.at_gateway(SECRET, names.role))] if o.elsewhere else []),
        ),
    )


def _database(o: ObservabilityObservation) -> Iterator[Stage]:
    """First the database, then the role that owns it; with Retain only our objects about them go."""
    name, policy = o.names.langfuse, _policy(o)
    database, role = o.at_gateway(CNPG_DATABASE, name), o.at_gateway(CNPG_DATABASE_ROLE, name)
    yield Stage(
        f"Database {name}",
        _targets(o, [(CNPG_DATABASE, database)]),
        (
            *_reclaiming(o, CNPG_DATABASE, database, "databaseReclaimPolicy", policy),
            *without_database(o.cluster, *_wanted(o)),
        ),
    )
    end = without_role if policy == RETAIN else dropped_role
    in_cluster = end(o.cluster, o.names.role)
    yield Stage(
        f"DatabaseRole {name}",
        _targets(o, [(CNPG_DATABASE_ROLE, role)]),
        (*_reclaiming(o, CNPG_DATABASE_ROLE, role, "databaseRoleReclaimPolicy", policy), *in_cluster),
    )


def _orphaned(o: ObservabilityObservation) -> Iterator[Stage]:
    """Without their gateway they are deleted and not waited for: nobody may be there to finish it.

    Its database may have outlived it, so that what is to be kept is said here too.
    """
    name, policy = o.names.langfuse, _policy(o)
    found = [(kind, o.at_gateway(kind, name)) for kind in (CNPG_DATABASE, CNPG_DATABASE_ROLE)]
    left = [each for each in _targets(o, found) if not each.live.metadata.dying]
    said = (
        *_reclaiming(o, CNPG_DATABASE, found[0][1], "databaseReclaimPolicy", policy),
        *_reclaiming(o, CNPG_DATABASE_ROLE, found[1][1], "databaseRoleReclaimPolicy", policy),
    )
    yield Stage("the database of a gateway that is gone", left, said)


def _policy(o: ObservabilityObservation) -> str:
    """What becomes of database and role; they are kept whenever it is not clear that they are to go."""
    return DELETE if o.subject.live.spec.get("deletionPolicy", "Retain") == "Delete" else RETAIN


def _wanted(o: ObservabilityObservation) -> tuple[str, str]:
    """(database, owner) as the spec says, whatever else it says."""
    given = o.subject.live.spec.get("database")
    fields = given if isinstance(given, dict) else {}
    return text(fields, "name") or "langfuse", text(fields, "owner") or "langfuse"


def _reclaiming(
    o: ObservabilityObservation, kind: Kind, live: Resource | None, field: str, policy: str
) -> tuple[Step, ...]:
    """Says what becomes of the thing itself before the object about it goes."""
    if live is None or live.metadata.dying or not is_owned_by(live, o.owner):
        return ()
    if live.spec.get(field, "retain") == policy:
        return ()
    return (Patch(kind, live.metadata.key, live.metadata.uid, {"spec": {field: policy}}),)


def _targets(o: ObservabilityObservation, found: Iterable[tuple[Kind, Resource | None]]) -> list[Target]:
    """Those that are there and ours."""
    return [Target(kind, live) for kind, live in found if live is not None and is_owned_by(live, o.owner)]
