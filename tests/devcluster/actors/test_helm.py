"""The Helm actor keeps to the contract of Flux's helm-controller."""

import asyncio

import pytest

from hack.devcluster.actors.following import Object, condition
from hack.devcluster.actors.helm import HelmActor
from hack.devcluster.actors.helm_values import merged
from hack.devcluster.actors.releases import Outcome
from tests.devcluster.actors.stage import DEFINITIONS, RELEASES, Stage

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

MODELS = "models.kubeai.org"
POLICIES = "clusterpolicies.nvidia.com"
INSTALLED = ("True", "InstallSucceeded")
UPGRADED = ("True", "UpgradeSucceeded")


def types(obj: Object) -> set[str]:
    return {each["type"] for each in obj.get("status", {}).get("conditions", [])}


async def test_a_release_is_installed_and_says_so(stage: Stage) -> None:
    async with HelmActor(stage.client).running():
        await stage.release("a", targetNamespace=stage.namespace)
        await stage.until_ready("a", *INSTALLED)
    assert stage.seen_ready("a") == [("Unknown", "Progressing"), INSTALLED]
    found = stage.get(RELEASES, "a")
    assert found["metadata"]["finalizers"] == ["finalizers.fluxcd.io"]
    assert types(found) == {"Ready", "Released"}
    status = stage.status("a")
    assert status["observedGeneration"] == found["metadata"]["generation"]
    assert condition(found, "Ready")["observedGeneration"] == found["metadata"]["generation"]
    (snapshot,) = status["history"]
    assert (snapshot["name"], snapshot["namespace"]) == (f"{stage.namespace}-a", stage.namespace)
    assert (snapshot["version"], snapshot["status"], snapshot["chartVersion"]) == (1, "deployed", "1.0.0")
    assert status["storageNamespace"] == stage.namespace


async def test_while_it_is_installed_it_is_reconciling_and_nothing_more(stage: Stage) -> None:
    actor, over = HelmActor(stage.client), asyncio.Event()

    async def takes(_: Object) -> None:
        await over.wait()

    actor.takes = takes
    async with actor.running():
        await stage.release("a", chart="kubeai")
        await stage.until_ready("a", "Unknown", "Progressing")
        assert condition(stage.get(RELEASES, "a"), "Reconciling")["status"] == "True"
        assert stage.status("a")["observedGeneration"] == -1, "as Flux's definition has it at first"
        assert stage.mirror.get(DEFINITIONS, MODELS) is None
        over.set()
        await stage.until_ready("a", *INSTALLED)
        await stage.until("the definition", lambda: stage.mirror.get(DEFINITIONS, MODELS))
        await stage.delete_release("a")
        await stage.until("the definition to go", lambda: not stage.mirror.get(DEFINITIONS, MODELS))


async def test_a_change_is_an_upgrade_and_its_status_is_old_until_then(stage: Stage) -> None:
    actor = HelmActor(stage.client)
    async with actor.running():
        await stage.release("a")
        await stage.until_ready("a", *INSTALLED)
        actor.gate.shut()
        await stage.release("a", values={"replicas": 2})
        await stage.until("the change", lambda: stage.get(RELEASES, "a")["metadata"]["generation"] == 2)
        assert stage.ready("a") == INSTALLED
        assert stage.status("a")["observedGeneration"] == 1
        actor.gate.open()
        await stage.until_ready("a", *UPGRADED)
    history = stage.status("a")["history"]
    assert [(each["version"], each["status"]) for each in history] == [(2, "deployed"), (1, "superseded")]
    assert history[0]["configDigest"] != history[1]["configDigest"]


async def test_a_settled_release_is_not_written(stage: Stage) -> None:
    async with HelmActor(stage.client).running():
        await stage.release("a")
        await stage.until_ready("a", *INSTALLED)
    before = stage.get(RELEASES, "a")["metadata"]["resourceVersion"]
    async with HelmActor(stage.client).running():  # another one begins with all there is
        await stage.release("b")
        await stage.until_ready("b", *INSTALLED)
    assert stage.get(RELEASES, "a")["metadata"]["resourceVersion"] == before


async def test_a_suspended_release_is_left_alone_and_not_uninstalled(stage: Stage) -> None:
    actor = HelmActor(stage.client)
    async with actor.running():
        await stage.release("a")
        await stage.until_ready("a", *INSTALLED)
        await stage.release("a", suspend=True)
        await stage.release("b")
        await stage.until_ready("b", *INSTALLED)
        assert stage.status("a")["observedGeneration"] == 1
        await stage.delete_release("a")
        await stage.until("a to be gone", lambda: not stage.mirror.get(RELEASES, "a"))
        assert actor.uninstalled == []
        await stage.delete_release("b")
        await stage.until("b to be gone", lambda: not stage.mirror.get(RELEASES, "b"))
    assert actor.uninstalled == [(stage.namespace, "b")]


