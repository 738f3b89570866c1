"""The yardstick of whole runs: the very requests of a run, sent again by nobody who decides anything.

Requests about one subject are sent in their order, each when the one before was answered, and many
subjects at a time. What the first server gave (uids, resourceVersions) is left out, since another has
other ones; requests that were refused are left out as well.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from hack.bare import APPLY, BareClient, spread
from hack.devcluster.audit import AuditRecord, Json

Subject = Callable[[AuditRecord], str]
"""What a request is about."""
GIVEN = frozenset({"uid", "resourceVersion"})
"""What a server has given to an object."""
METHODS = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}


async def replay(
    client: BareClient, records: Iterable[AuditRecord], subject: Subject, *, concurrency: int
) -> None:
    """Send the writes among `records`, which need their bodies, to another server.

    Raises:
        RefusedError: the server refuses what the first took.
    """
    subjects: dict[str, list[AuditRecord]] = defaultdict(list)
    for record in sorted(records, key=lambda each: each.received):
        if record.is_write and HTTPStatus.OK <= record.code < HTTPStatus.MULTIPLE_CHOICES:
            subjects[subject(record)].append(record)

    async def send(writes: list[AuditRecord]) -> None:
        for record in writes:
            body = _body(record.request_object)
            await client.send(METHODS[record.verb], record.uri, body, content_type=_content_type(record))

    await spread(list(subjects.values()), send, concurrency=concurrency)


def _body(sent: Json | None) -> Any:
    if not isinstance(sent, dict) or not isinstance(metadata := sent.get("metadata"), dict):
        return sent
    return {**sent, "metadata": {name: value for name, value in metadata.items() if name not in GIVEN}}


def _content_type(record: AuditRecord) -> str:
    """The log does not say; but an apply names its kind, a merge does not, and a JSON patch is a list."""
    if record.verb != "patch":
        return "application/json"
    if isinstance(record.request_object, list):
        return "application/json-patch+json"
    applies = record.request_object is not None and "kind" in record.request_object
    return APPLY if applies else "application/merge-patch+json"
