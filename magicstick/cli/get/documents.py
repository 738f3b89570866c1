"""Objects as data, as kubectl writes them: sorted fields, no managed fields."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from magicstick.cli.get.items import Whole
from magicstick.cli.get.options import Output
from magicstick.cli.streams import speaks_unicode

DEEPEST_CALLS: Final = 10_000

Document = dict[str, Any]


def document(obj: Whole) -> Document:
    """One object as plain data."""
    plain: Document = msgspec.to_builtins(obj)
    return plain


def listing(objects: Sequence[Whole]) -> Document:
    """Several, as a `v1` List."""
    return {
        "apiVersion": "v1",
        "items": [document(obj) for obj in objects],
        "kind": "List",
        "metadata": {"resourceVersion": ""},
    }


def written(content: Document, output: Output, *, one_line: bool = False) -> str:
    """JSON (indented, or on one line) or YAML (in a stream of several: a document that begins with `---`)."""
    unicode = speaks_unicode()
    with _deep_calls():
        if output is Output.JSON:
            indent = None if one_line else 4
            return json.dumps(content, indent=indent, sort_keys=True, ensure_ascii=not unicode)
        import yaml  # noqa: PLC0415 - nobody else needs it

        quickest = yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper
        text: str = yaml.dump(
            content, Dumper=quickest, sort_keys=True, allow_unicode=unicode, default_flow_style=False
        )
    return ("---\n" if one_line else "") + text.rstrip("\n")


@contextmanager
def _deep_calls() -> Iterator[None]:
    """Within the block, room for objects as deep as the decoder lets them be: four calls a level for YAML."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, DEEPEST_CALLS))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
