"""What `why` says of objects of Palena."""

from dataclasses import replace
from typing import Any

import pytest

from magicstick.api.kinds import (
    LITELLM_INSTANCE,
    PALENA_GATEWAY,
    PALENA_KINDS,
    PALENA_MCP_SERVER,
    PALENA_MODEL,
    PALENA_OBSERVABILITY,
    PALENA_UI,
)
from magicstick.cli.why import placed
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, LEASE, Kind
from magicstick.kube.objects import Resource
from magicstick.runtime.settings import Settings
from magicstick.why.asking import question
from magicstick.why.causes import Explanation, Subject
from magicstick.why.edges import Graph, around
from magicstick.why.explainers import explain, subject_of
from magicstick.why.palena import NEEDED, REFERRED
from tests.support.objects import resource
from tests.support.sight import Shelf, sight

NAMESPACE = "team-one"


def an_object(
    kind: Kind,
    name: str,
    reason: str = "",
    spec: dict[str, Any] | None = None,
    said: dict[str, Any] | None = None,
    **more: Any,
) -> Resource:
    """Ready without a reason, else not ready because of it. `said`: further fields of its status."""
    condition = {"type": "Ready", "status": "False" if reason else "True", "reason": reason or "Good"}
    status = {"phase": "Error" if reason else "Running", "message": "so it is", "observedGeneration": 1}
    metadata = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"uid-{name}",
        "generation": 1,
        "resourceVersion": "5",
    }
    body = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata | more,
        "spec": spec or {},
        "status": {**(said or {}), **status, "conditions": [{**condition, "message": "so it is"}]},
    }
    return resource(body)


def told(shelf: Shelf, kind: Kind, name: str) -> Explanation:
    return explain(Subject(kind, name, NAMESPACE), sight(shelf, None))


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("gateway/gw",), PALENA_GATEWAY),
        (("pgw", "gw"), PALENA_GATEWAY),
        (("palenamodel/gw",), PALENA_MODEL),
        (("chat/gw",), PALENA_UI),
        (("mcp/gw",), PALENA_MCP_SERVER),
    ],
)
def test_objects_of_palena_are_called_by_any_of_their_names(words: tuple[str, ...], kind: Kind) -> None:
    assert question(*words).kind == kind


def test_an_object_is_found_wherever_it_is_and_the_one_that_is_not_ready_first() -> None:
    shelf = Shelf()
    shelf.put(PALENA_GATEWAY, an_object(PALENA_GATEWAY, "gw", namespace="a"))
    shelf.put(
        PALENA_GATEWAY, an_object(PALENA_GATEWAY, "gw", "CRDMissing", namespace="b", resourceVersion="6")
    )
    seen = sight(shelf, None)
    assert subject_of(question("gateway/gw"), seen).namespace == "b"
    assert subject_of(question("gateway/none"), seen).namespace == ""


def test_of_two_of_one_name_the_one_is_meant_whose_namespace_is_given() -> None:
    shelf = Shelf()
    shelf.put(PALENA_GATEWAY, an_object(PALENA_GATEWAY, "gw", namespace="a"))
    shelf.put(
        PALENA_GATEWAY, an_object(PALENA_GATEWAY, "gw", "CRDMissing", namespace="b", resourceVersion="6")
    )
    seen = sight(shelf, None)
    assert subject_of(replace(question("gateway/gw"), namespace="a"), seen).namespace == "a"
    assert subject_of(replace(question("gateway/gw"), namespace="c"), seen).namespace == "c"


@pytest.mark.parametrize(
    ("word", "namespace", "expected"),
    [
        ("gateway/gw", "team-one", ("team-one", {"magicstick_enable_palena": "true"})),
        ("gateway/gw", "", ("", {"magicstick_enable_palena": "true"})),
        ("module/litellm", "elsewhere", ("", {"appliance_namespace": "elsewhere"})),
        ("module/litellm", "", ("", {})),  # as the environment says, or else ai-system
    ],
)
def test_the_namespace_that_is_given_is_that_of_an_object_of_palena_and_else_the_appliances(
    word: str, namespace: str, expected: tuple[str, dict[str, str]]
) -> None:
    asked, flags = placed(question(word), namespace)
    assert (asked.namespace, flags) == expected


def test_what_is_ready_is_said_to_be() -> None:
    shelf = Shelf()
    shelf.put(PALENA_GATEWAY, an_object(PALENA_GATEWAY, "gw"))
    found = told(shelf, PALENA_GATEWAY, "gw")
    assert found.healthy
    assert "Running" in found.state


