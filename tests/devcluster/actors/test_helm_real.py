"""The Helm actor has the real helm install what a GitRepository delivers, under Flux's contract."""

import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from hack.devcluster.actors.following import Object, condition
from hack.devcluster.actors.helm import HelmActor, real_charts
from hack.devcluster.actors.releases import Outcome
from tests.charts.rendering import helm
from tests.devcluster.actors.git_charts import GitCharts, git_charts
from tests.devcluster.actors.stage import RELEASES, SECRETS, Stage

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

INSTALLED: Final = ("True", "InstallSucceeded")
UPGRADED: Final = ("True", "UpgradeSucceeded")
NEVER_READY: Final = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Release.Name }}"}
spec:
  selector: {matchLabels: {app: never}}
  template:
    metadata: {labels: {app: never}}
    spec: {containers: [{name: never, image: example.com/never}]}
"""
CHANGED: Final = """
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}"}
data: {changed: "yes"}
"""
SECRET: Final = "correct horse battery staple"


@dataclass
class Play:
    """A stage, a source with a chart, and an actor that has helm."""

    stage: Stage
    git: GitCharts
    folder: Path

    def actor(self) -> HelmActor:
        real = real_charts(self.stage.client, helm(), self.stage.cluster.kubeconfig, self.folder)
        return HelmActor(self.stage.client, real=real)

    async def config_map(self, name: str, namespace: str | None = None) -> dict[str, str] | None:
        """The data of what the chart renders; None while it is not there."""
        namespace = namespace or self.stage.namespace
        found = await self.stage.client.find(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
        return dict(found["data"]) if found else None

    async def stored(self, name: str, namespace: str | None = None) -> list[tuple[str, str]]:
        """(version, status) of the revisions in Helm's storage, oldest first."""
        namespace = namespace or self.stage.namespace
        path = f"/api/v1/namespaces/{namespace}/secrets?labelSelector=owner%3Dhelm,name%3D{name}"
        labels = [each["metadata"]["labels"] for each in (await self.stage.client.get(path))["items"]]
        return sorted((each["version"], each["status"]) for each in labels)

    def pending(self, name: str) -> bool:
        """Whether a helm is in the middle of it, by what its storage says."""
        labels = [each["metadata"].get("labels", {}) for each in self.stage.mirror.all(SECRETS).values()]
        return any(each.get("name") == name and each.get("status") == "pending-install" for each in labels)

    def ready_message(self, name: str) -> str:
        return str(condition(self.stage.get(RELEASES, name), "Ready").get("message", ""))

    async def until_stalled(self, name: str) -> None:
        await self.stage.until(f"{name} to stall", lambda: condition(self.get(name), "Stalled"))

    def get(self, name: str) -> Object:
        return self.stage.get(RELEASES, name)


@pytest.fixture
async def play(stage: Stage, tmp_path: Path) -> AsyncIterator[Play]:
    with git_charts(stage, tmp_path / "git") as git:
        await git.deliver()
        yield Play(stage, git, tmp_path / "kept")


async def test_helm_installs_upgrades_and_uninstalls(play: Play) -> None:
    stage, git, actor = play.stage, play.git, play.actor()
    async with actor.running():
        await git.release("a")
        await stage.until_ready("a", *INSTALLED)
        assert await play.config_map("a") == {"text": "a", "release": f"{stage.namespace}/a"}
        assert await play.stored("a") == [("1", "deployed")]
        (snapshot,) = stage.status("a")["history"]
        assert (snapshot["chartName"], snapshot["chartVersion"]) == ("small", "0.1.0")
        assert (snapshot["appVersion"], snapshot["version"], snapshot["action"]) == ("7", 1, "install")

        await git.release("a", text="b")
        await stage.until_ready("a", *UPGRADED)
        assert (await play.config_map("a") or {})["text"] == "b"
        assert await play.stored("a") == [("1", "superseded"), ("2", "deployed")]
        assert stage.status("a")["observedGeneration"] == 2

        await stage.delete_release("a")
        await stage.until("a to be gone", lambda: not stage.mirror.get(RELEASES, "a"))
    assert await play.config_map("a") is None
    assert await play.stored("a") == []
    assert actor.uninstalled == [(stage.namespace, "a")]


