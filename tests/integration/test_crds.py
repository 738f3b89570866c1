"""The API server takes our CustomResourceDefinitions, and enforces every line of them."""

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from pydantic.config import JsonDict

from hack.devcluster.cluster import DevCluster
from hack.devcluster.rest import ApiError, Rest
from magicstick.api.crds import DEFINITIONS, render_all
from magicstick.api.kinds import SHIPPED_KINDS
from magicstick.api.parse import InvalidSpec, parse
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, Kind
from magicstick.kube.objects import Resource
from tests.support.crd_bases import BASES, SCHEMAS, Case, Overrides, RuleCase
from tests.support.crd_examples import EXAMPLES
from tests.support.crd_fields import CASES
from tests.support.crd_rules import DEFAULT_PARENTS, DEFAULTS, FREE_FIELDS, RULE_CASES
from tests.support.palena_rules import FORBIDDEN_FREE, FREE_PARENTS
from tests.support.schemas import (
    Constraint,
    Object,
    complete,
    constraints,
    is_boundary,
    nodes,
    put,
    violates,
)

pytestmark = pytest.mark.cluster

NAMESPACE = "default"
KINDS = {kind.kind: kind for kind in SHIPPED_KINDS}
SPECS = {definition.kind.kind: definition.spec for definition in DEFINITIONS}
INVALID = 422
BAD_REQUEST = 400


