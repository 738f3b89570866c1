"""The API server's audit log as typed records.

Kubernetes' audit event (audit.k8s.io/v1) holds more; what is here is what tests ask for.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NewType, TypeAlias

AuditMark = NewType("AuditMark", int)
"""A position in the audit log: the number of bytes before it."""

Json: TypeAlias = Mapping[str, Any]

MARK_CHUNK = 1 << 16
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One request. A watch appears when it has started, everything else when it has been answered.

    Attributes:
        user: after impersonation, where the request impersonates.
        verb: get, list, watch, create, update, patch, delete or deletecollection.
        group: API group, empty for the core.
        resource: plural name.
        namespace: empty for cluster-wide requests.
        name: empty for lists, and for creates with generateName.
        subresource: for example `status`; empty for the object itself.
        code: HTTP status of the answer.
        received: when the request came in.
        answered: when it was answered (or, a watch, started).
        request_object: body of a write (a patch as it was sent); None for reads and Secrets.
        response_object: answer to a write; None for reads and Secrets.
    """

    id: str
    user_agent: str
    user: str
    verb: str
    group: str
    version: str
    resource: str
    namespace: str
    name: str
    subresource: str
    code: int
    uri: str
    received: datetime
    answered: datetime
    request_object: Json | None = field(repr=False)
    response_object: Json | None = field(repr=False)

    @property
    def is_write(self) -> bool:
        """Whether it asked for a change."""
        return self.verb in WRITES

    @classmethod
    def parse(cls, line: bytes) -> "AuditRecord":
        """From one line of the log.

        Raises:
            ValueError: the line is no audit event.
        """
        event = json.loads(line)
        reference = event.get("objectRef", {})
        user = event.get("impersonatedUser") or event["user"]
        return cls(
            id=event["auditID"],
            user_agent=event.get("userAgent", ""),
            user=user.get("username", ""),
            verb=event["verb"],
            group=reference.get("apiGroup", ""),
            version=reference.get("apiVersion", ""),
            resource=reference.get("resource", ""),
            namespace=reference.get("namespace", ""),
            name=reference.get("name", ""),
            subresource=reference.get("subresource", ""),
            code=event.get("responseStatus", {}).get("code", 0),
            uri=event["requestURI"],
            received=datetime.fromisoformat(event["requestReceivedTimestamp"]),
            answered=datetime.fromisoformat(event["stageTimestamp"]),
            request_object=event.get("requestObject"),
            response_object=event.get("responseObject"),
        )


def mark(log: Path) -> AuditMark:
    """The end of the last complete record as it is now; one that is just being written comes after it."""
    if not log.exists():
        return AuditMark(0)
    with log.open("rb") as lines:
        end = lines.seek(0, 2)
        while end > 0:
            start = max(0, end - MARK_CHUNK)
            lines.seek(start)
            newline = lines.read(end - start).rfind(b"\n")
            if newline >= 0:
                return AuditMark(start + newline + 1)
            end = start
    return AuditMark(0)


def read(
    log: Path, user_agent: str | None = None, since: AuditMark | datetime | None = None
) -> Iterator[AuditRecord]:
    """The records in the log, oldest first, up to its present end.

    The API server writes a record before it sends the answer, so whoever has the answer finds the record.

    Args:
        log: of a running or a stopped API server.
        user_agent: only records whose user agent starts with it.
        since: only what came after a mark, or was received at or after a time.
    """
    if not log.exists():
        return
    with log.open("rb") as lines:
        if isinstance(since, int):
            lines.seek(since)
        for line in lines:
            if not line.endswith(b"\n"):
                return  # being written just now
            record = AuditRecord.parse(line)
            if user_agent is not None and not record.user_agent.startswith(user_agent):
                continue
            if isinstance(since, datetime) and record.received < since:
                continue
            yield record