async def test_what_changes_nothing_runs_no_helm(play: Play) -> None:
    stage, git = play.stage, play.git
    async with play.actor().running():
        await git.release("a")
        await stage.until_ready("a", *INSTALLED)
        await git.release("a", interval="20m")
        await stage.until("its generation", lambda: stage.status("a")["observedGeneration"] == 2)
        assert stage.ready("a") == INSTALLED
        await stage.ask("a", "1")
        await stage.until("its answer", lambda: stage.status("a").get("lastHandledReconcileAt") == "1")
    before = play.get("a")["metadata"]["resourceVersion"]
    async with play.actor().running():  # another one begins with all there is
        await git.release("b")
        await stage.until_ready("b", *INSTALLED)
    assert await play.stored("a") == [("1", "deployed")]
    assert play.get("a")["metadata"]["resourceVersion"] == before


async def test_drift_is_left_alone_until_an_upgrade_is_forced(play: Play) -> None:
    stage, git = play.stage, play.git
    path = f"/api/v1/namespaces/{stage.namespace}/configmaps/a"
    async with play.actor().running():
        await git.release("a")
        await stage.until_ready("a", *INSTALLED)
        await stage.client.merge(path, {"data": {"text": "by hand"}})
        await stage.ask("a", "1")
        await stage.until("its answer", lambda: stage.status("a").get("lastHandledReconcileAt") == "1")
        assert (await play.config_map("a") or {})["text"] == "by hand"
        await stage.ask("a", "2", force=True)
        await stage.until_ready("a", *UPGRADED)
        assert (await play.config_map("a") or {})["text"] == "a"
        assert stage.status("a")["lastHandledForceAt"] == "2"
    assert await play.stored("a") == [("1", "superseded"), ("2", "deployed")]


async def test_what_was_uninstalled_by_hand_is_installed_again_when_asked_for(play: Play) -> None:
    stage, git = play.stage, play.git
    async with play.actor().running():
        await git.release("a")
        await stage.until_ready("a", *INSTALLED)
        for version, _ in await play.stored("a"):
            own = f"/api/v1/namespaces/{stage.namespace}/secrets/sh.helm.release.v1.a.v{version}"
            await stage.client.send("DELETE", own)
        await stage.client.send("DELETE", f"/api/v1/namespaces/{stage.namespace}/configmaps/a")
        await stage.ask("a", "1")
        await stage.until("its answer", lambda: stage.status("a").get("lastHandledReconcileAt") == "1")
        await stage.until_ready("a", *INSTALLED)
    assert (await play.config_map("a") or {})["text"] == "a"


@pytest.mark.parametrize("strategy", ["Revision", "ChartVersion"])
async def test_a_revision_of_the_source_upgrades_only_who_asked_for_it(play: Play, strategy: str) -> None:
    stage, git = play.stage, play.git
    async with play.actor().running():
        await git.release("a", strategy=strategy)
        await stage.until_ready("a", *INSTALLED)
        git.write("templates/config.yaml", CHANGED)
        short = await git.deliver()
        if strategy == "Revision":
            await stage.until_ready("a", *UPGRADED)
            assert stage.status("a")["lastAttemptedRevision"] == f"0.1.0+{short}"
            assert await play.config_map("a") == {"changed": "yes"}
        await git.release("b")
        await stage.until_ready("b", *INSTALLED)
        if strategy == "ChartVersion":
            assert stage.ready("a") == INSTALLED
            assert stage.status("a")["lastAttemptedRevision"] == "0.1.0"
            git.write("Chart.yaml", "{apiVersion: v2, name: small, version: 0.2.0}")
            await git.deliver()
            await stage.until_ready("a", *UPGRADED)
            assert stage.status("a")["lastAttemptedRevision"] == "0.2.0"
            assert await play.config_map("a") == {"changed": "yes"}


async def test_suspended_nothing_is_done_and_deleted_while_suspended_nothing_goes(play: Play) -> None:
    stage, git, actor = play.stage, play.git, play.actor()
    async with actor.running():
        await git.release("a")
        await stage.until_ready("a", *INSTALLED)
        await git.release("a", text="b", suspend=True)
        await git.deliver()
        await git.release("b")
        await stage.until_ready("b", *INSTALLED)
        assert (await play.config_map("a") or {})["text"] == "a"
        assert stage.status("a")["observedGeneration"] == 1
        await stage.delete_release("a")
        await stage.until("a to be gone", lambda: not stage.mirror.get(RELEASES, "a"))
    assert (await play.config_map("a") or {})["text"] == "a"
    assert await play.stored("a") == [("1", "deployed")]
    assert actor.uninstalled == []


