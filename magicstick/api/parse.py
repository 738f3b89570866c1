"""From a stored object to a model of its spec or status, without ever raising for what is in it.

The API server checks objects against our schema, but it also serves objects that were stored before
the schema said so, or while no schema was installed. One such poison object is a status of its own,
never an exception.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from magicstick.kube.objects import Resource

M = TypeVar("M", bound=BaseModel)
PathStep = str | int

_WANTED = {
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "extra_forbidden": "is no known field: remove it",
    "finite_number": "must be a finite number",
    "float_type": "must be a number",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "int_type": "must be a whole number",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "missing": "is required",
    "model_type": "must be an object",
    "string_pattern_mismatch": "must match {pattern}",
    "string_too_long": "must have a length of at most {max_length}",
    "string_too_short": "must have a length of at least {min_length}",
    "string_type": "must be text",
    "too_long": "must have at most {max_length} items",
    "tuple_type": "must be a list",
    "value_error": "{error}",
}


@dataclass(frozen=True, slots=True)
class InvalidSpec:
    """The first field of a spec that cannot be what it is.

    `field` is its path, `spec.access.role`; `allowed` completes the sentence that begins with it,
    "must be 'user', 'viewer' …". Neither ever contains the value, which may be a secret.
    """

    field: str
    allowed: str

    def __str__(self) -> str:
        return f"{self.field} {self.allowed}"


def parse(model: type[M], resource: Resource) -> M | InvalidSpec:
    """The spec of `resource` as `model`, or the first field that does not fit and what would.

    Fields that the model does not know never make an object invalid, unless the model forbids them.
    """
    try:
        return model.model_validate(resource.spec)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        return InvalidSpec(_path("spec", first["loc"]), _wanted(first))


def read_status(model: type[M], resource: Resource) -> M:
    """The status of `resource` as `model`; a field that does not fit is as if it were not set.

    A status is derived, so nothing is lost: it is computed anew from what is. Every field of `model`
    must be optional.
    """
    try:
        return model.model_validate(resource.status)
    except ValidationError as error:
        unreadable = {str(detail["loc"][0]) for detail in error.errors() if detail["loc"]}
    return model.model_validate(_without(resource.status, unreadable))


def _without(fields: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def _wanted(detail: ErrorDetails) -> str:
    """Pydantic's own sentence stands in for a kind of error that the table does not know."""
    template = _WANTED.get(detail["type"])
    if template is None:
        return f"is refused: {detail['msg']}"
    return template.format_map(detail.get("ctx", {}))


def _path(root: str, steps: Sequence[PathStep]) -> str:
    """`spec.local.args[0]`, `spec.local.env["a.b"]`."""
    path = root
    for step in steps:
        if isinstance(step, str) and step.replace("_", "").replace("-", "").isalnum():
            path += f".{step}"
        else:
            path += f"[{step}]" if isinstance(step, int) else f'["{step}"]'
    return path
