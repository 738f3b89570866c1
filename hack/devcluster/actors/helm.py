"""Stands in for Flux's helm-controller.

It follows the contract by which the real one is observed (fluxcd/helm-controller, HelmRelease
`helm.toolkit.fluxcd.io/v2`; what it reports is in `releases`, what it does next in `helm_steps`):

- it puts its finalizer on every HelmRelease that is not being deleted;
- a suspended one is left alone, its status stays as it is; deleted while suspended, nothing is uninstalled;
- it waits for `dependsOn` (Ready for the present generation), for the source to be there and Ready, and for
  what `valuesFrom` names; meanwhile `Ready=False` without the generation observed;
- then `Reconciling`, then `Ready` and `Released` with `observedGeneration` and a history, as Helm keeps it;
- a failure is tried again after `strategy.retryInterval`, or remedied and tried again as often as
  `remediation` says, or stalls; `reconcile.fluxcd.io/forceAt` and `resetAt` are heard;
- a ConfigMap of `valuesFrom` is read when the release changes, or when `reconcile.fluxcd.io/requestedAt`
  asks for it, and at no other time: the real one watches none that is not labelled
  `reconcile.fluxcd.io/watch: Enabled`, and a test may rely on the harder of the two;
- a target namespace that is missing fails the release, unless `install.createNamespace` is set; a release
  that is to be elsewhere is uninstalled where it was;
- on deletion it uninstalls and removes its finalizer.

Two ways lead there. A chart that a GitRepository delivers, such as ours, is installed by the real helm
(`helm_real`), where a helm was given. The charts of others cannot be downloaded here: what such a release
brings is what `charts` says, definitions of kinds and for some the objects of its values, and it does not
wait until these work (`helm_played`).

There is no HelmChart object, no drift detection, no test, and no look at what is settled by the clock. Every
release is worked on by itself; nothing bounds how many are at a time.

Directions, as annotations of a HelmRelease (for an actor in this process there are `outcome` and `takes`):

- `devcluster.magicstick.dev/fail: Reason: message` lets its actions end so;
- `devcluster.magicstick.dev/delay: seconds` makes them take so long;
- `devcluster.magicstick.dev/lie: ready` reports Ready at once, and brings nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

from hack.bare import BareClient
from hack.devcluster.actors.charts import CHARTS, Chart, chart_of
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
from hack.devcluster.actors.helm_charts import ChartStore
from hack.devcluster.actors.helm_played import PlayedCharts
from hack.devcluster.actors.helm_program import HelmProgram
from hack.devcluster.actors.helm_real import RealCharts
from hack.devcluster.actors.helm_steps import (
    Release,
    Step,
    attempt_of,
    has_tries_left,
    is_forced,
    is_new,
    last_action,
    next_step,
    retry_after_s,
    rollback_target,
)
from hack.devcluster.actors.helm_values import Values, values_of
from hack.devcluster.actors.releases import (
    Action,
    Attempt,
    ChartIdentity,
    Ended,
    NotYetError,
    Outcome,
    Record,
    actual_place,
    begun,
    digest_of,
    failed,
    gone,
    history_of,
    is_deployed,
    is_ready,
    is_settled,
    kept,
    not_uninstalled,
    remediated,
    reset,
    stalled,
    succeeded,
    waiting,
    wanted_place,
    with_status,
)
from hack.devcluster.actors.writing import Writer, has_finalizer, present

RELEASES: Final = "/apis/helm.toolkit.fluxcd.io/v2"
SOURCES: Final = "/apis/source.toolkit.fluxcd.io/v1"
GIT: Final = "GitRepository"
SOURCE_KINDS: Final = {
    "HelmRepository": "helmrepositories",
    GIT: "gitrepositories",
    "OCIRepository": "ocirepositories",
}
AGAIN_S: Final = 0.5
"""After so long what no watch tells of is looked for again."""


class Installer(Protocol):
    """Does with a chart what was decided."""

    async def chart(self, release: Object, source: Object) -> ChartIdentity:
        """Which chart a source has for a release; raises NotYetError where it has none."""
        ...

    async def record(self, release: Object) -> Record | None:
        """The newest revision of a release."""
        ...

    async def run(self, action: Action, release: Object, values: Values) -> Outcome:
        """Do it, and say how it ended."""
        ...

    async def left(self, release: Object, ended: Ended) -> Record | None:
        """The revision that an action left; `ended` has the one that was the newest before."""
        ...


def _lie_ready(release: Object, now: datetime) -> Object:
    ended = Ended("install", Attempt(ChartIdentity("lie", "0.0.0"), digest_of([])), Outcome(), None)
    return {**succeeded(release, ended, now), "history": []}


LIES: Final[Mapping[str, Callable[[Object, datetime], Object]]] = {"ready": _lie_ready}


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


def real_charts(client: BareClient, binary: Path, kubeconfig: Path, folder: Path) -> RealCharts:
    """What the actor needs for the real helm: all that is kept on the way goes into a folder."""
    program = HelmProgram(binary, kubeconfig, folder / "helm")
    return RealCharts(client, program, ChartStore(folder / "charts"))


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
        real: Installer | None = None,
        charts: Mapping[str, Chart] = CHARTS,
        clock: Callable[[], datetime] = present,
    ) -> None:
        """Without `real` every release is played."""
        self.outcome: Callable[[Object], Outcome] = directed
        self.takes: Callable[[Object], Awaitable[None]] = as_directed
        self.gate = Gate()
        self.uninstalled: list[Key] = []
        self._client = client
        self._writer = Writer(client, RELEASES, "helmreleases", "helm-controller")
        self._played: Installer = PlayedCharts(client, charts)
        self._real = real
        self._known_charts = charts
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
            self._ended.pop(key, None)
        elif "deletionTimestamp" in release["metadata"]:
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
        chart = await self._chart(release)
        identity = chart if isinstance(chart, ChartIdentity) else None
        if is_settled(release, outcome, self._ended.get(key_of(release)), identity):
            return
        try:
            self._check_dependencies(release)
            values = await self._values(release)
        except NotYetError as missing:
            await self._wait(release, missing)
            return
        if isinstance(chart, NotYetError):
            await self._wait(release, chart)
        else:
            await self._follow_through(release, Attempt(chart, digest_of(values.content)), values)

    async def _wait(self, release: Object, missing: NotYetError) -> None:
        await self._write(release, waiting(release, missing.reason, str(missing), self._clock()))

    async def _chart(self, release: Object) -> ChartIdentity | NotYetError:
        """The chart, or why there is none: which does not matter where nothing is to be done."""
        try:
            return await self._installer(release).chart(release, self._source(release))
        except NotYetError as missing:
            return missing

    def _check_dependencies(self, release: Object) -> None:
        for key in _dependencies(release):
            found = self._releases.items.get(key)
            if found is None or not is_ready(found):
                raise NotYetError("DependencyNotReady", f"dependency '{'/'.join(key)}' is not ready")

    def _source(self, release: Object) -> Object:
        reference, namespace = _source_reference(release), release["metadata"]["namespace"]
        key = (reference.get("namespace") or namespace, reference["name"])
        kind = reference["kind"]
        source = self._sources[kind].items.get(key) if kind in self._sources else None
        if source is None:
            raise NotYetError("SourceNotReady", f"{kind} '{'/'.join(key)}' is not there")
        if not _delivers(source):
            raise NotYetError("SourceNotReady", f"{kind} '{'/'.join(key)}' is not ready")
        return source

    async def _values(self, release: Object) -> Values:
        try:
            return await values_of(release, self._client)
        except NotYetError:
            self._later(key_of(release))  # no watch tells of what is named
            raise

    def _installer(self, release: Object) -> Installer:
        """The real one where the files of the chart are at hand."""
        of_git = _source_reference(release)["kind"] == GIT
        if self._real is not None and of_git and chart_of(release) not in self._known_charts:
            return self._real
        return self._played

    # --- the steps ------------------------------------------------------------------------------------

    async def _follow_through(self, release: Object, attempt: Attempt, values: Values) -> None:
        """Until nothing is to be done, or nothing can be done now; a step that failed is remedied once."""
        installer, forced = self._installer(release), is_forced(release)
        forced = forced or bool(self.outcome(release).reason)
        if is_new(release, attempt):
            release = with_status(release, reset(release))
        if history_of(release) and actual_place(release) != wanted_place(release):
            moved = await self._move_away(release, installer, values)
            if moved is None:
                return
            release = moved
        record = await installer.record(release)
        match next_step(release, attempt, record, forced=forced):
            case Step.NOTHING:
                await self._write(release, kept(release, self._clock()))
            case Step.GIVE_UP:
                await self._give_up(release)
            case Step.INSTALL:
                await self._try(release, "install", attempt, values)
            case Step.UPGRADE:
                await self._try(release, "upgrade", attempt, values)
            case Step.ROLLBACK | Step.UNINSTALL as step:
                await self._remedy(release, step, attempt, values)

    async def _try(self, release: Object, action: Release, attempt: Attempt, values: Values) -> None:
        release = await self._write(release, begun(release, action, self._clock()))
        before = await self._installer(release).record(release)
        ended = await self._act(release, action, attempt, values)
        self._ended[key_of(release)] = ended.outcome
        if not ended.outcome.reason:
            await self._write(release, succeeded(release, ended, self._clock()))
            return
        told = failed(release, ended, self._clock())
        match next_step(with_status(release, told), attempt, ended.record or before, forced=False):
            case Step.GIVE_UP:
                await self._give_up(with_status(release, told))
            case Step.ROLLBACK | Step.UNINSTALL as step:
                await self._remedy(await self._write(release, told), step, attempt, values)
            case _:
                self._later(key_of(release), retry_after_s(release, action) or AGAIN_S, forget=True)
                await self._write(release, told)

    async def _remedy(self, release: Object, step: Step, attempt: Attempt, values: Values) -> None:
        action: Action = "rollback" if step is Step.ROLLBACK else "uninstall"
        standing = attempt_of(rollback_target(release)) if step is Step.ROLLBACK else attempt
        ended = await self._act(release, action, standing, values)
        again = has_tries_left(release, last_action(release))
        told = remediated(release, ended, again=again, now=self._clock())
        if again:  # the event of this write brings us back
            await self._write(release, told)
        else:
            await self._give_up(with_status(release, told))

    async def _act(self, release: Object, action: Action, attempt: Attempt, values: Values) -> Ended:
        installer = self._installer(release)
        before = await installer.record(release)
        await self.takes(release)
        told = self.outcome(release)
        remedies = action in ("rollback", "uninstall")
        outcome = told if told.reason and not remedies else await installer.run(action, release, values)
        ended = Ended(action, attempt, outcome, before)
        return replace(ended, record=await installer.left(release, ended))

    async def _give_up(self, release: Object) -> None:
        action = last_action(release)
        attempts = release.get("status", {}).get(f"{action}Failures", 0)
        message = f"Failed to {action} after {attempts} attempt(s)"
        await self._write(release, stalled(release, "RetriesExceeded", message, self._clock()))

    async def _move_away(self, release: Object, installer: Installer, values: Values) -> Object | None:
        """Uninstall what stands where it is not wanted any more; None where that failed."""
        outcome = await installer.run("uninstall", release, values)
        if outcome.reason:
            await self._fail_to_uninstall(release, outcome)
            return None
        return await self._write(release, gone(release))

    async def _delete(self, release: Object) -> None:
        if not release["spec"].get("suspend"):
            outcome = await self._uninstall(release)
            if outcome.reason:
                await self._fail_to_uninstall(release, outcome)
                return
        await self._writer.remove_finalizer(release)

    async def _fail_to_uninstall(self, release: Object, outcome: Outcome) -> None:
        await self._write(release, not_uninstalled(release, outcome, self._clock()))
        self._later(key_of(release))

    async def _uninstall(self, release: Object) -> Outcome:
        installer = self._installer(release)
        if installer is not self._real and not is_deployed(release):
            return Outcome()  # helm itself knows whether there is anything, also after a crash
        await self.takes(release)
        outcome = self.outcome(release)
        if outcome.reason != "UninstallFailed":
            outcome = await installer.run("uninstall", release, Values({}))
        if not outcome.reason:
            self.uninstalled.append(key_of(release))
        return outcome

    # --- requests -------------------------------------------------------------------------------------

    async def _write(self, release: Object, status: Object) -> Object:
        """The whole status; returns the release with it, so that nothing is decided on what was before."""
        return self._put(await self._writer.status(release, status))

    def _put(self, release: Object) -> Object:
        if key_of(release) in self._releases.items:
            self._releases.put(release)
        return release

    def _later(self, key: Key, after_s: float = AGAIN_S, *, forget: bool = False) -> None:
        """Look at it again; `forget` that its last action failed, so that it is tried anew."""

        def wake() -> None:
            if forget:
                self._ended.pop(key, None)
            self._workers.wake(key)

        asyncio.get_running_loop().call_later(after_s, wake)


def _dependencies(release: Object) -> list[Key]:
    namespace = release["metadata"]["namespace"]
    return [
        (each.get("namespace") or namespace, each["name"]) for each in release["spec"].get("dependsOn", [])
    ]


def _source_reference(release: Object) -> Object:
    spec = release["spec"]
    reference: Object = spec["chartRef"] if "chartRef" in spec else spec["chart"]["spec"]["sourceRef"]
    return reference


def _delivers(source: Object) -> bool:
    """Charts of an OCI registry are fetched one by one: such a repository has no status at all."""
    if source["kind"] == "HelmRepository" and source["spec"].get("type") == "oci":
        return True
    return condition(source, "Ready").get("status") == "True"
