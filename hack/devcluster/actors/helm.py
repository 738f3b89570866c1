"""Stands in for Flux's helm-controller. Helm does not run: no chart is rendered.

It follows the contract by which the real one is observed (fluxcd/helm-controller, HelmRelease
`helm.toolkit.fluxcd.io/v2`; what it reports is in `releases`):

- it puts its finalizer on every HelmRelease that is not being deleted;
- a suspended one is left alone, its status stays as it is; deleted while suspended, nothing is uninstalled;
- it waits for `dependsOn` (Ready for the present generation), for the source to be there and Ready, and for
  what `valuesFrom` names; meanwhile `Ready=False` without the generation observed;
- then `Reconciling`, then `Ready` and `Released` with `observedGeneration` and a history, as Helm keeps it;
  a failure stalls unless the release asks for retries;
- a ConfigMap of `valuesFrom` is read when the release changes, or when `reconcile.fluxcd.io/requestedAt`
  asks for it, and at no other time: the real one watches none that is not labelled
  `reconcile.fluxcd.io/watch: Enabled`, and a test may rely on the harder of the two;
- a target namespace that is missing fails the release, unless `install.createNamespace` is set;
- on deletion it uninstalls and removes its finalizer.

What a release brings is what `charts` says: definitions of kinds, and for some the objects of its values.
It does not wait until these work. There is no HelmChart object, no drift detection, no test and no rollback;
retries happen when the release or its direction changes, not by the clock.

Directions, as annotations of a HelmRelease (for an actor in this process there are `outcome` and `takes`):

- `devcluster.magicstick.dev/fail: Reason: message` lets its actions end so;
- `devcluster.magicstick.dev/delay: seconds` makes them take so long;
- `devcluster.magicstick.dev/lie: ready` reports Ready at once, and brings nothing.
"""

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

import yaml

from hack.bare import BareClient
from hack.devcluster.actors.charts import CHARTS, NOTHING, Chart, Definition, chart_of
from hack.devcluster.actors.following import (
    Collection,
    Gate,
    Key,
    Object,
    Workers,
    condition,
    direction,
    in_background,
    key_of,
)
from hack.devcluster.actors.releases import (
    Outcome,
    action_of,
    begun,
    failed,
    is_deployed,
    is_ready,
    is_settled,
    not_uninstalled,
    release_name,
    succeeded,
    target_namespace,
    waiting,
)
from hack.devcluster.actors.writing import Writer, has_finalizer, present

RELEASES: Final = "/apis/helm.toolkit.fluxcd.io/v2"
SOURCES: Final = "/apis/source.toolkit.fluxcd.io/v1"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SOURCE_KINDS: Final = {
    "HelmRepository": "helmrepositories",
    "GitRepository": "gitrepositories",
    "OCIRepository": "ocirepositories",
}
AGAIN_S: Final = 0.5
"""After so long what no watch tells of is looked for again."""
ESTABLISHED_S: Final = 10.0

LIES: Final[Mapping[str, Callable[[Object, datetime], Object]]] = {
    "ready": lambda release, now: {**succeeded(release, _digest([]), now), "history": []},
}


