"""The audit log as records: complete lines only, each request once, by user agent and time."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hack.devcluster import audit
from hack.devcluster.audit import AuditRecord, mark

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def event(number: int, **changes: object) -> dict[str, object]:
    """An audit event as the API server writes it."""
    base: dict[str, object] = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": f"id-{number}",
        "stage": "ResponseComplete",
        "requestURI": f"/api/v1/namespaces/default/configmaps/c{number}?fieldManager=m",
        "verb": "patch",
        "user": {"username": "admin", "groups": ["system:masters"]},
        "sourceIPs": ["127.0.0.1"],
        "userAgent": "magicstick/0.1",
        "objectRef": {
            "resource": "configmaps",
            "namespace": "default",
            "name": f"c{number}",
            "apiVersion": "v1",
        },
        "responseStatus": {"metadata": {}, "code": 201},
        "requestObject": {"data": {"number": str(number)}},
        "responseObject": {"data": {"number": str(number)}},
        "requestReceivedTimestamp": stamp(NOON + timedelta(seconds=number)),
        "stageTimestamp": stamp(NOON + timedelta(seconds=number, milliseconds=5)),
    }
    return {**base, **changes}


def stamp(time: datetime) -> str:
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")


def write(log: Path, *events: dict[str, object]) -> None:
    with log.open("a") as file:
        file.writelines(json.dumps(each) + "\n" for each in events)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def names(records: Iterable[AuditRecord]) -> list[str]:
    return [record.name for record in records]


def test_a_record_has_the_fields_of_the_event(log: Path) -> None:
    reference = {
        "resource": "kustomizations",
        "namespace": "flux-system",
        "name": "a",
        "apiGroup": "kustomize.toolkit.fluxcd.io",
        "apiVersion": "v1",
        "subresource": "status",
    }
    write(log, event(1, objectRef=reference))
    (record,) = audit.read(log)
    assert record == AuditRecord(
        id="id-1",
        user_agent="magicstick/0.1",
        user="admin",
        verb="patch",
        group="kustomize.toolkit.fluxcd.io",
        version="v1",
        resource="kustomizations",
        namespace="flux-system",
        name="a",
        subresource="status",
        code=201,
        uri="/api/v1/namespaces/default/configmaps/c1?fieldManager=m",
        received=NOON + timedelta(seconds=1),
        answered=NOON + timedelta(seconds=1, milliseconds=5),
        request_object={"data": {"number": "1"}},
        response_object={"data": {"number": "1"}},
    )
    assert record.is_write


@pytest.mark.parametrize("verb", ["get", "list", "watch"])
def test_reads_are_no_writes(log: Path, verb: str) -> None:
    write(log, event(1, verb=verb))
    assert [record.is_write for record in audit.read(log)] == [False]


def test_an_event_without_optional_parts_is_a_record(log: Path) -> None:
    bare = event(1, verb="get")
    for name in ("objectRef", "responseStatus", "userAgent", "requestObject", "responseObject"):
        del bare[name]
    write(log, bare)
    (record,) = audit.read(log)
    assert (record.resource, record.code, record.user_agent, record.request_object) == ("", 0, "", None)


def test_an_impersonated_user_is_the_one_that_counts(log: Path) -> None:
    write(log, event(1, impersonatedUser={"username": "system:serviceaccount:a:b"}))
    assert [record.user for record in audit.read(log)] == ["system:serviceaccount:a:b"]


def test_the_user_agent_selects_by_its_beginning(log: Path) -> None:
    write(log, event(1), event(2, userAgent="kubectl/v1"), event(3, userAgent="other magicstick"))
    assert names(audit.read(log, "magicstick")) == ["c1"]
    assert names(audit.read(log, "kube")) == ["c2"]
    assert names(audit.read(log)) == ["c1", "c2", "c3"]


def test_a_mark_leaves_out_what_came_before_it(log: Path) -> None:
    assert audit.mark(log) == 0
    write(log, event(1), event(2))
    mark = audit.mark(log)
    assert names(audit.read(log, since=mark)) == []
    write(log, event(3))
    assert names(audit.read(log, since=mark)) == ["c3"]


def test_a_time_leaves_out_what_was_received_before_it(log: Path) -> None:
    write(log, event(1), event(2), event(3))
    assert names(audit.read(log, since=NOON + timedelta(seconds=2))) == ["c2", "c3"]


def test_a_line_that_is_being_written_is_not_read(log: Path) -> None:
    write(log, event(1))
    with log.open("a") as file:
        file.write(json.dumps(event(2))[:50])
    assert names(audit.read(log)) == ["c1"]


def test_no_log_has_no_records(log: Path) -> None:
    assert list(audit.read(log)) == []


def test_a_mark_is_never_inside_a_record_that_is_being_written(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_bytes(b'{"complete": 1}\n{"begun": ')
    assert mark(log) == len(b'{"complete": 1}\n')


def test_a_mark_finds_the_end_before_a_long_unfinished_record(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_bytes(b"{}\n" + b"x" * 200_000)
    assert mark(log) == 3
    log.write_bytes(b"x" * 200_000)
    assert mark(log) == 0
