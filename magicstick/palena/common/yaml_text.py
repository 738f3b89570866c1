"""YAML that is read by others: the same meaning gives the same text, for readers of YAML 1.1 and 1.2."""

import re
from typing import Any, Final

import yaml

_WIDE: Final = 10_000
"""Wider than any line, so that none is folded."""
_NUMBER: Final = re.compile(
    r"[-+]?(?:0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+"
    r"|(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?)"
)
"""What YAML 1.2 takes for a number, `1e3` and `0o17` among it, which YAML 1.1 takes for text."""
_BREAK: Final = re.compile("[\x85\u2028\u2029]")
"""Line breaks of YAML 1.1 alone, which only survive as escapes."""


class _Dumper(yaml.SafeDumper):
    """Quotes texts that some readers would take for something else."""


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    style = "'" if _NUMBER.fullmatch(value) else '"' if _BREAK.search(value) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def yaml_text(value: Any) -> str:
    """The text of a JSON value, with sorted keys."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=True, allow_unicode=True, width=_WIDE)
