"""Objects that are nested deeper than the decoder can follow, or older than the schema of their kind."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.kube.errors import Unreadable
from magicstick.kube.objects import Resource
from magicstick.kube.wire import ListPage, WatchEvent, decode, decode_event, decoder_of, shallow

TEXTS = st.text(alphabet='ab{}[]"\\\n')
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=30,
)


def cut(value: object, depth: int) -> object:
    """What `shallow` means, on the value itself."""
    if not isinstance(value, list | dict):
        return value
    if depth == 0:
        return None
    if isinstance(value, list):
        return [cut(each, depth - 1) for each in value]
    return {name: cut(each, depth - 1) for name, each in value.items()}


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b'"}{"' + b"}" * levels


def deep_object(name: str) -> bytes:
    return b'{"metadata":{"name":"%s","resourceVersion":"7"},"spec":{"free":%s,"module":"m"}}' % (
        name.encode(),
        nested(5000),
    )


@given(VALUES, st.integers(min_value=1, max_value=6))
def test_what_lies_too_deep_becomes_null_and_the_rest_stays(value: object, depth: int) -> None:
    assert json.loads(shallow(json.dumps(value).encode(), depth)) == cut(value, depth)


def test_a_deep_object_leaves_its_neighbours_in_a_list_readable() -> None:
    plain = b'{"metadata":{"name":"plain"},"spec":{"module":"p"}}'
    body = b'{"metadata":{"resourceVersion":"9"},"items":[%s,%s]}' % (deep_object("deep"), plain)
    page = decode(decoder_of(ListPage[Resource]), body)
    assert [(item.metadata.name, item.spec["module"]) for item in page.items] == [
        ("deep", "m"),
        ("plain", "p"),
    ]


def test_an_event_with_a_deep_object_is_read() -> None:
    line = b'{"type":"ADDED","object":%s}' % deep_object("deep")
    event = decode_event(decoder_of(WatchEvent[Resource]), line)
    assert (event.type, event.object.metadata.resource_version, event.object.spec["module"]) == (
        "ADDED",
        "7",
        "m",
    )


def test_the_decoder_does_give_up_on_such_an_object() -> None:
    with pytest.raises(RecursionError):
        msgspec.json.decode(deep_object("deep"))


# --- objects of another form ---------------------------------------------------------------------


def formless(name: str, part: str, value: object) -> dict[str, object]:
    """An object that was stored before its kind had a schema."""
    return {"metadata": {"name": name, "resourceVersion": "7"}, "spec": {"module": "m"}, part: value}


@pytest.mark.parametrize("value", ["text", 7, None, [1]])
@pytest.mark.parametrize("part", ["spec", "status", "data"])
def test_an_object_whose_parts_are_no_objects_hides_none_of_its_neighbours(part: str, value: object) -> None:
    page = {
        "metadata": {"resourceVersion": "9"},
        "items": [formless("bad", part, value), formless("good", "status", {"phase": "Ready"})],
    }
    bad, good = decode(decoder_of(ListPage[Resource]), json.dumps(page).encode()).items
    assert (bad.metadata.name, getattr(bad, part)) == ("bad", {})
    assert (good.spec, good.status) == ({"module": "m"}, {"phase": "Ready"})


def test_such_an_object_is_an_event_like_any_other() -> None:
    line = json.dumps({"type": "ADDED", "object": formless("bad", "spec", "text")}).encode()
    event = decode_event(decoder_of(WatchEvent[Resource]), line)
    assert (event.type, event.object.metadata.name, event.object.spec) == ("ADDED", "bad", {})


def test_what_is_wrong_elsewhere_is_still_unreadable() -> None:
    with pytest.raises(Unreadable, match=r"\$\.metadata"):
        decode(decoder_of(Resource), b'{"metadata":{"name":7},"spec":"text"}')
    with pytest.raises(Unreadable):
        decode(decoder_of(Resource), b"[1]")
