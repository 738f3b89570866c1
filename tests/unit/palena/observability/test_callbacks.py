"""The callback block of a LiteLLMInstance: its shape, and whose entries are whose (spec: palena §3.6, §13)."""

from typing import Any

import msgspec
import pytest

from magicstick.palena.common.schemas import SchemaNode
from magicstick.palena.observability.callbacks import (
    LANGFUSE_OTEL,
    Callback,
    Shape,
    refers,
    shape_of,
    with_entry,
    without_entry,
)

SECRET = "obs-langfuse-apikeys"
WANTED = Callback(SECRET)
OWN_ENV = {"name": "OTEL_ENDPOINT", "value": "http://collector.example.com"}


def variable(name: str, key: str = "", secret: str = SECRET) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key or name}}}


VARIABLES = [variable(name) for name in ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY", "LANGFUSE_HOST")]
SEED = {
    "langfuse": {
        "enabled": True,
        "secretRef": {
            "name": SECRET,
            "keys": {
                "publicKey": "LANGFUSE_PUBLIC_KEY",
                "secretKey": "LANGFUSE_SECRET_KEY",
                "host": "LANGFUSE_HOST",
            },
        },
    }
}


@pytest.mark.parametrize(
    ("schema", "shape"),
    [
        ({"properties": {"langfuse": {"type": "object"}}}, Shape.SEED),
        ({"x-kubernetes-preserve-unknown-fields": True}, Shape.SEED),
        ({"properties": {"types": {}, "envVars": {}}}, Shape.LISTS),
        ({"properties": {"types": {}, "envVars": {}, "langfuse": {}}}, Shape.SEED),
        ({"properties": {"types": {}}}, None),
        ({"properties": {"callbacks": {}, "enabled": {}}}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_shape_is_that_of_the_served_schema(schema: Any, shape: Shape | None) -> None:
    node = None if schema is None else msgspec.convert(schema, SchemaNode)
    assert shape_of(node) is shape


@pytest.mark.req("PA-089", "PA-090", "PA-091")
def test_the_seeds_shape_names_the_secret_and_its_three_keys() -> None:
    assert with_entry(Shape.SEED, None, WANTED) == SEED


@pytest.mark.req("PA-089", "PA-090", "PA-091")
def test_the_lists_enable_langfuse_with_the_three_keys_of_the_secret() -> None:
    assert with_entry(Shape.LISTS, None, WANTED) == {"types": ["langfuse"], "envVars": VARIABLES}


def test_the_otel_integration_reads_the_host_under_its_own_name_too() -> None:
    block = with_entry(Shape.LISTS, {"types": ["langfuse"]}, Callback(SECRET, LANGFUSE_OTEL))

    assert block == {
        "types": ["langfuse_otel"],
        "envVars": [*VARIABLES, variable("LANGFUSE_OTEL_HOST", "LANGFUSE_HOST")],
    }


def test_entries_of_others_stay_when_ours_comes() -> None:
    live = {"types": ["otel"], "envVars": [OWN_ENV, {"name": "LANGFUSE_HOST", "value": "http://old"}]}

    assert with_entry(Shape.LISTS, live, WANTED) == {
        "types": ["otel", "langfuse"],
        "envVars": [OWN_ENV, *VARIABLES],
    }


def test_what_is_there_already_stays_the_same() -> None:
    block = with_entry(Shape.LISTS, {"types": ["otel"], "envVars": [OWN_ENV]}, WANTED)

    assert with_entry(Shape.LISTS, block, WANTED) == block


@pytest.mark.req("PA-093")
@pytest.mark.parametrize(
    ("live", "left"),
    [
        (SEED, {}),
        ({**SEED, "types": None}, {}),
        ({**SEED, "types": ["otel"]}, {"langfuse": None}),
        ({"types": ["langfuse"], "envVars": VARIABLES}, {}),
        ({"types": ["langfuse_otel"], "envVars": VARIABLES}, {}),
        (
            {"types": ["otel", "langfuse"], "envVars": [OWN_ENV, *VARIABLES]},
            {"types": ["otel"], "envVars": [OWN_ENV]},
        ),
        ({"types": ["otel", "langfuse"], "envVars": VARIABLES}, {"types": ["otel"], "envVars": None}),
        ({"types": ["langfuse"], "envVars": [OWN_ENV]}, {"types": None}),
    ],
)
def test_e23_only_our_entries_go(live: Any, left: Any) -> None:
    assert without_entry(live, SECRET) == left
    assert refers(live, SECRET)


@pytest.mark.parametrize(
    "live",
    [
        None,
        "text",
        {},
        {"types": ["otel"], "envVars": [OWN_ENV]},
        {"langfuse": {"enabled": True, "secretRef": {"name": "another"}}},
        {"types": ["langfuse"], "envVars": [variable("LANGFUSE_PUBLIC_KEY", secret="another")]},
    ],
)
def test_where_nothing_is_ours_nothing_goes(live: Any) -> None:
    assert without_entry(live, SECRET) is None
    assert not refers(live, SECRET)
