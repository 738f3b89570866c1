"""What the players of foreign operators have in common: one role for each kind that an operator answers for.

A role follows the objects of its kind while the kind is defined, holds them by the operator's finalizer,
makes what the operator makes of them, and reports. It goes with the definition and comes back with it.

Directions, as annotations of an object; they hold as long as they stand there:

- `devcluster.magicstick.dev/delay: seconds` from the object's creation until anything is done for it;
- `devcluster.magicstick.dev/fails: text` reports a failure, as each role says in its own words;
- `devcluster.magicstick.dev/deletion: stuck` keeps the finalizer.
"""

import abc
import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final, TypeAlias

from hack.bare import BareClient
from hack.devcluster.actors.definitions import Presence
from hack.devcluster.actors.following import (
    AGAIN_S,
    Collection,
    Gate,
    Key,
    Object,
    Workers,
    condition,
    conditions,
    direction,
    key_of,
)
from hack.devcluster.actors.writing import Told, Writer, condition_of, present

Status: TypeAlias = dict[str, Any]

STUCK: Final = "stuck"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"


@dataclass(frozen=True, slots=True)
class Place:
    """A collection of a kind: `/apis/<group>/<version>` or `/api/v1`, and its plural."""

    api: str
    plural: str

    @property
    def everywhere(self) -> str:
        """Of all namespaces."""
        return f"{self.api}/{self.plural}"

    def of(self, namespace: str, name: str = "") -> str:
        """The collection of a namespace, or an object in it."""
        return f"{self.api}/namespaces/{namespace}/{self.plural}{name and '/'}{name}"


SECRETS: Final = Place("/api/v1", "secrets")
SERVICES: Final = Place("/api/v1", "services")
PODS: Final = Place("/api/v1", "pods")
CLAIMS: Final = Place("/api/v1", "persistentvolumeclaims")
CONFIG_MAPS: Final = Place("/api/v1", "configmaps")
ACCOUNTS: Final = Place("/api/v1", "serviceaccounts")
DEPLOYMENTS: Final = Place("/apis/apps/v1", "deployments")
JOBS: Final = Place("/apis/batch/v1", "jobs")


class NotYetError(Exception):
    """What an object needs is not there; it is looked for again."""


