"""A plan from the beginning to the end: read, lay what is given over it, let the operator work, compare.

Guarantees
    - Nothing is written: the one client is asked for lists and for single objects.
    - What counts as a change is what differs from the moment that was read; what is assumed does not count.

Failure modes
    What the operator would need and cannot be read is a `BlindError`: half a plan is none.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio

from magicstick.api import kinds
from magicstick.api.kinds import MODULE_ACTIVATION
from magicstick.api.labels import OPERATOR
from magicstick.apps.kinds import ACCESS_KINDS
from magicstick.catalogs.definitions import MODULES
from magicstick.catalogs.entries import CatalogError
from magicstick.catalogs.loader import Catalogs, ProblemReason
from magicstick.catalogs.modules import ModuleCatalog
from magicstick.kube.cache import Caches, NotSyncedError
from magicstick.kube.client import Client
from magicstick.kube.errors import Forbidden, NotFound
from magicstick.kube.informer import InformerState, InitialList, Tuning
from magicstick.kube.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, NAMESPACE, Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.modules.facts import ModuleFacts
from magicstick.modules.objects import auto_activation
from magicstick.plan import palena
from magicstick.plan.assumptions import Assumed, Flux, assumes_palena, refuse_modules, release_definition
from magicstick.plan.changes import Change, of_given, of_notes
from magicstick.plan.documents import Body, Document, InputError
from magicstick.plan.given import OWN, Given, check
from magicstick.plan.hands import Notes, NotingHands, seen
from magicstick.plan.kubeai import MODULE as KUBEAI
from magicstick.plan.kubeai import KubeAiPlayer
from magicstick.plan.operator import Halves, Operator, scopes
from magicstick.plan.palena import lay_definitions
from magicstick.plan.server import PretendServer, nothing_there
from magicstick.plan.sources import Once
from magicstick.plan.standing import Standing
from magicstick.plan.work import Player, Work
from magicstick.runtime.clock import Clock
from magicstick.runtime.reconciler import Declaration
from magicstick.runtime.settings import Settings

FOREIGN: Final = frozenset({kinds.KUSTOMIZATION, kinds.GIT_REPOSITORY, kinds.HELM_RELEASE, *ACCESS_KINDS})
"""Kinds of others that are taken to be served where there is no cluster to ask: the platform has Flux and
the gateway before any module."""


class BlindError(Exception):
    """What the plan depends on cannot be read. `forbidden` where all of it is a matter of rights."""

    def __init__(self, problems: Iterable[str], *, forbidden: bool) -> None:
        super().__init__("\n".join(problems))
        self.forbidden = forbidden


@dataclass(frozen=True, slots=True)
class Question:
    """What a plan is made for."""

    documents: tuple[Document, ...]
    assume_ready: tuple[str, ...] = ()
    """Modules, `palena`, or `all`."""
    catalogs: tuple[Document, ...] | None = None
    """The catalogs where there is no cluster to read them from."""
    root: Path | None = None
    """The folder that the paths of modules start from."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer."""

    given: tuple[Change, ...]
    """What applying the given objects changes of themselves."""
    derived: tuple[Change, ...]
    """What the operator would then do, in the order in which it does it."""
    standings: tuple[Standing, ...]
    """What it would say of the given objects, and of those that it makes of kinds of ours."""
    notes: tuple[str, ...] = ()
    """What was given and means nothing to the operator, and what is not right, as sentences."""

    @property
    def changes(self) -> bool:
        """Whether anything would change."""
        return any(each.changes for each in (*self.given, *self.derived))


async def rehearse(
    question: Question,
    settings: Settings,
    clock: Clock,
    *,
    client: Client | None = None,
    timeout_s: float = 10.0,
) -> Plan:
    """The plan; without a client that of an empty cluster.

    Raises:
        InputError: what was given is wrong.
        BlindError: see there.
        ApiError: the cluster does not answer, does not know who asks, or a single object could not be read.
        TimeoutError: it did not answer at all.
    """
    promised = frozenset[str]()

    def served(kind: Kind) -> bool:
        known = client is None and (kind.built_in or kind in OWN or kind in FOREIGN)
        return known or kind.crd_name in promised

    tuning = Tuning(initial_list=InitialList.PAGES, first_grace_s=timeout_s)
    caches = Caches(Once(served, client), tuning=tuning)
    operator = Operator.over(caches, settings, clock, Halves.of(_groups(question), settings))
    checked = check(question.documents, operator.kinds, settings.appliance_namespace)
    async with asyncio.timeout(timeout_s):
        await _greet(client)
        promised = await _promised(question, settings, operator.halves, client)
    async with _filled(caches, timeout_s):
        stage = _Stage(operator, clock, client)
        return await stage.play(question, checked.given, checked.skipped)


