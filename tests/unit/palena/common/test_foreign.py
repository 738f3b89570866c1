"""Foreign kinds: whether they are served, with which fields, and what their objects say."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.api.kinds import CNPG_CLUSTER, LITELLM_INSTANCE
from magicstick.kube.discovery import CrdView, Discovery
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.store import Store
from magicstick.palena.common.children import condition_holds, condition_of, number, replicas, text
from magicstick.palena.common.edges import definitions, gateway_changed, schema
from magicstick.palena.common.phases import Weight
from magicstick.palena.common.prerequisites import Prerequisites, check
from magicstick.palena.common.schemas import SchemaNode, SchemaView, fit
from tests.support import palena_crds
from tests.support.runtime import resource


def definition(
    name: str, kind: str, version: str = "v1", *, established: bool = True, number_: int = 1
) -> CrdView:
    body = {
        "metadata": {"name": name, "uid": "u", "resourceVersion": str(number_)},
        "spec": {"names": {"kind": kind}, "versions": [{"name": version, "served": True}]},
        "status": {"conditions": [{"type": "Established", "status": str(established)}]},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=CrdView)


def served(*views: CrdView, synced: bool = True) -> Discovery:
    store = Store[CrdView]("definitions")
    if synced:
        store.replace(views, 10)
    return Discovery(store)


CLUSTER = definition("clusters.postgresql.cnpg.io", "Cluster")


@pytest.mark.req("PA-102")
@pytest.mark.parametrize(
    ("view", "counts"),
    [
        (CLUSTER, True),
        (definition("clusters.postgresql.cnpg.io", "Bunch"), False),
        (definition("clusters.example.com", "Cluster"), False),
        (definition("clusters.postgresql.cnpg.io", "Cluster", "v2"), False),
        (definition("clusters.postgresql.cnpg.io", "Cluster", established=False), False),
    ],
)
def test_a_kind_counts_only_with_its_group_its_kind_and_its_version(view: CrdView, counts: bool) -> None:  # noqa: FBT001 - a parameter of the table
    found = check(served(view), [CNPG_CLUSTER])
    assert found.met is counts
    assert (CNPG_CLUSTER in found.missing) is not counts


@pytest.mark.req("PA-006")
def test_every_missing_kind_is_named_and_all_present_is_said() -> None:
    missing = check(served(), [CNPG_CLUSTER, LITELLM_INSTANCE]).verdict()
    assert (missing.state, missing.reason, missing.weight) == ("False", "CRDMissing", Weight.PREREQUISITE)
    assert "Cluster.postgresql.cnpg.io" in missing.message
    assert "LiteLLMInstance.litellm.palena.ai" in missing.message
    present = check(served(CLUSTER), [CNPG_CLUSTER]).verdict()
    assert (present.state, present.reason) == ("True", "AllPresent")


@pytest.mark.req("PA-006")
def test_definitions_that_cannot_be_read_are_an_error_and_no_absence() -> None:
    found = check(served(synced=False), [CNPG_CLUSTER])
    assert found == Prerequisites(unknown=True)
    verdict = found.verdict("Synced")
    assert (verdict.type, verdict.state, verdict.reason) == ("Synced", "Unknown", "DiscoveryFailed")
    assert verdict.weight is Weight.FAILED


def test_a_definition_that_comes_goes_or_changes_its_versions_wakes_everybody_and_others_nobody() -> None:
    everybody = [ObjectKey("ai", "gw"), ObjectKey("ai", "other")]
    edge = definitions([CNPG_CLUSTER], lambda: everybody, "why")
    later = definition("clusters.postgresql.cnpg.io", "Cluster", "v2")
    other = definition("widgets.example.com", "Widget")
    assert edge.changed(None, CLUSTER)
    assert edge.changed(CLUSTER, None)
    assert edge.changed(CLUSTER, later)
    assert not edge.changed(CLUSTER, definition("clusters.postgresql.cnpg.io", "Cluster", number_=2))
    assert not edge.changed(None, other)
    assert edge.wakes(None, CLUSTER) == everybody


# --- schemas ------------------------------------------------------------------------------------------------


def node(body: Any) -> SchemaNode:
    return msgspec.json.decode(msgspec.json.encode(body), type=SchemaNode)


OBJECT = {"type": "object"}
SCHEMA = node(
    {
        **OBJECT,
        "properties": {
            "spec": {
                **OBJECT,
                "properties": {
                    "plain": {"type": "string"},
                    "map": {
                        **OBJECT,
                        "additionalProperties": {**OBJECT, "properties": {"a": {"type": "string"}}},
                    },
                    "any": {**OBJECT, "additionalProperties": True},
                    "free": {**OBJECT, "x-kubernetes-preserve-unknown-fields": True},
                    "list": {"type": "array", "items": {**OBJECT, "properties": {"a": {"type": "string"}}}},
                    "either": {"x-kubernetes-int-or-string": True},
                },
            }
        },
    }
)


def test_what_the_served_schema_lacks_is_left_out_and_named() -> None:
    body = {
        "apiVersion": "a/v1",
        "kind": "A",
        "metadata": {"name": "x"},
        "spec": {
            "plain": "p",
            "gone": 1,
            "map": {"k": {"a": "1", "b": 2}},
            "any": {"deep": {"er": 1}},
            "free": {"deep": {"er": 1}},
            "list": [{"a": "1"}, {"b": 2}],
            "either": 3,
        },
    }
    fitted = fit(body, SCHEMA)
    assert fitted.dropped == ("spec.gone", "spec.map.k.b", "spec.list[1].b")
    assert fitted.value["metadata"] == {"name": "x"}
    assert fitted.value["spec"] == {
        "plain": "p",
        "map": {"k": {"a": "1"}},
        "any": {"deep": {"er": 1}},
        "free": {"deep": {"er": 1}},
        "list": [{"a": "1"}, {}],
        "either": 3,
    }


def test_an_unknown_schema_leaves_an_object_as_it_is() -> None:
    assert fit({"spec": {"a": 1}}, None).value == {"spec": {"a": 1}}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["plain", "map", "any", "free", "list", "a"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(JSON)
def test_fitting_is_done_once_and_only_takes_away(spec: Any) -> None:
    once = fit({"spec": spec}, SCHEMA)
    again = fit(once.value, SCHEMA)
    assert (again.value, again.dropped) == (once.value, ())
    assert once.dropped or once.value == {"spec": spec}


def test_a_part_of_a_schema_is_found_by_its_path() -> None:
    assert SCHEMA.at("spec", "plain") == node({"type": "string"})
    assert SCHEMA.at("spec", "none", "further") is None


@pytest.mark.parametrize("kind", [CNPG_CLUSTER, LITELLM_INSTANCE])
def test_the_schema_of_the_version_that_is_written_is_read_from_a_definition(kind: Kind) -> None:
    (body,) = (each for each in palena_crds.definitions() if each["metadata"]["name"] == kind.crd_name)
    view = msgspec.json.decode(msgspec.json.encode(body), type=SchemaView)
    found = view.schema_of(kind)
    assert found is not None
    assert found.at("spec") is not None
    assert view.schema_of(Kind(kind.group, "v0", kind.kind, kind.plural)) is None


def test_another_schema_wakes_everybody_and_a_new_label_nobody() -> None:
    (body,) = (
        each for each in palena_crds.definitions() if each["metadata"]["name"] == CNPG_CLUSTER.crd_name
    )
    before = msgspec.json.decode(msgspec.json.encode(body), type=SchemaView)
    labelled = msgspec.structs.replace(
        before, metadata=msgspec.structs.replace(before.metadata, labels={"a": "b"})
    )
    edge = schema(CNPG_CLUSTER, lambda: ())
    assert edge.name == CNPG_CLUSTER.crd_name
    assert not edge.changed(before, labelled)
    assert edge.changed(before, None)


# --- statuses -----------------------------------------------------------------------------------------------


def live(status: dict[str, Any], generation: int = 2, spec: dict[str, Any] | None = None) -> Any:
    return resource(
        {"metadata": {"name": "x", "generation": generation}, "spec": spec or {}, "status": status}
    )


@pytest.mark.parametrize(
    ("status", "available"),
    [
        ({}, False),
        ({"readyReplicas": 1, "observedGeneration": 2}, True),
        ({"readyReplicas": 1, "observedGeneration": 1}, False),
        ({"readyReplicas": 0, "observedGeneration": 2}, False),
        ({"readyReplicas": "1", "observedGeneration": 2}, False),
    ],
)
def test_a_workload_is_available_by_what_its_controller_saw_last(
    status: dict[str, Any], *, available: bool
) -> None:
    found = replicas(live(status, spec={"replicas": 2}))
    assert found.available is available
    assert found.wanted == 2
    assert replicas(None).available is False
    assert replicas(live(status)).wanted == 1


def test_a_condition_of_an_earlier_generation_says_nothing() -> None:
    ready = {"type": "Ready", "status": "True"}
    assert condition_holds(live({"conditions": [ready]}), "Ready")
    assert condition_holds(live({"conditions": [{**ready, "observedGeneration": 2}]}), "Ready")
    assert not condition_holds(live({"conditions": [{**ready, "observedGeneration": 1}]}), "Ready")
    assert condition_of(live({"conditions": "none"}), "Ready") == {}
    assert condition_of(None, "Ready") == {}


def test_texts_and_numbers_of_foreign_objects_are_believed_only_as_such() -> None:
    fields = {"a": {"b": "x", "n": 3, "t": True}}
    assert (text(fields, "a", "b"), text(fields, "a", "n"), text(fields, "a", "b", "c")) == ("x", "", "")
    assert (number(fields, "a", "n"), number(fields, "a", "t"), number(fields, "a", "b")) == (3, None, None)


def test_consumers_hear_of_a_gateway_only_what_concerns_them() -> None:
    def gateway(**status: Any) -> Any:
        return live({"endpoint": "http://a", **status})

    ready = {"type": "Ready", "status": "True", "observedGeneration": 2, "message": "m"}
    before = gateway(conditions=[ready])
    assert not gateway_changed(
        before, gateway(conditions=[{**ready, "message": "n"}], database={"phase": "x"})
    )
    assert gateway_changed(before, gateway(conditions=[{**ready, "status": "False"}]))
    assert gateway_changed(before, gateway(conditions=[ready], litellmInstanceRef={"name": "x"}))
    assert gateway_changed(before, None)
