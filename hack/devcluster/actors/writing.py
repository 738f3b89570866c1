"""How an actor writes to the objects that it acts on."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from hack.bare import BareClient
from hack.devcluster.actors.following import Object, condition, key_of

FINALIZER: Final = "finalizers.fluxcd.io"
TIME: Final = "%Y-%m-%dT%H:%M:%SZ"

Told: TypeAlias = tuple[str, str, str, str]
"""(type, status, reason, message) of a condition."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes objects of one kind.

    Attributes:
        api: `/apis/<group>/<version>`.
        manager: the field manager of the controller that is played.
    """

    client: BareClient
    api: str
    plural: str
    manager: str

    @property
    def collection(self) -> str:
        """Of all namespaces."""
        return f"{self.api}/{self.plural}"

    async def status(self, obj: Object, status: Object) -> Object:
        """Replace the whole status where it differs; bound to the object's identity. Returns the object."""
        if status == obj.get("status"):
            return obj
        namespace, name = key_of(obj)
        body = {
            "apiVersion": obj["apiVersion"],
            "kind": obj["kind"],
            "metadata": {"name": name, "namespace": namespace, "uid": obj["metadata"]["uid"]},
            "status": status,
        }
        return _object(await self.client.apply(f"{self._path(obj)}/status", body, manager=self.manager))

    async def clear_status(self, obj: Object) -> None:
        """Take away all that is in the status."""
        if fields := dict.fromkeys(obj.get("status", {})):
            body = {"metadata": {"uid": obj["metadata"]["uid"]}, "status": fields}
            await self.client.merge(f"{self._path(obj)}/status", body)

    async def add_finalizer(self, obj: Object) -> Object:
        """Flux's, beside those of others."""
        return await self.set_finalizers(obj, [*obj["metadata"].get("finalizers", []), FINALIZER])

    async def remove_finalizer(self, obj: Object) -> Object:
        """Flux's alone."""
        finalizers = obj["metadata"].get("finalizers", [])
        return await self.set_finalizers(obj, [each for each in finalizers if each != FINALIZER])

    async def set_finalizers(self, obj: Object, finalizers: list[str]) -> Object:
        """All of them; with the resourceVersion, so that nobody else's finalizer is lost."""
        version = obj["metadata"]["resourceVersion"]
        body = {"metadata": {"finalizers": finalizers, "resourceVersion": version}}
        return _object(await self.client.merge(self._path(obj), body))

    def _path(self, obj: Object) -> str:
        namespace, name = key_of(obj)
        return f"{self.api}/namespaces/{namespace}/{self.plural}/{name}"


def has_finalizer(obj: Object) -> bool:
    """Whether Flux's is on it."""
    return FINALIZER in obj["metadata"].get("finalizers", [])


def condition_of(obj: Object, told: Told, now: datetime) -> dict[str, Any]:
    """A condition about the object's generation; its time moves with its status alone."""
    type_, status, reason, message = told
    before = condition(obj, type_)
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": obj["metadata"]["generation"],
        "lastTransitionTime": before["lastTransitionTime"] if before.get("status") == status else stamp(now),
    }


def stamp(now: datetime) -> str:
    """As the API writes times."""
    return now.strftime(TIME)


def present() -> datetime:
    """The clock of the machine."""
    return datetime.now(UTC)


def _object(answer: bytes) -> Object:
    decoded: Object = json.loads(answer)
    return decoded