class _Stage:
    """One rehearsal over caches that are complete."""

    def __init__(self, operator: Operator, clock: Clock, client: Client | None) -> None:
        async def get(kind: Kind, key: ObjectKey) -> Resource:
            if client is None:
                return await nothing_there(kind, key)
            return await client.get(kind, key, view=Resource)

        self._offline = client is None
        self._operator = operator
        self._caches = operator.caches
        self._server = PretendServer(self._caches, clock, manager=OPERATOR, get=get)
        self._notes = Notes()
        self._work = Work(operator, self._hands_of, clock)

    def _hands_of(self, declaration: Declaration) -> NotingHands:
        """Everybody writes in the name in which the daemon has it write."""
        return NotingHands(
            self._caches,
            self._server,
            self._notes,
            manager=declaration.field_manager or OPERATOR,
            managed_by=declaration.managed_by or OPERATOR,
        )

    async def play(self, question: Question, given: tuple[Given, ...], skipped: tuple[str, ...]) -> Plan:
        """See `rehearse`."""
        await self._furnish(question)
        players = await self._assume(question, given)
        self._notes.clear()
        self._work.done.clear()
        before = {(each.kind, each.key): await self._server.lay(each.kind, each.body) for each in given}
        assumed = await self._assume_secrets(given) if _plays_palena(question, self._operator) else ()
        self._wake(given)
        await self._work.settle(players)
        self._see()
        changes = tuple(filter(None, (of_notes(self._notes[place]) for place in self._notes)))
        asked = {(each.kind, each.key) for each in given}
        return Plan(
            tuple(of_given(each, before[each.kind, each.key]) for each in given if each.ours),
            tuple(each for each in changes if (each.kind, each.key) not in asked or each.changes),
            tuple(self._standings(given, changes)),
            (*skipped, *assumed, *self._overlooked(given), *self._problems()),
        )

    async def _furnish(self, question: Question) -> None:
        """What there is beside the objects of a cluster: catalogs, and without a cluster definitions."""
        for document in check(question.catalogs or (), [CONFIG_MAP], "").given:
            await self._server.lay(document.kind, document.body)
        if self._offline:
            await self._server.lay(CUSTOM_RESOURCE_DEFINITION, release_definition())
            await lay_definitions(self._server.lay, OWN)
        if self._operator.appliance is not None:
            _refuse_bad_catalogs(self._operator.appliance.catalogs)

    async def _assume(self, question: Question, given: tuple[Given, ...]) -> tuple[Player, ...]:
        """Make the world that is assumed, with the operator's own hands."""
        players: tuple[Player, ...] = ()
        if _plays_palena(question, self._operator):
            await lay_definitions(self._server.lay, palena.FOREIGN)
            players = (palena.PalenaPlayer(self._caches, self._server.lay, self._notes.__iter__),)
        if self._operator.appliance is not None and question.assume_ready:
            players += await self._assume_modules(self._operator.appliance.modules, question, given)
        await self._work.settle(players)
        return players

    async def _assume_modules(
        self, facts: ModuleFacts, question: Question, given: tuple[Given, ...]
    ) -> tuple[Player, ...]:
        catalog = facts.catalog
        if catalog is None:
            return ()
        assumed = Assumed.of(question.assume_ready, catalog)
        if not assumed.modules:
            return ()
        flux = Flux(facts, assumed, self._operator.kinds, self._server.lay, question.root)
        await flux.plant()
        wanted = {facts.canonical(_module(each)) for each in given if each.kind == MODULE_ACTIVATION}
        for module in assumed.named:
            if module not in wanted and not catalog.modules[module].static and facts.may_activate(module):
                await self._server.lay(MODULE_ACTIVATION, auto_activation(module, facts.site))
        if KUBEAI not in assumed.modules:
            return (flux,)
        return (flux, KubeAiPlayer(self._caches, self._server.lay, facts.site.flux_namespace))

    async def _assume_secrets(self, given: tuple[Given, ...]) -> tuple[str, ...]:
        """Those of users that the given objects name."""
        live = ((each.kind, seen(self._caches, each.kind, each.key)) for each in given if each.ours)
        named = [(kind, found) for kind, found in live if found is not None]
        known = "given" if self._offline else "given, and not in the cluster"
        return await palena.lay_secrets(self._server.lay, self._caches, named, known=known)

    def _wake(self, given: tuple[Given, ...]) -> None:
        """Also what is as it was given already: its plan is asked for."""
        for declaration in self._operator.declarations:
            keys = [each.key for each in given if each.kind == declaration.primary]
            self._work.wake(declaration.name, [key for key in keys if declaration.scope.covers_key(key)])

    def _see(self) -> None:
        """Raise BlindError where anybody who had to decide could not read what counts, or failed."""
        problems = [f"{name} {key}: {why}" for (name, key), why in self._work.problems.items()]
        if problems:
            raise BlindError(problems, forbidden=False)
        unread: dict[str, bool] = {}
        for name in {name for name, _ in self._work.done}:
            for scope in scopes(self._operator.reconcilers[name].declaration):
                informer = self._caches.informer_of(scope)
                if informer.state in (InformerState.FAILING, InformerState.SYNCING):
                    reason = informer.reason or "no answer in time"
                    unread[f"{scope} cannot be read: {reason}"] = reason.startswith("Forbidden")
        if unread:
            raise BlindError(sorted(unread), forbidden=all(unread.values()))

    def _standings(self, given: tuple[Given, ...], changes: tuple[Change, ...]) -> Iterable[Standing]:
        places = [(each.kind, each.key) for each in given]
        places += [(each.kind, each.key) for each in changes if each.changes]
        for kind, key in dict.fromkeys(places):
            live = seen(self._caches, kind, key) if kind in OWN and kind != kinds.HOST_OPERATION else None
            if live is not None:
                yield Standing.of(kind, live)

    def _overlooked(self, given: tuple[Given, ...]) -> Iterable[str]:
        """Objects of Palena that the operator of these settings leaves alone."""
        scopes = [each.scope for each in self._operator.declarations]
        for each in given:
            looked = any(scope.kind == each.kind and scope.covers_key(each.key) for scope in scopes)
            if each.kind in kinds.PALENA_KINDS and not looked:
                yield (
                    f"{each.kind.kind} {each.key}: nobody looks at it, by "
                    "PALENA_WATCH_NAMESPACES or PALENA_CONTROLLERS"
                )

    def _problems(self) -> Iterable[str]:
        half = self._operator.appliance
        return (each.message for each in half.catalogs.problems.values()) if half is not None else ()


