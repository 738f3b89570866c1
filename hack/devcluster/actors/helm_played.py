"""Releases whose charts nobody has here: what `charts` says of them is brought, and no helm runs."""

import asyncio
from collections.abc import Mapping
from typing import Final

from hack.bare import BareClient
from hack.devcluster.actors.charts import CHARTS, NOTHING, Chart, Definition, chart_of
from hack.devcluster.actors.following import Object, condition
from hack.devcluster.actors.helm_values import Values
from hack.devcluster.actors.releases import (
    DEPLOYED,
    FAILED,
    Action,
    ChartIdentity,
    Ended,
    Outcome,
    Record,
    digest_of,
    history_of,
    latest_of,
    release_name,
    target_namespace,
)

DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ESTABLISHED_S: Final = 10.0


class PlayedCharts:
    """Brings and takes away what the charts would; their storage is what the HelmRelease says of itself."""

    def __init__(self, client: BareClient, charts: Mapping[str, Chart] = CHARTS) -> None:
        self._client = client
        self._charts = charts

    async def chart(self, release: Object, source: Object) -> ChartIdentity:  # noqa: ARG002 - as the real one
        """What the release says that it is."""
        spec = release["spec"]
        chart = spec["chart"]["spec"] if "chart" in spec else {"chart": spec["chartRef"]["name"]}
        name = str(chart["chart"]).rsplit("/", 1)[-1]
        return ChartIdentity(name, str(chart.get("version") or "0.0.0"))

    async def record(self, release: Object) -> Record | None:
        """The newest revision of the release's own history."""
        latest = latest_of(release)
        return Record(latest["version"], latest["status"], latest["digest"]) if latest else None

    async def left(self, release: Object, ended: Ended) -> Record | None:
        """The revision that an action leaves; none in a namespace that is not there."""
        namespace = f"/api/v1/namespaces/{target_namespace(release)}"
        if ended.action == "uninstall" or await self._client.find(namespace) is None:
            return None
        version = 1 + max((int(each["version"]) for each in history_of(release)), default=0)
        status = FAILED if ended.outcome.reason else DEPLOYED
        return Record(version, status, digest_of([release["spec"], ended.attempt.digest, version]))

    async def run(self, action: Action, release: Object, values: Values) -> Outcome:
        """Do it."""
        if action == "uninstall":
            await self._take_away(release)
        elif action != "rollback":
            return await self._bring(action, release, values)
        return Outcome()

    async def _bring(self, action: Action, release: Object, values: Values) -> Outcome:
        namespace = target_namespace(release)
        if await self._client.find(f"/api/v1/namespaces/{namespace}") is None:
            if not (release["spec"].get("install") or {}).get("createNamespace"):
                missing = f'failed to create: namespaces "{namespace}" not found'
                return Outcome(f"{action.capitalize()}Failed", missing)
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            await self._client.create("/api/v1/namespaces", body)
        for definition in self._chart(release).definitions:
            await self._define(definition, release_name(release))
        for obj in self._chart(release).objects(values.content, namespace):
            await self._client.apply(_path_of(obj), obj, manager="helm-controller")
        return Outcome()

    async def _define(self, definition: Definition, release: str) -> None:
        path = f"{DEFINITIONS}/{definition.name}"
        if await self._client.find(path) is None:
            await self._client.create(DEFINITIONS, definition.manifest(release))
        async with asyncio.timeout(ESTABLISHED_S):
            while True:  # Helm asks again and again, too
                found = await self._client.find(path)
                if found is not None and condition(found, "Established").get("status") == "True":
                    return
                await asyncio.sleep(0.02)

    async def _take_away(self, release: Object) -> None:
        chart = self._chart(release)
        for obj in reversed(chart.objects({}, target_namespace(release))):
            if await self._client.find(_path_of(obj)) is not None:
                await self._client.send("DELETE", _path_of(obj))
        for definition in () if chart.keeps else chart.definitions:
            path = f"{DEFINITIONS}/{definition.name}"
            found = await self._client.find(path)
            labels = (found or {}).get("metadata", {}).get("labels", {})
            if labels.get("app.kubernetes.io/instance") == release_name(release):
                await self._client.send("DELETE", path)

    def _chart(self, release: Object) -> Chart:
        return self._charts.get(chart_of(release), NOTHING)


def _path_of(obj: Object) -> str:
    """Where a namespaced object is."""
    group, meta = obj["apiVersion"], obj["metadata"]
    root = f"/apis/{group}" if "/" in group else f"/api/{group}"
    return f"{root}/namespaces/{meta['namespace']}/{obj['kind'].lower()}s/{meta['name']}"
