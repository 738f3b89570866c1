"""What `make dev` can be asked for: GPUs, modules and models; and when it counts as done."""

from collections.abc import Mapping
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest
from rich.console import Console

from hack import yamls
from hack.dev.__main__ import main
from hack.dev.appliance import ROOT, Expected, settled
from hack.dev.choices import NODES, VENDORS, Choices, Gpu, catalog_of, chosen
from hack.dev.models import EXAMPLES, names_of
from hack.dev.options import parse
from hack.dev.view import Hardware, Model, Picture, Row, of_hardware, of_model, view
from hack.devcluster import DevClusterError
from hack.devcluster.actors.hardware import CARDS, cards_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CATALOG = catalog_of(ROOT)
NOTHING: frozenset[str] = frozenset()


def appliance(phase: str = "Ready", hardware: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    status = {"observedGeneration": 1, "phase": phase, "hardwareOperators": dict(hardware)}
    return {"metadata": {"name": "local", "generation": 1}, "status": status}


def row(module: str, phase: str = "Ready") -> Row:
    return Row(module, phase, "", "", None)


def gpus(vendor: str, phase: str = "Ready", *, module: str = "gpu") -> Hardware:
    return Hardware(module, vendor, phase, 1, 1, 2, "")


def model(name: str, phase: str = "Ready") -> Model:
    return Model(name, phase, "", "", "", None)


class TestModules:
    def test_all_are_those_that_a_user_may_switch(self) -> None:
        assert chosen(["all"], CATALOG) == {
            key for key, each in CATALOG.items() if each.get("activationMode") != "static"
        }
        assert len(chosen(["all"], CATALOG)) >= 15

    def test_aliases_are_understood(self) -> None:
        assert chosen(["anythingllm", "kubeai"], CATALOG) == {"anything-llm", "kubeai"}

    def test_none_is_none(self) -> None:
        assert chosen(parse([]).modules, CATALOG) == NOTHING

    def test_a_list_may_have_spaces(self) -> None:
        assert parse(["--modules", "kubeai, litellm,"]).modules == ("kubeai", "litellm")

    @pytest.mark.usefixtures("own_signals")
    @pytest.mark.parametrize(
        ("name", "said"), [("voodoo", "no module 'voodoo'.*litellm"), ("basis", "'basis' is static")]
    )
    def test_a_name_that_makes_no_sense_is_told_at_once(
        self, name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(DevClusterError, match=said):
            chosen([name], CATALOG)
        assert main(["--modules", name, "--directory", str(tmp_path)]) == 1
        assert f"make dev: the{'re is no' if name == 'voodoo' else ''} module" in capsys.readouterr().err

    @pytest.mark.parametrize("content", [None, "a: {", "kind: ConfigMap", "data: {modules.json: '{'}"])
    def test_a_tree_without_a_catalog_is_told(self, tmp_path: Path, content: str | None) -> None:
        if content is not None:
            file = tmp_path / "manifests" / "catalogs" / "module-catalog.yaml"
            file.parent.mkdir(parents=True)
            file.write_text(content)
        with pytest.raises(DevClusterError, match="holds no catalog of modules"):
            catalog_of(tmp_path)


class TestGpus:
    @pytest.mark.parametrize("gpu", Gpu)
    def test_the_nodes_of_a_choice_have_cards_of_its_vendors(self, gpu: Gpu) -> None:
        markers = ({"metadata": {"annotations": _marked(each.hardware)}} for each in NODES[gpu])
        assert {CARDS[card].vendor for marker in markers for card in cards_of(marker)} == VENDORS[gpu]

    def test_the_catalog_knows_every_vendor(self) -> None:
        known = {each["hardware"]["vendor"] for each in CATALOG.values() if "hardware" in each}
        assert known == VENDORS[Gpu.MIXED]

    def test_an_unknown_vendor_is_refused_with_those_there_are(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as ended:
            parse(["--gpu", "voodoo"])
        assert ended.value.code == 2
        told = "argument --gpu: must be one of none, nvidia, amd, intel, mixed, and is 'voodoo'\n"
        assert capsys.readouterr().err.endswith(told)


def _marked(hardware: str) -> dict[str, str]:
    return {"devcluster.magicstick.dev/hardware": hardware}


class TestModels:
    def test_all_examples_of_models_are_applied_where_there_is_the_hardware(self) -> None:
        objects = Choices(Gpu.MIXED, models=True).model_objects()
        shipped = {
            document["metadata"]["name"]
            for file in EXAMPLES.glob("model-*.yaml")
            for document in yamls.load_all(file.read_text())
        }
        assert {each["metadata"]["name"] for each in objects} == shipped
        assert names_of(objects) == {"qwen-cpu", "qwen-nvidia", "hosted-chat"}

    @pytest.mark.parametrize("gpu", [Gpu.NONE, Gpu.AMD, Gpu.INTEL])
    def test_without_an_nvidia_gpu_nothing_is_asked_of_one(self, gpu: Gpu) -> None:
        assert names_of(Choices(gpu, models=True).model_objects()) == {"qwen-cpu", "hosted-chat"}

    def test_none_are_applied_unless_they_are_asked_for(self) -> None:
        assert not parse([]).models
        assert Choices(Gpu.NVIDIA).model_objects() == []


class TestSettled:
    def test_when_everything_is_ready(self) -> None:
        picture = Picture(appliance(), (row("litellm"), row("kubeai", "Disabled")), (gpus("nvidia"),))
        assert settled(picture, Expected(frozenset({"litellm"}), frozenset({"nvidia"})))

    @pytest.mark.parametrize(
        "picture",
        [
            Picture(None, (row("litellm"),), (gpus("nvidia"),)),
            Picture(appliance("Reconciling"), (row("litellm"),), (gpus("nvidia"),)),
            Picture(appliance(), (), (gpus("nvidia"),)),
            Picture(appliance(), (row("litellm"), row("a", "Degraded")), (gpus("nvidia"),)),
            Picture(appliance(), (row("other"),), (gpus("nvidia"),)),
            Picture(appliance(), (row("litellm", "Disabled"),), (gpus("nvidia"),)),
            Picture(appliance(), (row("litellm"),), ()),
            Picture(appliance(), (row("litellm"),), (gpus("amd"),)),
            Picture(appliance(), (row("litellm"),), (gpus("nvidia", "Installing"),)),
        ],
    )
    def test_not_while_something_that_was_asked_for_is_not(self, picture: Picture) -> None:
        assert not settled(picture, Expected(frozenset({"litellm"}), frozenset({"nvidia"})))

    def test_only_with_every_model_that_was_asked_for(self) -> None:
        wanted = Expected(models=frozenset({"a"}))

        def at(*models: Model) -> bool:
            return settled(Picture(appliance(), (row("litellm"),), (), models), wanted)

        assert at(model("a"), model("b"))
        assert at(model("a"), model("b", "Disabled"))
        assert not at()
        assert not at(model("b"))
        assert not at(model("a", "Disabled"))
        assert not at(model("a"), model("b", "Starting"))

    def test_hardware_that_nobody_expects_does_not_matter(self) -> None:
        picture = Picture(appliance(), (row("litellm"),), (gpus("amd", "Unknown"),))
        assert settled(picture, Expected())


class TestView:
    ENTRY: Final = MappingProxyType(
        {
            "vendor": "nvidia",
            "phase": "Installing",
            "detectedNodes": ["a", "b"],
            "compatibleNodes": ["a"],
            "allocatableResources": 3,
            "message": "waiting for the device plugin",
        }
    )

    def test_hardware_is_shown_with_nodes_resources_and_message(self) -> None:
        shown = appliance(hardware={"gpu": self.ENTRY, "amd-gpu": {"vendor": "amd", "phase": "NotRequired"}})
        hardware = of_hardware(shown)
        assert [each.module for each in hardware] == ["gpu"], "what is not needed is not shown"
        console = Console(width=120, record=True, file=StringIO())
        console.print(view(Picture(shown, (row("litellm"),), hardware), NOW))
        text = console.export_text()
        assert "waiting for the device plugin" in text
        (line,) = [each for each in text.splitlines() if "Installing" in each]
        assert [cell.strip() for cell in line.split("│")[1:5]] == ["gpu", "Installing", "1 of 2", "3"]

    def test_without_hardware_there_is_one_table(self) -> None:
        console = Console(width=120, record=True, file=StringIO())
        console.print(view(Picture(appliance(), (row("litellm"),), ()), NOW))
        assert "GPUs" not in console.export_text()

    def test_an_entry_of_which_little_is_known_yet_can_be_shown(self) -> None:
        (entry,) = of_hardware(appliance(hardware={"gpu": {}}))
        assert (entry.phase, entry.nodes, entry.allocatable) == ("new", "0 of 0", 0)

    def test_no_appliance_has_no_hardware(self) -> None:
        assert of_hardware(None) == ()

    def test_models_are_shown_with_runtime_phase_and_message(self) -> None:
        ready = {"type": "Ready", "status": "False", "reason": "Unschedulable", "message": "no GPU is free"}
        activation: dict[str, Any] = {
            "metadata": {"name": "demo", "generation": 2, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "status": {
                "observedGeneration": 2,
                "phase": "Starting",
                "engine": "VLLM",
                "computeTarget": "nvidia-gpu",
                "conditions": [ready],
            },
        }
        console = Console(width=140, record=True, file=StringIO())
        console.print(view(Picture(appliance(), (row("litellm"),), (), (of_model(activation),)), NOW))
        (line,) = [each for each in console.export_text().splitlines() if "demo" in each]
        cells = [cell.strip() for cell in line.split("│")[1:-1]]
        assert cells == ["demo", "VLLM on nvidia-gpu", "Starting", "Unschedulable", "0s", "no GPU is free"]
        stale = {**activation, "status": {**activation["status"], "observedGeneration": 1}}
        assert of_model(stale).phase == "new"
        outside = {**activation, "status": {"engine": "external", "computeTarget": "external"}}
        assert of_model(outside).runtime == "external"