async def test_a_release_goes_to_its_target_namespace_and_moves_with_it(play: Play) -> None:
    stage, git = play.stage, play.git
    first, second = f"{stage.namespace}-one", f"{stage.namespace}-two"
    async with play.actor().running():
        await git.release("a", targetNamespace=first)
        await stage.until_ready("a", "False", "InstallFailed")
        assert f'namespaces "{first}" not found' in play.ready_message("a")
        await git.release("a", targetNamespace=first, install={"createNamespace": True})
        await stage.until_ready("a", *INSTALLED)
        assert await play.stored("a", first) == [("1", "deployed")]
        assert stage.status("a")["storageNamespace"] == first
        await git.release("a", targetNamespace=second, install={"createNamespace": True})
        await stage.until("it to move", lambda: stage.status("a").get("storageNamespace") == second)
        await stage.until_ready("a", *INSTALLED)
    assert await play.config_map("a", first) is None
    assert (await play.config_map("a", second) or {})["text"] == "a"
    assert [each["namespace"] for each in stage.status("a")["history"]] == [second]


async def test_what_helm_says_is_told_without_what_is_secret(play: Play) -> None:
    stage, git = play.stage, play.git
    git.write(
        "templates/fail.yaml", '{{ fail (printf "bad %s %s" .Values.password (b64enc .Values.password)) }}'
    )
    await git.deliver()
    data = {"values.yaml": base64.b64encode(f"password: {SECRET}\npin: 12".encode()).decode()}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "secret"}, "data": data}
    await stage.client.create(f"/api/v1/namespaces/{stage.namespace}/secrets", body)
    async with play.actor().running():
        await git.release("a", valuesFrom=[{"kind": "Secret", "name": "secret"}])
        await stage.until_ready("a", "False", "InstallFailed")
        await play.until_stalled("a")
    said = play.ready_message("a")
    assert said.startswith(f"Helm install failed for release {stage.namespace}/a: ")
    assert "bad *** ***" in said
    everything = str([obj for _, _, obj in stage.mirror.history])
    assert SECRET not in everything
    assert base64.b64encode(SECRET.encode()).decode() not in everything


async def test_values_are_merged_over_those_that_are_named(play: Play) -> None:
    stage, git = play.stage, play.git
    await stage.config_map("low", **{"values.yaml": "text: low\nother: {a: 1}"})
    async with play.actor().running():
        await git.release("a", text=None, valuesFrom=[{"kind": "ConfigMap", "name": "low"}])
        await stage.until_ready("a", *INSTALLED)
        assert (await play.config_map("a") or {})["text"] == "low"
        await git.release("a", text="high", valuesFrom=[{"kind": "ConfigMap", "name": "low"}])
        await stage.until_ready("a", *UPGRADED)
        assert (await play.config_map("a") or {})["text"] == "high"


async def test_what_never_gets_ready_fails_after_its_time_and_blocks_nobody(play: Play) -> None:
    stage, git = play.stage, play.git
    await git.release("b", strategy="ChartVersion")
    async with play.actor().running():
        await stage.until_ready("b", *INSTALLED)
        git.write("templates/deployment.yaml", NEVER_READY)
        git.write("Chart.yaml", "{apiVersion: v2, name: small, version: 0.2.0}")
        await git.deliver()
        await git.release("slow", timeout="5m")
        await stage.until_ready("slow", "Unknown", "Progressing")
        await git.release("fast", timeout="1s")
        await stage.until_ready("fast", "False", "InstallFailed")
        assert condition(play.get("slow"), "Reconciling")["status"] == "True"
        assert stage.status("fast")["history"][0]["status"] == "failed"
        assert stage.status("fast")["installFailures"] == 1


async def test_a_failure_is_tried_again_after_its_interval(play: Play) -> None:
    stage, git = play.stage, play.git
    retry = {"strategy": {"name": "RetryOnFailure", "retryInterval": "300ms"}}
    async with play.actor().running():
        await git.release("a", text=None, install=retry, upgrade=retry)
        await stage.until("two failures", lambda: stage.status("a").get("installFailures", 0) >= 2)
        assert stage.ready("a") in {("False", "InstallFailed"), ("Unknown", "Progressing")}
        assert "text is required" in str([obj for _, _, obj in stage.mirror.history])
        assert not condition(play.get("a"), "Stalled")
        await git.release("a", text="b", install=retry, upgrade=retry)
        await stage.until_ready("a", *INSTALLED)
        assert "installFailures" not in stage.status("a")