async def _greet(client: Client | None) -> None:
    """Whether the server is there and knows who asks: told at once, and not by every list for itself."""
    if client is not None:
        with suppress(Forbidden, NotFound):
            await client.get(NAMESPACE, ObjectKey("", "default"))


@asynccontextmanager
async def _filled(caches: Caches, timeout_s: float) -> AsyncIterator[None]:
    """Within the block the caches hold what there was, and nothing new arrives."""
    async with anyio.create_task_group() as group:
        group.start_soon(caches.run)
        with suppress(NotSyncedError):
            await caches.wait_synced(timeout_s)
        group.cancel_scope.cancel()
    yield


def _module(given: Given) -> str:
    text = given.body.get("spec", {}).get("module")
    return text if isinstance(text, str) and text.strip() else given.key.name


def _groups(question: Question) -> frozenset[str]:
    """The API groups of what was given."""
    return frozenset(str(each.body.get("apiVersion", "")).partition("/")[0] for each in question.documents)


def _plays_palena(question: Question, operator: Operator) -> bool:
    return operator.halves.palena and assumes_palena(question.assume_ready)


async def _promised(
    question: Question, settings: Settings, halves: Halves, client: Client | None
) -> frozenset[str]:
    """The definitions that come with what is assumed: which kinds are served is asked before all else."""
    foreign = frozenset(each.crd_name for each in palena.FOREIGN)
    brought = foreign if halves.palena and assumes_palena(question.assume_ready) else frozenset[str]()
    if not halves.appliance:
        refuse_modules(question.assume_ready)
        return brought
    return brought | await _brought_by_modules(question, settings, client)


async def _brought_by_modules(
    question: Question, settings: Settings, client: Client | None
) -> frozenset[str]:
    if not question.assume_ready:
        return frozenset()
    key = ObjectKey(settings.module_catalog_namespace, settings.module_catalog_name)
    documents = (*question.documents, *(question.catalogs or ()))
    text = next(filter(None, (_catalog_text(each.body, key) for each in documents)), None)
    if text is None and client is not None:
        with suppress(NotFound, Forbidden):
            text = (await client.get(CONFIG_MAP, key, view=Resource)).data.get(MODULES.key)
    try:
        catalog = ModuleCatalog.parse(text or "")
    except CatalogError:
        return frozenset()  # told once the caches are filled, as for every other catalog
    return Assumed.of(question.assume_ready, catalog).promises(catalog)


def _catalog_text(body: Body, key: ObjectKey) -> str | None:
    metadata, data = body.get("metadata"), body.get("data")
    named = isinstance(metadata, Mapping) and metadata.get("name") == key.name
    text = data.get(MODULES.key) if named and isinstance(data, Mapping) else None
    return text if body.get("kind") == CONFIG_MAP.kind and isinstance(text, str) else None


def _refuse_bad_catalogs(catalogs: Catalogs) -> None:
    """Without catalogs nothing is generated: that is no plan."""
    if catalogs.usable:
        return
    problems = catalogs.problems.values()
    raise (
        BlindError([each.message for each in problems], forbidden=False)
        if any(each.reason is ProblemReason.UNREADABLE for each in problems)
        else InputError(each.message for each in problems)
    )
