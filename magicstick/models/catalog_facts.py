"""What the model catalog lists, read from the ConfigMap that it publishes (spec: models §11).

The catalog of a model's own namespace counts, else that of `ai`, where the shipped one publishes. One that
cannot be read, or has no list in it, tells nothing: a model that was published stays so (decision 12).
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CONFIG_MAP, ObjectKey
from magicstick.kube.objects import ObjectMeta, View
from magicstick.kube.store import Store
from magicstick.models.ports import WakeUp
from magicstick.models.publication import CATALOG_NAMESPACE
from magicstick.modules.ports import Reads

NAME: Final = "ai-model-catalog"
Names = frozenset[str] | None
"""The names that a catalog lists; None where it cannot be read."""


class CatalogData(msgspec.Struct, frozen=True, gc=False):
    """The one of its forms that is read here."""

    models: str = msgspec.field(name="catalog.json", default="")


class CatalogView(msgspec.Struct, frozen=True, gc=False):
    """The ConfigMap, without the forms that consumers read."""

    metadata: ObjectMeta
    data: CatalogData = CatalogData()


class PublishedModels:
    """See the module; fills `ports.Publication`. A catalog is read once for each of its changes."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._listed: dict[ObjectKey, tuple[CatalogView, Names]] = {}

    def published(self, name: str, namespace: str) -> bool | None:
        """See `ports.Publication`."""
        if self._reads.state(CONFIG_MAP, "", NAME) is not InformerState.SYNCED:
            return None
        store: Store[CatalogView] = self._reads.store(CONFIG_MAP, "", NAME)
        found = store.get(ObjectKey(namespace, NAME)) or store.get(ObjectKey(CATALOG_NAMESPACE, NAME))
        if found is None:
            return False
        listed = self._names(found)
        return None if listed is None else name in listed

    def follow(self, wake: WakeUp) -> None:
        """The edge of `models.reconciler` to the ConfigMap wakes whom it concerns."""

    def _names(self, catalog: CatalogView) -> Names:
        known = self._listed.get(catalog.metadata.key)
        if known is None or known[0] is not catalog:
            known = self._listed[catalog.metadata.key] = (catalog, listed(catalog))
        return known[1]


def listed(catalog: CatalogView) -> Names:
    """Ids and names of all models in a catalog. An entry that is none is passed over."""
    if not catalog.data.models.strip():
        return frozenset()
    try:
        document = msgspec.json.decode(catalog.data.models)
    except (msgspec.DecodeError, RecursionError):
        return None
    models = document.get("models") if isinstance(document, dict) else None
    if not isinstance(models, list):
        return None
    entries = [each for each in models if isinstance(each, dict)]
    return frozenset(name for each in entries for name in _called(each))


def changed(old: View | None, new: View | None) -> bool:
    """Whether a catalog lists something else, or in another way."""
    before, after = (each.data if isinstance(each, CatalogView) else None for each in (old, new))
    return before != after


def news(old: CatalogView | None, new: CatalogView | None) -> Names:
    """The models that came or went; None where it cannot be told, so that it concerns all.

    A catalog that comes or goes concerns all as well: it takes the place of another, or leaves it.
    """
    before, after = (None if each is None else listed(each) for each in (old, new))
    return None if before is None or after is None else before ^ after


def _called(model: Mapping[str, Any]) -> list[str]:
    return [name for name in (model.get("id"), model.get("name")) if isinstance(name, str)]
