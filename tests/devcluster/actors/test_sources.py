"""The sources of charts are Ready, as Flux's source-controller would have them."""

import pytest

from hack.devcluster.actors.following import Object, condition
from hack.devcluster.actors.helm import HelmActor
from hack.devcluster.actors.sources import SourceActor
from tests.devcluster.actors.stage import REPOSITORIES, Stage

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

HTTP = {"type": "default"}


def ready(stage: Stage, name: str) -> Object:
    return condition(stage.get(REPOSITORIES, name), "Ready")


async def until_ready(stage: Stage, name: str, status: str) -> None:
    await stage.until(f"{name} is {status}", lambda: ready(stage, name).get("status") == status)


async def test_a_repository_is_ready_with_an_artifact(stage: Stage) -> None:
    async with SourceActor(stage.client).running():
        await stage.repository("web", **HTTP)
        await until_ready(stage, "web", "True")
    found = stage.get(REPOSITORIES, "web")
    assert found["metadata"]["finalizers"] == ["finalizers.fluxcd.io"]
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
    assert found["status"]["artifact"]["digest"].startswith("sha256:")


async def test_an_oci_repository_has_no_status(stage: Stage) -> None:
    async with SourceActor(stage.client).running():
        await stage.repository("web", **HTTP)
        await until_ready(stage, "web", "True")
        await stage.until("no status", lambda: stage.get(REPOSITORIES, "charts")["status"] == {})
    found = stage.get(REPOSITORIES, "charts")
    assert "finalizers" not in found["metadata"]


async def test_a_failing_source_holds_its_releases_back(stage: Stage) -> None:
    async with SourceActor(stage.client).running(), HelmActor(stage.client).running():
        await stage.repository("web", **HTTP)
        await stage.annotate(REPOSITORIES, "web", fail="no such host")
        await until_ready(stage, "web", "False")
        await stage.release("a", repository="web")
        await stage.until_ready("a", "False", "SourceNotReady")
        await stage.annotate(REPOSITORIES, "web", fail=None)
        await stage.until_ready("a", "True", "InstallSucceeded")


async def test_another_address_is_another_revision(stage: Stage) -> None:
    async with SourceActor(stage.client).running():
        await stage.repository("web", **HTTP)
        await until_ready(stage, "web", "True")
        before = stage.get(REPOSITORIES, "web")["status"]["artifact"]["revision"]
        await stage.repository("web", **HTTP, url="https://example.com/others")
        await stage.until(
            "the new revision",
            lambda: stage.get(REPOSITORIES, "web")["status"]["artifact"]["revision"] != before,
        )


async def test_a_suspended_source_is_left_alone_and_a_deleted_one_goes(stage: Stage) -> None:
    async with SourceActor(stage.client).running():
        await stage.repository("still", **HTTP, suspend=True)
        await stage.repository("web", **HTTP)
        await until_ready(stage, "web", "True")
        assert ready(stage, "still") == {}
        await stage.client.send(
            "DELETE",
            f"/apis/source.toolkit.fluxcd.io/v1/namespaces/{stage.namespace}/helmrepositories/web",
        )
        await stage.until("it to be gone", lambda: stage.mirror.get(REPOSITORIES, "web") is None)


async def test_a_chart_in_an_oci_repository_is_ready_with_its_tag(stage: Stage) -> None:
    path = f"/apis/source.toolkit.fluxcd.io/v1/namespaces/{stage.namespace}/ocirepositories/gateway"
    body = {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "OCIRepository",
        "metadata": {"name": "gateway"},
        "spec": {"interval": "1h", "url": "oci://example.com/gateway", "ref": {"tag": "v1.2.3"}},
    }
    await stage.client.apply(path, body)
    async with SourceActor(stage.client, "ocirepositories").running(), HelmActor(stage.client).running():
        release = {
            "apiVersion": "helm.toolkit.fluxcd.io/v2",
            "kind": "HelmRelease",
            "metadata": {"name": "b"},
            "spec": {"interval": "1h", "chartRef": {"kind": "OCIRepository", "name": "gateway"}},
        }
        await stage.client.apply(
            f"/apis/helm.toolkit.fluxcd.io/v2/namespaces/{stage.namespace}/helmreleases/b", release
        )
        await stage.until_ready("b", "True", "InstallSucceeded")
    found = await stage.client.get(path)
    assert found["status"]["artifact"]["revision"].startswith("v1.2.3@sha256:")