def test_what_is_not_there_is_looked_for_everywhere() -> None:
    (cause,) = told(Shelf(), PALENA_GATEWAY, "gw").causes
    assert cause.sentence == "does not exist"
    assert cause.hint is not None
    assert "--all-namespaces" in str(cause.hint.command)


def test_a_missing_kind_leads_to_its_definition_and_to_who_brings_it() -> None:
    shelf = Shelf()
    shelf.put(PALENA_GATEWAY, an_object(PALENA_GATEWAY, "gw", "CRDMissing"))
    (cause,) = told(shelf, PALENA_GATEWAY, "gw").causes
    definition = Subject(CUSTOM_RESOURCE_DEFINITION, LITELLM_INSTANCE.crd_name)
    assert definition in cause.because
    (why,) = explain(definition, sight(shelf, None)).causes
    assert why.hint is not None
    assert "LiteLLM operator" in why.hint.text


@pytest.mark.parametrize(
    ("kind", "reason", "command"),
    [
        (PALENA_GATEWAY, "ClusterNotReady", "describe clusters.postgresql.cnpg.io gw-palena-pg"),
        (PALENA_GATEWAY, "MigrationFailed", "describe litellminstances.litellm.palena.ai gw-palena-litellm"),
        (PALENA_GATEWAY, "StatefulSetNotReady", "get pods -l app.kubernetes.io/instance=gw"),
        (PALENA_GATEWAY, "SecretNotFound", "describe palenagateway gw"),
        (PALENA_OBSERVABILITY, "InstanceFailed", "describe palenaobservability gw"),  # of which none is known
    ],
)
def test_the_hint_leads_to_whoever_can_say_more(kind: Kind, reason: str, command: str) -> None:
    said = {
        "database": {"clusterName": "gw-palena-pg"},
        "litellmInstanceRef": {"name": "gw-palena-litellm"},
    }
    shelf = Shelf()
    shelf.put(kind, an_object(kind, "gw", reason, said=said))
    (cause,) = told(shelf, kind, "gw").causes
    assert cause.hint is not None
    assert cause.hint.command == f"kubectl -n {NAMESPACE} {command}"


def test_a_chat_leads_to_the_gateway_and_the_server_that_are_not_ready() -> None:
    shelf = Shelf()
    spec = {
        "gatewayRef": {"name": "gw"},
        "mcpServerRefs": [{"name": "web"}, {"name": "far", "namespace": "b"}],
    }
    shelf.put(PALENA_UI, an_object(PALENA_UI, "chat", "GatewayNotReady", spec))
    shelf.put(PALENA_GATEWAY, an_object(PALENA_GATEWAY, "gw", "ClusterNotReady"))
    shelf.put(PALENA_MCP_SERVER, an_object(PALENA_MCP_SERVER, "web"))
    (cause,) = told(shelf, PALENA_UI, "chat").causes
    assert cause.because == (
        Subject(PALENA_GATEWAY, "gw", NAMESPACE),
        Subject(PALENA_MCP_SERVER, "far", "b"),
    )
    assert "GatewayNotReady" in cause.sentence


def test_a_change_that_nobody_has_seen_leads_to_the_operator() -> None:
    shelf = Shelf()
    shelf.put(PALENA_MODEL, an_object(PALENA_MODEL, "m", generation=2))
    (cause,) = told(shelf, PALENA_MODEL, "m").causes
    assert [each.kind for each in cause.because] == [LEASE]


def test_a_dying_object_names_what_holds_it() -> None:
    shelf = Shelf()
    dying = an_object(
        PALENA_UI, "chat", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["example.com/held"]
    )
    shelf.put(PALENA_UI, dying)
    (cause,) = told(shelf, PALENA_UI, "chat").causes
    assert "example.com/held" in cause.sentence


def test_a_kind_that_cannot_be_read_is_no_absence() -> None:
    shelf = Shelf()
    shelf.put(PALENA_UI, an_object(PALENA_UI, "chat", "GatewayNotReady", {"gatewayRef": {"name": "gw"}}))
    shelf.states[PALENA_UI] = InformerState.FAILING
    (cause,) = told(shelf, PALENA_UI, "chat").causes
    assert "cannot be seen" in cause.sentence


def test_every_link_is_covered_by_an_edge_once_palena_is_read() -> None:
    with_palena = Graph(around(Settings.load(magicstick_enable_palena=True)))
    without = Graph(around(Settings.load()))
    for kind in PALENA_KINDS:
        links = (*REFERRED[kind], LEASE, *([CUSTOM_RESOURCE_DEFINITION] if NEEDED[kind] else []))
        assert all(with_palena.covers(kind, each) for each in links)
        assert not any(without.covers(kind, each) for each in links)
