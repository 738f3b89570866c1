"""The CustomResourceDefinitions say what the API's description says, and the files say the same."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from hack import yamls
from magicstick.api.crds import DEFINITIONS, Definition, dump, render_all
from magicstick.api.kinds import SHIPPED_KINDS
from magicstick.api.structural import structural
from tests.support.crd_bases import SCHEMAS
from tests.support.crd_outline import COLUMNS, SHORT_NAMES, outline
from tests.support.palena_outline import PLURALS
from tests.support.schemas import nodes

FOLDER = Path(__file__).parents[2] / "manifests" / "crds"
ENVIRONMENTS = {
    "PalenaGateway": ("spec.litellm.extraEnvVars",),
    "PalenaUI": ("spec.extraEnv",),
    "PalenaObservability": ("spec.langfuse.web.extraEnv", "spec.langfuse.worker.extraEnv"),
    "PalenaMCPServer": ("spec.env",),
}
CRDS: dict[str, Any] = {
    crd["spec"]["names"]["kind"]: crd for crd in json.loads(json.dumps(render_all())).values()
}


@pytest.mark.parametrize(("file_name", "crd"), render_all().items())
def test_the_file_is_what_the_models_generate(file_name: str, crd: Any) -> None:
    assert (FOLDER / file_name).read_text() == dump(crd), "write the files anew with `magicstick crds`"


def test_there_is_a_file_for_each_kind_and_no_other_definition() -> None:
    files = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}

    assert files == set(render_all())
    assert list(render_all()) == [f"{kind.plural}.yaml" for kind in SHIPPED_KINDS]


def test_a_file_reads_back_as_the_definition_and_has_no_anchors() -> None:
    for crd in render_all().values():
        assert yamls.load(dump(crd)) == crd
        assert not re.search(r"[:-] [&*]\w", dump(crd))


@pytest.mark.req("MS-217")
@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.kind.kind)
def test_a_definition_names_its_kind_as_the_api_does(definition: Definition) -> None:
    kind = definition.kind
    crd = CRDS[kind.kind]

    assert crd["metadata"] == {
        "name": kind.crd_name,
        "labels": {"app.kubernetes.io/name": "magicstick-operator", "app.kubernetes.io/component": "crd"},
    }
    palena = kind.kind.startswith("Palena")
    assert crd["spec"]["group"] == ("palena.ai" if palena else "appliance.magicstick.dev")
    assert crd["spec"]["scope"] == "Namespaced"
    assert crd["spec"]["names"] == {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": PLURALS.get(kind.kind, f"{kind.kind.lower()}s"),
        "singular": kind.kind.lower(),
        "shortNames": SHORT_NAMES[kind.kind],
        "categories": ["palena" if palena else "magicstick"],
    }


@pytest.mark.req("MS-217")
@pytest.mark.parametrize("kind", CRDS)
def test_there_is_one_version_with_a_status_subresource(kind: str) -> None:
    versions = CRDS[kind]["spec"]["versions"]

    assert [(each["name"], each["served"], each["storage"]) for each in versions] == [
        ("v1alpha1", True, True)
    ]
    assert versions[0]["subresources"] == {"status": {}}
    assert SCHEMAS[kind]["required"] == ["spec"]


@pytest.mark.parametrize("kind", CRDS)
def test_the_plain_columns_are_those_of_the_api(kind: str) -> None:
    columns = CRDS[kind]["spec"]["versions"][0]["additionalPrinterColumns"]

    plain = [
        f"{each['name']}:{each['type']}={each['jsonPath']}" for each in columns if "priority" not in each
    ]
    assert " ".join(plain) == COLUMNS[kind]


@pytest.mark.parametrize("kind", CRDS)
def test_wide_columns_show_readiness_wherever_there_are_conditions(kind: str) -> None:
    columns = CRDS[kind]["spec"]["versions"][0]["additionalPrinterColumns"]
    wide = [each["name"] for each in columns if each.get("priority") == 1]

    conditions = "conditions" in SCHEMAS[kind]["properties"]["status"]["properties"]
    shown = [name for name in ("Ready", "Phase") if f"{name}:" in COLUMNS[kind]]
    expected = ["Ready", "Reason", "Message"] if conditions else ["Message"]
    if kind.startswith("Palena") and "Phase" not in shown:
        expected = ["Phase", *expected]
    assert wide == [name for name in expected if name not in shown]


@pytest.mark.parametrize("kind", CRDS)
def test_the_schema_has_exactly_the_fields_of_the_api(kind: str) -> None:
    declared = {
        path: node["type"]
        for path, node in nodes(SCHEMAS[kind])
        if re.fullmatch(r"(spec|status)\..*[A-Za-z0-9]", path)
    }

    assert declared == outline(kind)


@pytest.mark.parametrize("kind", CRDS)
def test_every_field_is_explained_in_whole_sentences_of_its_own(kind: str) -> None:
    for path, node in nodes(SCHEMAS[kind]):
        if path and not path.endswith(("[]", "*")) and path != "metadata":
            description = node.get("description", "")
            assert re.fullmatch(r"[A-Z`].*[.]", description), f"{path}: {description!r}"
            assert "spec:" not in description
            assert "  " not in description


@pytest.mark.parametrize("kind", CRDS)
def test_integers_are_of_64_bits_and_a_status_has_no_defaults(kind: str) -> None:
    for path, node in nodes(SCHEMAS[kind]):
        if node.get("type") == "integer":
            assert node["format"] == "int64", path
        assert not (path.startswith("status") and "default" in node), path


def test_every_rule_names_the_fix_and_the_field() -> None:
    rules = [
        rule
        for schema in SCHEMAS.values()
        for _, node in nodes(schema)
        for rule in node.get("x-kubernetes-validations", [])
    ]

    for rule in rules:
        assert rule["reason"].startswith("FieldValue")
        assert re.search(r"\b(set|remove|delete|create|must be)\b", rule["message"]), rule["message"]


@pytest.mark.parametrize("kind", CRDS)
def test_conditions_merge_by_type_and_lists_of_principals_are_sets(kind: str) -> None:
    lists = {
        path: (node["x-kubernetes-list-type"], node.get("x-kubernetes-list-map-keys"))
        for path, node in nodes(SCHEMAS[kind])
        if "x-kubernetes-list-type" in node
    }
    expected: dict[str, Any] = {}
    if kind != "HostOperation":
        expected["status.conditions"] = ("map", ["type"])
    if kind == "AppInstance":
        expected |= {f"spec.access.sharing.{name}": ("set", None) for name in ("users", "groups")}
    expected |= {path: ("map", ["name"]) for path in ENVIRONMENTS.get(kind, ())}
    if kind == "Appliance":
        expected["status.seededModules"] = ("set", None)

    assert lists == expected


def test_what_a_structural_schema_cannot_express_is_an_error_and_not_lost() -> None:
    class Either(BaseModel):
        value: int | str

    with pytest.raises(TypeError, match="anyOf"):
        structural(Either, defaults=True)


def test_an_optional_field_may_be_absent_and_not_null() -> None:
    class Optional(BaseModel):
        value: int | None = None

    assert structural(Optional, defaults=True)["properties"] == {
        "value": {"type": "integer", "format": "int64"}
    }


def test_forbidden_extras_leave_no_trace_and_allowed_ones_are_kept() -> None:
    class Closed(BaseModel):
        model_config = ConfigDict(extra="forbid")
        value: str

    class Open(Closed):
        model_config = ConfigDict(extra="allow")

    closed, opened = structural(Closed, defaults=True), structural(Open, defaults=True)

    assert opened == closed | {"x-kubernetes-preserve-unknown-fields": True}
    assert "additionalProperties" not in closed


def test_defaults_are_left_out_on_demand() -> None:
    class Defaulted(BaseModel):
        value: bool = False

    assert structural(Defaulted, defaults=False)["properties"] == {"value": {"type": "boolean"}}
    assert structural(Defaulted, defaults=True)["properties"] == {
        "value": {"type": "boolean", "default": False}
    }
