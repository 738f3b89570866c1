"""A plan in words, as a difference, and as data. Secrets are masked in all of them."""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.plan.changes import ABSENT, Action, Change, FieldChange
from magicstick.plan.mask import masked
from magicstick.plan.rehearsal import Plan
from magicstick.plan.standing import Standing

SIGNS: Final[Mapping[Action, str]] = {
    Action.CREATE: "+",
    Action.UPDATE: "~",
    Action.DELETE: "-",
    Action.UNCHANGED: " ",
}
Document = dict[str, Any]

_DUMPER: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@dataclass(frozen=True, slots=True)
class Line:
    """One line for people; `sign` says how it is meant: `+`, `~`, `-`, a space, or "" for a heading."""

    sign: str
    text: str

    def __str__(self) -> str:
        return f"{self.sign} {self.text}".rstrip() if self.sign else self.text


# --- for people --------------------------------------------------------------------------------------


def summary(plan: Plan) -> Iterator[Line]:
    """One line for each object, how each would stand, and the count."""
    yield from _objects("Given", plan.given)
    yield from _objects("The operator", plan.derived)
    yield from _standings(plan.standings)
    yield Line("", counted(plan))


def diff(plan: Plan) -> Iterator[Line]:
    """Each object that changes, with what changes of it."""
    for change in map(masked, (*plan.given, *plan.derived)):
        if change.changes:
            yield Line(SIGNS[change.action], f"{change.action} {name_of(change.kind, change.key)}")
            yield from _content(change)
    yield from _standings(plan.standings)
    yield Line("", counted(plan))


def counted(plan: Plan) -> str:
    """How much would change, in a sentence."""
    actions = [each.action for each in (*plan.given, *plan.derived)]
    if not plan.changes:
        return "Nothing would change."
    words = {Action.CREATE: "created", Action.UPDATE: "changed", Action.DELETE: "deleted"}
    parts = [f"{actions.count(action)} {word}" for action, word in words.items() if action in actions]
    return f"{', '.join(parts)}, {actions.count(Action.UNCHANGED)} unchanged."


def name_of(kind: Kind, key: ObjectKey) -> str:
    """`Kustomization flux-system/app-litellm`."""
    return f"{kind.kind} {key}"


def _objects(heading: str, changes: Iterable[Change]) -> Iterator[Line]:
    listed = list(changes)
    if listed:
        yield Line("", f"{heading}:")
        for each in listed:
            word = f"{each.action:<9}"
            yield Line(SIGNS[each.action], f"{word} {name_of(each.kind, each.key)}")
        yield Line("", "")


def _standings(standings: Iterable[Standing]) -> Iterator[Line]:
    waiting = [each for each in standings if each.tells]
    if waiting:
        yield Line("", "Not ready then:")
        for each in waiting:
            message = " ".join(each.message.split())
            yield Line("", f"  {name_of(each.kind, each.key)}: {each.phase}. {message}".rstrip(" ."))
        yield Line("", "")


def _content(change: Change) -> Iterator[Line]:
    if change.action is Action.CREATE:
        for line in _yaml(change.body).splitlines():
            yield Line("+", f"    {line}")
    for field in change.fields:
        yield from _field(field)
    yield Line("", "")


def _field(field: FieldChange) -> Iterator[Line]:
    note = f" ({field.note})" if field.note else ""
    before, after = _words(field.before), _words(field.after)
    if len(before) <= 1 and len(after) <= 1:
        old, new = ((each or ["(absent)"])[0] for each in (before, after))
        shown = old if before == after else f"{old} -> {new}"
        yield Line("~", f"    {field.path}: {shown}{note}")
        return
    yield Line("~", f"    {field.path}:{note}")
    hunks = difflib.unified_diff(before, after, n=1, lineterm="")
    for line in list(hunks)[3:]:
        yield Line(line[0], f"      {line[1:]}") if line[0] != "@" else Line(" ", "      ...")


def _words(value: object) -> list[str]:
    """A value as the lines of a difference; [] where there is none."""
    if value is ABSENT:
        return []
    if isinstance(value, str) and "\n" not in value:
        return [value or '""']
    if isinstance(value, str):
        return value.splitlines()
    if isinstance(value, Mapping | list | tuple) and value:
        return _yaml(value).splitlines()
    return [json.dumps(value)]


# --- as data -----------------------------------------------------------------------------------------


def objects(plan: Plan) -> list[Document]:
    """The objects that the operator would apply, as they are sent; of deletions see `deletions`."""
    return [_plain(masked(each).body) for each in plan.derived if each.action is not Action.DELETE]


def deletions(plan: Plan) -> list[str]:
    """The objects that it would delete, in words."""
    return [name_of(each.kind, each.key) for each in plan.derived if each.action is Action.DELETE]


def as_yaml(plan: Plan) -> str:
    """The objects as a stream of documents; deletions are comments in it."""
    removed = "".join(f"# delete {each}\n" for each in deletions(plan))
    return removed + "---\n".join(_yaml(each) for each in objects(plan))


def listing(plan: Plan) -> Document:
    """The objects as a `v1` List."""
    return {"apiVersion": "v1", "kind": "List", "items": objects(plan)}


def report(plan: Plan) -> Document:
    """What would change, and how everything would stand."""
    changes = [(each, False) for each in plan.given] + [(each, True) for each in plan.derived]
    return {
        "changes": plan.changes,
        "objects": [_change(masked(each), derived=derived) for each, derived in changes],
        "standings": [_standing(each) for each in plan.standings],
    }


def written(content: Document, form: str) -> str:
    """Data as `json` or `yaml`."""
    if form == "json":
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    return _yaml(content)


def _change(change: Change, *, derived: bool) -> Document:
    fields = [_field_data(each) for each in change.fields]
    return {
        "action": change.action.value,
        "from": "operator" if derived else "given",
        **_identity(change.kind, change.key),
        **({"fields": fields} if fields else {}),
        **({"object": _plain(change.body)} if change.action is Action.CREATE else {}),
    }


def _field_data(field: FieldChange) -> Document:
    sides = (("before", field.before), ("after", field.after))
    values = {name: _plain(value) for name, value in sides if value is not ABSENT}
    return {"path": field.path, **values, **({"note": field.note} if field.note else {})}


def _standing(standing: Standing) -> Document:
    texts = {"phase": standing.phase, "reason": standing.reason, "message": standing.message}
    return {**_identity(standing.kind, standing.key), **{name: text for name, text in texts.items() if text}}


def _identity(kind: Kind, key: ObjectKey) -> Document:
    place = {"namespace": key.namespace} if key.namespace else {}
    return {"apiVersion": kind.api_version, "kind": kind.kind, **place, "name": key.name}


def _yaml(content: object) -> str:
    text: str = yaml.dump(
        _plain(content), Dumper=_DUMPER, sort_keys=False, allow_unicode=True, default_flow_style=False
    )
    return text


def _plain(value: Any) -> Any:
    """Mappings and tuples as YAML and JSON know them."""
    if isinstance(value, Mapping):
        return {name: _plain(below) for name, below in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
