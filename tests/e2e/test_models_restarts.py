"""The life of one model, told three times: without trouble, and with an operator that is killed at each step.

In one of the others the operator dies at its first write after each step, in the third it is dead when the
step happens. What it ends in must be the same every time. Flux, the scheduler, the operator and the model
catalog are the real ones; KubeAI, the kubelets of its Pods, Ollama, LiteLLM and the device plugin are played.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from hack.dev.appliance import NAMESPACE, OURS, SERVICE_ACCOUNT
from hack.dev.models import ModelStage
from hack.dev.view import condition
from hack.devcluster.actors.following import DIRECTIONS
from hack.devcluster.audit import AuditMark
from hack.devcluster.programs import BY_NAME
from hack.devcluster.rest import Object
from tests.e2e.stand import GROUP, Stand, steadily
from tests.e2e.test_models_story import Models
from tests.support.model_scene import cache_cleanup

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

NAME: Final = "storied"
NODE: Final = "nvidia-0"
OPERATOR: Final = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"
CLEANUP: Final = "clear-storied"
NODES: Final = "/api/v1/nodes"
OPERATIONS: Final = f"{OURS}/hostoperations"
OLLAMA: Final = {"engine": "OLlama", "url": "ollama://example:1b"}
VLLM: Final = {"engine": "VLLM", "url": "hf://example/model"}
REQUEUE_S: Final = 3
"""After so long Ollama is asked again."""
STIR_S: Final = 90.0
MERGE: Final = "application/merge-patch+json"

State = Mapping[str, Any]
"""What a step ends in: the activation, what serves it, and what is published of it."""


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happens to the model, and what is reported then; no phase once it is gone."""

    what: str
    happens: Callable[[], None]
    phase: str = "Ready"
    reason: str = "CatalogReady"


class Life:
    """One model on a stand, from its activation to its end."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._cluster = models.stand.cluster

    def steps(self) -> tuple[Step, ...]:
        """The story."""
        models = self._models
        return (
            Step("activated", self._activate),
            Step("alias lost", lambda: models.direct(NAME, ollama="refuses-copies"), *WAITS_FOR_ALIAS),
            Step("alias back", lambda: models.direct(NAME, ollama="without-alias")),
            Step("GPU lost", lambda: self._plugins("down"), *WAITS_FOR_GPU),
            Step("GPU back", lambda: self._plugins(None)),
            Step("engine switched", lambda: models.change(NAME, local=VLLM)),
            Step("cache cleanup requested", self._request_cleanup, *WAITS_FOR_CLEANUP),
            Step("cache cleanup done", lambda: self._report_cleanup("Succeeded")),
            Step("disabled", lambda: models.change(NAME, enabled=False), "Disabled", "Disabled"),
            Step("enabled", lambda: models.change(NAME, enabled=True)),
            Step("deleted", self._delete, "", ""),
        )

    # -- what happens ---------------------------------------------------------------------------------

    def _activate(self) -> None:
        local = {"computeTarget": "nvidia-gpu", "vram": "8Gi", **OLLAMA}
        body = {
            "apiVersion": GROUP,
            "kind": "ModelActivation",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "spec": {"type": "local", "enabled": True, "local": local},
        }
        self._cluster.rest.apply(body, field_manager="user")

    def _plugins(self, told: str | None) -> None:
        body = {"metadata": {"annotations": {f"{DIRECTIONS}/plugins": told}}}
        self._cluster.rest.request("PATCH", f"{NODES}/{NODE}", body, content_type=MERGE)

    def _request_cleanup(self) -> None:
        body = cache_cleanup({"name": CLEANUP, "namespace": NAMESPACE}, NODE)
        self._cluster.rest.apply(body, field_manager="dashboard")
        self._report_cleanup("Preparing")

    def _report_cleanup(self, phase: str) -> None:
        body = {"status": {"phase": phase}}
        self._cluster.rest.request("PATCH", f"{OPERATIONS}/{CLEANUP}/status", body, content_type=MERGE)

    def _delete(self) -> None:
        self._models.stand.delete(f"{OPERATIONS}/{CLEANUP}")
        self._models.stand.delete(f"{OURS}/modelactivations/{NAME}")

    # -- what is ------------------------------------------------------------------------------------

    def state(self) -> State:
        """Without what differs between two equal lives: identities, versions and times."""
        models = self._models
        return {
            "activation": _essence(models.stand.get(f"{OURS}/modelactivations/{NAME}")),
            "model": _essence(models.stand.get(f"/apis/kubeai.org/v1/namespaces/ai/models/{NAME}")),
            "serving": len(models.serving(NAME)),
            "pods": len(models.pods(NAME)),
            "listed": sorted(models.listed()),
            "routes": {name: each["litellm_params"] for name, each in models.routes().items()},
        }

    def arrived(self, step: Step) -> bool:
        """Whether what the step ends in is reported, for the present spec."""
        found = self._models.stand.get(f"{OURS}/modelactivations/{NAME}")
        if found is None or not step.phase:
            return found is None and not step.phase
        status, ready = found.get("status", {}), condition(found, "Ready")
        current = status.get("observedGeneration") == found["metadata"]["generation"]
        return current and (status.get("phase"), ready.get("reason")) == (step.phase, step.reason)

    def until_steady(self, step: Step) -> State:
        """The state after a step, once it does not change any more.

        The Pods of a Model go with it, however late the garbage collector of a young cluster hears of its kind.
        """

        def reached() -> State | None:
            arrived, state = self.arrived(step), self.state()
            return state if arrived and (state["model"] is not None or not state["pods"]) else None

        (state,) = self._models.until(f"the end of: {step.what}", steadily(reached))
        return state

    def until_equal(self, step: Step, expected: State) -> None:
        """Wait for the state that this step ended in before."""
        found: list[State] = []

        def equal() -> bool:
            found[:] = [self.state()]
            return found[0] == expected

        try:
            self._models.until(f"the same end of: {step.what}", equal)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{_differences(expected, found[0])}") from error


WAITS_FOR_ALIAS: Final = ("Starting", "WaitingForOllamaAlias")
WAITS_FOR_GPU: Final = ("WaitingForGPU", "WaitingForGPU")
WAITS_FOR_CLEANUP: Final = ("Starting", "ModelCacheMaintenance")


def _essence(obj: Object | None) -> Mapping[str, Any] | None:
    if obj is None:
        return None
    metadata, status = obj["metadata"], obj.get("status", {})
    conditions = [
        {name: each.get(name) for name in ("type", "status", "reason", "message")}
        for each in status.get("conditions", [])
    ]
    return {
        "labels": metadata.get("labels", {}),
        "finalizers": metadata.get("finalizers", []),
        "spec": obj["spec"],
        "current": status.get("observedGeneration", metadata["generation"]) == metadata["generation"],
        "status": {
            **{name: value for name, value in status.items() if name != "observedGeneration"},
            "conditions": conditions,
        },
    }


def _differences(expected: State, found: State) -> str:
    return "\n".join(
        f"{name}:\n  expected {json.dumps(expected[name], sort_keys=True)}\n"
        f"  found    {json.dumps(found[name], sort_keys=True)}"
        for name in expected
        if expected[name] != found[name]
    )


def until_stirred(stand: Stand, mark: AuditMark) -> None:
    """Wait for the operator's first write since the mark; its lease and Events do not count."""

    def wrote() -> bool:
        return any(
            record.user == OPERATOR and record.is_write and record.resource not in {"leases", "events"}
            for record in stand.cluster.audit(since=mark)
        )

    stand.until("the operator to write something", wrote, deadline_s=STIR_S)