class Role(abc.ABC):
    """Plays a foreign operator for the objects of one kind, until cancelled.

    Attributes:
        place: the kind.
        manager: the operator, as field managers and labels name it.
        finalizer: by which it holds objects; none where it holds none.
        made: what it makes, with the selector (encoded) by which it is found.
        gate: shut, nothing is done (the operator is slow, hangs, or is down).
        objects: those of the kind; none while the kind is not defined.
        listeners: told of each object that changes or goes, by its key.
    """

    place: ClassVar[Place]
    manager: ClassVar[str]
    finalizer: ClassVar[str] = ""
    made: ClassVar[Mapping[Place, str]] = {}

    def __init__(self, client: BareClient, *, clock: Callable[[], datetime] = present) -> None:
        self.gate = Gate()
        self.objects = Collection(client, self.place.everywhere, self._see)
        self._client, self._clock = client, clock
        self._writer = Writer(client, self.place.api, self.place.plural, self.manager)
        self._workers = Workers(self._look_at)
        self._children = {
            place: Collection(client, place.everywhere, self._see_child, query=f"labelSelector={selector}")
            for place, selector in self.made.items()
        }
        self.listeners: list[Callable[[Key], None]] = []

    @abc.abstractmethod
    async def serve(self, obj: Object) -> Status:
        """Make what the operator makes of an object; what is then reported.

        Raises:
            NotYetError: something is waited for.
        """

    @abc.abstractmethod
    def waiting(self, obj: Object, message: str) -> Status:
        """What is reported while something is waited for."""

    @abc.abstractmethod
    def failing(self, obj: Object, said: str) -> Status:
        """What is reported when a direction has it fail."""

    async def give_up(self, obj: Object) -> bool:  # noqa: ARG002 - for those that have something to do
        """Do what comes before an object may go. False when it has to stay."""
        return True

    async def run(self) -> None:
        """Follow the kind while there is one. Never returns."""
        group = self.place.api.split("/")[2]
        presence = Presence(self._client, f"{self.place.plural}.{group}")
        await self._workers.run(presence.while_there(self._follow, self._forget))

    def heed(self, other: "Role", names: Callable[[Object], str]) -> None:
        """Look at objects again when the object of another role that they name in their namespace changes."""

        def heard(changed: Key) -> None:
            for key, obj in self.objects.items.items():
                if (key[0], names(obj)) == changed:
                    self._workers.wake(key)

        other.listeners.append(heard)

    # --- following ------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        async with asyncio.TaskGroup() as group:
            for each in (self.objects, *self._children.values()):
                group.create_task(each.follow())

    def _forget(self) -> None:
        gone, self.objects.items = self.objects.items, {}
        for obj in gone.values():
            self._announce(obj)

    def _see(self, _: str, obj: Object) -> None:
        self._workers.wake(key_of(obj))
        self._announce(obj)

    def _announce(self, obj: Object) -> None:
        for listener in self.listeners:
            listener(key_of(obj))

    def _see_child(self, _: str, child: Object) -> None:
        for owner in child["metadata"].get("ownerReferences", ()):
            self._workers.wake((key_of(child)[0], owner["name"]))

    # --- one object -----------------------------------------------------------------------------------

    async def _look_at(self, key: Key) -> None:
        await self.gate.passed()
        obj = self.objects.items.get(key)
        if obj is None:
            return
        if "deletionTimestamp" in obj["metadata"]:
            await self._let_go(obj)
            return
        obj = await self._hold(obj)
        try:
            status = await self._state(obj)
        except NotYetError as missing:
            self._later(key, AGAIN_S)
            status = self.waiting(obj, str(missing))
        self.objects.put(await self._writer.status(obj, status))

    async def _hold(self, obj: Object) -> Object:
        finalizers = obj["metadata"].get("finalizers", [])
        if not self.finalizer or self.finalizer in finalizers:
            return obj
        held = await self._writer.set_finalizers(obj, [*finalizers, self.finalizer])
        self.objects.put(held)
        return held

    async def _state(self, obj: Object) -> Status:
        born = datetime.fromisoformat(obj["metadata"]["creationTimestamp"])
        delay = timedelta(seconds=float(direction(obj, "delay") or 0))
        left = (born + delay - self._clock().astimezone(UTC)).total_seconds()
        if delay and left > 0:
            self._later(key_of(obj), left)
            return self.waiting(obj, "the operator has not come to it yet")
        if said := direction(obj, "fails"):
            return self.failing(obj, said)
        await self._clear(obj)
        return await self.serve(obj)

    async def _clear(self, obj: Object) -> None:
        """What belonged to a namesake that is gone has to go first. The collector takes its time."""
        left = [
            (place, child)
            for place, known in self._children.items()
            for child in known.items.values()
            if key_of(child)[0] == key_of(obj)[0] and _is_left(child, obj)
        ]
        for place, child in left:
            if "deletionTimestamp" not in child["metadata"]:
                await self._client.send("DELETE", place.of(*key_of(child)))
        if left:
            raise NotYetError("what a namesake has left behind is being removed")

    async def _let_go(self, obj: Object) -> None:
        finalizers = obj["metadata"].get("finalizers", ())
        if self.finalizer not in finalizers or direction(obj, "deletion") == STUCK:
            return
        if await self.give_up(obj):
            left = [each for each in finalizers if each != self.finalizer]
            await self._writer.set_finalizers(obj, left)
        else:
            self._later(key_of(obj), AGAIN_S)

    def _later(self, key: Key, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._workers.wake, key)

    # --- hands ----------------------------------------------------------------------------------------

    async def make(self, owner: Object, place: Place, body: Object) -> None:
        """Make what belongs to an object as it should be; nothing is written where it is."""
        namespace = key_of(owner)[0]
        name = body["metadata"]["name"]
        await self._client.apply(place.of(namespace, name), owned(owner, body), manager=self.manager)

    async def make_once(self, owner: Object, place: Place, name: str, body: Callable[[], Object]) -> None:
        """Make it where there is none of that name, and never touch it again."""
        path = place.of(key_of(owner)[0], name)
        if await self._client.find(path) is None:
            await self._client.apply(path, owned(owner, body()), manager=self.manager)

    async def value(self, namespace: str, name: str, key: str) -> str:
        """A value of a Secret, as it is encoded.

        Raises:
            NotYetError: there is none.
        """
        found = await self._client.find(SECRETS.of(namespace, name)) or {}
        if not (value := (found.get("data") or {}).get(key)):
            raise NotYetError(f'secret "{name}" with key "{key}" not found')
        return str(value)

    def child(self, place: Place, namespace: str, name: str) -> Object:
        """One of the things that are made; empty while it is not there."""
        return self._children[place].items.get((namespace, name), {})

    def status(self, obj: Object, told: list[Told], **fields: Any) -> Status:
        """A status with conditions about the present generation."""
        return {**fields, "conditions": [condition_of(obj, each, self._clock()) for each in told]}


def _is_left(child: Object, owner: Object) -> bool:
    same = (owner["kind"], owner["metadata"]["name"])
    return any(
        (each["kind"], each["name"]) == same and each["uid"] != owner["metadata"]["uid"]
        for each in child["metadata"].get("ownerReferences", ())
    )


def owned(owner: Object, body: Object) -> Object:
    """An object that goes with its owner."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {**body, "metadata": {**body["metadata"], "ownerReferences": [reference]}}


def ready_replicas(workload: Object) -> int:
    """Those that serve now, also while others take their place."""
    return int(workload.get("status", {}).get("readyReplicas", 0))


def is_complete(job: Object) -> bool:
    """Whether a Job has come to its end well."""
    return condition(job, "Complete").get("status") == "True"


def is_true(obj: Object, type_: str) -> bool:
    """Whether a condition says so."""
    return any(each["type"] == type_ and each["status"] == "True" for each in conditions(obj))


def deployment(
    name: str, labels: Mapping[str, str], replicas: int, container: Mapping[str, Any], **pod: Any
) -> dict[str, Any]:
    """A Deployment with one container."""
    template = {
        "metadata": {"labels": dict(labels)},
        "spec": {"containers": [dict(container)], **pod},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {"replicas": replicas, "selector": {"matchLabels": dict(labels)}, "template": template},
    }


def job(name: str, labels: Mapping[str, str], container: Mapping[str, Any]) -> dict[str, Any]:
    """A Job that runs once."""
    template = {
        "metadata": {"labels": dict(labels)},
        "spec": {"containers": [dict(container)], "restartPolicy": "Never"},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {"backoffLimit": 3, "template": template},
    }


def service(name: str, labels: Mapping[str, str], selector: Mapping[str, str], port: int) -> dict[str, Any]:
    """A Service of one port."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {"selector": dict(selector), "ports": [{"name": "main", "port": port, "protocol": "TCP"}]},
    }


def opaque(
    name: str, values: Mapping[str, str], labels: Mapping[str, str], type_: str = "Opaque"
) -> dict[str, Any]:
    """A Secret."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": dict(labels)},
        "type": type_,
        "stringData": dict(values),
    }
