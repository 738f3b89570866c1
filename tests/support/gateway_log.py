"""What the audit log tells of routes and their policies: which writes, in which order, of which objects."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from hack.devcluster.audit import AuditRecord, Json

OPERATOR: Final = "magicstick"
"""What the operator's user agent begins with."""
MANAGED_BY: Final = ("app.kubernetes.io/managed-by", "magicstick-operator")
INSTANCE: Final = "appliance.magicstick.dev/appinstance"
ROUTES, POLICIES, GRANTS, INSTANCES = "httproutes", "securitypolicies", "referencegrants", "appinstances"
RELEVANT: Final = frozenset({ROUTES, POLICIES, GRANTS, INSTANCES})
MARKS: Final = tuple(f'"resource":"{each}"'.encode() for each in sorted(RELEVANT))


# --- writes ------------------------------------------------------------------------------------------


def audited(log: Path) -> Iterator[AuditRecord]:
    """What an audit log has of the kinds here; the rest is not even parsed."""
    if not log.exists():
        return
    with log.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n") and any(mark in line for mark in MARKS):
                yield AuditRecord.parse(line)


def writes(records: Iterable[AuditRecord]) -> list[AuditRecord]:
    """The writes among them that took effect, in the order in which they did.

    The server numbers its writes; the log has them in the order of their answers, which differs a little. A
    deletion bears no number, and is taken to have come after all that was answered before.
    """
    numbered: list[tuple[int, AuditRecord]] = []
    latest = 0
    for record in filter(_took_effect, records):
        version = _version(record)
        numbered.append((version or latest, record))
        latest = max(latest, version)
    return [record for _, record in sorted(numbered, key=lambda each: each[0])]


def by_operator(record: AuditRecord) -> bool:
    """Whether the operator wrote it."""
    return record.user_agent.startswith(OPERATOR)


def body_after(record: AuditRecord) -> Json | None:
    """The object after a write; None once it is gone.

    Raises:
        ValueError: the log has no bodies; nothing can be said then.
    """
    body = record.response_object
    if record.verb.startswith("delete"):
        # One that somebody holds by a finalizer is answered as it is now, any other as it was, or not at all.
        return body if body and body.get("metadata", {}).get("finalizers") else None
    if body is None:
        raise ValueError(f"the audit log has no body of {told(record)}")
    metadata = body["metadata"]
    return None if "deletionTimestamp" in metadata and not metadata.get("finalizers") else body


def told(record: AuditRecord) -> str:
    """A write in words."""
    subresource = f"/{record.subresource}" if record.subresource else ""
    what = f"{record.verb} {record.resource}{subresource} {record.namespace}/{record.name}"
    return f"{what} of {record.user_agent.split('/')[0]} at {record.answered:%H:%M:%S.%f}"


def _took_effect(record: AuditRecord) -> bool:
    changed = record.is_write and 200 <= record.code < 300 and "dryRun=" not in record.uri
    return changed and record.resource in RELEVANT


def _version(record: AuditRecord) -> int:
    if record.verb.startswith("delete"):
        return 0  # it is answered with the object as it was before
    return int((record.response_object or {}).get("metadata", {}).get("resourceVersion", 0))


# --- objects -----------------------------------------------------------------------------------------


def instance_of(body: Json) -> str:
    """The instance that an object of the operator's belongs to; "" for any other object."""
    marks: Mapping[str, str] = body.get("metadata", {}).get("labels") or {}
    return marks.get(INSTANCE, "") if marks.get(MANAGED_BY[0]) == MANAGED_BY[1] else ""


def leads_somewhere(route: Json) -> bool:
    """Whether it has a backend."""
    return any(rule.get("backendRefs") for rule in route.get("spec", {}).get("rules") or ())


def ways(route: Json) -> frozenset[tuple[str, str]]:
    """What a route answers, as pairs of host and path."""
    spec = route.get("spec", {})
    matches = [match for rule in spec.get("rules") or () for match in rule.get("matches") or [{}]]
    paths = [match.get("path", {}).get("value", "/") for match in matches]
    return frozenset((host, path) for host in spec.get("hostnames") or () for path in paths)


def targets(policy: Json) -> frozenset[str]:
    """Names of the routes that a policy is for."""
    return frozenset(each["name"] for each in policy.get("spec", {}).get("targetRefs") or ())


def uid_in(policy: Json) -> str:
    """Of the instance that the guard is asked about."""
    path = str(policy.get("spec", {}).get("extAuth", {}).get("http", {}).get("path", ""))
    return path.rpartition("/")[2]


def accepted(policy: Json) -> bool:
    """Whether it has ancestors, and all have accepted it as it is now, with nothing put in its place."""
    metadata = policy["metadata"]
    ancestors = policy.get("status", {}).get("ancestors") or ()
    agreed = all(_accepts(each, metadata["generation"]) for each in ancestors)
    return bool(ancestors) and agreed and "deletionTimestamp" not in metadata


def has_all_gateways(policy: Json, route: Json) -> bool:
    """Whether each Gateway that the route names is an ancestor of the policy."""
    namespace = policy["metadata"]["namespace"]
    parents = route.get("spec", {}).get("parentRefs") or ()
    ancestors = policy.get("status", {}).get("ancestors") or ()
    known = {_gateway(each["ancestorRef"], namespace) for each in ancestors}
    return all(_gateway(each, namespace) in known for each in parents)


def _gateway(reference: Mapping[str, Any], namespace: str) -> tuple[str, str]:
    return reference.get("namespace") or namespace, reference["name"]


def _accepts(ancestor: Mapping[str, Any], generation: int) -> bool:
    said = {each["type"]: each for each in ancestor.get("conditions") or ()}
    verdict, overridden = said.get("Accepted", {}), said.get("Overridden", {})
    current = bool(verdict.get("observedGeneration") == generation)
    return current and verdict.get("status") == "True" and overridden.get("status", "False") == "False"
