"""An explanation in writing: a tree for people, data for programs.

Everything that comes from the cluster is cleaned first: nobody who may write a status may write to the
terminal of whoever asks.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from magicstick.why.causes import Cause, Explanation, Hint
from magicstick.why.walk import End, Node, Path, first, paths

LINE_LIMIT: Final = 600
"""Of one sentence in the tree; data has all of it."""
NOTHING_TO_DO: Final = Hint("It ends by itself, as far as can be seen. Ask again in a moment.")


@dataclass(frozen=True, slots=True)
class Answer:
    """What is told: `shown` are the trees, cut to one path unless everything was asked for."""

    explanation: Explanation
    shown: tuple[Node, ...]
    roots: tuple[Node, ...]
    more: int
    """Further roots that are not shown."""


def answer(explanation: Explanation, nodes: Sequence[Node], *, every: bool) -> Answer:
    """What to tell of a tree."""
    roots = tuple(path[-1] for path in paths(nodes))
    if every:
        return Answer(explanation, tuple(nodes), roots, 0)
    path = first(nodes)
    return Answer(explanation, _only(path), path[-1:], len(roots) - 1 if path else 0)


def _only(path: Path) -> tuple[Node, ...]:
    """The tree that has nothing but this path."""
    below: tuple[Node, ...] = ()
    for node in reversed(path):
        below = (Node(node.cause, below, node.end, node.onward),)
    return below


# --- text ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """One line: `guide` draws the tree, `strong` stands out on a terminal."""

    guide: str = ""
    strong: str = ""
    rest: str = ""

    def __str__(self) -> str:
        return f"{self.guide}{self.strong}{self.rest}"


def lines(told: Answer) -> Iterator[Line]:
    """The answer for people, from the subject down, the root and what to do about it last."""
    if told.explanation.healthy:
        yield from _healthy(told)
        return
    yield from _trees(told.shown, set())
    if told.more:
        others = "cause" if told.more == 1 else "causes"
        yield Line(rest=f"({told.more} more {others}: ask with --all)")
    for root in told.roots:
        yield Line()
        yield Line("", "Root cause: ", clean(str(root.cause)))
        yield from _to_do(_hint(root))


def _healthy(told: Answer) -> Iterator[Line]:
    explanation = told.explanation
    yield Line("", str(explanation.subject), clean(f" {explanation.state.rstrip('.')}."))
    yield Line(rest="Nothing is wrong with it.")
    yield from (Line("", "Note: ", clean(note)) for note in explanation.notes)
    for root in told.roots:
        if root.cause.hint is not None and not root.cause.passing:
            yield from _to_do(root.cause.hint)


def _to_do(hint: Hint) -> Iterator[Line]:
    yield Line("", "What to do: ", clean(hint.text))
    if hint.command:
        yield Line("            ", clean(hint.command, limit=None))


def _trees(nodes: Sequence[Node], noted: set[str], guide: str = "", *, top: bool = True) -> Iterator[Line]:
    """The trees; a note is told where it comes first."""
    for position, node in enumerate(nodes):
        last = position == len(nodes) - 1
        branch, below = ("", "") if top else ("└─ ", "   ") if last else ("├─ ", "│  ")
        cause = node.cause
        yield Line(guide + branch, str(cause.subject), clean(f" {cause.sentence}{_end(node)}"))
        if cause.note and cause.note not in noted:
            noted.add(cause.note)
            yield Line(guide + below + ("│  " if node.because else "   "), "", clean(f"({cause.note})"))
        yield from _trees(node.because, noted, guide + below, top=False)


def _end(node: Node) -> str:
    match node.end:
        case End.TOLD:
            return f" (see {node.onward}, told elsewhere)"
        case End.CIRCLE:
            return f" (which leads back to {node.onward})"
        case _:
            return ""


def _hint(root: Node) -> Hint:
    if root.end is End.DEEP:
        return Hint("Ask on from there.", f"magicstick why {root.onward}")
    return root.cause.hint or NOTHING_TO_DO


def clean(text: str, *, limit: int | None = LINE_LIMIT) -> str:
    """The text on one line, without anything that steers a terminal, and cut where it is very long."""
    printable = "".join(" " if unicodedata.category(each).startswith("C") else each for each in text)
    indented = " " if printable.startswith(" ") else ""
    joined = indented + " ".join(printable.split())
    return joined if limit is None or len(joined) <= limit else joined[: limit - 1] + "…"


# --- data ----------------------------------------------------------------------------------------


def data(told: Answer) -> dict[str, Any]:
    """The answer for programs; see docs/why.md for its fields."""
    explanation = told.explanation
    return {
        "subject": _subject(explanation),
        "healthy": explanation.healthy,
        "state": explanation.state,
        "notes": list(explanation.notes),
        "causes": [_node(each) for each in told.shown],
        "rootCauses": [_root(each) for each in told.roots],
        "more": told.more,
    }


def _subject(about: Explanation | Cause) -> dict[str, str]:
    subject = about.subject
    return {"kind": subject.kind.kind, "namespace": subject.namespace, "name": subject.name}


def _node(node: Node) -> dict[str, Any]:
    content: dict[str, Any] = {"subject": _subject(node.cause), "sentence": node.cause.sentence}
    if node.cause.note:
        content["note"] = node.cause.note
    if node.end is not None:
        content["end"] = node.end.value
    if node.onward is not None:
        content["onward"] = str(node.onward)
    if node.because:
        content["because"] = [_node(each) for each in node.because]
    return content


def _root(node: Node) -> dict[str, Any]:
    hint = _hint(node)
    return {
        "subject": _subject(node.cause),
        "sentence": node.cause.sentence,
        "passing": node.cause.passing,
        "hint": hint.text,
        "command": hint.command,
    }
