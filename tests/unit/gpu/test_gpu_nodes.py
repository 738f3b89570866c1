"""What is read of a Node."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.gpu.nodes import MAX_SLOTS, NodeView
from magicstick.kube.objects import Resource
from magicstick.kube.wire import WatchEvent, decode_event
from tests.support.gpu_objects import NVIDIA, node, node_body


@pytest.mark.parametrize("value", ["true", "True", " TRUE ", "tRuE\n"])
def test_a_label_is_set_when_it_says_true_in_any_case(value: str) -> None:
    assert node(labelled={NVIDIA: value}).has(NVIDIA)


@pytest.mark.parametrize("value", ["", "false", "1", "yes", "true.", "tru e"])
def test_any_other_value_is_not_set(value: str) -> None:
    assert not node(labelled={NVIDIA: value}).has(NVIDIA)


def test_a_label_that_is_absent_is_not_set() -> None:
    assert not node().has(NVIDIA)


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("1", 1),
        ("8", 8),
        ("2k", 2000),
        ("1Ki", 1024),
        ("2e2", 200),
        ("+3", 3),
        ("1500m", 1),
        ("999m", 0),
        ("0", 0),
        ("-4", 0),
        ("", 0),
        (" 4", 0),
        ("four", 0),
        ("4 GPUs", 0),
        ("1e60", MAX_SLOTS),
        ("9" * 64, MAX_SLOTS),
        ("9" * 65, 0),
    ],
)
def test_slots_are_read_in_the_whole_grammar_of_quantities(text: str, slots: int) -> None:
    assert node(allocatable={"nvidia.com/gpu": text}).slots("nvidia.com/gpu") == slots


@given(st.text(max_size=80))
def test_no_quantity_raises_and_none_is_below_zero(text: str) -> None:
    assert 0 <= node(allocatable={"x": text}).slots("x") <= MAX_SLOTS


def test_a_node_that_is_not_ready_offers_nothing() -> None:
    assert node(allocatable={"nvidia.com/gpu": "2"}, ready=False).slots("nvidia.com/gpu") == 0


def test_capacity_is_not_even_read() -> None:
    body = node_body()
    body["status"]["capacity"] = {"nvidia.com/gpu": "4"}
    assert msgspec.json.decode(json.dumps(body), type=NodeView).slots("nvidia.com/gpu") == 0


def test_a_cordoned_node_offers_what_it_has() -> None:
    view = node(allocatable={"nvidia.com/gpu": "2"}, cordoned=True)
    assert (view.slots("nvidia.com/gpu"), view.schedulable) == (2, False)


def test_system_and_architecture_fall_back_to_labels() -> None:
    labels = {"kubernetes.io/os": "windows", "kubernetes.io/arch": "arm64"}
    said = node(labelled=labels)
    silent = node(labelled=labels, system="", architecture="")
    assert (said.operating_system, said.architecture) == ("linux", "amd64")
    assert (silent.operating_system, silent.architecture) == ("windows", "arm64")


def test_a_heartbeat_leaves_the_view_as_it_is() -> None:
    assert node(heartbeat="2026-01-01T12:00:00Z") == node(heartbeat="2026-01-01T12:00:10Z")


def test_annotations_of_others_are_not_kept() -> None:
    body = node_body(evidence={"a": 1})
    body["metadata"]["annotations"]["nfd.example.com/long"] = "x" * 10_000
    view = msgspec.json.decode(json.dumps(body), type=NodeView)
    assert dict(view.metadata.annotations) == {"appliance.magicstick.dev/gpu-host-preflight": '{"a": 1}'}


def test_a_node_without_anything_is_read() -> None:
    view = msgspec.json.decode(b'{"metadata": {"name": "n"}}', type=NodeView)
    nulls = {"metadata": {"name": "n"}, "status": {"allocatable": None, "conditions": None}}
    assert (view.ready, view.slots("x"), view.schedulable) == (False, 0, True)
    assert not msgspec.json.decode(json.dumps(nulls), type=NodeView).ready


def test_what_a_write_returned_becomes_the_same_view() -> None:
    body = json.dumps(node_body("n1", NVIDIA, evidence={"a": 1}, allocatable={"nvidia.com/gpu": "1"}))
    written = msgspec.json.decode(body, type=Resource)
    assert msgspec.convert(written, NodeView, from_attributes=True) == msgspec.json.decode(
        body, type=NodeView
    )


def test_the_end_of_a_streamed_list_is_seen() -> None:
    bookmark = {
        "type": "BOOKMARK",
        "object": {
            "kind": "Node",
            "metadata": {"resourceVersion": "7", "annotations": {"k8s.io/initial-events-end": "true"}},
            "spec": {},
            "status": {"nodeInfo": {"bootID": ""}, "daemonEndpoints": {}},
        },
    }
    event = decode_event(msgspec.json.Decoder(WatchEvent[NodeView]), json.dumps(bookmark).encode())
    assert event.object.metadata.annotations["k8s.io/initial-events-end"] == "true"
