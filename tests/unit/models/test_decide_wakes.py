"""Which models a change wakes, and what is seen of one (spec: models §9)."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from magicstick.api import labels
from magicstick.api.kinds import KUBEAI_MODEL, KUSTOMIZATION, MODEL_ACTIVATION, MODULE_ACTIVATION
from magicstick.catalogs.compute_targets import ComputeTargetCatalog
from magicstick.catalogs.modules import ModuleCatalog
from magicstick.gpu.nodes import NodeView
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CONFIG_MAP, NODE, POD, Kind, ObjectKey
from magicstick.kube.store import MODIFIED, Store
from magicstick.models.catalog_facts import NAME as MODEL_CATALOG
from magicstick.models.catalog_facts import CatalogView
from magicstick.models.facts import ModelFacts, node_changed
from magicstick.models.freetoken_objects import deployment
from magicstick.models.freetoken_runtime import FreeTokenRuntime
from magicstick.models.kinds import DEPLOYMENT, SERVICE
from magicstick.models.objects import activation_label
from magicstick.models.wakes import ModelWakes
from magicstick.modules.facts import ModuleFacts
from magicstick.modules.objects import Site
from tests.support.gpu_objects import host, node
from tests.support.model_objects import activation, freetoken, live_deployment, live_model, live_service, pod
from tests.support.module_objects import activation as module_activation
from tests.support.module_objects import catalog, kustomization
from tests.support.module_world import FakeCatalogs, FakeDefinitions
from tests.support.objects import resource
from tests.support.shipped import TARGETS

MODULES = catalog(
    kubeai={},
    litellm={},
    model_catalog={},
    freetoken={},
    gpu={"providesCapabilities": ["compute.gpu.nvidia"]},
    other={},
)
KINDS = (
    MODEL_ACTIVATION,
    MODULE_ACTIVATION,
    KUSTOMIZATION,
    KUBEAI_MODEL,
    DEPLOYMENT,
    SERVICE,
    POD,
    NODE,
    CONFIG_MAP,
)


class Shelves:
    """One store a kind, in a state that a test may set."""

    def __init__(self) -> None:
        self.stores: dict[Kind, Store[Any]] = {kind: Store(kind.plural) for kind in KINDS}
        self.states = dict.fromkeys(KINDS, InformerState.SYNCED)
        self.versions = 100
        for store in self.stores.values():
            store.replace([], 1)

    def store(self, kind: Kind, namespace: str = "", name: str | None = None) -> Store[Any]:  # noqa: ARG002 - one place a kind
        return self.stores[kind]

    def state(self, kind: Kind, namespace: str = "", name: str | None = None) -> InformerState:  # noqa: ARG002 - as above
        return self.states[kind]

    def subscribe_state(self, handler: Callable[[Kind, InformerState], None]) -> None:
        """Nobody is told."""

    def put(self, kind: Kind, obj: Any) -> None:
        self.versions += 1
        metadata = msgspec.structs.replace(obj.metadata, resource_version=str(self.versions))
        self.stores[kind].event(MODIFIED, msgspec.structs.replace(obj, metadata=metadata))


class Corner:
    """Facts and wakes over stores that a test fills."""

    def __init__(self, modules: ModuleCatalog | None = MODULES) -> None:
        self.shelves = Shelves()
        self.catalogs = FakeCatalogs(modules)
        facts = ModuleFacts(self.shelves, self.catalogs, Site(), FakeDefinitions())
        self.judged: list[str] = []
        self.facts = ModelFacts(facts, self.shelves, self._evidence)
        self.targets: ComputeTargetCatalog | None = TARGETS
        self.wakes = ModelWakes(self.facts, lambda: self.targets)
        for name, spec in (
            ("on-cpu", {"type": "local", "local": {"computeTarget": "cpu"}}),
            ("on-gpu", {"type": "local", "local": {}}),
            ("outside", {"type": "external"}),
        ):
            self.shelves.put(MODEL_ACTIVATION, activation(name, spec=spec))

    def _evidence(self, seen: NodeView) -> dict[str, object]:
        self.judged.append(seen.name)
        return {}


def names(keys: Iterable[ObjectKey]) -> list[str]:
    return sorted({key.name for key in keys})


ALL = ["on-cpu", "on-gpu", "outside"]


def test_a_model_or_a_pod_wakes_whom_it_serves_and_nobody_else() -> None:
    wakes = Corner().wakes
    for each in (live_model("on-cpu", serves="on-cpu"), live_deployment("on-cpu"), live_service("on-cpu")):
        assert names(wakes.by_runtime(None, each)) == ["on-cpu"]
        assert names(wakes.by_runtime(each, None)) == ["on-cpu"]
    foreign = live_model("on-gpu", serves=None)
    assert names(wakes.by_runtime(None, foreign)) == ["on-gpu"]
    mine = msgspec.structs.replace(
        pod(), metadata=msgspec.structs.replace(pod().metadata, labels={"model": "on-gpu"})
    )
    assert names(wakes.by_pod(None, mine)) == ["on-gpu"]
    assert names(wakes.by_pod(None, pod())) == []


def listing(*models: str) -> CatalogView:
    """A model catalog with these models."""
    text = json.dumps({"models": [{"id": each} for each in models]})
    return msgspec.convert({"metadata": {"name": MODEL_CATALOG}, "data": {"catalog.json": text}}, CatalogView)


def test_the_model_catalog_wakes_whom_it_lists_or_no_longer_lists() -> None:
    wakes = Corner().wakes
    before, after = listing("outside", "somebody-elses"), listing("on-cpu", "somebody-elses", "unknown")
    assert names(wakes.by_catalog(before, after)) == ["on-cpu", "outside"]
    assert names(wakes.by_catalog(before, listing("somebody-elses", "outside"))) == []
    assert names(wakes.by_catalog(None, after)) == names(wakes.by_catalog(after, None)) == ALL


def test_a_device_wakes_models_on_accelerators_and_a_new_platform_all_that_run_here() -> None:
    wakes = Corner().wakes
    before, after = node("n1"), node("n1", allocatable={"nvidia.com/gpu": "1"})
    assert names(wakes.by_node(before, after)) == ["on-gpu"]
    assert names(wakes.by_node(None, after)) == ["on-cpu", "on-gpu"]


def test_a_node_wakes_only_models_on_the_targets_that_it_was_or_is_of() -> None:
    corner = Corner()
    spec = {"type": "local", "local": {"computeTarget": "amd-gpu"}}
    corner.shelves.put(MODEL_ACTIVATION, activation("on-amd", spec=spec))
    wakes, plain = corner.wakes, node("n1")
    amd, nvidia = (node("n1", allocatable={name: "1"}) for name in ("amd.com/gpu", "nvidia.com/gpu"))
    marked = node("n1", labelled={"appliance.magicstick.dev/amd-vllm-eligible": "true"})
    assert names(wakes.by_node(plain, node("n1", labelled={"example.com/other": "true"}))) == []
    assert names(wakes.by_node(plain, node("n1", allocatable={"example.com/thing": "1"}))) == []
    assert names(wakes.by_node(plain, amd)) == names(wakes.by_node(amd, plain)) == ["on-amd"]
    assert names(wakes.by_node(plain, marked)) == names(wakes.by_node(marked, plain)) == ["on-amd"]
    assert names(wakes.by_node(nvidia, node("n1", allocatable={"nvidia.com/gpu": "0"}))) == ["on-gpu"]
    assert names(wakes.by_node(nvidia, amd)) == ["on-amd", "on-gpu"]
    corner.targets = None
    assert names(wakes.by_node(plain, nvidia)) == []


def test_a_node_wakes_the_realtime_models_that_name_it_whatever_they_run_on() -> None:
    corner = Corner()
    for name, target, block in (
        ("talks", "cpu", {"gpuNode": "n1"}),
        ("shares", "amd-gpu", {"gpuNode": "n1"}),
        ("elsewhere", "cpu", {"gpuNode": "n2"}),
        ("odd", "cpu", {"gpuNode": ["n1"]}),
        ("odder", "cpu", "n1"),
    ):
        spec = {"type": "local", "local": {"computeTarget": target, "realtime": block}}
        corner.shelves.put(MODEL_ACTIVATION, activation(name, spec=spec))
    before, after = node("n1"), node("n1", ready=False)
    assert names(corner.wakes.by_node(before, after)) == ["shares", "talks"]
    shared = node("n1", labelled={labels.AMD_DRA_READY: "true"})
    assert names(corner.wakes.by_node(before, shared)) == ["shares", "talks"]
    assert names(corner.wakes.by_node(node("n3"), node("n3", ready=False))) == []


def test_a_heartbeat_and_a_fresh_inventory_are_no_news_of_a_node() -> None:
    assert not node_changed(node("n1", heartbeat="a"), node("n1", heartbeat="b"))
    written = [
        node("n1", evidence=host("n1", generatedAt=f"2026-01-01T12:0{minute}:00Z")) for minute in (1, 2)
    ]
    assert not node_changed(*written)
    assert node_changed(written[0], node("n1", evidence=host("n1", memoryArchitecture="unified")))
    assert node_changed(node("n1"), node("n1", ready=False))


def test_a_module_wakes_models_when_its_readiness_really_changes() -> None:
    wakes = Corner().wakes
    ready, failed = (
        kustomization("app-kubeai", module="kubeai"),
        kustomization("app-kubeai", module="kubeai", ready="False"),
    )
    assert names(wakes.by_kustomization(None, ready)) == ALL
    assert names(wakes.by_kustomization(ready, ready)) == []
    assert names(wakes.by_kustomization(ready, failed)) == ALL
    assert names(wakes.by_kustomization(failed, None)) == ALL
    other = kustomization("app-other", module="other")
    assert names(wakes.by_kustomization(None, other)) == []


def test_an_activation_wakes_models_only_where_they_may_need_its_module() -> None:
    wakes = Corner().wakes
    assert names(wakes.by_module(None, module_activation("gpu"))) == ALL
    assert names(wakes.by_module(None, module_activation("other"))) == []


def test_another_catalog_says_anew_which_modules_serve_models() -> None:
    corner = Corner()
    assert names(corner.wakes.by_module(None, module_activation("other"))) == []
    corner.catalogs.put(catalog(other={"providesCapabilities": ["compute.gpu.other"]}))
    assert names(corner.wakes.by_module(None, module_activation("other"))) == ALL
    corner.catalogs.modules = None
    assert names(corner.wakes.by_module(None, module_activation("other"))) == []


@pytest.mark.req("MS-093")
def test_a_cleared_cache_and_kubeais_release_concern_only_what_runs_here() -> None:
    wakes = Corner().wakes
    assert names(wakes.by_cleanup(None, None)) == ["on-cpu", "on-gpu"]
    assert names(wakes.by_release(None, None)) == ["on-cpu", "on-gpu"]


def test_a_profile_on_its_way_wakes_no_model_that_is_ready() -> None:
    corner = Corner()
    corner.shelves.put(MODEL_ACTIVATION, activation("on-cpu", status={"phase": "Ready"}))
    assert names(corner.wakes.by_profile(None, None)) == ["on-gpu"]


@pytest.mark.parametrize("phase", [["Ready"], {"a": 1}, 7, None])
def test_a_status_of_another_form_keeps_nobody_from_being_woken(phase: object) -> None:
    corner = Corner()
    corner.shelves.put(MODEL_ACTIVATION, activation("on-cpu", status={"phase": phase}))
    assert names(corner.wakes.by_profile(None, None)) == ["on-cpu", "on-gpu"]


def test_runtimes_are_found_by_label_in_every_namespace_and_only_ours() -> None:
    corner = Corner()
    corner.shelves.put(KUBEAI_MODEL, live_model("on-cpu", serves="on-cpu", namespace="lab"))
    corner.shelves.put(KUBEAI_MODEL, live_model("theirs", serves=None))
    corner.shelves.put(SERVICE, live_service("on-cpu"))
    found = [(each.kind.kind, each.live.metadata.namespace) for each in corner.facts.runtimes("on-cpu")]
    assert found == [("Model", "lab"), ("Service", "ai")]
    assert corner.facts.runtimes("theirs") == ()


def test_a_name_that_is_the_label_of_a_longer_one_has_nothing_of_its_runtime() -> None:
    corner, whole = Corner(), "a" * 70
    label = activation_label(whole)
    body = deployment(freetoken(whole), FreeTokenRuntime("registry.example.com/x@sha256:0", 1919, "0.1.3"))
    corner.shelves.put(DEPLOYMENT, resource(body))
    assert len(corner.facts.runtimes(whole)) == 1
    assert corner.facts.runtimes(label) == ()


@pytest.mark.parametrize("kind", [KUBEAI_MODEL, DEPLOYMENT, SERVICE, CONFIG_MAP])
def test_what_cannot_be_read_is_told_and_an_absent_kind_has_no_models(kind: Kind) -> None:
    corner = Corner()
    assert corner.facts.blind() == ""
    corner.shelves.states[kind] = InformerState.FAILING
    assert kind.kind in corner.facts.blind()
    corner.shelves.states[kind] = InformerState.ABSENT
    assert (corner.facts.blind() == "") == (kind == KUBEAI_MODEL)


def test_pods_that_cannot_be_read_are_not_absent() -> None:
    corner = Corner()
    corner.shelves.put(POD, pod())
    assert [each.metadata.name for each in corner.facts.pods("demo", "ai") or ()] == ["model-demo-1"]
    assert corner.facts.pods("demo", "lab") == ()
    corner.shelves.states[POD] = InformerState.FAILING
    assert corner.facts.pods("demo", "ai") is None


def test_nodes_are_worked_out_once_for_each_change_that_means_something() -> None:
    corner = Corner()
    corner.shelves.put(NODE, node("n1"))
    first = corner.facts.hardware()
    corner.shelves.put(NODE, node("n1", heartbeat="later"))
    assert corner.facts.hardware() is first
    corner.shelves.put(NODE, node("n1", allocatable={"nvidia.com/gpu": "2"}))
    second = corner.facts.hardware()
    assert second is not first
    assert second is not None
    assert second.nodes[0].allocatable["nvidia.com/gpu"] == "2"
    corner.shelves.stores[NODE].withdraw()
    assert corner.facts.hardware() is None


def test_an_activation_with_a_long_name_is_found_by_its_label() -> None:
    corner = Corner()
    long = f"{'a' * 60}.{'b' * 60}"
    corner.shelves.put(MODEL_ACTIVATION, activation(long))
    made = live_deployment(long)
    labelled = msgspec.structs.replace(
        made,
        metadata=msgspec.structs.replace(
            made.metadata, labels={**made.metadata.labels, labels.MODEL: activation_label(long)}
        ),
    )
    assert names(corner.wakes.by_runtime(None, labelled)) == [long]
