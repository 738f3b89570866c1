"""The states of a model that FreeToken serves, and the description of its runtime (spec: models §13)."""

from typing import Any

import pytest

from magicstick.models.freetoken_runtime import FreeTokenRuntime, freetoken_runtime
from magicstick.models.observation import CheckState, EngineCheck
from magicstick.models.pods import PodView
from magicstick.modules.facts import Gap, not_ready
from magicstick.runtime.plan import Apply, Patch, Plan
from tests.support.model_objects import (
    DIGEST,
    activation,
    descriptor,
    freetoken,
    live_deployment,
    live_service,
    module,
    observation,
    pod,
)
from tests.support.model_plans import applied, condition, decided, message, status_of, stored, told

ENDPOINT = "http://demo-freetoken.ai.svc.cluster.local:1919/v1"


def look(*, ready: int | None = None, **seen: Any) -> Plan:
    """One decision; with `ready` the runtime is there with so many ready replicas."""
    deployment = seen.pop("deployment", live_deployment(ready=ready or 0))
    serving = () if ready is None else (live_service(), deployment)
    usual = {"resolved": freetoken(), "descriptor": descriptor(), "profile": None}
    return decided(observation(seen.pop("of", None), *serving, **{**usual, **seen}))


def test_a_strategy_that_somebody_left_there_goes_before_the_apply_that_it_would_have_refused() -> None:
    edited = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}
    *_, before, deployment = look(ready=1, deployment=live_deployment(ready=1, spec=edited)).steps

    assert isinstance(before, Patch)
    assert before.body == {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}}
    assert isinstance(deployment, Apply)


@pytest.mark.parametrize(
    ("description", "word"),
    [(None, "does not exist"), (descriptor(image=""), "image"), (descriptor(port="http"), "port")],
)
def test_without_a_usable_description_of_the_runtime_nothing_is_made(description: Any, word: str) -> None:
    plan = look(descriptor=description)
    assert told(plan) == ("WaitingForRuntime", "WaitingForFreeTokenRuntime")
    assert word in message(plan)
    assert plan.steps == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"imageDigest": ""},
        {"imageDigest": "sha256:short"},
        {"promotionState": "pending"},
        {"imageRevision": "main"},
        {"image": f"registry.example.com/freetoken@sha256:{'c' * 64}"},
        {"image": "registry.example.com/freetoken@sha256:short"},
    ],
)
def test_e35_an_image_that_is_not_pinned_and_verified_is_not_run(changes: dict[str, str]) -> None:
    plan = look(descriptor=descriptor(**changes))
    assert told(plan) == ("WaitingForRuntime", "FreeTokenRuntimeImageUnverified")
    assert plan.steps == ()


def test_an_image_is_run_by_its_digest_without_its_tag() -> None:
    registry = "registry.example.com:5000/freetoken"
    for image in (f"{registry}:v1", registry, f"{registry}@{DIGEST}"):
        runtime = freetoken_runtime({**descriptor().data, "image": image})
        assert isinstance(runtime, FreeTokenRuntime)
        assert (runtime.image, runtime.unverified) == (f"{registry}@{DIGEST}", "")


@pytest.mark.parametrize("port", ["", "0", "65536", "-1", "1.5", "1_0", "٣", "9" * 30])
def test_a_port_that_is_none_makes_the_description_unusable(port: str) -> None:
    assert isinstance(freetoken_runtime(descriptor(port=port).data), str)


def test_a_port_that_is_left_out_is_the_usual_one() -> None:
    data = {name: value for name, value in descriptor().data.items() if name != "port"}
    runtime = freetoken_runtime(data)
    assert isinstance(runtime, FreeTokenRuntime)
    assert runtime.port == 1919


def test_the_service_comes_before_the_deployment() -> None:
    plan = look()
    assert told(plan) == ("Starting", "WaitingForFreeTokenPod")
    assert [body["kind"] for body in applied(plan)] == ["Service", "Deployment"]


def test_a_deployment_that_does_not_progress_degrades_with_its_words() -> None:
    failed = {"type": "Progressing", "status": "False", "message": "deadline exceeded" + "x" * 2000}
    plan = look(ready=0, deployment=live_deployment(status={"conditions": [failed]}))
    assert told(plan) == ("Degraded", "FreeTokenDeploymentFailed")
    assert "deadline exceeded" in message(plan)
    assert len(message(plan)) < 700


def test_a_pod_in_trouble_tells_why() -> None:
    waiting = {"name": "freetoken", "state": {"waiting": {"reason": "ErrImagePull", "message": "denied"}}}
    plan = look(ready=0, pods=(pod(owner=None, containers=[waiting]),))
    assert told(plan) == ("Starting", "ModelContainerStartupFailed")
    assert "denied" in message(plan)


