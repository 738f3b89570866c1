"""YAML that LibreChat, SearXNG and the MCP server read: texts stay texts for readers of 1.1 and 1.2."""

import re
from typing import Any, Final

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from magicstick.palena.common.yaml_text import yaml_text

NUMBER_12: Final = re.compile(
    r"^[-+]?(0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?)$"
    r"|^[-+]?\.[0-9_]+([eE][-+]?[0-9]+)?$"
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda below: st.lists(below) | st.dictionaries(st.text(), below),
    max_leaves=8,
)


class Reader12(yaml.SafeLoader):
    """Takes plain scalars for numbers as the core schema of YAML 1.2 does, which LibreChat reads."""


Reader12.add_implicit_resolver("tag:yaml.org,2002:float", NUMBER_12, list("-+.0123456789"))
Reader12.add_constructor("tag:yaml.org,2002:float", lambda _, node: ("a number", node.value))


@pytest.mark.parametrize("text", ["1e3", "4E5", "0o17", "0x1F", "12e-3", ".5e2", "1_000", "007", "5e12345"])
def test_a_text_that_some_take_for_a_number_is_quoted(text: str) -> None:
    written = yaml_text({"titleModel": text, "list": [text], text: 1})
    assert yaml.load(written, Loader=Reader12)["titleModel"] == text  # noqa: S506 - a safe loader
    assert yaml.safe_load(written) == {"titleModel": text, "list": [text], text: 1}


@pytest.mark.parametrize("text", ["10s", "1.3.17", "gpt-4o", "v1e3", "1e", "0b"])
def test_other_texts_are_left_plain(text: str) -> None:
    assert yaml_text({"a": text}) == f"a: {text}\n"


@given(JSON)
def test_whatever_is_written_is_read_as_it_was(value: Any) -> None:
    assert yaml.safe_load(yaml_text(value)) == value
