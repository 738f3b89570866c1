"""From the explanations of single subjects to a tree of causes, and in it to the roots.

Guarantees
    - It ends on every graph: a subject is explained once, a circle is named where it closes, and what is
      deeper than `DEPTH_LIMIT` is left to another question.
    - It goes only where an edge leads: from a kind to one that its reconciler declares to depend on.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from magicstick.kube.kinds import Kind
from magicstick.why.causes import STANDS_IN, Cause, Explanation, Subject

DEPTH_LIMIT: Final = 64
"""Subjects on one path; deeper than any catalog that makes sense."""

Explain = Callable[[Subject], Explanation]
Covers = Callable[[Kind, Kind], bool]
"""Whether the second kind is one that the first depends on."""


class NotCoveredError(LookupError):
    """An explainer leads over something that no edge covers: a fault of ours."""


class End(Enum):
    """Why a path ends at a node."""

    ROOT = "root"
    """Nothing is behind it."""
    TOLD = "told"
    """What is behind it stands elsewhere in the tree."""
    CIRCLE = "circle"
    """It leads back to a subject that it comes from."""
    DEEP = "deep"
    """More is behind it than is followed."""


@dataclass(frozen=True, slots=True)
class Node:
    """A cause, and what is behind it; `end` where nothing is, and `onward` what would be."""

    cause: Cause
    because: tuple["Node", ...] = ()
    end: End | None = None
    onward: Subject | None = None


Path = tuple[Node, ...]
"""From the subject that was asked for down to a root."""


def walk(subject: Subject, explain: Explain, covers: Covers) -> tuple[Node, ...]:
    """The causes of a subject as trees, in the order of its explanation; () for one without any.

    Raises:
        NotCoveredError: see the class.
    """
    return _Walk(explain, covers).nodes(subject, ())


def paths(nodes: Sequence[Node]) -> Iterator[Path]:
    """Every path to an end that is not told elsewhere, in the order of the tree."""
    for node in nodes:
        if node.end is not None:
            if node.end is not End.TOLD:
                yield (node,)
            continue
        yield from ((node, *rest) for rest in paths(node.because))


def first(nodes: Sequence[Node]) -> Path:
    """The path that matters most: the first to what does not pass by itself, else the first; () for none."""
    found = tuple(paths(nodes))
    lasting = (path for path in found if not path[-1].cause.passing)
    return next(lasting, found[0] if found else ())


class _Walk:
    def __init__(self, explain: Explain, covers: Covers) -> None:
        self._explain = explain
        self._covers = covers
        self._told: set[Subject] = set()

    def nodes(self, subject: Subject, above: tuple[Subject, ...]) -> tuple[Node, ...]:
        causes, path = self._explain(subject).causes, (*above, subject)
        if causes:
            self._told.add(subject)
        return tuple(self._node(cause, path) for cause in causes)

    def _node(self, cause: Cause, path: tuple[Subject, ...]) -> Node:
        below: list[Node] = []
        ends: list[tuple[End, Subject]] = []
        for target in cause.because:
            self._check(path[-1], target)
            if target in path:
                ends.append((End.CIRCLE, target))
            elif target in self._told:
                ends.append((End.TOLD, target))
            elif len(path) >= DEPTH_LIMIT:
                ends.append((End.DEEP, target))
            else:
                below += self.nodes(target, path)
        if below:
            return Node(cause, tuple(below))
        end, onward = ends[0] if ends else (End.ROOT, None)
        return Node(cause, end=end, onward=onward)

    def _check(self, source: Subject, target: Subject) -> None:
        known, wanted = (STANDS_IN.get(each.kind, each.kind) for each in (source, target))
        part_of_it = target.kind in STANDS_IN and known == wanted
        if not part_of_it and not self._covers(known, wanted):
            raise NotCoveredError(f"no edge leads from {source} to {target}")