class Server:
    """The API server with our definitions: creates, updates and reports whether it refused."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest
        self._names = itertools.count(1)

    def install(self, crd: JsonDict) -> Object:
        """Apply a CustomResourceDefinition and wait until it is served."""
        name = self._rest.apply(crd)["metadata"]["name"]
        path = f"{CUSTOM_RESOURCE_DEFINITION.path()}?fieldSelector=metadata.name={name}"
        for _, served in self._rest.watch(path, timeout_s=30):
            if condition(served, "Established") == "True":
                return served
        raise AssertionError(f"{name} was never established")

    def object(self, kind: str, overrides: Overrides | None = None) -> Object:
        """A valid object of `kind`, changed by `overrides`; not sent."""
        obj: Object = {
            "apiVersion": KINDS[kind].api_version,
            "kind": kind,
            "metadata": {"name": f"case-{next(self._names)}", "namespace": NAMESPACE},
            "spec": BASES[kind],
        }
        return changed(obj, overrides or {})

    def create(self, obj: Object, *, dry_run: bool = False, strict: bool = True) -> Object:
        """POST."""
        return self._rest.request("POST", self._path(obj, "", dry_run=dry_run, strict=strict), obj)

    def replace(
        self, obj: Object, *, status: bool = False, dry_run: bool = False, strict: bool = True
    ) -> Object:
        """PUT of the object, or of its status."""
        suffix = f"/{obj['metadata']['name']}{'/status' if status else ''}"
        return self._rest.request("PUT", self._path(obj, suffix, dry_run=dry_run, strict=strict), obj)

    def delete(self, obj: Object) -> None:
        """DELETE."""
        self._rest.request("DELETE", self._path(obj, f"/{obj['metadata']['name']}"))

    def _path(self, obj: Object, suffix: str, *, dry_run: bool = False, strict: bool = True) -> str:
        kind: Kind = KINDS[obj["kind"]]
        query = f"fieldValidation={'Strict' if strict else 'Ignore'}" + ("&dryRun=All" if dry_run else "")
        return f"{kind.path(NAMESPACE)}{suffix}?{query}"


def changed(obj: Object, overrides: Overrides) -> Object:
    for path, value in overrides.items():
        obj = put(obj, path, value)
    return obj


def condition(obj: Object, type_: str) -> str | None:
    """Conditions are null while the server has not looked at a definition yet."""
    conditions = obj.get("status", {}).get("conditions") or []
    found = [each["status"] for each in conditions if each["type"] == type_]
    return found[0] if found else None


def value_at(obj: Any, path: str) -> Any:
    for name in path.replace("[]", ".[]").split("."):
        obj = obj[0] if name == "[]" else obj["example" if name == "*" else name]
    return obj


@pytest.fixture(scope="module")
def server(control_plane: DevCluster) -> Server:
    server = Server(control_plane.rest)
    for crd in render_all().values():
        server.install(crd)
    return server


@pytest.fixture(scope="module")
def stored(server: Server) -> Iterator[dict[str, Object]]:
    """One stored object of each kind, to try statuses on."""
    objects = {kind: server.create(server.object(kind)) for kind in KINDS}
    yield objects
    for obj in objects.values():
        server.delete(obj)


@pytest.mark.req("MS-217")
@pytest.mark.parametrize("file_name", render_all())
def test_the_server_establishes_the_definition_without_complaint(server: Server, file_name: str) -> None:
    crd = render_all()[file_name]

    served = server.install(crd)

    assert condition(served, "NamesAccepted") == "True"
    assert condition(served, "NonStructuralSchema") is None
    assert served["status"]["storedVersions"] == ["v1alpha1"]


@pytest.mark.parametrize("kind", KINDS)
def test_objects_as_people_write_them_pass_strict_validation(server: Server, kind: str) -> None:
    for spec in EXAMPLES[kind]:
        created = server.create({**server.object(kind), "spec": spec}, dry_run=True)

        assert not isinstance(parse(SPECS[kind], stored_object(created)), InvalidSpec)


def stored_object(obj: Object) -> Resource:
    return msgspec.json.decode(msgspec.json.encode(obj), type=Resource)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_field_takes_its_values_and_refuses_all_others(
    server: Server, stored: dict[str, Object], case: Case
) -> None:
    for value in case.accepted:
        send(server, stored, case, value)
    for value in case.refused:
        with pytest.raises(ApiError, match=field_name(case.path)) as refusal:
            send(server, stored, case, value)
        assert refusal.value.code == INVALID, f"{value!r}: {refusal.value}"


def send(server: Server, stored: dict[str, Object], case: Case, value: Any) -> None:
    """A dry run: nothing is kept."""
    overrides = {**case.given, case.path: value}
    if case.path.startswith("status"):
        server.replace(changed(stored[case.kind], overrides), status=True, dry_run=True)
    else:
        server.create(server.object(case.kind, overrides), dry_run=True)


def field_name(path: str) -> str:
    """The last field of a path, which every refusal names."""
    return path.rstrip("[]").removesuffix(".*").rsplit(".", maxsplit=1)[-1]


@pytest.mark.parametrize("case", RULE_CASES, ids=str)
def test_a_rule_admits_what_it_should_and_says_how_to_fix_the_rest(server: Server, case: RuleCase) -> None:
    before = server.create(server.object(case.kind, case.before)) if case.before is not None else None
    try:
        for overrides in case.accepted:
            attempt(server, case.kind, before, overrides)
        for overrides in case.refused:
            with pytest.raises(ApiError) as refusal:
                attempt(server, case.kind, before, overrides)
            assert refusal.value.code == INVALID, overrides
            assert case.message in str(refusal.value), overrides
    finally:
        if before is not None:
            server.delete(before)


def attempt(server: Server, kind: str, before: Object | None, overrides: Overrides) -> None:
    if before is None:
        server.create(server.object(kind, overrides), dry_run=True)
    else:
        server.replace(changed(before, overrides), dry_run=True)


@pytest.mark.parametrize("kind", KINDS)
def test_every_constraint_of_the_schema_has_an_accepted_and_a_refused_example(kind: str) -> None:
    uncovered = [
        f"{constraint.path} {constraint.keyword}"
        for constraint in constraints(SCHEMAS[kind])
        if not is_covered(kind, constraint)
    ]

    assert uncovered == []


def is_covered(kind: str, constraint: Constraint) -> bool:
    cases = [case for case in CASES if (case.kind, case.path) == (kind, constraint.path)]
    accepted = [value for case in cases for value in case.accepted if not violates(constraint, value)]
    refused = [value for case in cases for value in case.refused if violates(constraint, value)]
    return any(is_boundary(constraint, value) for value in accepted) and bool(refused)


def test_every_rule_of_the_schema_has_an_accepted_and_a_refused_example() -> None:
    rules = {
        (kind, path, rule["message"])
        for kind, schema in SCHEMAS.items()
        for path, node in nodes(schema)
        for rule in node.get("x-kubernetes-validations", [])
    }

    covered = {
        (kind, path, message)
        for kind, path, message in rules
        for case in RULE_CASES
        if (case.kind, case.node) == (kind, path) and message.startswith(case.message)
        if case.accepted and case.refused
    }

    assert rules == covered
    assert rules


@pytest.mark.req("MS-228")
@pytest.mark.req("MS-229")
@pytest.mark.parametrize("kind", KINDS)
def test_defaults_appear_in_what_is_stored(server: Server, kind: str) -> None:
    found: dict[str, Any] = {}
    for parents in DEFAULT_PARENTS[kind]:
        created = server.create(server.object(kind, parents), dry_run=True)
        for path in DEFAULTS[kind]:
            with contextlib.suppress(KeyError):
                found.setdefault(path, value_at(created, path))

    assert found == DEFAULTS[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_has_no_default_beyond_those_of_the_api(kind: str) -> None:
    defaults = {path: node["default"] for path, node in nodes(SCHEMAS[kind]) if "default" in node}

    assert defaults == DEFAULTS[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_filled_in_where_the_parent_is_absent(server: Server, kind: str) -> None:
    created = server.create(server.object(kind), dry_run=True)

    assert created["spec"].keys() - BASES[kind].keys() == {
        path.removeprefix("spec.") for path in DEFAULTS[kind] if path.count(".") == 1
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_status_field_survives_a_write(server: Server, kind: str) -> None:
    obj = server.create(server.object(kind))
    status = complete(SCHEMAS[kind]["properties"]["status"])

    written = server.replace({**obj, "status": status}, status=True)
    server.delete(obj)

    assert written["status"] == status


@pytest.mark.parametrize("kind", KINDS)
def test_a_status_is_dropped_from_a_write_to_the_object(server: Server, kind: str) -> None:
    obj = server.object(kind, {"status": complete(SCHEMAS[kind]["properties"]["status"])})

    assert "status" not in server.create(obj, dry_run=True)


@pytest.mark.parametrize(
    ("kind", "path"),
    [(kind, path) for kind, paths in FREE_FIELDS.items() for path in sorted(paths - FORBIDDEN_FREE)],
)
def test_a_free_object_keeps_what_no_schema_declares(
    server: Server, stored: dict[str, Object], kind: str, path: str
) -> None:
    overrides = {**FREE_PARENTS.get(path, {}), f"{path}.unheard": {"of": [1, "two", {"three": None}]}}

    if path.startswith("status"):
        result = server.replace(changed(stored[kind], overrides), status=True, dry_run=True)
    else:
        result = server.create(server.object(kind, overrides), dry_run=True)

    assert value_at(result, f"{path}.unheard") == {"of": [1, "two", {"three": None}]}


@pytest.mark.parametrize("kind", KINDS)
def test_no_other_object_keeps_what_no_schema_declares(server: Server, kind: str) -> None:
    free = {path for path, node in nodes(SCHEMAS[kind]) if node.get("x-kubernetes-preserve-unknown-fields")}
    obj = server.object(kind, {"spec.unheard": "of"})

    assert free == FREE_FIELDS[kind]
    assert "unheard" not in server.create(obj, dry_run=True, strict=False)["spec"]
    with pytest.raises(ApiError, match="unknown field") as refusal:
        server.create(obj, dry_run=True)
    assert refusal.value.code == BAD_REQUEST


def test_the_status_of_each_kind_is_emptied_by_null_only_where_the_api_says_so() -> None:
    nullable = {
        (kind, path)
        for kind, schema in SCHEMAS.items()
        for path, node in nodes(schema)
        if node.get("nullable")
    }

    assert nullable == {
        ("ModelActivation", f"status.{name}")
        for name in ("memoryUsage", "freeTokenStats", "gpuSharing", "podRecovery", "podCreation")
    }
