"""Commands whose values are converted without pydantic, whose import would double the time to start.

typer makes a pydantic adapter for each value, at the last moment. Here the few types that our options have
are converted by hand instead, and the adapter is never asked for. The place where typer keeps it is not
public: should it move, everything works as before, only later (and a test tells).
"""

from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup


class _Value:
    """In place of typer's own conversion of one parameter."""

    def __init__(self, annotation: object, least: float | None) -> None:
        self._type = _bare(annotation)
        self._least = least

    def coerce(self, value: object, param: Any, ctx: typer.Context) -> object:
        """The value as the command's function takes it.

        Raises:
            BadParameter: it is not allowed; the message says what is.
        """
        if isinstance(value, list | tuple):
            return [self.coerce(each, param, ctx) for each in value]
        if not isinstance(value, str):
            return value
        try:
            return self._converted(value)
        except ValueError as error:
            raise typer.BadParameter(str(error), ctx=ctx, param=param) from None

    def _converted(self, text: str) -> object:
        if issubclass(self._type, Enum):
            allowed = [str(member.value) for member in self._type]
            if text not in allowed:
                raise ValueError(f"{text!r} is not one of {', '.join(allowed)}")
        elif issubclass(self._type, float):
            return self._number(text)
        return self._type(text)

    def _number(self, text: str) -> float:
        least = "" if self._least is None else f" of {self._least:g} or more"
        try:
            number = float(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a number{least}") from None
        if not (number < float("inf") and (self._least is None or number >= self._least)):
            raise ValueError(f"{text!r} is not a number{least}")
        return number


def _bare(annotation: object) -> type:
    """The type of one value: `str` for `str`, `str | None` and `list[str] | None`.

    Raises:
        TypeError: no conversion is known for it.
    """
    inner = [each for each in get_args(annotation) if each is not NoneType]
    if inner:
        return _bare(inner[0])
    if isinstance(annotation, type) and issubclass(annotation, str | float | bool | Path | Enum):
        return annotation
    raise TypeError(f"no conversion of {annotation} ({get_origin(annotation)})")


def _hastened(params: list[Any]) -> list[Any]:
    for param in params:
        info = param.type_descriptor.parameter_info
        param._runtime_param = _Value(param.type_descriptor.annotation, info.min)  # noqa: SLF001 # see module
    return params


class QuickCommand(TyperCommand):
    """A command with options of type `str`, `float`, `bool`, `Path`, an enumeration, or lists of them."""

    def get_params(self, ctx: Any) -> list[Any]:
        """As typer has them; asked for before any value is converted."""
        return _hastened(super().get_params(ctx))


class QuickGroup(TyperGroup):
    """The group of such commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        """See `QuickCommand`."""
        return _hastened(super().get_params(ctx))
