"""YAML and JSON as a person hands them over: files, folders, standard input, several documents in each."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import yaml

from magicstick.api.yaml_errors import YAML_ERRORS

STDIN: Final = "-"
ENDINGS: Final = frozenset({".yaml", ".yml", ".json"})
"""Which files of a folder are read; those of folders in it are not, as with kubectl."""

MOST_VALUES: Final = 1_000_000
"""So many values one text may hold, those that aliases repeat included: few lines can stand for billions."""
DEEPEST: Final = 100
"""Levels of an object; one that refers to itself has no end of them."""

Body = Mapping[str, Any]

_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"


class InputError(Exception):
    """What was handed over is no input. `problems` are sentences that begin with the file."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True, slots=True)
class Document:
    """One object, and where it stands."""

    origin: str
    """`modules.yaml, document 2`; only the file where it has but one."""
    body: Body


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc] # chosen at run time
    """As Kubernetes reads YAML: a date is text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's way to say which plain words are more than text
        letter: [each for each in resolvers if each[0] != _TIMESTAMP]
        for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def read(names: Sequence[str], stdin: Callable[[], str]) -> tuple[Document, ...]:
    """Every object in these files and folders, in order; the items of lists each for itself.

    Args:
        names: paths; `-` for what `stdin` gives, which is asked at most once.
        stdin: the text of standard input.

    Raises:
        InputError: a file cannot be read, or holds something that is no object, which are all named; or there
            is no object at all, as where the command before a pipe failed.
    """
    found: list[Document] = []
    problems: list[str] = []
    for name, text in _texts(names, stdin, problems):
        try:
            found += _documents(name, text)
        except InputError as error:
            problems += error.problems
    if not (found or problems):
        places = ("standard input" if name == STDIN else name for name in dict.fromkeys(names))
        problems.append(f"{', '.join(places)}: there is no object in it")
    if problems:
        raise InputError(problems)
    return tuple(found)


def _texts(names: Sequence[str], stdin: Callable[[], str], problems: list[str]) -> Iterator[tuple[str, str]]:
    for name in dict.fromkeys(names):
        try:
            if name == STDIN:
                yield "standard input", stdin()
                continue
            for path in _files(Path(name)):
                yield str(path), path.read_text(encoding="utf-8")
        except OSError as error:
            problems.append(f"{name}: {error.strerror}")
        except UnicodeDecodeError:
            problems.append(f"{name}: is no text in UTF-8")
        except InputError as error:
            problems += error.problems


def _files(path: Path) -> Sequence[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(each for each in path.iterdir() if each.suffix in ENDINGS and each.is_file())
    if not files:
        raise InputError([f"{path}: the folder holds no file that ends with {', '.join(sorted(ENDINGS))}"])
    return files


def _documents(name: str, text: str) -> list[Document]:
    """The objects of one text, each document of which may be empty, an object, or a list of objects."""
    contents = list(_contents(name, text))
    problems, found, values = [], [], count(1)
    for number, content in enumerate(contents, 1):
        origin = name if len(contents) == 1 else f"{name}, document {number}"
        for place, item in _items(origin, content):
            if isinstance(item, Mapping):
                found.append(Document(place, item))
                problems += [f"{place}: {problem}" for problem in _strange(item, values)]
            elif item is not None:
                problems.append(f"{place}: must be an object with apiVersion, kind and metadata")
    if problems:
        raise InputError(problems)
    return found


def _contents(name: str, text: str) -> Iterator[object]:
    number = 0
    try:
        for content in yaml.load_all(text, Loader=_Loader):
            number += 1
            yield content
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        problem = f"is no YAML: {error.problem or error.context}"
        raise InputError([f"{name}, document {number + 1}{place}: {problem}"]) from None
    except YAML_ERRORS:
        raise InputError([f"{name}, document {number + 1}: is no YAML"]) from None


def _items(origin: str, content: object) -> Iterator[tuple[str, object]]:
    items = content.get("items") if isinstance(content, Mapping) else None
    listed = isinstance(content, Mapping) and str(content.get("kind", "")).endswith("List")
    if not (listed and isinstance(items, list)):
        yield origin, content
        return
    for number, item in enumerate(items, 1):
        yield f"{origin}, item {number}", item


def _strange(document: object, values: Iterator[int]) -> Iterator[str]:
    """What Kubernetes would not take: no end of values or of levels, and names that are no text."""
    pending: list[tuple[str, object, int]] = [("", document, 0)]
    while pending:
        path, value, depth = pending.pop()
        if depth > DEEPEST:
            yield f"is nested deeper than {DEEPEST} levels, or refers to itself"
            return
        if next(values) > MOST_VALUES:
            yield f"holds more than {MOST_VALUES} values, those that aliases repeat included"
            return
        if isinstance(value, Mapping):
            strange = [name for name in value if not isinstance(name, str)]
            for name in strange:
                yield f"{path or 'the object'} has a field {name!r}: names must be text, in quotes"
            below = [(f"{path}.{name}" if path else name, each) for name, each in value.items()]
            pending += [(where, each, depth + 1) for where, each in reversed(below) if isinstance(where, str)]
        elif isinstance(value, list):
            below = [(f"{path}[{number}]", each) for number, each in enumerate(value)]
            pending += [(where, each, depth + 1) for where, each in reversed(below)]
