"""What is sent means the same to a reader of JSON and to a reader of YAML."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from magicstick.kube.wire import encode

TEXTS = st.text(st.characters(codec="utf-8"))


@pytest.mark.parametrize(
    "character", [0x7F, 0x80, 0x85, 0x9F, 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF], ids=hex
)
def test_characters_that_yaml_does_not_take_as_they_are_go_escaped(character: int) -> None:
    assert encode({"a": f"é{chr(character)}€"}) == b'{"a":"%s\\u%04x%s"}' % (
        "é".encode(),
        character,
        "€".encode(),
    )


@given(TEXTS)
def test_any_text_arrives_through_json_and_through_yaml(text: str) -> None:
    sent = encode({"text": text})
    assert json.loads(sent) == {"text": text}
    assert yaml.safe_load(sent) == {"text": text}
