"""Whose a generated object is: names, labels, references, and who may touch it (spec: palena §1.1, §1.2)."""

import ast
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import magicstick.palena
from magicstick.api.kinds import LITELLM_INSTANCE, PALENA_GATEWAY, PALENA_KINDS, PALENA_UI
from magicstick.api.names import is_label_value
from magicstick.kube.kinds import ObjectKey
from magicstick.kube.objects import Resource
from magicstick.palena.common import labels
from magicstick.palena.common.hashes import config_hash, secret_hash
from magicstick.palena.common.names import joined, label_value
from magicstick.palena.common.owners import (
    Owner,
    is_foreign,
    is_owned_by,
    is_retained,
    manifest,
    metadata,
    owner_key,
    owner_keys,
    part,
)
from magicstick.palena.common.retention import released, taken_over
from magicstick.runtime.plan import Patch
from tests.support.runtime import resource

GW = Owner(PALENA_GATEWAY, "ai", "gw", "uid-gw")
NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,118}[a-z0-9])?", fullmatch=True)


def made(owner: Owner = GW, **more: str) -> Resource:
    return resource({"metadata": {**metadata(owner, "x", "redis", **more), "uid": "uid-x"}})  # type: ignore[arg-type] # texts alone


@given(NAMES, NAMES)
def test_label_values_are_legal_and_stay_distinct(one: str, other: str) -> None:
    assert is_label_value(label_value(one))
    assert (label_value(one) == label_value(other)) == (one == other)


def test_a_long_label_value_keeps_54_characters_and_8_hex_digits() -> None:
    short, long = "a" * 63, "a" * 64
    assert label_value(short) == short
    head, _, tail = label_value(long).rpartition("-")
    assert (head, len(tail)) == ("a" * 54, 8)


@given(st.lists(NAMES, min_size=1, max_size=3), st.integers(12, 63))
def test_joined_names_stay_within_their_limit(parts: list[str], limit: int) -> None:
    name = joined(*parts, limit=limit)
    assert len(name) <= limit
    assert name == "-".join(parts) or len("-".join(parts)) > limit


def test_a_limit_without_room_for_the_hash_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 10"):
        joined("a" * 20, limit=9)


@pytest.mark.parametrize("kind", PALENA_KINDS)
def test_an_object_carries_the_label_of_its_owners_kind_alone(kind: object) -> None:
    owner = Owner(kind, "ai", "one", "uid")  # type: ignore[arg-type] # a kind, as the parameters say
    found = metadata(owner, "x", "redis")["labels"]
    assert found.keys() & set(labels.OWNER_LABELS.values()) == {labels.OWNER_LABELS[owner.kind]}
    assert found[labels.MANAGED_BY] == "palena-operator"
    assert found[labels.OWNER_UID] == "uid"
    assert found[labels.COMPONENT] == "redis"


def test_an_object_beside_its_owner_has_a_reference_that_blocks_and_controls() -> None:
    (reference,) = metadata(GW, "x", "redis")["ownerReferences"]
    assert reference == {
        "apiVersion": "palena.ai/v1alpha1",
        "kind": "PalenaGateway",
        "name": "gw",
        "uid": "uid-gw",
        "controller": True,
        "blockOwnerDeletion": True,
    }


def test_an_object_elsewhere_has_an_annotation_instead_of_a_reference() -> None:
    found = metadata(GW, "x", "redis", namespace="other")
    assert "ownerReferences" not in found
    assert found["annotations"] == {labels.OWNER: "PalenaGateway/ai/gw"}
    assert owner_key(resource({"metadata": found}), PALENA_GATEWAY) == ObjectKey("ai", "gw")
    assert owner_key(resource({"metadata": found}), PALENA_UI) is None


def test_the_full_name_of_a_long_owner_is_kept_beside_its_label() -> None:
    name = "m" * 120
    found = metadata(Owner(PALENA_GATEWAY, "ai", name, "u"), "x", "redis")
    assert found["annotations"][labels.FULL_NAME] == name


def test_the_owner_is_found_by_its_controlling_reference_alone() -> None:
    live = made()
    assert owner_key(live, PALENA_GATEWAY) == ObjectKey("ai", "gw")
    assert list(owner_keys(PALENA_GATEWAY, live, live, None)) == [ObjectKey("ai", "gw")]
    idle = {"apiVersion": "palena.ai/v1alpha1", "kind": "PalenaGateway", "name": "gw", "uid": "u"}
    other = resource({"metadata": {"name": "x", "namespace": "ai", "ownerReferences": [idle]}})
    assert owner_key(other, PALENA_GATEWAY) is None


def test_an_object_of_another_owner_or_of_nobody_is_foreign() -> None:
    successor = Owner(PALENA_GATEWAY, "ai", "gw", "uid-2")
    assert is_owned_by(made(), GW)
    assert not is_foreign(made(), GW)
    assert is_foreign(made(), successor)
    assert is_foreign(resource({"metadata": {"name": "x"}}), GW)
    assert not is_foreign(None, GW)


