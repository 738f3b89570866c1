"""What `make dev` does for Palena, and when that counts as done."""

from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from pydantic import BaseModel
from rich.console import Console

from hack.dev.appliance import PALENA, Expected, settled
from hack.dev.choices import Choices
from hack.dev.options import parse
from hack.dev.palena import EXAMPLES, examples, names_of
from hack.dev.view import PalenaObject, Picture, Row, of_palena, view
from magicstick.api import kinds
from magicstick.api.palena.gateway import PalenaGatewaySpec
from magicstick.api.palena.mcp_server import PalenaMCPServerSpec
from magicstick.api.palena.model import PalenaModelSpec
from magicstick.api.palena.observability import PalenaObservabilitySpec
from magicstick.api.palena.ui import PalenaUISpec

SPECS: dict[str, type[BaseModel]] = {
    "PalenaGateway": PalenaGatewaySpec,
    "PalenaModel": PalenaModelSpec,
    "PalenaMCPServer": PalenaMCPServerSpec,
    "PalenaUI": PalenaUISpec,
    "PalenaObservability": PalenaObservabilitySpec,
}
NOW = datetime(2026, 1, 1, tzinfo=UTC)
APPLIANCE = {
    "metadata": {"name": "local", "generation": 1},
    "status": {"observedGeneration": 1, "phase": "Ready"},
}
ROWS = (Row("litellm", "Ready", "", "", None),)


def gateway(phase: str = "Running", observed: int = 2) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "False", "reason": "StatefulSetNotReady", "message": "no Pod yet"}
    return {
        "kind": "PalenaGateway",
        "metadata": {"name": "gw", "generation": 2, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"observedGeneration": observed, "phase": phase, "conditions": [ready]},
    }


def picture(*objects: PalenaObject) -> Picture:
    return Picture(APPLIANCE, ROWS, (), palena=objects)


def test_the_examples_are_one_object_of_each_kind_and_what_those_need() -> None:
    assert {kind for kind, _ in names_of(examples())} == set(SPECS) == set(PALENA)
    listed = {each["metadata"]["name"] for each in examples() if each["kind"] == "Secret"}
    assert listed == {"provider-keys", "s3-keys"}
    files = {file.name for file in EXAMPLES.glob("*.yaml")}
    assert len(files) == len(SPECS) + 1, "each file is one object, and one lists them"


def test_the_plurals_are_those_of_the_kinds() -> None:
    known = (kinds.PALENA_GATEWAY, kinds.PALENA_MODEL, kinds.PALENA_UI, kinds.PALENA_MCP_SERVER)
    assert {each.plural for each in (*known, kinds.PALENA_OBSERVABILITY)} == set(PALENA.values())


@pytest.mark.parametrize("example", [each for each in examples() if each["kind"] in SPECS])
def test_each_example_says_only_what_its_kind_knows(example: dict[str, Any]) -> None:
    spec = SPECS[example["kind"]].model_validate(example["spec"])
    assert spec.model_dump(mode="json", by_alias=True, exclude_unset=True) == example["spec"]


def test_nothing_of_palena_is_there_unless_it_is_asked_for() -> None:
    assert not parse([]).palena
    without, with_palena = Choices(), Choices(palena=parse(["--palena"]).palena)
    assert (without.palena_objects(), without.environment, without.expected.palena) == ([], {}, frozenset())
    assert with_palena.environment == {"MAGICSTICK_ENABLE_PALENA": "true"}
    assert ("PalenaGateway", "gw") in with_palena.expected.palena


def test_it_is_settled_when_everything_that_was_asked_for_runs() -> None:
    wanted = Expected(palena=frozenset({("PalenaGateway", "gw")}))
    assert settled(picture(of_palena(gateway())), wanted)
    assert not settled(picture(), wanted)
    assert not settled(picture(of_palena(gateway("Degraded"))), wanted)
    assert not settled(picture(of_palena(gateway(observed=1))), wanted), "that is about another spec"


def test_each_object_is_shown_with_its_phase_and_why() -> None:
    console = Console(width=140, record=True, file=StringIO())
    console.print(view(picture(of_palena(gateway("Provisioning"))), NOW))
    (line,) = [each for each in console.export_text().splitlines() if "PalenaGateway" in each]
    cells = [cell.strip() for cell in line.split("│")[1:-1]]
    assert cells == ["PalenaGateway", "gw", "Provisioning", "StatefulSetNotReady", "0s", "no Pod yet"]


def test_without_palena_there_is_no_table_of_it() -> None:
    console = Console(width=140, record=True, file=StringIO())
    console.print(view(picture(), NOW))
    assert "Palena" not in console.export_text()
