"""Schemas of the configuration files that Palena generates, written from the specification."""

from pathlib import Path
from typing import Any, Final

import jsonschema
import yaml

FOLDER: Final = Path(__file__).parent


def check(name: str, text: str) -> Any:
    """The content of a configuration file; an AssertionError names what its program would refuse."""
    content = yaml.safe_load(text)
    schema = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    faults = [
        f"{'.'.join(map(str, each.absolute_path))}: {each.message}"
        for each in jsonschema.Draft202012Validator(schema).iter_errors(content)
    ]
    assert not faults, faults
    return content
