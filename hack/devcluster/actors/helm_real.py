"""Releases of charts that a GitRepository delivers: the real helm installs them.

Helm keeps its record of a release in the release's own namespace, as Secrets: its command line knows no
other place. Flux would keep it where `storageNamespace` says; the status names the place that is true here.
Not there either: `postRenderers`, `commonMetadata`, `crds: CreateReplace`, tests, and the correction of
drift, which Flux leaves alone unless it is asked to correct it.
"""

import logging
from collections.abc import Iterator
from typing import Final

from hack.bare import BareClient
from hack.devcluster.actors.following import Key, Object, key_of
from hack.devcluster.actors.helm_charts import ChartFiles, ChartStore
from hack.devcluster.actors.helm_program import HelmError, HelmProgram, shortened
from hack.devcluster.actors.helm_steps import rollback_target, seconds
from hack.devcluster.actors.helm_values import Values
from hack.devcluster.actors.releases import (
    Action,
    ChartIdentity,
    Ended,
    Outcome,
    Place,
    Record,
    actual_place,
    digest_of,
    timeout_of,
    wanted_place,
)

KEPT: Final = 5
"""Revisions that the storage keeps, unless a release says otherwise."""
SWITCHES: Final = {
    "disableHooks": "--no-hooks",
    "disableOpenAPIValidation": "--disable-openapi-validation",
    "disableSchemaValidation": "--skip-schema-validation",
    "cleanupOnFail": "--cleanup-on-fail",
    "preserveValues": "--reuse-values",
}

log = logging.getLogger(__name__)


class RealCharts:
    """Has helm do what is to be done."""

    def __init__(self, client: BareClient, program: HelmProgram, charts: ChartStore) -> None:
        self._client = client
        self._program = program
        self._charts = charts
        self._files: dict[Key, ChartFiles] = {}

    async def chart(self, release: Object, source: Object) -> ChartIdentity:
        """The chart that the source delivers now.

        Raises:
            NotYetError: it delivers none.
        """
        self._files[key_of(release)] = files = await self._charts.get(release, source)
        return files.identity

    async def record(self, release: Object) -> Record | None:
        """The newest revision in Helm's storage. One that a helm which is gone left pending is dropped."""
        place = wanted_place(release)
        for secret in sorted(await self._stored(place), key=_version, reverse=True):
            labels = secret["metadata"]["labels"]
            if not labels["status"].startswith("pending-"):
                digest = digest_of(secret.get("data", {}).get("release", ""))
                return Record(_version(secret), labels["status"], digest)
            log.info("%s: revision %s was left %s", place, labels["version"], labels["status"])
            own = f"{_secrets(place)}/{secret['metadata']['name']}"
            await self._client.send("DELETE", own)
        return None

    async def run(self, action: Action, release: Object, values: Values) -> Outcome:
        """Do it; a failure is what helm said, without what came out of Secrets."""
        releases = action in ("install", "upgrade")
        place = wanted_place(release) if releases else actual_place(release)
        timeout = timeout_of(release, action)
        words = (*self._words(action, release, place), "--namespace", place.namespace, "--timeout", timeout)
        try:
            await self._program.run(
                *words, timeout_s=seconds(timeout), values=values.content if releases else None
            )
        except HelmError as error:
            failed = f"Helm {action} failed for release {place}: {values.hide(str(error))}"
            return Outcome(f"{action.capitalize()}Failed", shortened(failed))
        return Outcome()

    async def left(self, release: Object, ended: Ended) -> Record | None:
        """The revision that an action left in the storage; None where it left none."""
        if ended.action == "uninstall":
            return None
        record, before = await self.record(release), ended.record
        is_same = record is None or (before is not None and record.version == before.version)
        return None if is_same else record

    def _words(self, action: Action, release: Object, place: Place) -> Iterator[str]:
        match action:
            case "rollback":
                yield from ("rollback", place.name, str(rollback_target(release)["version"]))
                yield from _waiting_options(release, action)
            case "uninstall":
                yield from ("uninstall", place.name, *_uninstall_options(release))
            case _:
                yield from ("upgrade", "--install", place.name, str(self._files[key_of(release)].folder))
                yield from _release_options(release, action)

    async def _stored(self, place: Place) -> list[Object]:
        listed = await self._client.get(f"{_secrets(place)}?labelSelector=owner%3Dhelm,name%3D{place.name}")
        return list(listed["items"])


def _secrets(place: Place) -> str:
    return f"/api/v1/namespaces/{place.namespace}/secrets"


def _version(secret: Object) -> int:
    return int(secret["metadata"]["labels"]["version"])


def _release_options(release: Object, action: Action) -> Iterator[str]:
    options = release["spec"].get(action) or {}
    yield from _waiting_options(release, action)
    yield from ("--history-max", str(release["spec"].get("maxHistory", KEPT)))
    yield from ("--server-side=true", "--force-conflicts")
    if not options.get("disableTakeOwnership"):
        yield "--take-ownership"
    if not options.get("preserveValues"):
        yield "--reset-values"
    if action == "install" and options.get("createNamespace"):
        yield "--create-namespace"
    if action == "upgrade" or options.get("skipCRDs") or options.get("crds") == "Skip":
        yield "--skip-crds"
    yield from (switch for field, switch in SWITCHES.items() if options.get(field))


def _waiting_options(release: Object, action: Action) -> Iterator[str]:
    options = release["spec"].get(action) or {}
    if options.get("disableWait"):
        yield "--wait=hookOnly"
        return
    yield "--wait=watcher"
    if not options.get("disableWaitForJobs"):
        yield "--wait-for-jobs"


def _uninstall_options(release: Object) -> Iterator[str]:
    options = release["spec"].get("uninstall") or {}
    yield "--ignore-not-found"
    yield "--wait=hookOnly" if options.get("disableWait") else "--wait=watcher"
    yield from ("--cascade", str(options.get("deletionPropagation", "background")))
    if options.get("keepHistory"):
        yield "--keep-history"
    if options.get("disableHooks"):
        yield "--no-hooks"