async def test_a_resumed_release_goes_on(stage: Stage) -> None:
    async with HelmActor(stage.client).running():
        await stage.release("a", suspend=True)
        await stage.release("b")
        await stage.until_ready("b", *INSTALLED)
        assert stage.ready("a") == ("", "")
        await stage.release("a", suspend=False)
        await stage.until_ready("a", *INSTALLED)


async def test_a_dependency_is_waited_for_in_its_present_generation(stage: Stage) -> None:
    actor = HelmActor(stage.client)
    async with actor.running():
        await stage.release("b", dependsOn=[{"name": "a"}])
        await stage.until_ready("b", "False", "DependencyNotReady")
        assert stage.status("b")["observedGeneration"] == -1, "as Flux's definition has it at first"
        await stage.release("a")
        await stage.until_ready("b", *INSTALLED)
    assert stage.seen_ready("b").index(("False", "DependencyNotReady")) == 0


async def test_a_source_that_is_missing_is_waited_for(stage: Stage) -> None:
    async with HelmActor(stage.client).running():
        await stage.release("a", repository="late")
        await stage.until_ready("a", "False", "SourceNotReady")
        await stage.repository("late")
        await stage.until_ready("a", *INSTALLED)


async def test_a_failure_without_retries_stalls_until_it_is_asked_for_again(stage: Stage) -> None:
    actor = HelmActor(stage.client)
    actor.outcome = lambda _: Outcome("InstallFailed", "timed out waiting")
    async with actor.running():
        await stage.release("a")
        await stage.until_ready("a", "False", "InstallFailed")
        found = stage.get(RELEASES, "a")
        assert condition(found, "Stalled")["reason"] == "RetriesExceeded"
        assert condition(found, "Released")["status"] == "False"
        assert stage.status("a")["history"][0]["status"] == "failed"
        assert stage.status("a")["failures"] == 1
        actor.outcome = lambda _: Outcome()
        actor.look_again()
        await stage.release("b")
        await stage.until_ready("b", *INSTALLED)
        assert stage.ready("a") == ("False", "InstallFailed"), "it was stalled"
        await stage.ask("a", "1", reset=True)
        await stage.until_ready("a", *UPGRADED)
        assert stage.status("a")["lastHandledReconcileAt"] == "1"


async def test_a_failure_with_retries_is_tried_again_when_things_changed(stage: Stage) -> None:
    actor = HelmActor(stage.client)
    actor.outcome = lambda _: Outcome("InstallFailed", "timed out waiting")
    async with actor.running():
        await stage.release("a", install={"strategy": {"name": "RetryOnFailure"}})
        await stage.until_ready("a", "False", "InstallFailed")
        assert "Stalled" not in types(stage.get(RELEASES, "a"))
        actor.outcome = lambda _: Outcome()
        actor.look_again()
        await stage.until_ready("a", *UPGRADED)


async def test_a_failed_upgrade_leaves_what_was_deployed(stage: Stage) -> None:
    await stage.release("a")
    async with HelmActor(stage.client).running():
        await stage.until_ready("a", *INSTALLED)
        await stage.annotate(RELEASES, "a", fail="UpgradeFailed: no space")
        await stage.until_ready("a", "False", "UpgradeFailed")
        assert condition(stage.get(RELEASES, "a"), "Ready")["message"] == "no space"
    assert [each["status"] for each in stage.status("a")["history"]] == ["failed", "deployed"]


async def test_a_missing_target_namespace_fails_unless_it_may_be_made(stage: Stage) -> None:
    target = f"{stage.namespace}-target"
    async with HelmActor(stage.client).running():
        await stage.release("a", targetNamespace=target, install={"createNamespace": False})
        await stage.until_ready("a", "False", "InstallFailed")
        assert target in condition(stage.get(RELEASES, "a"), "Ready")["message"]
        await stage.release("a", targetNamespace=target, install={"createNamespace": True})
        await stage.until_ready("a", *INSTALLED)
    assert await stage.client.find(f"/api/v1/namespaces/{target}") is not None


