"""The base of our models, and what several kinds share (spec: magicstick-api §1.4, §1.5).

How a model states its schema (`structural` reads it off):

- A field's docstring is its description in `kubectl explain`.
- A default other than None, "" and an empty collection is a default of the schema, in specs; those
  three, and whatever comes from a `default_factory`, only say what absence means to a reader.
- `extra="allow"` keeps unknown fields in the stored object, `extra="forbid"` refuses them in `parse`;
  otherwise they are ignored here and dropped by the API server.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, SkipValidation, StrictInt, model_validator
from pydantic.alias_generators import to_camel

from magicstick.api import kinds
from magicstick.api.schema import DATE_TIME, list_map

HOME_NAMESPACE = kinds.HOME_NAMESPACE
"""Where all objects of our kinds live; the operator looks nowhere else."""

APPLIANCE_NAME = "local"
"""The name of the one Appliance."""

DEFAULT_TARGET_NAMESPACE = "ai"
"""Where an instance or a model goes that names no namespace."""

FreeObject = dict[str, SkipValidation[JsonValue]]
"""An object without a schema; the API server keeps whatever is in it, however deep it goes."""

Timestamp = Annotated[str, DATE_TIME]
"""RFC 3339; we write UTC in whole seconds with a trailing Z (spec: magicstick-api §1.4)."""

Count = Annotated[StrictInt, Field(ge=0)]
PositiveCount = Annotated[StrictInt, Field(ge=1)]
TriState = Literal["True", "False", "Unknown"]


class Model(BaseModel):
    """Frozen; fields in camelCase as in the API; null is the same as absent."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, use_attribute_docstrings=True
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: object) -> object:
        if isinstance(data, Mapping):
            return {name: value for name, value in data.items() if value is not None}
        return data


class ApplianceRef(Model):
    """Which Appliance an object belongs to."""

    name: str = APPLIANCE_NAME
    """Name of the Appliance."""
    namespace: str = HOME_NAMESPACE
    """Namespace of the Appliance."""

    @property
    def ours(self) -> bool:
        """False for another Appliance's object, which is left alone, its status included."""
        return (self.namespace, self.name) == (HOME_NAMESPACE, APPLIANCE_NAME)


class Condition(Model):
    """One aspect of an object's state."""

    type: str
    """The aspect, in CamelCase."""
    status: TriState
    """Whether the aspect holds."""
    observed_generation: Count | None = None
    """The generation of the spec that this condition speaks of."""
    last_transition_time: Timestamp
    """When the status last changed from one value to another."""
    reason: str
    """Why, as one CamelCase word."""
    message: str
    """Why, for people: what is waited for, and what to do about it."""


Conditions = Annotated[tuple[Condition, ...], list_map("type")]
ObservedGeneration = Count | None
