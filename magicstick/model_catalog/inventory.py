"""What LiteLLM has: `/model/info`, read without trusting it (spec: companions §1.1 and §1.2)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from magicstick.model_catalog.routes import MANAGED, ORIGIN, SOURCE
from magicstick.model_catalog.values import Object, section, text

MESH_OWNER: Final = "magicstick_mesh_owner"
FINGERPRINT: Final = "magicstick_fingerprint"
FIELDS: Final = "magicstick_fields"
"""Which fields were set, since LiteLLM merges what it is sent and never forgets a field."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """One entry of LiteLLM. Keys are masked in it or left out."""

    name: str
    params: Object
    info: Object

    @property
    def id(self) -> str:
        """What calls name it by; empty for one that none can name."""
        return text(self.info.get("id"))

    @property
    def mesh_owned(self) -> bool:
        """Whether it is the private mesh's, whatever else it says."""
        return self.info.get(MESH_OWNER) is not None

    @property
    def managed(self) -> bool:
        """Whether it is ours to change and delete."""
        marked = self.info.get(MANAGED)
        return (marked is True or text(marked).lower() == "true") and not self.mesh_owned

    @property
    def stored(self) -> bool:
        """Whether LiteLLM keeps it in its database; what stands in its configuration cannot be changed."""
        return self.info.get("db_model") is True

    @property
    def source(self) -> str:
        """Of one of ours: where it leads."""
        return text(self.info.get(SOURCE)) or text(self.info.get("source"))

    @property
    def origin(self) -> str:
        """Of one of ours: what asked for it; "" for one of an earlier version."""
        return text(self.info.get(ORIGIN))


class UnreadableInventoryError(ValueError):
    """The answer is not a list of models: it must never look like an empty one."""


def deployments(answer: object) -> tuple[Deployment, ...]:
    """The entries of an answer. Those without a name say nothing and are left out.

    Raises:
        UnreadableInventoryError: the answer has no list `data`.
    """
    listed = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(listed, list):
        raise UnreadableInventoryError("the answer to GET /model/info has no list `data`")
    return tuple(_named(listed))


def _named(listed: Iterable[object]) -> Iterable[Deployment]:
    for each in listed:
        name = each.get("model_name") if isinstance(each, dict) else None
        if isinstance(name, str) and name:
            yield Deployment(name, section(each, "litellm_params"), section(each, "model_info"))
