"""The applier, and a note of everything that plans ask it to do."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from magicstick.api.labels import OPERATOR
from magicstick.kube.applier import Applier
from magicstick.kube.cache import Caches, NotCachedError
from magicstick.kube.errors import NotFound
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.plan.fields import patched
from magicstick.plan.server import PretendServer, key_of

Body = Mapping[str, Any]
BOUND: Final = ("uid", "resourceVersion")


class Verb(Enum):
    """How a step would be carried out."""

    APPLY = "apply"
    PART = "part"
    """An apply of single fields of what somebody else makes."""
    CREATE = "create"
    PATCH = "patch"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Note:
    """The last step of one manager about one object, and the object before the first of anybody."""

    verb: Verb
    kind: Kind
    key: ObjectKey
    body: Body
    """{} for a deletion."""
    before: Resource | None
    manager: str = OPERATOR


class Notes:
    """What was noted of each object, by whoever writes it."""

    def __init__(self) -> None:
        self._notes: dict[tuple[Kind, ObjectKey], dict[str, Note]] = {}

    def __iter__(self) -> Iterator[tuple[Kind, ObjectKey]]:
        """The objects, in the order in which they were first written."""
        return iter(tuple(self._notes))

    def __getitem__(self, place: tuple[Kind, ObjectKey]) -> tuple[Note, ...]:
        """The notes about one object, one of each manager; () where there are none."""
        return tuple(self._notes.get(place, {}).values())

    def of(self, place: tuple[Kind, ObjectKey], manager: str) -> Note | None:
        """The note of one manager."""
        return self._notes.get(place, {}).get(manager)

    def add(self, note: Note) -> None:
        """A deletion ends what was noted before, and is ended by whatever comes after it."""
        known = self._notes.setdefault((note.kind, note.key), {})
        if note.verb is Verb.DELETE or any(each.verb is Verb.DELETE for each in known.values()):
            known.clear()
        known[note.manager] = note

    def clear(self) -> None:
        """Forget everything."""
        self._notes.clear()


class NotingHands:
    """`runtime.hands.Hands`: what an applier in the name of `manager` does, with a note of each step.

    Finalizers and statuses are the operator's book-keeping and not noted.
    """

    def __init__(
        self, caches: Caches, server: PretendServer, notes: Notes, *, manager: str, managed_by: str
    ) -> None:
        self._server = server.speaking_as(manager)
        self._applier = Applier(self._server, caches, manager=manager, managed_by=managed_by)
        self._caches = caches
        self._notes = notes
        self._manager = manager

    async def apply(self, kind: Kind, body: Body) -> bool:
        """See `Hands`; noted also where nothing has to be sent, since the object is wanted."""
        before = await self._before(kind, key_of(body))
        sent = await self._applier.apply(kind, body)
        self._note(Verb.APPLY, kind, key_of(body), body, before)
        return sent

    async def apply_part(self, kind: Kind, body: Body) -> bool:
        """See `Hands`."""
        before = await self._before(kind, key_of(body))
        sent = await self._applier.apply_part(kind, body)
        if sent:
            self._note(Verb.PART, kind, key_of(body), _unbound(body), before)
        return sent

    async def create(self, kind: Kind, body: Body) -> bool:
        """See `Hands`."""
        before = await self._before(kind, key_of(body))
        created = await self._applier.create(kind, body)
        if created:
            self._note(Verb.CREATE, kind, key_of(body), body, before)
        return created

    async def delete(self, kind: Kind, key: ObjectKey, uid: str, resource_version: str | None = None) -> bool:
        """See `Hands`."""
        before = await self._before(kind, key)
        asked = await self._applier.delete(kind, key, uid, resource_version)
        if asked:
            self._note(Verb.DELETE, kind, key, {}, before)
        return asked

    async def patch(self, kind: Kind, key: ObjectKey, uid: str, body: Body) -> bool:
        """See `Hands`."""
        before = await self._before(kind, key)
        sent = await self._applier.patch(kind, key, uid, body)
        if sent:
            former = self._notes.of((kind, key), self._manager)
            self._note(Verb.PATCH, kind, key, _added(former, body), before)
        return sent

    async def add_finalizer(self, kind: Kind, live: Resource, finalizer: str) -> bool:
        """See `Hands`."""
        return await self._applier.add_finalizer(kind, live, finalizer)

    async def remove_finalizer(self, kind: Kind, live: Resource, finalizer: str) -> bool:
        """See `Hands`."""
        return await self._applier.remove_finalizer(kind, live, finalizer)

    async def apply_status(self, kind: Kind, live: Resource, status: Body) -> bool:
        """See `Hands`."""
        return await self._applier.apply_status(kind, live, status)

    async def refresh(self, kind: Kind, key: ObjectKey) -> None:
        """See `Hands`: the caches are all there is."""

    async def _before(self, kind: Kind, key: ObjectKey) -> Resource | None:
        noted = self._notes[kind, key]
        if noted:
            return noted[0].before
        found = seen(self._caches, kind, key)
        if found is not None:
            return found
        try:
            return await self._server.get(kind, key, view=Resource)
        except NotFound:
            return None

    def _note(self, verb: Verb, kind: Kind, key: ObjectKey, body: Body, before: Resource | None) -> None:
        self._notes.add(Note(verb, kind, key, body, before, self._manager))


def seen(caches: Caches, kind: Kind, key: ObjectKey) -> Resource | None:
    """The object as far as the caches know it; None says nothing where no list could hold it."""
    try:
        return caches.live(kind, key)
    except NotCachedError:
        return None


def _unbound(body: Body) -> Body:
    """Without what binds it to the object that was decided on."""
    metadata = {name: value for name, value in body["metadata"].items() if name not in BOUND}
    return {**body, "metadata": metadata}


def _added(note: Note | None, body: Body) -> Body:
    """Two patches of one object as one."""
    if note is None or note.verb is not Verb.PATCH:
        return body
    merged: Body = patched(note.body, body)
    return merged
