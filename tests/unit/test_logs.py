"""What is written into logs, and above all what is not."""

import dataclasses
import io
import json
import logging
import warnings
from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from typing import Any

import pytest
import structlog
from pydantic import BaseModel, SecretBytes

from magicstick.kube.kinds import POD, ObjectKey
from magicstick.kube.objects import FullObjectMeta, Resource
from magicstick.runtime import logs
from magicstick.runtime.logs import MASK, Secret

CANARY = "canary-7f3a"  # must never be seen


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _logging_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in logs.QUIET}
    yield
    structlog.reset_defaults()
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def configured(log_format: str = "json", level: str = "info") -> io.StringIO:
    out = io.StringIO()
    logs.configure(log_format, level, out)
    return out


@dataclasses.dataclass
class Credentials:
    password: str = CANARY


class Model(BaseModel):
    token: Secret = Secret(CANARY)


class Colour(Enum):
    RED = CANARY


def fail_with(password: str) -> None:
    assert password
    raise RuntimeError("failed")


HIDING_PLACES = {
    "a secret": Secret(CANARY),
    "secret bytes": SecretBytes(CANARY.encode()),
    "a mapping": {"data": {"password": Secret(CANARY)}},
    "a key": {Secret(CANARY): 1},
    "a list": [[(Secret(CANARY),)], {Secret(CANARY)}],
    "text made of it": f"token {Secret(CANARY)!s} {Secret(CANARY)!r}",
    "a model": Model(),
    "an API object": Resource(FullObjectMeta(name="one"), data={"password": CANARY}),
    "a dataclass": Credentials(),
    "a list of objects": [Credentials()],
    "bytes": CANARY.encode(),
    "an exception made of it": ValueError(Secret(CANARY)),
}


@pytest.mark.parametrize("value", HIDING_PLACES.values(), ids=HIDING_PLACES.keys())
@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_secret_never_appears(log_format: str, value: object) -> None:
    out = configured(log_format)
    structlog.get_logger("test").bind(bound=value).warning("something happened", value=value)
    structlog.contextvars.bind_contextvars(context=value)
    try:
        structlog.get_logger("test").error("something else happened")
    finally:
        structlog.contextvars.clear_contextvars()
    assert "something else happened" in out.getvalue()
    assert CANARY not in out.getvalue()


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_secret_that_a_library_logs_is_masked(log_format: str) -> None:
    out = configured(log_format)
    logging.getLogger("library").warning("%s and %r", Secret(CANARY), Secret(CANARY))
    assert MASK in out.getvalue()
    assert CANARY not in out.getvalue()


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_tracebacks_hold_no_local_variables(log_format: str) -> None:
    out = configured(log_format)
    try:
        fail_with(CANARY)
    except RuntimeError:
        structlog.get_logger("test").exception("work failed")
        logging.getLogger("library").exception("library failed")
    assert "RuntimeError" in out.getvalue()
    assert CANARY not in out.getvalue()


def test_libraries_that_log_secrets_in_plain_keep_quiet_about_contents() -> None:
    out = configured(level="debug")
    for name in logs.QUIET:
        logging.getLogger(name).debug("response body: %s", CANARY)
        logging.getLogger(f"{name}.client.rest").info("response body: %s", CANARY)
    assert out.getvalue() == ""


def test_a_secret_prints_as_asterisks_and_gives_itself_out_only_when_asked() -> None:
    secret = Secret(CANARY)
    assert MASK in repr(secret)
    assert str(secret) == MASK
    assert CANARY not in Model(token=secret).model_dump_json()
    assert secret.get_secret_value() == CANARY


def test_a_line_is_json_with_a_constant_message_fields_and_a_time_in_utc() -> None:
    out = configured()
    structlog.get_logger("magicstick.test").info("state changed", key=ObjectKey("ns", "one"), kind=POD, n=3)
    (line,) = lines(out)
    moment = datetime.fromisoformat(line.pop("timestamp"))
    assert moment.utcoffset() is not None
    assert not moment.utcoffset()
    assert line == {
        "event": "state changed",
        "key": "ns/one",
        "kind": "pods",
        "n": 3,
        "level": "info",
        "logger": "magicstick.test",
    }


def test_values_of_unknown_types_show_as_the_name_of_the_type() -> None:
    assert logs.mask([Credentials(), object(), {"x": Resource(FullObjectMeta())}]) == [
        "<Credentials>",
        "<object>",
        {"x": "<Resource>"},
    ]


def test_values_nested_without_end_do_not_stop_the_log() -> None:
    endless: dict[str, Any] = {}
    endless["self"] = endless
    out = configured()
    structlog.get_logger("test").info("odd", value=endless)
    assert len(lines(out)) == 1


def test_levels_below_the_chosen_one_are_not_written() -> None:
    out = configured(level="warning")
    log = structlog.get_logger("test")
    log.debug("a")
    log.info("b")
    log.warning("c")
    log.error("d")
    assert [line["event"] for line in lines(out)] == ["c", "d"]


def test_libraries_and_warnings_come_out_the_same_way() -> None:
    out = configured()
    logging.getLogger("library").warning("%d things", 3)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=True)
        warnings.warn("old", stacklevel=1)
    first, second = lines(out)
    assert (first["event"], first["level"], first["logger"]) == ("3 things", "warning", "library")
    assert "old" in second["event"]


@pytest.mark.parametrize(
    ("log_format", "out", "in_cluster", "is_json"),
    [
        ("auto", io.StringIO(), False, True),
        ("auto", Terminal(), False, False),
        ("auto", Terminal(), True, True),
        ("console", io.StringIO(), True, False),
        ("json", Terminal(), False, True),
    ],
)
def test_people_get_lines_for_people(
    monkeypatch: pytest.MonkeyPatch, *, log_format: str, out: io.StringIO, in_cluster: bool, is_json: bool
) -> None:
    if in_cluster:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "api.example.local")
    logs.configure(log_format, "info", out)
    structlog.get_logger("test").info("hello")
    assert out.getvalue().startswith("{") is is_json
