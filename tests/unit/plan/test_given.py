"""What is given is checked before anything is planned: each problem with file, field and what is allowed."""

from collections.abc import Mapping
from typing import Any

import pytest

from magicstick.api.crds import DEFINITIONS
from magicstick.kube.kinds import NODE, POD, Kind
from magicstick.palena.common.secrets import SECRET
from magicstick.plan.documents import InputError
from magicstick.plan.given import Given, check, schema_of
from tests.unit.plan.conftest import body_of, documents_of

HOME = "ai-system"
KINDS: tuple[Kind, ...] = (NODE, POD)


def given(*bodies: Mapping[str, Any]) -> tuple[Given, ...]:
    return check(documents_of(*bodies), KINDS, HOME).given


def problems(*bodies: Mapping[str, Any]) -> tuple[str, ...]:
    with pytest.raises(InputError) as caught:
        check(documents_of(*bodies), KINDS, HOME)
    return caught.value.problems


def module(name: str = "litellm", **spec: Any) -> dict[str, Any]:
    return body_of("ModuleActivation", name, spec={"module": name, **spec})


def test_what_an_object_leaves_out_is_filled_in_as_the_server_would() -> None:
    (found,) = given(module(applianceRef=None, parameters=None) | {"status": None})
    assert str(found.key) == "ai-system/litellm"
    assert found.body["metadata"]["namespace"] == HOME
    assert found.body["spec"] == {"module": "litellm", "enabled": True}


def test_a_value_that_is_not_allowed_is_named_with_what_is() -> None:
    (problem,) = problems(module(enabled="yes"))
    assert problem == "file-1.yaml: spec.enabled must be true or false"


def test_a_field_that_nobody_knows_is_named_with_those_there_are() -> None:
    (problem,) = problems(module(enabledd=True))
    assert problem == (
        "file-1.yaml: spec.enabledd is no field of ModuleActivation; "
        "known are applianceRef, enabled, module, parameters"
    )


def test_every_problem_of_every_document_is_told() -> None:
    wrong = module(enabled=3)
    wrong["metadata"] = {"name": "Not_A_Name", "namespace": "elsewhere", "labels": {"a": 1}}
    found = problems(wrong, body_of("ModelActivation", "demo", spec={"type": "other"}))
    assert [problem.split(":")[0] for problem in found] == ["file-1.yaml"] * 4 + ["file-2.yaml"]
    assert [problem.split()[1] for problem in found] == [
        "metadata.name",
        "metadata.labels.a",
        "metadata.namespace",
        "spec.enabled",
        "spec.type",
    ]


def test_no_problem_repeats_a_value() -> None:
    secret = "a-very-secret-value"
    wrong = body_of("ModuleActivation", "x", spec={"module": "x", "enabled": secret, "parameters": secret})
    wrong["metadata"]["labels"] = secret
    assert secret not in "".join(problems(wrong))


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"kind": "ModuleActivation"}, "apiVersion"),
        ({"apiVersion": "v1", "kind": 3}, "kind"),
        (body_of("ModuleActivation", "x", api_version="appliance.magicstick.dev/v9"), "allowed are"),
        (body_of("Modul", "x"), "appliance.magicstick.dev/v1alpha1 ModuleActivation"),
        (body_of("Appliance", "x") | {"metadata": []}, "metadata"),
        (body_of("Appliance", "x", spec=[1]), "spec"),
        (body_of("Pod", "x", api_version="v1"), "metadata.namespace"),
    ],
)
def test_what_is_no_object_is_refused(body: Mapping[str, Any], word: str) -> None:
    (problem,) = problems(body)
    assert word in problem


def test_two_of_one_name_are_refused() -> None:
    (problem,) = problems(module(), module(enabled=False))
    assert problem == "file-2.yaml: ModuleActivation ai-system/litellm stands in file-1.yaml already"


def test_what_the_operator_does_not_read_is_skipped_and_said() -> None:
    secret = body_of("Secret", "s", api_version="v1", stringData={"password": "hidden"})
    found = check(documents_of(secret, module()), KINDS, HOME)
    assert [each.kind.kind for each in found.given] == ["ModuleActivation"]
    (note,) = found.skipped
    assert "Secret" in note
    assert "hidden" not in note


def test_an_object_as_the_server_gives_it_is_taken() -> None:
    body = module()
    body["metadata"] |= {"namespace": HOME, "uid": "1", "managedFields": [], "finalizers": ["a/b"]}
    body["status"] = {"phase": "Ready", "conditions": []}
    (found,) = given(body)
    assert found.ours
    assert not given(body_of("Node", "n", api_version="v1", status={"allocatable": {}}))[0].ours


@pytest.mark.parametrize(
    ("field", "value", "items"),
    [
        ("finalizers", 7, "texts"),
        ("finalizers", [7], "texts"),
        ("ownerReferences", "someone", "objects with apiVersion, kind, name and uid"),
        ("ownerReferences", [{"name": "someone"}], "objects with apiVersion, kind, name and uid"),
    ],
)
def test_metadata_of_another_form_is_named(field: str, value: object, items: str) -> None:
    wrong = module()
    wrong["metadata"][field] = value
    assert problems(wrong) == (f"file-1.yaml: metadata.{field} must be a list of {items}",)


def test_metadata_that_is_null_is_as_if_it_were_left_out() -> None:
    empty = module()
    empty["metadata"] |= {"finalizers": None, "ownerReferences": None, "labels": None}
    assert given(empty)


def test_the_schema_of_a_kind_is_made_once_for_all_of_its_objects() -> None:
    (definition, *_) = DEFINITIONS
    assert schema_of(definition) is schema_of(definition)


def secret_of(**content: Any) -> dict[str, Any]:
    body = body_of("Secret", "s", api_version="v1", **content)
    body["metadata"]["namespace"] = "n"
    return body


def test_a_secret_in_clear_is_stored_encoded_and_counts_more_than_what_is_encoded() -> None:
    body = secret_of(stringData={"a": "new", "b": "x"}, data={"a": "b2xk", "c": "Yw=="}, type="Opaque")
    (found,) = check(documents_of(body), [SECRET], HOME).given
    assert found.body["data"] == {"a": "bmV3", "b": "eA==", "c": "Yw=="}
    assert "stringData" not in found.body


@pytest.mark.parametrize("field", ["data", "stringData"])
def test_what_is_no_text_in_a_secret_is_named_without_its_value(field: str) -> None:
    with pytest.raises(InputError) as caught:
        check(documents_of(secret_of(**{field: {"pin": 8472}})), [SECRET], HOME)
    assert caught.value.problems == (f"file-1.yaml: {field}.pin must be text, in quotes",)
