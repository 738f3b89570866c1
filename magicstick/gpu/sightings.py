"""Which nodes carry a label, as far as decisions may build on it: labels that come and go do not count.

    absent ──(there)──→ appearing ──(stood SETTLE_S)──→ counted ──(gone)──→ missing
       ↑                    │ gone at once                 ↑                  │
       └────────────────────┘                              └──────(there)─────┤
       └──────────────────────────────(gone for LOSS_HOLD_S)──────────────────┘

A label counts once it stood uninterrupted for `settle_s`, and is lost once it was gone uninterrupted for
`hold_s`. So a label that flaps counts, or does not, as it did before the flapping began. A node that is
deleted is a node whose labels are gone: one that returns under its name finds everything as it was.

Guarantees
    - Every change that the store of Nodes tells of is noted at its time, however seldom anybody looks.
    - What counts changes only in `look`, so that all who ask between two looks see the same.
    - A node without a label of interest costs nothing but its events; one whose labels stand, nothing
      in a look unless it changed since the last.

Assumptions: the memory is that of the process. After a restart it begins with what the last report said
(`recall`): what counted then and is there counts at once, what counted and is missing is held anew.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from magicstick.gpu.nodes import NodeView
from magicstick.runtime.clock import Clock

LOSS_HOLD_S: Final = 60.0
"""How long a label has to be gone to be lost. Node Feature Discovery renews labels every 60 s, and takes
about as long after a restart; longer outages cost nothing either, since an installed operator is kept."""

DETECTION_SETTLE_S: Final = 3.0
"""How long a label has to stand to count: a vendor's operator is not installed because of a flap."""


class Motion(IntEnum):
    """What is on its way, the most urgent last."""

    NONE = 0
    HOLDING = 1
    """A label is missing and will be lost."""
    SETTLING = 2
    """A label came or went less than `settle_s` ago."""


@dataclass(frozen=True, slots=True)
class Sight:
    """A label that counts on a node.

    Attributes:
        node: as it is, or was last.
        there: whether the node exists.
        standing: whether the label is there, and has been without interruption for `settle_s`.
        missing: whether the label has been gone for more than a moment, and is still held.
    """

    node: NodeView
    there: bool
    standing: bool
    missing: bool


@dataclass(slots=True)
class _Track:
    """One label on one node: since when it is there or gone, and whether it counts."""

    node: NodeView
    since: float
    there: bool = True
    present: bool = False
    counted: bool = False


