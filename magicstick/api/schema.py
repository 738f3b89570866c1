"""What a field type says about its schema beyond what pydantic knows: API-server keywords and CEL rules.

A type carries them as metadata, so that a field, its reader and its schema are written once:
`Annotated[tuple[str, ...], LIST_SET]`. `structural` turns models into schemas for the API server.
"""

from dataclasses import dataclass
from typing import Final, Literal

from pydantic import GetJsonSchemaHandler, JsonValue
from pydantic.config import JsonDict
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

RULES: Final = "x-kubernetes-validations"
PRESERVE_UNKNOWN: Final = "x-kubernetes-preserve-unknown-fields"
LIST_TYPE: Final = "x-kubernetes-list-type"
LIST_MAP_KEYS: Final = "x-kubernetes-list-map-keys"
REQUIRED_KEYWORD: Final = "required-by-schema"
"""Marks a property on its way to the `required` list of its parent; never in a finished schema."""

Reason = Literal["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"]


@dataclass(frozen=True, slots=True, eq=False)
class Keywords:
    """Annotates a type with JSON-schema keywords that the API server enforces, and pydantic does not.

    Equal only to itself, so that an annotated type may be part of a union.
    """

    keywords: JsonDict

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Called by pydantic while it makes the JSON schema of the annotated type."""
        return {**handler(core_schema), **self.keywords}


LIST_SET: Final = Keywords({LIST_TYPE: "set"})
"""The API server refuses duplicates, and merges the items of several writers."""

NULLABLE: Final = Keywords({"nullable": True})
"""The API server stores null instead of dropping or refusing it."""

REQUIRED: Final = Keywords({REQUIRED_KEYWORD: True})
"""The API server asks for it, although readers get along without (objects older than the schema): the
default is theirs alone."""

NOT_EMPTY: Final = Keywords({"minLength": 1})
"""The API server refuses the empty text, although readers get along with it."""

DATE_TIME: Final = Keywords({"format": "date-time"})


def list_map(key: str) -> Keywords:
    """A list that the API server merges by `key`, which no two items may share."""
    return Keywords({LIST_TYPE: "map", LIST_MAP_KEYS: [key]})


@dataclass(frozen=True, slots=True)
class Rule:
    """One CEL rule. The message names the fix; `field_path` (from the rule's node) what to change."""

    cel: str
    message: str
    reason: Reason = "FieldValueInvalid"
    field_path: str = ""

    def render(self) -> JsonDict:
        """The rule as an item of `x-kubernetes-validations`."""
        rendered: JsonDict = {"rule": self.cel, "message": self.message, "reason": self.reason}
        if self.field_path:
            rendered["fieldPath"] = self.field_path
        return rendered


def rules(*those: Rule) -> JsonDict:
    """CEL rules of a node, for a model's `json_schema_extra` or for `Keywords`."""
    rendered: list[JsonValue] = [rule.render() for rule in those]
    return {RULES: rendered}