def test_a_label_that_somebody_copied_does_not_make_an_object_ours() -> None:
    copied = resource({"metadata": {"name": "x", "labels": {labels.OWNER_UID: "uid-gw"}}})
    assert is_foreign(copied, GW)


def test_what_was_retained_may_be_taken_over_by_a_successor() -> None:
    kept = resource(
        {
            "metadata": {
                "name": "x",
                "labels": {**metadata(GW, "x", "redis")["labels"], labels.RETAINED: "true"},
            }
        }
    )
    assert is_retained(kept)
    assert not is_foreign(kept, Owner(PALENA_GATEWAY, "ai", "gw", "uid-2"))


def test_retaining_takes_our_reference_away_and_leaves_those_of_others() -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "uid-c"}
    meta = metadata(GW, "x", "redis")
    live = resource(
        {"metadata": {**meta, "uid": "uid-x", "ownerReferences": [*meta["ownerReferences"], other]}}
    )
    (patch,) = released(GW, [(LITELLM_INSTANCE, live)])
    assert isinstance(patch, Patch)
    assert patch.uid == "uid-x"
    assert patch.body["metadata"]["labels"] == {labels.RETAINED: "true"}
    assert [each["uid"] for each in patch.body["metadata"]["ownerReferences"]] == ["uid-c"]
    (alone,) = released(GW, [(LITELLM_INSTANCE, made())])
    assert isinstance(alone, Patch)
    assert alone.body["metadata"]["ownerReferences"] is None


def test_what_is_let_go_already_or_somebody_elses_is_left_alone() -> None:
    meta = metadata(GW, "x", "redis")
    gone = {**meta, "ownerReferences": [], "labels": {**meta["labels"], labels.RETAINED: "true"}}
    theirs = metadata(Owner(PALENA_GATEWAY, "ai", "gw", "uid-2"), "x", "redis")
    found = [
        (LITELLM_INSTANCE, each) for each in (None, *(resource({"metadata": m}) for m in (gone, theirs)))
    ]
    assert list(released(GW, found)) == []


def test_what_is_taken_over_loses_the_mark_by_which_people_clear_up() -> None:
    meta = metadata(GW, "x", "redis")
    marked = resource(
        {"metadata": {**meta, "uid": "uid-x", "labels": {**meta["labels"], labels.RETAINED: "true"}}}
    )
    (patch,) = taken_over(LITELLM_INSTANCE, marked, GW)
    assert isinstance(patch, Patch)
    assert patch.body == {"metadata": {"labels": {labels.RETAINED: None}}}
    assert taken_over(LITELLM_INSTANCE, marked, Owner(PALENA_GATEWAY, "ai", "gw", "uid-2")) == ()
    assert taken_over(LITELLM_INSTANCE, made(), GW) == ()


@pytest.mark.req("PA-103")
@pytest.mark.req("PA-055")
def test_an_upstream_object_carries_kind_name_namespace_and_spec_as_given() -> None:
    spec = {"any": {"thing": [1, {"deep": None}]}}
    body = manifest(LITELLM_INSTANCE, metadata(GW, "gw-palena-litellm", "litellm"), spec)
    assert (body["apiVersion"], body["kind"]) == ("litellm.palena.ai/v1alpha1", "LiteLLMInstance")
    assert (body["metadata"]["name"], body["metadata"]["namespace"]) == ("gw-palena-litellm", "ai")
    assert body["spec"] == spec


def test_a_part_names_the_object_by_uid_and_version_and_holds_nothing_else_of_it() -> None:
    live = made()
    body = part(LITELLM_INSTANCE, live, {"spec": {"callbacks": {}}})
    bound = {"uid": "uid-x", "resourceVersion": live.metadata.resource_version}
    assert body["metadata"] == {"name": "x", "namespace": "ai", **bound}
    assert body["spec"] == {"callbacks": {}}


def test_a_configuration_has_one_hash_and_another_has_another() -> None:
    assert config_hash("a: 1\n") == config_hash("a: 1\n")
    assert len(config_hash("")) == 64
    assert config_hash("a: 1\n") != config_hash("a: 2\n")


@given(
    st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=3),
)
def test_the_hash_of_secrets_follows_their_values_and_not_their_order(
    one: dict[str, str], other: dict[str, str]
) -> None:
    turned = dict(reversed(list(one.items())))
    assert secret_hash(one) == secret_hash(turned)
    assert (secret_hash(one) == secret_hash(other)) == (one == other)


@pytest.mark.req("PA-055")
def test_nothing_of_an_upstream_project_is_imported() -> None:
    folder = Path(magicstick.palena.__file__).parent
    imported = {
        name.partition(".")[0]
        for file in folder.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        for name in (
            [each.name for each in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported - sys.stdlib_module_names <= {"magicstick", "msgspec", "pydantic", "structlog", "yaml"}