@pytest.mark.parametrize("ready", [0, 1])
def test_e35_an_error_of_its_health_degrades_whether_or_not_the_pod_is_ready(ready: int) -> None:
    plan = look(ready=ready, check=EngineCheck(CheckState.FAILED, "GPU memory: out of memory"))
    assert told(plan) == ("Degraded", "FreeTokenHealthFailed")
    assert "GPU memory: out of memory" in message(plan)


@pytest.mark.req("MS-360")
@pytest.mark.parametrize("check", [EngineCheck(), EngineCheck(CheckState.WAITING, "Loading.")])
def test_a_ready_pod_whose_health_is_not_known_good_is_waited_for(check: EngineCheck) -> None:
    plan = look(ready=1, check=check, published=True)
    assert told(plan) == ("Starting", "WaitingForFreeTokenHealth")
    assert (condition(plan, "RuntimeReady"), status_of(plan)["runtimeEndpoint"]) == ("False", "")


@pytest.mark.req("MS-361")
def test_a_healthy_runtime_tells_its_address_and_is_ready_once_it_is_published() -> None:
    healthy = EngineCheck(CheckState.PASSED, stats={"activeRequests": 1})
    waiting = look(ready=1, check=healthy, published=False)
    assert told(waiting) == ("Reconciling", "WaitingForCatalog")
    assert condition(waiting, "RuntimeReady") == "True"
    assert status_of(waiting)["runtimeEndpoint"] == ENDPOINT
    ready = look(ready=1, check=healthy, published=True)
    assert told(ready) == ("Ready", "CatalogReady")
    assert status_of(ready)["freeTokenStats"] == {"activeRequests": 1}


def test_health_that_was_good_holds_while_nobody_can_tell() -> None:
    before = stored(look(ready=1, check=EngineCheck(CheckState.PASSED), published=True))
    assert told(look(ready=1, of=before, published=True))[0] == "Ready"


def test_a_runtime_that_serves_keeps_its_address_while_something_else_is_waited_for() -> None:
    """Without it the catalog would withdraw a model that is fine."""
    healthy = EngineCheck(CheckState.PASSED, stats={"activeRequests": 1})
    before = stored(look(ready=1, check=healthy, published=True))
    missing = (module("litellm", not_ready(Gap.NOT_READY)),)
    plan = look(ready=1, of=before, check=healthy, published=True, modules=missing)
    assert told(plan)[0] == "WaitingForModules"
    assert condition(plan, "RuntimeReady") == "True"
    assert status_of(plan)["runtimeEndpoint"] == ENDPOINT
    gone = look(ready=0, of=before, check=healthy, published=True, modules=missing)
    assert (condition(gone, "RuntimeReady"), status_of(gone)["runtimeEndpoint"]) == ("False", "")


def test_a_description_that_cannot_be_read_is_not_absent() -> None:
    before = activation(status={"phase": "Ready"})
    plan = look(ready=1, of=before, descriptor=None, descriptor_known=False)
    assert (plan.steps, plan.status) == ((), None)


def test_a_rollout_that_is_not_complete_is_not_ready() -> None:
    for status in ({"observedGeneration": 0}, {"updatedReplicas": 0}, {"availableReplicas": 0}):
        rolling = live_deployment(ready=1, status=status)
        plan = look(ready=1, deployment=rolling, check=EngineCheck(CheckState.PASSED), published=True)
        assert told(plan) == ("Starting", "WaitingForFreeTokenPod")


def test_a_dying_pod_has_no_trouble_that_counts() -> None:
    waiting = {"name": "freetoken", "state": {"waiting": {"reason": "ErrImagePull"}}}
    pods: tuple[PodView, ...] = (pod(owner=None, dying=True, containers=[waiting]),)
    assert told(look(ready=0, pods=pods))[1] == "WaitingForFreeTokenPod"


@pytest.mark.req("MS-348")
def test_the_status_tells_the_whole_gpus() -> None:
    status = status_of(look(ready=0))
    assert status["gpuSharing"] == {
        "mode": "exclusive",
        "node": "node-1",
        "wholeGpuCount": 2,
        "tensorParallelSize": 2,
        "vramMiPerDevice": 20000,
    }
    assert (status["modelRef"], status["engine"], status["gpuAllocationMode"]) == (
        "freetoken/demo",
        "FreeToken",
        "",
    )
    assert status["requestedKvCacheType"] == "auto"
    assert "memoryUsage" not in status