async def test_a_failed_install_is_removed_and_tried_as_often_as_asked(play: Play) -> None:
    git = play.git
    git.write("templates/deployment.yaml", NEVER_READY)
    await git.deliver()
    async with play.actor().running():
        install = {"remediation": {"retries": 1, "remediateLastFailure": True}}
        await git.release("a", timeout="1s", install=install)
        await play.until_stalled("a")
        assert condition(play.get("a"), "Stalled")["message"] == "Failed to install after 2 attempt(s)"
        assert condition(play.get("a"), "Remediated")["reason"] == "UninstallSucceeded"
        assert condition(play.get("a"), "Released")["reason"] == "InstallFailed"
    assert await play.config_map("a") is None
    assert await play.stored("a") == []


async def test_a_failed_upgrade_is_rolled_back(play: Play) -> None:
    stage, git = play.stage, play.git
    async with play.actor().running():
        await git.release(
            "a", timeout="1s", upgrade={"remediation": {"retries": 0, "remediateLastFailure": True}}
        )
        await stage.until_ready("a", *INSTALLED)
        git.write("templates/deployment.yaml", NEVER_READY)
        git.write("Chart.yaml", "{apiVersion: v2, name: small, version: 0.2.0}")
        await git.deliver()
        await play.until_stalled("a")
        assert stage.ready("a") == ("False", "RollbackSucceeded")
        history = stage.status("a")["history"]
        assert [(each["version"], each["chartVersion"]) for each in history[:3]] == [
            (3, "0.1.0"), (2, "0.2.0"), (1, "0.1.0"),
        ]  # fmt: skip
        assert history[0]["status"] == "deployed"
        assert await stage.client.find(f"/apis/apps/v1/namespaces/{stage.namespace}/deployments/a") is None

        (play.git.folder / "charts/small/templates/deployment.yaml").unlink()
        git.write("Chart.yaml", "{apiVersion: v2, name: small, version: 0.3.0}")
        await git.deliver()
        await stage.until_ready("a", *UPGRADED)
        assert {each["type"] for each in stage.status("a")["conditions"]} == {"Ready", "Released"}


async def test_a_chart_that_is_not_in_the_source_is_waited_for(play: Play) -> None:
    stage, git = play.stage, play.git
    missing = {"chart": "./charts/missing", "sourceRef": {"kind": "GitRepository", "name": "git"}}
    outside = {**missing, "chart": "../../outside"}
    async with play.actor().running():
        await git.release("a", chart={"spec": missing})
        await stage.until_ready("a", "False", "SourceNotReady")
        assert "./charts/missing" in play.ready_message("a")
        await git.release("b", chart={"spec": outside})
        await stage.until_ready("b", "False", "SourceNotReady")
        file = git.folder / "charts/missing/Chart.yaml"
        file.parent.mkdir()
        file.write_text("{apiVersion: v2, name: late, version: 1.0.0}")
        await git.deliver()
        await stage.until_ready("a", *INSTALLED)
        assert stage.status("a")["history"][0]["chartName"] == "late"


async def test_a_helm_that_was_killed_leaves_no_lock(play: Play) -> None:
    stage, git = play.stage, play.git
    git.write("templates/deployment.yaml", NEVER_READY)
    await git.deliver()
    async with play.actor().running():
        await git.release("a", timeout="5m")
        await stage.until_ready("a", "Unknown", "Progressing")
        await stage.until("helm to have begun", lambda: play.pending("a"))
    # Its end takes helm with it, in the middle.
    (git.folder / "charts/small/templates/deployment.yaml").unlink()
    git.write("Chart.yaml", "{apiVersion: v2, name: small, version: 0.2.0}")
    await git.deliver()
    async with play.actor().running():
        await stage.until_ready("a", *INSTALLED)
        assert stage.status("a")["lastAttemptedRevision"] == "0.2.0"
    assert await play.stored("a") == [("1", "deployed")]


async def test_a_direction_keeps_helm_from_running(play: Play) -> None:
    stage, git, actor = play.stage, play.git, play.actor()
    actor.outcome = lambda _: Outcome("InstallFailed", "as told")
    async with actor.running():
        await git.release("a")
        await stage.until_ready("a", "False", "InstallFailed")
        assert await play.stored("a") == []
        assert await play.config_map("a") is None


async def test_charts_of_others_are_played_beside(play: Play) -> None:
    stage, git = play.stage, play.git
    async with play.actor().running():
        await stage.release("foreign", chart="reloader")
        await git.release("own")
        await stage.until_ready("foreign", *INSTALLED)
        await stage.until_ready("own", *INSTALLED)
    assert await play.stored("foreign") == []
    assert await play.stored("own") == [("1", "deployed")]
