"""The applier, and a note of everything that plans ask it to do."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from magicstick.kube.applier import Applier
from magicstick.kube.cache import Caches, NotCachedError
from magicstick.kube.errors import NotFound
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.plan.fields import patched
from magicstick.plan.server import PretendServer, key_of

Body = Mapping[str, Any]


class Verb(Enum):
    """How a step would be carried out."""

    APPLY = "apply"
    CREATE = "create"
    PATCH = "patch"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Note:
    """The last step about one object, and the object before the first."""

    verb: Verb
    kind: Kind
    key: ObjectKey
    body: Body
    """{} for a deletion."""
    before: Resource | None


class NotingHands:
    """`runtime.hands.Hands`: what the applier does, with a note of each step.

    Finalizers and statuses are the operator's book-keeping and not noted.
    """

    def __init__(self, applier: Applier, caches: Caches, server: PretendServer) -> None:
        self.notes: dict[tuple[Kind, ObjectKey], Note] = {}
        self._applier = applier
        self._caches = caches
        self._server = server

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
            self._note(Verb.PATCH, kind, key_of(body), body, before)
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
            self._note(Verb.PATCH, kind, key, _added(self.notes.get((kind, key)), body), before)
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
        noted = self.notes.get((kind, key))
        if noted is not None:
            return noted.before
        try:
            return self._caches.live(kind, key)
        except NotCachedError:
            pass
        try:
            return await self._server.get(kind, key, view=Resource)
        except NotFound:
            return None

    def _note(self, verb: Verb, kind: Kind, key: ObjectKey, body: Body, before: Resource | None) -> None:
        self.notes[kind, key] = Note(verb, kind, key, body, before)


def _added(note: Note | None, body: Body) -> Body:
    """Two patches of one object as one."""
    if note is None or note.verb is not Verb.PATCH:
        return body
    merged: Body = patched(note.body, body)
    return merged
