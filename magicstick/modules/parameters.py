"""The parameters of a module: from what a user wrote to the variables that Flux substitutes."""

import re
from collections.abc import Mapping
from typing import Final

from magicstick.catalogs.modules import ModuleDefinition, Parameter

SIZE_PATTERN: Final = r"^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$"
"""What a storage size looks like (spec: platform §0.2)."""

TEXT_PATTERN: Final = r"^[A-Za-z0-9._/:@+-]*$"
"""What any other value may consist of: substitution is textual, so a quote, a line break or `${` would
change the document around it (spec: platform §0.2)."""

_STORAGE: Final = "storage"


def substitutions(definition: ModuleDefinition, parameters: Mapping[str, object]) -> dict[str, str]:
    """The variables that the given parameters set, in catalog order; blank ones set none.

    Parameters that the catalog does not declare, or declares without a variable, have no part in it.
    """
    return {
        parameter.substitution: text
        for parameter in definition.parameters
        if parameter.substitution and (text := _text(parameters.get(parameter.name)))
    }


def parameter_problem(definition: ModuleDefinition, parameters: Mapping[str, object]) -> str:
    """What is wrong with the first parameter that cannot be substituted; "" when nothing is.

    The sentence names the parameter and the pattern, never the value.
    """
    for parameter in definition.parameters:
        if not parameter.substitution:
            continue
        text, pattern = _text(parameters.get(parameter.name)), _pattern(parameter)
        if text is None:
            return f"spec.parameters.{parameter.name} must be text, a number or an object with `size`"
        if text and not re.fullmatch(pattern, text):
            return f"spec.parameters.{parameter.name} must match {pattern}"
    return ""


def _pattern(parameter: Parameter) -> str:
    return SIZE_PATTERN if parameter.name.lower().endswith(_STORAGE) else TEXT_PATTERN


def _text(value: object) -> str | None:
    """A parameter as trimmed text; "" when it is not set, None when it has no text."""
    if isinstance(value, Mapping):
        size = value.get("size")
        value = value.get("storageSize") if size is None else size
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).strip() if isinstance(value, str | int | float) else None
