"""What the tests take for the schemas of foreign kinds is part of what their projects publish.

Those definitions are not ours to keep: `FOREIGN_CRDS` names a folder with files `<group>_<plural>.yaml`.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hack import yamls
from tests.support import palena_crds

VARIABLE = "FOREIGN_CRDS"
DEFINITIONS = {each["metadata"]["name"]: each for each in palena_crds.definitions()}


def published(name: str) -> dict[str, Any]:
    plural, _, group = name.partition(".")
    folder = os.environ.get(VARIABLE)
    file = Path(folder) / f"{group}_{plural}.yaml" if folder else None
    if file is None or not file.is_file():
        pytest.skip(f"{VARIABLE} names no folder with the definition of {name}")
    found: dict[str, Any] = yamls.load(file.read_text())
    return found


def schema(definition: dict[str, Any], version: str) -> dict[str, Any]:
    (found,) = (each for each in definition["spec"]["versions"] if each["name"] == version)
    node: dict[str, Any] = found["schema"]["openAPIV3Schema"]
    return node


def made_up(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Fields that only ours has, or has of another type; below what is open there may be anything."""
    if theirs.get("x-kubernetes-preserve-unknown-fields") or theirs.get("x-kubernetes-int-or-string"):
        return
    if ours.get("type") != theirs.get("type"):
        yield f"{path}: {ours.get('type')}, not {theirs.get('type')}"
    for name, below in ours.get("properties", {}).items():
        known = theirs.get("properties", {}).get(name, theirs.get("additionalProperties"))
        if isinstance(known, dict):
            yield from made_up(below, known, f"{path}.{name}")
        else:
            yield f"{path}.{name}: not known"
    for member in ("items", "additionalProperties"):
        if isinstance(ours.get(member), dict) and isinstance(theirs.get(member), dict):
            yield from made_up(ours[member], theirs[member], f"{path}[]")


@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_every_field_that_tests_know_is_a_published_one_of_the_same_type(name: str) -> None:
    ours, theirs = DEFINITIONS[name], published(name)
    assert ours["spec"]["group"] == theirs["spec"]["group"]
    assert ours["spec"]["names"]["kind"] == theirs["spec"]["names"]["kind"]
    (version,) = (each["name"] for each in ours["spec"]["versions"])
    assert not list(made_up(schema(ours, version), schema(theirs, version)))


@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_what_is_required_here_is_what_is_required_there(name: str) -> None:
    ours, theirs = DEFINITIONS[name], published(name)
    (version,) = (each["name"] for each in ours["spec"]["versions"])
    here, there = (schema(each, version)["properties"]["spec"] for each in (ours, theirs))
    assert set(there.get("required", ())) == set(here.get("required", ()))


def test_the_definitions_are_structural_and_list_what_they_know() -> None:
    for name, definition in DEFINITIONS.items():
        for version in definition["spec"]["versions"]:
            root = version["schema"]["openAPIV3Schema"]
            assert not root.get("x-kubernetes-preserve-unknown-fields"), name
            assert not root["properties"]["spec"].get("x-kubernetes-preserve-unknown-fields"), name
