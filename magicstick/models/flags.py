"""Command-line flags in lists of arguments, as people write them.

`--max-model-len=1`, `--max_model_len=1` and `--max-model-len 1` are the same flag.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Flag:
    """One argument, or a flag together with the value that follows it."""

    name: str
    """With dashes; without the leading two, but with a single one; "" for an argument that is no flag."""
    value: str | None
    tokens: tuple[str, ...]
    """As it was written."""


def read_flags(args: Sequence[str], valued: frozenset[str]) -> Iterator[Flag]:
    """The arguments in order.

    A flag of `valued` takes the next token, unless that is a flag itself: an incomplete one must not
    swallow what comes after it.
    """
    position = 0
    while position < len(args):
        flag = _flag_at(args, position, valued)
        position += len(flag.tokens)
        yield flag


def without(args: Sequence[str], valued: frozenset[str], switches: frozenset[str]) -> tuple[str, ...]:
    """The arguments without these flags: `valued` ones go with their value, `switches` have none."""
    kept = (flag.tokens for flag in read_flags(args, valued) if flag.name not in valued | switches)
    return tuple(token for tokens in kept for token in tokens)


def _flag_at(args: Sequence[str], position: int, valued: frozenset[str]) -> Flag:
    token = args[position]
    if not token.startswith("-"):
        return Flag("", None, (token,))
    written, equals, value = token.removeprefix("--").partition("=")
    name = written.replace("_", "-")
    following = args[position + 1 : position + 2]
    if equals or name not in valued or not following or following[0].startswith("--"):
        return Flag(name, value if equals else None, (token,))
    return Flag(name, following[0], (token, *following))
