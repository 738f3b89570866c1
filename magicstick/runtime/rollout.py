"""Applies of workloads that the server refuses because of what somebody else has set in them."""

from collections.abc import Mapping
from typing import Any, Final

from magicstick.kube.kinds import Kind
from magicstick.kube.objects import Resource
from magicstick.runtime.plan import Apply, Patch, Step

RECREATE: Final[Mapping[str, str]] = {"type": "Recreate"}
"""The strategy of a Deployment whose Pods end, whatever happens then, before new ones come."""


def rolled(kind: Kind, body: dict[str, Any], live: Resource | None) -> tuple[Step, ...]:
    """The steps to this object, whatever somebody made of the one that there is.

    Beside `Recreate` the server takes no settings of a rolling update. Those that somebody else left there no
    apply takes away, and each would be refused because of them; so they are patched away first.
    """
    apply = Apply(kind, body)
    wanted = body.get("spec", {}).get("strategy")
    present = None if live is None else live.spec.get("strategy")
    if live is None or wanted != RECREATE or not isinstance(present, Mapping):
        return (apply,)
    if "rollingUpdate" not in present:
        return (apply,)
    alone = {"spec": {"strategy": {**RECREATE, "rollingUpdate": None}}}
    return (Patch(kind, live.metadata.key, live.metadata.uid, alone), apply)
