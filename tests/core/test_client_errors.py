"""Which exception an unsuccessful answer becomes. Bodies are as kube-apiserver 1.36 sends them."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.kube import errors
from magicstick.kube.client import Client
from magicstick.kube.errors import (
    MESSAGE_LIMIT,
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KindNotServed,
    NamespaceTerminating,
    NotFound,
    Rejected,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from magicstick.kube.kinds import NODE, POD, Kind, ObjectKey
from magicstick.kube.responses import MAX_RETRY_AFTER_S, error_of, retry_after_s
from tests.support.apiserver import Answer, ScriptedServer, failure, status

WIDGET = Kind("example.com", "v1", "Widget", "widgets")
TEXT_404 = b"404 page not found\n"
TERMINATING = {"causes": [{"reason": "NamespaceTerminating", "message": "…", "field": "metadata.namespace"}]}
DUPLICATE_KEYS = (
    "failed to create manager for existing fields: failed to convert new object to smd typed: "
    '.spec.template.spec.containers[name="a"].env: duplicate entries for key [name="A"]'
)


def error(
    code: int,
    reason: str = "",
    message: str = "no",
    *,
    details: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    collection: bool = False,
) -> ApiError:
    body = msgspec.json.encode(failure(code, reason, message, details=details))
    return error_of(code, headers or {}, body, collection=collection)


@pytest.mark.parametrize(
    ("code", "reason", "details", "expected"),
    [
        (404, "NotFound", {"name": "a", "kind": "pods"}, NotFound),
        (404, "NotFound", {"name": "gone", "kind": "namespaces"}, NamespaceTerminating),
        (404, "NotFound", {}, KindNotServed),
        (409, "AlreadyExists", {"name": "a", "kind": "pods"}, AlreadyExists),
        (409, "Conflict", {"name": "a", "kind": "pods"}, Conflict),
        (409, "Conflict", TERMINATING, NamespaceTerminating),
        (410, "Expired", None, Gone),
        (410, "Gone", None, Gone),
        (400, "Expired", None, Gone),
        (400, "BadRequest", None, Invalid),
        (422, "Invalid", None, Invalid),
        (422, "Invalid", {"causes": [{"field": "metadata.uid", "message": "field is immutable"}]}, Conflict),
        (401, "Unauthorized", None, Unauthorized),
        (403, "Forbidden", {"name": "a", "kind": "pods"}, Forbidden),
        (403, "Forbidden", TERMINATING, NamespaceTerminating),
        (405, "MethodNotAllowed", None, Rejected),
        (413, "RequestEntityTooLarge", None, Rejected),
        (415, "UnsupportedMediaType", None, Rejected),
        (429, "TooManyRequests", None, TooManyRequests),
        (500, "InternalError", None, Unavailable),
        (500, "", None, Rejected),
        (503, "ServiceUnavailable", None, Unavailable),
        (504, "Timeout", None, Unavailable),
        (408, "Timeout", None, Unavailable),
        (302, "", None, Unavailable),
    ],
)
def test_a_status_becomes_the_class_of_its_meaning(
    code: int, reason: str, details: Mapping[str, Any] | None, expected: type[ApiError]
) -> None:
    found = error(code, reason, details=details)
    assert type(found) is expected
    assert (found.code, found.message) == (code, "no")
    assert found.reason == reason


@pytest.mark.parametrize(
    ("code", "body", "expected"),
    [
        (404, TEXT_404, KindNotServed),
        (404, b"", KindNotServed),
        (401, b"Unauthorized", Unauthorized),
        (403, b"<html><h1>Forbidden</h1></html>", Forbidden),
        (409, b"conflict", Conflict),
        (410, b"", Gone),
        (429, b"Too many requests, please try again later.\n", TooManyRequests),
        (500, b"This request caused apiserver to panic.", Unavailable),
        (502, b"<html>\r\n<h1>Bad Gateway</h1>\r\n</html>", Unavailable),
        (503, b"", Unavailable),
        (503, b'{"error": "no Status"}', Unavailable),
        (302, b"<a href='https://login.example.com'>Found</a>", Unavailable),
        (500, b'{"kind": "Status", "code": "five hundred"}', Unavailable),
    ],
)
@pytest.mark.parametrize("collection", [True, False])
def test_an_answer_that_is_no_status_is_judged_by_its_code(
    code: int, body: bytes, expected: type[ApiError], *, collection: bool
) -> None:
    found = error_of(code, {}, body, collection=collection)
    assert type(found) is expected
    assert f"HTTP {code}" in str(found)


def test_a_missing_collection_is_a_kind_that_is_not_served() -> None:
    """A CRD version that is not served any more answers so, with a Status."""
    message = "the server could not find the requested resource"
    assert type(error(404, "NotFound", message, details={}, collection=True)) is KindNotServed


def test_a_kind_whose_definition_is_being_deleted_is_none_that_is_served() -> None:
    message = 'models.kubeai.org "a" is forbidden: create not allowed while custom resource definition is terminating'
    assert type(error(403, "Forbidden", message, details={"name": "a"})) is KindNotServed


def test_a_terminating_namespace_is_recognised_by_its_message_alone() -> None:
    message = (
        'configmaps "a" is forbidden: unable to create new content in namespace x '
        "because it is being terminated"
    )
    assert type(error(403, "Forbidden", message, details={"name": "a"})) is NamespaceTerminating


@pytest.mark.parametrize(
    "message", ["etcdserver: leader changed", "rpc error: code = Unavailable desc = …", "unexpected EOF"]
)
def test_trouble_of_the_storage_passes_though_it_has_no_reason(message: str) -> None:
    assert type(error(500, "", message)) is Unavailable


def test_an_apply_that_can_never_succeed_is_a_refusal() -> None:
    assert type(error(500, "", DUPLICATE_KEYS)) is Rejected


def test_causes_name_fields_and_messages() -> None:
    causes = [
        {"reason": "FieldValueInvalid", "message": "must be at least 1", "field": "spec.size"},
        {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.name"},
    ]
    found = error(422, "Invalid", details={"causes": causes})
    assert found.causes == (("spec.size", "must be at least 1"), ("spec.name", "Required value"))


@pytest.mark.parametrize("size", [MESSAGE_LIMIT + 1, 3_000_000])
def test_messages_are_cut(size: int) -> None:
    assert len(str(error(422, "Invalid", "x" * size))) == MESSAGE_LIMIT
    assert len(str(error_of(502, {}, b"x" * size, collection=False))) < MESSAGE_LIMIT


def test_the_header_says_when_to_come_back() -> None:
    found = error(429, "TooManyRequests", headers={"Retry-After": "7"}, details={"retryAfterSeconds": 3})
    assert isinstance(found, TooManyRequests)
    assert found.retry_after_s == 7


def test_the_status_says_when_to_come_back_where_the_header_does_not() -> None:
    found = error(429, "TooManyRequests", details={"retryAfterSeconds": 3})
    assert isinstance(found, TooManyRequests)
    assert found.retry_after_s == 3


@pytest.mark.parametrize(
    ("header", "expected_s"),
    [("0", 0), ("2.5", 2.5), ("-3", 0), ("1e9", MAX_RETRY_AFTER_S), ("inf", MAX_RETRY_AFTER_S)]
    + [(nonsense, 1) for nonsense in (None, "", "nan", "soon", "Mon, 99 Foo 2024")],
)
def test_retry_after_is_taken_within_reason(header: str | None, expected_s: float) -> None:
    assert retry_after_s(header) == expected_s


def test_retry_after_may_be_a_date() -> None:
    now = datetime.now(UTC)
    assert 25 < retry_after_s(format_datetime(now + timedelta(seconds=30), usegmt=True)) <= 30
    assert retry_after_s(format_datetime(now - timedelta(seconds=30), usegmt=True)) == 0


@given(st.integers(300, 999), st.binary(max_size=200), st.booleans())
def test_every_answer_has_a_meaning(code: int, body: bytes, collection: bool) -> None:  # noqa: FBT001 # given
    found = error_of(code, {"Retry-After": body.decode("latin-1")}, body, collection=collection)
    assert isinstance(found, ApiError)
    assert found.code == code


def test_callers_can_rely_on_the_families() -> None:
    assert issubclass(KindNotServed, NotFound)
    assert issubclass(AlreadyExists, Conflict)
    assert issubclass(TooManyRequests, Unavailable)
    for name in ("Invalid", "Forbidden", "NameConflict"):
        assert issubclass(getattr(errors, name), Rejected)
    for other in (NamespaceTerminating, Unauthorized, Unavailable, Gone, errors.Unreadable):
        assert not issubclass(other, Rejected | NotFound | Conflict)


@pytest.mark.anyio
async def test_an_unknown_group_is_a_kind_that_is_not_served(server: ScriptedServer, client: Client) -> None:
    """The scripted server answers it as the real one does: 404 with a text."""
    for attempt in (
        client.get(WIDGET, ObjectKey("x", "a")),
        client.create(WIDGET, {"metadata": {"name": "a", "namespace": "x"}}),
        client.delete(WIDGET, ObjectKey("x", "a")),
        anext(client.pages(WIDGET)),
    ):
        with pytest.raises(KindNotServed):
            await attempt


@pytest.mark.anyio
async def test_what_was_sent_appears_in_no_error(server: ScriptedServer, client: Client) -> None:
    body = {"metadata": {"name": "a", "namespace": "x"}, "data": {"password": "hunter2"}}
    secrets = Kind("", "v1", "Secret", "secrets")
    path = "/api/v1/namespaces/x/secrets/a"
    for answer in (status(422, "Invalid", "data is wrong"), status(500), Answer(502, b"oops")):
        server.answer("PATCH", path, answer)
        with pytest.raises(ApiError) as caught:
            await client.apply(secrets, body)
        told = f"{caught.value!r} {caught.value.__cause__!r} {caught.value.causes}"
        assert "hunter2" not in told
        assert "sesame" not in told


@pytest.mark.anyio
async def test_a_redirect_is_not_followed(server: ScriptedServer, client: Client) -> None:
    server.answer("GET", "/api/v1/nodes/n", Answer(302, b"", {"Location": f"{server.url}/api/v1/nodes/m"}))
    server.answer("GET", "/api/v1/nodes/m", Answer(200, {"metadata": {"name": "m"}}))
    with pytest.raises(Unavailable):
        await client.get(NODE, ObjectKey("", "n"))
    assert [request.path for request in server.requests] == ["/api/v1/nodes/n"]


@pytest.mark.anyio
async def test_a_missing_pod_is_absent_and_pods_are_not(server: ScriptedServer, client: Client) -> None:
    missing = status(404, "NotFound", 'pods "a" not found', details={"name": "a", "kind": "pods"})
    server.answer("GET", "/api/v1/namespaces/x/pods/a", missing)
    with pytest.raises(NotFound) as caught:
        await client.get(POD, ObjectKey("x", "a"))
    assert type(caught.value) is NotFound
