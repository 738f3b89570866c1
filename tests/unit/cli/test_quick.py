"""Values of the command line, converted without pydantic as typer would with it."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from magicstick.cli.quick import QuickCommand, QuickGroup


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def called(*words: str) -> dict[str, Any]:
    """What a command with one option of each type is called with."""
    got: dict[str, Any] = {}
    app = typer.Typer(cls=QuickGroup)

    @app.command(cls=QuickCommand)
    def command(
        names: Annotated[list[str] | None, typer.Argument()] = None,
        *,
        text: str | None = None,
        flag: bool = False,
        number: Annotated[float, typer.Option(min=1)] = 2.0,
        free: float = 0.5,
        path: Path | None = None,
        colour: Colour = Colour.RED,
        many: Annotated[list[Colour] | None, typer.Option()] = None,
    ) -> None:
        got.update(locals())

    @app.command()
    def other() -> None:
        """Without a second one the first would stand for the group."""

    typer.main.get_command(app).main(args=["command", *words], standalone_mode=False)
    del got["got"]
    return got


def test_what_is_not_said_has_its_default() -> None:
    assert called() == {
        "names": None,
        "text": None,
        "flag": False,
        "number": 2.0,
        "free": 0.5,
        "path": None,
        "colour": Colour.RED,
        "many": None,
    }


def test_each_value_has_the_type_that_the_function_declares() -> None:
    said = "a b --text x --flag --number 3 --free -1 --path /y --colour blue --many red --many blue"
    got = called(*said.split())
    assert got == {
        "names": ["a", "b"],
        "text": "x",
        "flag": True,
        "number": 3.0,
        "free": -1.0,
        "path": Path("/y"),
        "colour": Colour.BLUE,
        "many": [Colour.RED, Colour.BLUE],
    }
    assert isinstance(got["colour"], Colour)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--colour", "green"), "'green' is not one of red, blue"),
        (("--many", "red", "--many", "green"), "'green' is not one of red, blue"),
        (("--number", "0.5"), "'0.5' is not a number of 1 or more"),
        (("--number", "many"), "'many' is not a number of 1 or more"),
        (("--free", "inf"), "'inf' is not a number"),
        (("--free", "nan"), "'nan' is not a number"),
    ],
)
def test_what_is_not_allowed_is_refused_with_what_is(words: tuple[str, ...], told: str) -> None:
    with pytest.raises(typer.BadParameter) as refused:
        called(*words)
    assert refused.value.format_message().endswith(told)


def test_a_type_without_a_conversion_is_noticed_when_the_command_is_used() -> None:
    app = typer.Typer(cls=QuickGroup)

    @app.command(cls=QuickCommand)
    def command(number: Annotated[complex | None, typer.Option(parser=complex)] = None) -> None:
        """Of a type that no option of ours has."""

    with pytest.raises(TypeError, match="no conversion"):
        typer.main.get_command(app).main(args=[], standalone_mode=False)
