"""What `make dev` tells where there is no terminal: a line for each change, and how it ended."""

import io
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

from rich.console import Console

from hack.dev.appliance import Reader
from hack.dev.follower import Follower
from hack.dev.models import ModelStage
from hack.dev.operator import OperatorProcess
from hack.dev.view import Hardware, Instance, Model, PalenaObject, Picture, Row

BEGUN = Picture(None, (Row("litellm", "Reconciling", "Progressing", "", None),), ())
DONE = Picture(
    {"metadata": {"name": "local", "generation": 1}, "status": {"observedGeneration": 1, "phase": "Ready"}},
    (Row("litellm", "Ready", "Done", "", None),),
    (Hardware("gpu", "nvidia", "Ready", 2, 2, 2, ""),),
    (Model("demo", "Ready", "Served", "kubeai", "", None),),
    (Instance("chat", "Ready", "Installed", ("chat.example.local",), "", None),),
    (PalenaObject("PalenaGateway", "gw", "Running", "AllComponentsReady", "", None),),
)


def followed(*pictures: Picture, ended: int | None = None) -> tuple[bool, list[str]]:
    """What following these pictures came to, the last of which is the end, and what was told."""
    waiting: Iterator[Picture] = iter(pictures)
    told = io.StringIO()
    program = SimpleNamespace(
        name="operator", log="operator.log", ended=lambda: ended, tail=lambda: "its last words"
    )
    follower = Follower(
        cast("Reader", SimpleNamespace(picture=lambda: next(waiting))),
        cast("OperatorProcess", program),
        cast("ModelStage", SimpleNamespace(go_on=lambda _: None, catalog=None)),
        Console(file=told, width=200),
        lambda picture: picture is pictures[-1] and ended is None,
    )
    ready = follower.until_ready(None)
    return ready, [line.rstrip() for line in told.getvalue().splitlines()]


def test_each_change_is_a_line_and_nothing_is_told_twice() -> None:
    ready, lines = followed(BEGUN, BEGUN, DONE)
    assert ready
    about = ("litellm", "GPUs", "demo", "chat", "gw")
    assert [line for line in lines if any(word in line for word in about)] == [
        "  litellm: Reconciling Progressing",
        "  litellm: Ready Done",
        "  nvidia GPUs: Ready, 2 of 2 nodes, 2 allocatable",
        "  model demo: Ready Served",
        "  instance chat: Ready Installed chat.example.local",
        "  PalenaGateway gw: Running AllComponentsReady",
    ]
    assert lines[-1] == "Appliance local: Ready"


def test_a_program_that_ended_is_told_with_its_last_words() -> None:
    ready, lines = followed(BEGUN, ended=3)
    assert not ready
    assert lines[-2:] == ["the operator ended with 3:", "its last words"]
