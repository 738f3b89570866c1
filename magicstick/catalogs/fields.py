"""Field types that several catalogs share."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StringConstraints

from magicstick.api.base import Count, PositiveCount
from magicstick.api.names import DNS_LABEL_LIMIT, DNS_LABEL_PATTERN

__all__ = [
    "Count",
    "CrdName",
    "DnsLabel",
    "Engine",
    "Flag",
    "KubernetesVersion",
    "Names",
    "Number",
    "Patterns",
    "PositiveCount",
    "QualifiedName",
    "Quantity",
    "RepositoryPath",
    "Text",
    "VariableName",
]

Text = Annotated[str, Field(min_length=1)]
Names = tuple[Text, ...]
Flag = StrictBool
Number = StrictInt
Quantity = Annotated[str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$")]
"""An amount of memory; bare digits are MiB where a field says so (README decision 16)."""
DnsLabel = Annotated[str, StringConstraints(max_length=DNS_LABEL_LIMIT, pattern=DNS_LABEL_PATTERN)]
CrdName = Annotated[
    str,
    StringConstraints(
        max_length=253, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$"
    ),
]
"""The name of a CustomResourceDefinition: `<plural>.<group>`."""
QualifiedName = Annotated[
    str,
    StringConstraints(
        max_length=253 + 1 + 63,
        pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
    ),
]
"""The key of a label, or the name of an extended resource: `[<domain>/]<name>`."""
KubernetesVersion = Annotated[
    str, StringConstraints(pattern=r"^(v?[0-9]{1,9}\.[0-9]{1,9}(\.[0-9]{1,9})?([-+].*)?)?$")
]
"""`X.Y[.Z]`; empty for any."""
RepositoryPath = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$")
]
"""Relative, without `./`, `..` or hidden folders: it must stay inside the source."""
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""As Flux's substitution takes it (spec: platform §0.2)."""
Engine = Text
"""An engine's key as catalogs and models spell it: `VLLM`, `OLlama`, `FreeToken`."""


def _is_expression(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"must be regular expressions: {error}") from error
    return pattern


Patterns = tuple[Annotated[str, AfterValidator(_is_expression)], ...]