async def test_values_from_a_config_map_are_read_when_asked_for_and_not_before(stage: Stage) -> None:
    actor = HelmActor(stage.client)
    reference = {"kind": "ConfigMap", "name": "profiles", "valuesKey": "values.json"}
    async with actor.running():
        await stage.release("a", valuesFrom=[reference])
        await stage.until_ready("a", "False", "ValuesError")
        await stage.config_map("profiles", **{"values.json": "{}"})
        await stage.until_ready("a", *INSTALLED)
        before = stage.status("a")["lastAttemptedConfigDigest"]
        await stage.config_map("profiles", **{"values.json": '{"a": 1}'})
        await stage.release("b")
        await stage.until_ready("b", *INSTALLED)
        assert stage.status("a")["lastAttemptedConfigDigest"] == before
        await stage.ask("a", "1")
        await stage.until_ready("a", *UPGRADED)
        assert stage.status("a")["lastAttemptedConfigDigest"] != before


async def test_a_lie_says_ready_and_brings_nothing(stage: Stage) -> None:
    async with HelmActor(stage.client).running():
        await stage.release(
            "a", chart="paperclip-operator", annotations={"devcluster.magicstick.dev/lie": "ready"}
        )
        await stage.until_ready("a", *INSTALLED)
        await stage.release("b")
        await stage.until_ready("b", *INSTALLED)
    assert stage.mirror.get(DEFINITIONS, "instances.paperclip.inc") is None
    assert stage.seen_ready("a") == [INSTALLED]


async def test_any_status_can_be_told(stage: Stage) -> None:
    strange = {"conditions": [], "observedGeneration": 1}
    actor = HelmActor(stage.client)
    actor.outcome = lambda _: Outcome(lie=strange)
    async with actor.running():
        await stage.release("a")
        await stage.until("the strange status", lambda: stage.status("a") == strange)


async def test_a_failed_uninstallation_keeps_the_release(stage: Stage) -> None:
    actor = HelmActor(stage.client)
    async with actor.running():
        await stage.release("a")
        await stage.until_ready("a", *INSTALLED)
        actor.outcome = lambda _: Outcome("UninstallFailed", "hook failed")
        await stage.delete_release("a")
        await stage.until_ready("a", "False", "UninstallFailed")
        assert actor.uninstalled == []
        actor.outcome = lambda _: Outcome()
        actor.look_again()
        await stage.until("a to be gone", lambda: not stage.mirror.get(RELEASES, "a"))


async def test_definitions_of_a_vendor_survive_its_release(stage: Stage) -> None:
    async with HelmActor(stage.client).running():
        await stage.release("a", chart="gpu-operator")
        await stage.until_ready("a", *INSTALLED)
        await stage.until("the definition", lambda: stage.mirror.get(DEFINITIONS, POLICIES))
        await stage.delete_release("a")
        await stage.until("a to be gone", lambda: not stage.mirror.get(RELEASES, "a"))
    assert await stage.client.find(f"{DEFINITIONS}/{POLICIES}") is not None


async def test_it_goes_on_after_the_server_was_away(stage: Stage) -> None:
    async with HelmActor(stage.client).running():
        await stage.release("a")
        await stage.until_ready("a", *INSTALLED)
        await asyncio.to_thread(stage.cluster.kill_apiserver)
        await asyncio.to_thread(stage.cluster.start_apiserver)
        await stage.release("b")
        await stage.until_ready("b", *INSTALLED)


async def test_values_that_cannot_be_read_are_waited_for(stage: Stage) -> None:
    values = [{"kind": "ConfigMap", "name": "values", "valuesKey": "values.json"}]
    async with HelmActor(stage.client).running():
        await stage.config_map("values", **{"values.json": "a: ["})
        await stage.release("a", valuesFrom=values)
        await stage.until_ready("a", "False", "ValuesError")
        await stage.config_map("values", **{"values.json": "- a"})
        await stage.ask("a", "1")
        await stage.until(
            "its words", lambda: "no map" in condition(stage.get(RELEASES, "a"), "Ready")["message"]
        )
        await stage.config_map("values", **{"values.json": '{"a": 1}'})
        await stage.ask("a", "2")
        await stage.until_ready("a", *INSTALLED)


def test_values_are_merged_map_by_map() -> None:
    below: Object = {"a": {"b": 1, "c": [1]}, "d": {"e": 1}, "f": 1}
    above: Object = {"a": {"c": [2], "g": 3}, "d": 4, "f": {"h": 5}}
    assert merged(below, above) == {"a": {"b": 1, "c": [2], "g": 3}, "d": 4, "f": {"h": 5}}
    assert merged({}, above) == above
    assert merged(below, {}) == below
