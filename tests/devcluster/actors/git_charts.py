"""A Git source of a test: a folder with a chart, delivered as source-controller would deliver it."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from hack.devcluster.actors.artifact import pack
from hack.devcluster.actors.git_source import ArtifactServer
from tests.devcluster.actors.stage import HELM, SOURCE, Stage

CHART: Final = "charts/small"
CONFIG: Final = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  text: {{ required "text is required" .Values.text | quote }}
  release: {{ .Release.Namespace }}/{{ .Release.Name }}
"""
NOW: Final = "2026-01-01T00:00:00Z"


class GitCharts:
    """See the module. What is written below `folder` counts from `deliver` on."""

    def __init__(self, stage: Stage, folder: Path, server: ArtifactServer) -> None:
        self.folder = folder
        self._stage = stage
        self._server = server
        self.write("Chart.yaml", "{apiVersion: v2, name: small, version: 0.1.0, appVersion: '7'}")
        self.write("values.yaml", "{}")
        self.write("templates/config.yaml", CONFIG)

    def write(self, name: str, text: str) -> None:
        """A file of the chart."""
        file = self.folder / CHART / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    async def deliver(self) -> str:
        """Publish the folder as it is now; returns the revision's short hash."""
        artifact = pack(self.folder)
        self._server.artifacts[f"{artifact.hash}.tar.gz"] = artifact.data
        path = f"{SOURCE}/namespaces/{self._stage.namespace}/gitrepositories/git"
        body: dict[str, Any] = {
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "GitRepository",
            "metadata": {"name": "git"},
            "spec": {"interval": "1m", "url": "https://git.example.com/charts.git"},
        }
        await self._stage.client.apply(path, body)
        ready = {"type": "Ready", "status": "True", "reason": "Succeeded", "message": "stored artifact"}
        status = {
            "conditions": [{**ready, "observedGeneration": 1, "lastTransitionTime": NOW}],
            "artifact": {
                "url": f"{self._server.url}/{artifact.hash}.tar.gz",
                "path": f"{artifact.hash}.tar.gz",
                "digest": artifact.digest,
                "revision": f"main@{artifact.digest}",
                "lastUpdateTime": NOW,
            },
        }
        await self._stage.client.merge(f"{path}/status", {"status": status})
        return artifact.hash[:12]

    async def release(
        self,
        name: str,
        *,
        text: str | None = "a",
        strategy: str = "ChartVersion",
        annotations: dict[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """A HelmRelease of the chart; applied anew it is changed."""
        chart = {
            "chart": f"./{CHART}",
            "sourceRef": {"kind": "GitRepository", "name": "git"},
            "reconcileStrategy": strategy,
        }
        values = {} if text is None else {"values": {"text": text}}
        body = {
            "apiVersion": "helm.toolkit.fluxcd.io/v2",
            "kind": "HelmRelease",
            "metadata": {"name": name, "annotations": annotations or {}},
            "spec": {"interval": "10m", "releaseName": name, "chart": {"spec": chart}, **values, **spec},
        }
        path = f"{HELM}/namespaces/{self._stage.namespace}/helmreleases/{name}"
        await self._stage.client.apply(path, body)


@contextlib.contextmanager
def git_charts(stage: Stage, folder: Path) -> Iterator[GitCharts]:
    """A source, served within the block."""
    server = ArtifactServer()
    try:
        yield GitCharts(stage, folder, server)
    finally:
        server.close()
