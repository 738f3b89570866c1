"""What `make dev` knows of applications, without a cluster."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from hack.dev.appliance import ROOT, Expected, settled
from hack.dev.apps import apps_of, chosen_apps, instance_of
from hack.dev.choices import Choices
from hack.dev.view import Picture, Row, now, of_instance, view
from hack.devcluster import WITH_ACTORS, WITH_GATEWAY, DevClusterError
from magicstick.api.app_instance import AppInstanceSpec

APPS = ("openclaw", "hermes", "paperclip", "kubeopencode", "odysseus")


def reported(phase: str = "Ready", generation: int = 1) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "reason": "InstallSucceeded", "message": "It is there."}
    return {
        "metadata": {
            "name": "hermes-demo",
            "generation": generation,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "status": {
            "observedGeneration": 1,
            "phase": phase,
            "conditions": [ready],
            "localURL": "https://demo.example.local/",
            "publicURL": "https://demo.example.com/",
        },
    }


def picture(*instances: dict[str, Any]) -> Picture:
    appliance = {
        "metadata": {"name": "local", "generation": 1},
        "status": {"observedGeneration": 1, "phase": "Ready"},
    }
    rows = (Row("basis", "Ready", "", "", None),)
    return Picture(appliance, rows, (), (), tuple(map(of_instance, instances)))


def test_the_catalog_names_the_applications() -> None:
    assert apps_of(ROOT) == APPS
    with pytest.raises(DevClusterError, match="holds no catalog of applications"):
        apps_of(Path("/nowhere"))


def test_a_name_is_taken_once_and_all_are_all() -> None:
    assert chosen_apps(("hermes", "openclaw", "hermes"), APPS) == ("hermes", "openclaw")
    assert chosen_apps(("hermes", "all"), APPS) == APPS
    with pytest.raises(DevClusterError, match="no application 'x'; there are: openclaw, hermes"):
        chosen_apps(("hermes", "x"), APPS)


@pytest.mark.parametrize("app", APPS)
def test_what_is_applied_is_an_instance(app: str) -> None:
    spec = AppInstanceSpec.model_validate(instance_of(app)["spec"])
    assert spec.application == app


def test_the_gateway_runs_only_where_something_is_reached_through_it() -> None:
    assert Choices().components == WITH_ACTORS
    assert "envoy-gateway" not in Choices().programs
    assert Choices(apps=("hermes",)).components == WITH_GATEWAY
    assert {"envoy-gateway", "helm"} <= set(Choices(apps=("hermes",)).programs)


def test_addresses_stand_in_the_table() -> None:
    console = Console(file=io.StringIO(), width=200)
    console.print(view(picture(reported()), now()))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    for each in ("hermes-demo", "Ready", "https://demo.example.local/", "https://demo.example.com/"):
        assert each in shown


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ((), False),
        ((reported(),), True),
        ((reported(generation=2),), False),
        ((reported("Reconciling"),), False),
        ((reported("Suspended"),), False),
    ],
)
def test_it_is_settled_once_the_instance_is_ready_as_it_is_wanted_now(
    seen: tuple[dict[str, Any], ...], *, expected: bool
) -> None:
    wanted = Choices(apps=("hermes",)).expected
    assert wanted == Expected(instances=frozenset({"hermes-demo"}))
    assert settled(picture(*seen), wanted) is expected