class Sightings:
    """See the module. Feed it with `changed`, ask it after `look`."""

    def __init__(
        self, clock: Clock, *, settle_s: float = DETECTION_SETTLE_S, hold_s: float = LOSS_HOLD_S
    ) -> None:
        self._clock = clock
        self._settle_s = settle_s
        self._hold_s = hold_s
        self._tracks: dict[str, dict[str, _Track]] = {}
        """By label, then by name of the node."""
        self._counted: dict[str, dict[str, Sight]] = {}
        self._unsettled: dict[str, set[str]] = {}
        """By label, the nodes that changed since the last look, or whose label is on its way."""
        self._looked = -math.inf
        """When the last look was."""

    @property
    def labels(self) -> frozenset[str]:
        """The labels of interest."""
        return frozenset(self._tracks)

    # --- what happens ----------------------------------------------------------------------------

    def watch(self, labels: Iterable[str], nodes: Iterable[NodeView]) -> None:
        """From now on these labels matter; `nodes` are all that there are."""
        before = self._tracks
        self._tracks = {label: before.get(label, {}) for label in labels}
        self._counted = {label: self._counted.get(label, {}) for label in self._tracks}
        self._unsettled = {label: self._unsettled.get(label, set()) for label in self._tracks}
        if self._tracks.keys() - before.keys():
            for node in nodes:
                self.changed(None, node)

    def changed(self, old: NodeView | None, new: NodeView | None) -> None:
        """A node came, changed or went: a subscriber of the store."""
        node = new or old
        if node is None:
            return
        for label, tracks in self._tracks.items():
            if self._note(tracks, label, node, there=new is not None):
                self._unsettled[label].add(node.name)

    def recall(self, label: str, nodes: Iterable[NodeView]) -> None:
        """Begin with what was reported last: the label counted, at least on these nodes, which exist.

        A report lists only so many nodes, so all that have the label now count; those listed that lack it
        are missing from now on.
        """
        tracks = self._tracks[label]
        for track in tracks.values():
            track.counted = track.counted or track.present
        for node in nodes:
            if node.name not in tracks:
                tracks[node.name] = _Track(node, self._clock.monotonic(), counted=True)
        self._unsettled[label].update(tracks)

    # --- what is known ---------------------------------------------------------------------------

    def look(self) -> bool:
        """Let time pass: what has settled counts, what was gone for too long is lost. Whether it differs."""
        self._looked = now = self._clock.monotonic()
        differs = [self._judge_all(label, now) for label, names in self._unsettled.items() if names]
        return any(differs)

    def counted(self, label: str) -> Mapping[str, Sight]:
        """The nodes on which a label counts, by name, as of the last `look`; another map if any changed."""
        return self._counted.get(label, {})

    def follows(self, name: str) -> bool:
        """Whether a label of interest is on this node, or was a moment ago."""
        return any(name in tracks for tracks in self._tracks.values())

    @property
    def motion(self) -> Motion:
        """What is on its way as of the last `look`, or has changed since.

        What would have settled by now, but was not looked at again, is on its way still: whoever stopped
        asking here would never hear of it.
        """
        moving = (
            self._motion(self._tracks[label][name], self._looked)
            for label, names in self._unsettled.items()
            for name in names
        )
        return max(moving, default=Motion.NONE)

    # --- internals -------------------------------------------------------------------------------

    def _note(self, tracks: dict[str, _Track], label: str, node: NodeView, *, there: bool) -> bool:
        """Take down what a node has now; whether the label is, or was a moment ago, on it."""
        track, present = tracks.get(node.name), there and node.has(label)
        if track is None:
            if present:
                tracks[node.name] = _Track(node, self._clock.monotonic(), present=True)
            return present
        track.node, track.there = node, there
        if present != track.present:
            track.present, track.since = present, self._clock.monotonic()
        return True

    def _judge_all(self, label: str, now: float) -> bool:
        """Judge the nodes of a label that are not at rest; whether anybody who was told before has news."""
        tracks, before = self._tracks[label], self._counted[label]
        judged = {name: self._judged(tracks, name, now) for name in self._unsettled[label]}
        self._unsettled[label] = {
            name for name in judged if name in tracks and self._motion(tracks[name], now) is not Motion.NONE
        }
        changed = {name: sight for name, sight in judged.items() if not _same(before.get(name), sight)}
        if changed:
            seen = {name: sight for name, sight in {**before, **changed}.items() if sight is not None}
            self._counted[label] = seen if seen.keys() == before.keys() else dict(sorted(seen.items()))
        return any(_shape(before.get(name)) != _shape(sight) for name, sight in changed.items())

    def _judged(self, tracks: dict[str, _Track], name: str, now: float) -> Sight | None:
        """What counts of a track, which is forgotten where nothing can come of it; None for nothing."""
        track = tracks[name]
        passed_s = now - track.since
        if track.present:
            track.counted = track.counted or passed_s >= self._settle_s
        elif not track.counted or passed_s >= self._hold_s:
            del tracks[name]
            return None
        return self._sight(track, now) if track.counted else None

    def _sight(self, track: _Track, now: float) -> Sight:
        settled = now - track.since >= self._settle_s
        return Sight(track.node, track.there, track.present and settled, not track.present and settled)

    def _motion(self, track: _Track, now: float) -> Motion:
        if now - track.since < self._settle_s:
            return Motion.SETTLING
        return Motion.NONE if track.present else Motion.HOLDING


def _same(one: Sight | None, other: Sight | None) -> bool:
    """Whether two sights tell the same of the same state of a node."""
    if one is None or other is None:
        return one is other
    return one.node is other.node and one.there == other.there and _shape(one) == _shape(other)


def _shape(sight: Sight | None) -> tuple[bool, bool] | None:
    """What of it makes a difference to those who were told before."""
    return None if sight is None else (sight.standing, sight.missing)