class NotYetError(Exception):
    """What a release needs is not there; it is waited for."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def directed(release: Object) -> Outcome:
    """The outcome that the annotations of a release ask for."""
    if told := direction(release, "lie"):
        return Outcome(lie=LIES[told](release, present())) if told in LIES else Outcome()
    reason, _, message = direction(release, "fail").partition(": ")
    return Outcome(reason, message or "it was told to fail") if reason else Outcome()


async def as_directed(release: Object) -> None:
    """Takes as long as the annotation says."""
    if delay := direction(release, "delay"):
        await asyncio.sleep(float(delay))


class HelmActor:
    """Acts on all HelmReleases of a cluster until cancelled.

    Attributes:
        outcome: decides how the next action on a release ends.
        takes: returns when that action is over; replace it to hold a release at `Reconciling`.
        gate: shut, nothing is begun (a controller that is down).
        uninstalled: keys of the releases that were uninstalled, in order.
    """

    def __init__(
        self,
        client: BareClient,
        *,
        charts: Mapping[str, Chart] = CHARTS,
        clock: Callable[[], datetime] = present,
    ) -> None:
        self.outcome: Callable[[Object], Outcome] = directed
        self.takes: Callable[[Object], Awaitable[None]] = as_directed
        self.gate = Gate()
        self.uninstalled: list[Key] = []
        self._client = client
        self._writer = Writer(client, RELEASES, "helmreleases", "helm-controller")
        self._charts = charts
        self._ended: dict[Key, Outcome] = {}
        self._clock = clock
        self._workers = Workers(self._reconcile)
        self._releases = Collection(client, self._writer.collection, self._see)
        self._sources = {
            kind: Collection(client, f"{SOURCES}/{plural}", lambda *_: self.look_again())
            for kind, plural in SOURCE_KINDS.items()
        }

    async def run(self) -> None:
        """Follow the releases and their sources. Never returns."""
        followed = (self._releases, *self._sources.values())
        await self._workers.run(*(each.follow() for each in followed))

    @asynccontextmanager
    async def running(self) -> AsyncIterator["HelmActor"]:
        """Run in the background within the block."""
        async with in_background(self.run()):
            yield self

    def look_again(self) -> None:
        """Look at every release, since something changed that they do not show (`outcome`, say)."""
        for key in self._releases.items:
            self._workers.wake(key)

    def _see(self, _: str, release: Object) -> None:
        self._workers.wake(key_of(release))
        for key, other in self._releases.items.items():
            if key_of(release) in _dependencies(other):
                self._workers.wake(key)

    # --- one release ----------------------------------------------------------------------------------

    async def _reconcile(self, key: Key) -> None:
        await self.gate.passed()
        for sources in self._sources.values():
            await sources.listed.wait()
        release = self._releases.items.get(key)
        if release is None:
            return
        if "deletionTimestamp" in release["metadata"]:
            if has_finalizer(release):
                await self._delete(release)
        elif not has_finalizer(release):
            self._put(await self._writer.add_finalizer(release))
            self._workers.wake(key)
        elif not release["spec"].get("suspend"):
            await self._release(release)

    async def _release(self, release: Object) -> None:
        outcome = self.outcome(release)
        if outcome.lie is not None:
            await self._write(release, outcome.lie)
            return
        key = key_of(release)
        if is_settled(release, outcome, self._ended.get(key)):
            return
        try:
            self._check_dependencies(release)
            self._check_source(release)
            values = await self._values(release)
        except NotYetError as missing:
            await self._write(release, waiting(release, missing.reason, str(missing), self._clock()))
            return
        digest = _digest(values)
        release = await self._write(release, begun(release, self._clock()))
        await self.takes(release)
        self._ended[key] = outcome = self.outcome(release)
        if not outcome.reason:
            outcome = await self._bring(release, values)
        if outcome.reason:
            await self._write(release, failed(release, outcome, digest, self._clock()))
        else:
            await self._write(release, succeeded(release, digest, self._clock()))

    def _check_dependencies(self, release: Object) -> None:
        for key in _dependencies(release):
            found = self._releases.items.get(key)
            if found is None or not is_ready(found):
                raise NotYetError("DependencyNotReady", f"dependency '{'/'.join(key)}' is not ready")

    def _check_source(self, release: Object) -> None:
        spec, namespace = release["spec"], release["metadata"]["namespace"]
        reference = spec["chartRef"] if "chartRef" in spec else spec["chart"]["spec"]["sourceRef"]
        key = (reference.get("namespace") or namespace, reference["name"])
        kind = reference["kind"]
        source = self._sources[kind].items.get(key) if kind in self._sources else None
        if source is None:
            raise NotYetError("SourceNotReady", f"{kind} '{'/'.join(key)}' is not there")
        if not _delivers(source):
            raise NotYetError("SourceNotReady", f"{kind} '{'/'.join(key)}' is not ready")

    async def _values(self, release: Object) -> Object:
        """All that `valuesFrom` names, in order, and the release's own values over it."""
        values: Object = {}
        for reference in release["spec"].get("valuesFrom", []):
            kind, name = reference["kind"], reference["name"]
            path = f"/api/v1/namespaces/{release['metadata']['namespace']}/{kind.lower()}s/{name}"
            found = await self._client.find(path)
            content = (found or {}).get("data", {}).get(reference.get("valuesKey", "values.yaml"))
            if content is not None:
                text = base64.b64decode(content).decode() if kind == "Secret" else content
                values = merged(values, _read(reference, text))
            elif not reference.get("optional"):
                self._later(key_of(release))
                raise NotYetError("ValuesError", f"could not resolve {kind} chart values reference '{name}'")
        return merged(values, release["spec"].get("values") or {})

    # --- what a release brings ------------------------------------------------------------------------

    async def _bring(self, release: Object, values: Object) -> Outcome:
        namespace = target_namespace(release)
        if await self._client.find(f"/api/v1/namespaces/{namespace}") is None:
            if not (release["spec"].get("install") or {}).get("createNamespace"):
                reason = f"{action_of(release).capitalize()}Failed"
                return Outcome(reason, f'failed to create: namespaces "{namespace}" not found')
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            await self._client.create("/api/v1/namespaces", body)
        for definition in self._chart(release).definitions:
            await self._define(definition, release_name(release))
        for obj in self._chart(release).objects(values, namespace):
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

    async def _delete(self, release: Object) -> None:
        if not release["spec"].get("suspend") and is_deployed(release):
            await self.takes(release)
            outcome = self.outcome(release)
            if outcome.reason == "UninstallFailed":
                await self._write(release, not_uninstalled(release, outcome, self._clock()))
                return
            await self._take_away(release)
            self.uninstalled.append(key_of(release))
        await self._writer.remove_finalizer(release)

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

    # --- requests -------------------------------------------------------------------------------------

    async def _write(self, release: Object, status: Object) -> Object:
        """The whole status; returns the release with it, so that nothing is decided on what was before."""
        return self._put(await self._writer.status(release, status))

    def _put(self, release: Object) -> Object:
        if key_of(release) in self._releases.items:
            self._releases.put(release)
        return release

    def _later(self, key: Key) -> None:
        asyncio.get_running_loop().call_later(AGAIN_S, self._workers.wake, key)


