"""What a decision says should be true: the `Plan`, and the steps it is made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from magicstick.kube.kinds import Kind, ObjectKey

Body = Mapping[str, Any]
"""An object as the API takes it: apiVersion, kind, metadata, spec, …"""


@dataclass(frozen=True, slots=True)
class Apply:
    """Make `body` true with server-side apply; nothing is sent when the cache shows it already is."""

    kind: Kind
    body: Body


@dataclass(frozen=True, slots=True)
class ApplyPart:
    """Make these fields true of an object that another field manager has made and keeps.

    Server-side apply of a part, by which the fields become ours beside those of others; what we set
    before and `body` has no more is given back. `body` names the object by its `metadata.uid`, and holds
    nothing of what others set: an object that is gone, dying or replaced is left alone, never made anew.
    """

    kind: Kind
    body: Body


@dataclass(frozen=True, slots=True)
class Create:
    """Create `body` unless an object of its name exists; an existing one is left entirely alone."""

    kind: Kind
    body: Body


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete exactly the object with this uid; one that replaced it is not touched."""

    kind: Kind
    key: ObjectKey
    uid: str
    resource_version: str | None = None
    """Only in this version, where what was seen of it is the reason; any change of it is seen first."""


@dataclass(frozen=True, slots=True)
class Patch:
    """Set these fields of exactly the object with this uid, which somebody else made and keeps.

    A JSON merge patch of labels, annotations, spec or data: what it does not name stays. Nothing is sent
    when the cache shows that it already is so; an object that is gone or dying is left alone.
    """

    kind: Kind
    key: ObjectKey
    uid: str
    body: Body


Step = Apply | ApplyPart | Create | Delete | Patch


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that a person should hear of although the state is what it is: a warning Event, once."""

    reason: str
    message: str


class Finalizer(StrEnum):
    """What becomes of our finalizer on the primary object."""

    KEEP = "keep"
    ADD = "add"
    """Before the first step, which waits for the next decision. Never carried out on a dying object."""
    REMOVE = "remove"
    """Once no step writes any more. The plan's status is not written: it could keep the object."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One decision.

    `outcome` is a key of the reconciler's requeue table. `status` is the complete new status without
    `conditions[].lastTransitionTime` where the status of a condition did not change (the writer
    fills it in); None writes no status. Steps are carried out in order, up to the first that fails. If
    any of them wrote, the decision is asked again and only the status of a plan that has nothing left
    to write counts: a plan only ever speaks of the next steps, not of all. `independent` steps are all
    tried; the first failure among them counts afterwards.
    """

    outcome: str
    steps: tuple[Step, ...] = ()
    finalizer: Finalizer = Finalizer.KEEP
    status: Mapping[str, Any] | None = None
    independent: bool = False
    log: Mapping[str, Any] = field(default_factory=dict)
    """Extra fields for the one log line that is written when phase or reason changes."""
    notices: tuple[Notice, ...] = ()
    """Each is told when it appears, and again only after a plan without it."""
