"""Write-through into a store of any view."""

from typing import Generic, TypeVar, cast

import msgspec

from magicstick.kube.informer import Informer, InformerState
from magicstick.kube.kinds import ObjectKey
from magicstick.kube.objects import FullObjectMeta, Resource, View

V = TypeVar("V", bound=View)


class Projection(Generic[V]):
    """Puts whole objects, as writes return them, into the store of one informer.

    A view that reads fields which `Resource` does not carry takes no write-through: the missing ones
    would look empty, and the watch, finding the version known, would not mend it.
    """

    def __init__(self, informer: Informer[V]) -> None:
        self.informer = informer
        view = informer.view
        self._whole = issubclass(view, Resource)
        self._fits = _is_part_of(view, Resource)

    def tells_absence_of(self, key: ObjectKey) -> bool:
        """Whether an object at this place would be in the store, whole, if it existed."""
        scope = self.informer.scope
        return (
            self._whole
            and not scope.selects
            and scope.covers_key(key)
            and self.informer.state is InformerState.SYNCED
        )

    def known(self, key: ObjectKey) -> Resource | None:
        """The whole object where the store has it; None says nothing, since a selector may leave it out."""
        if not self._whole or self.informer.state is not InformerState.SYNCED:
            return None
        return cast("Resource | None", self.informer.store.get(key))

    def written(self, obj: Resource) -> None:
        """Take what a write returned, where the object belongs to the list and the view can hold it."""
        if not self._fits or not self.informer.scope.covers(obj):
            return
        view = self.informer.view
        if isinstance(obj, view):
            self.informer.store.written(cast("V", obj))
            return
        try:
            projected = msgspec.convert(obj, view, from_attributes=True)
        except msgspec.ValidationError:
            return  # the watch delivers the same object, and its failure to decode is reported there
        self.informer.store.written(projected)


def _is_part_of(view: type[object], whole: type[msgspec.Struct]) -> bool:
    """Whether a view reads no field that the whole object, or its metadata, does not carry."""
    fields = {
        field.encode_name: field.type for field in msgspec.structs.fields(cast("type[msgspec.Struct]", view))
    }
    carried = {field.encode_name for field in msgspec.structs.fields(whole)}
    metadata = fields.get("metadata")
    return fields.keys() <= carried and (metadata is None or _is_part_of(metadata, FullObjectMeta))
