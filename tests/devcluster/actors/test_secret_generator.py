"""Annotated Secrets get the keys that they ask for, once."""

import base64
import re
from typing import Any

import pytest

from hack.devcluster.actors.secret_generator import SecretGenerator, generated, missing_keys
from tests.devcluster.actors.stage import SECRETS, Stage

PREFIX = "secret-generator.v1.mittwald.de"
cluster_test = pytest.mark.cluster


def secret(name: str, data: dict[str, str] | None = None, **annotations: str) -> dict[str, Any]:
    marks = {f"{PREFIX}/{key}": value for key, value in annotations.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "annotations": marks},
        "stringData": data or {},
    }


async def create(stage: Stage, obj: dict[str, Any]) -> None:
    await stage.client.create(f"/api/v1/namespaces/{stage.namespace}/secrets", obj)


def values(stage: Stage, name: str) -> dict[str, str]:
    data = stage.get(SECRETS, name).get("data") or {}
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


@cluster_test
@pytest.mark.anyio
async def test_missing_keys_are_filled_and_present_ones_stay(stage: Stage) -> None:
    name = f"{stage.namespace}-keys"
    async with SecretGenerator(stage.client).running():
        await create(stage, secret(name, {"USER": "litellm", "B": "mine"}, autogenerate="A, B,C"))
        await stage.until("all keys", lambda: set(values(stage, name)) == {"USER", "A", "B", "C"})
    found = values(stage, name)
    assert (found["USER"], found["B"]) == ("litellm", "mine")
    assert len(found["A"]) == len(found["C"]) == 40
    assert found["A"] != found["C"]


@cluster_test
@pytest.mark.anyio
async def test_what_was_generated_survives_a_new_apply_and_a_restart(stage: Stage) -> None:
    name = f"{stage.namespace}-kept"
    path = f"/api/v1/namespaces/{stage.namespace}/secrets/{name}"
    wanted = secret(name, {"USER": "a"}, autogenerate="PASSWORD", encoding="hex")
    async with SecretGenerator(stage.client).running():
        await stage.client.apply(path, wanted, manager="kustomize-controller")
        await stage.until("a password", lambda: "PASSWORD" in values(stage, name))
    before = values(stage, name)
    assert re.fullmatch("[0-9a-f]{40}", before["PASSWORD"])
    async with SecretGenerator(stage.client).running():
        await stage.client.apply(
            path, {**wanted, "stringData": {"USER": "b"}}, manager="kustomize-controller"
        )
        await stage.until("the change", lambda: values(stage, name)["USER"] == "b")
    assert values(stage, name)["PASSWORD"] == before["PASSWORD"]


@cluster_test
@pytest.mark.anyio
async def test_a_key_that_is_emptied_is_filled_anew(stage: Stage) -> None:
    name = f"{stage.namespace}-emptied"
    path = f"/api/v1/namespaces/{stage.namespace}/secrets/{name}"
    async with SecretGenerator(stage.client).running():
        await create(stage, secret(name, autogenerate="A"))
        await stage.until("a key", lambda: values(stage, name).get("A"))
        before = values(stage, name)["A"]
        await stage.client.merge(path, {"data": {"A": None}})
        await stage.until("another key", lambda: values(stage, name).get("A") not in {None, before})


@cluster_test
@pytest.mark.anyio
async def test_other_secrets_are_left_alone(stage: Stage) -> None:
    plain, asked = f"{stage.namespace}-plain", f"{stage.namespace}-asked"
    async with SecretGenerator(stage.client).running():
        await create(stage, secret(plain))
        await create(stage, secret(asked, autogenerate="A"))
        await stage.until("the key", lambda: "A" in values(stage, asked))
    assert len(stage.get(SECRETS, plain)["metadata"]["managedFields"]) == 1
    assert values(stage, plain) == {}


def test_nothing_is_missing_without_an_annotation() -> None:
    assert missing_keys({"metadata": {}}) == []


@pytest.mark.parametrize(
    ("annotations", "pattern"),
    [
        ({}, r"[A-Za-z0-9+/]{40}"),
        ({"encoding": "hex"}, r"[0-9a-f]{40}"),
        ({"encoding": "hex", "length": "8"}, r"[0-9a-f]{8}"),
    ],
)
def test_values_are_as_the_annotations_want_them(annotations: dict[str, str], pattern: str) -> None:
    value = generated(secret("a", None, **annotations), lambda count: bytes(range(count)))
    assert re.fullmatch(pattern, value)