def killed_at_its_first_write(stand: Stand, step: Step) -> None:
    """The operator has begun to do what the step asks for."""
    mark = stand.cluster.audit_mark()
    step.happens()
    until_stirred(stand, mark)
    stand.kill_operator()
    stand.start_operator()


def dead_when_it_happens(stand: Stand, step: Step) -> None:
    """The operator finds what has happened."""
    stand.kill_operator()
    step.happens()
    stand.start_operator()


@pytest.fixture
def models(stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Models]:
    """An appliance with an NVIDIA node and a running model catalog, without models."""
    monkeypatch.setenv("REQUEUE_SECONDS", str(REQUEUE_S))
    version = BY_NAME["kube-apiserver"].version
    stand.cluster.add_node(NODE, annotations={f"{DIRECTIONS}/hardware": "nvidia=1"}, kubelet_version=version)
    stand.start_operator()
    models = Models(stand, tmp_path)
    models.stage = ModelStage(stand.cluster, tmp_path, [], print)
    try:
        models.until("the model catalog to run", lambda: models.stage.catalog)
        yield models
    finally:
        models.stage.stop()


@pytest.mark.req("MS-018", "MS-099", "MS-112", "MS-362", "MS-363", "MS-364", "MS-365")
def test_a_model_comes_to_the_same_whenever_the_operator_dies(models: Models) -> None:
    stand, life = models.stand, Life(models)
    calm: dict[str, State] = {}
    for step in life.steps():
        step.happens()
        calm[step.what] = life.until_steady(step)
    assert_told_as_meant(calm)
    for dies in (killed_at_its_first_write, dead_when_it_happens):
        for step in life.steps():
            dies(stand, step)
            life.until_equal(step, calm[step.what])


def assert_told_as_meant(calm: Mapping[str, State]) -> None:
    """What the states are that are compared: the route goes with the alias, the runtime with its switch."""
    published = {what for what, state in calm.items() if NAME in state["routes"] and NAME in state["listed"]}
    gone = {"alias lost", "disabled", "deleted"}
    assert published == calm.keys() - gone
    assert {what for what, state in calm.items() if not state["pods"]} == {"disabled", "deleted"}
    assert calm["GPU back"]["model"]["spec"]["engine"] == "OLlama"
    assert calm["engine switched"]["model"]["spec"]["engine"] == "VLLM"
    assert calm["deleted"]["activation"] is None
    assert calm["deleted"]["routes"] == {}