def _dependencies(release: Object) -> list[Key]:
    namespace = release["metadata"]["namespace"]
    return [
        (each.get("namespace") or namespace, each["name"]) for each in release["spec"].get("dependsOn", [])
    ]


def _delivers(source: Object) -> bool:
    """Charts of an OCI registry are fetched one by one: such a repository has no status at all."""
    if source["kind"] == "HelmRepository" and source["spec"].get("type") == "oci":
        return True
    return condition(source, "Ready").get("status") == "True"


def merged(below: Object, above: Object) -> Object:
    """Values over others: maps are merged, anything else is replaced."""
    both = {
        key: merged(below[key], above[key])
        for key in below.keys() & above.keys()
        if isinstance(below[key], Mapping) and isinstance(above[key], Mapping)
    }
    return {**below, **above, **both}


def _read(reference: Object, text: str) -> Object:
    """What a key of `valuesFrom` says, at its place."""
    if path := reference.get("targetPath"):
        found: Object = {}
        for step in reversed(path.split(".")):
            found = {step: found or text}
        return found
    try:
        values = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise NotYetError(
            "ValuesError", f"unable to read values of '{reference['name']}': {error}"
        ) from error
    if not isinstance(values, Mapping):
        raise NotYetError("ValuesError", f"values of '{reference['name']}' are no map")
    return values


def _path_of(obj: Object) -> str:
    """Where a namespaced object is."""
    group, meta = obj["apiVersion"], obj["metadata"]
    root = f"/apis/{group}" if "/" in group else f"/api/{group}"
    return f"{root}/namespaces/{meta['namespace']}/{obj['kind'].lower()}s/{meta['name']}"


def _digest(values: object) -> str:
    return f"sha256:{hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()}"
