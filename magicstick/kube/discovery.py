"""Which kinds the server serves at this moment, from one slim watch of CustomResourceDefinitions.

A kind counts as served when its definition exists, is Established, and serves the version. Built-in
kinds always are. While the watch of definitions has not synced nothing is known, and `is_served` says
False: nobody starts on a guess.
"""

from collections.abc import Callable

import msgspec

from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import ObjectMeta
from magicstick.kube.store import Store


class CrdCondition(msgspec.Struct, frozen=True, gc=False):
    """`status.conditions[]` of a definition."""

    type: str
    status: str


class CrdVersion(msgspec.Struct, frozen=True, gc=False):
    """`spec.versions[]` of a definition, without its schema."""

    name: str
    served: bool


class CrdNames(msgspec.Struct, frozen=True, gc=False):
    """`spec.names` of a definition."""

    kind: str = ""


class CrdSpec(msgspec.Struct, frozen=True, gc=False):
    """`spec` of a definition, without schemas."""

    names: CrdNames | None = None
    versions: tuple[CrdVersion, ...] | None = ()
    """null in bookmarks, which are objects without content."""


class CrdStatus(msgspec.Struct, frozen=True, gc=False):
    """`status` of a definition."""

    conditions: tuple[CrdCondition, ...] | None = None
    """The server stores null for a moment after the creation."""


class CrdView(msgspec.Struct, frozen=True, gc=False):
    """A CustomResourceDefinition reduced to what decides whether its kind is served."""

    metadata: ObjectMeta
    spec: CrdSpec = CrdSpec()
    status: CrdStatus = CrdStatus()

    @property
    def established(self) -> bool:
        """Whether the server serves it, and it is not being removed."""
        conditions = {condition.type: condition.status for condition in self.status.conditions or ()}
        return conditions.get("Established") == "True" and not self.metadata.dying

    def serves(self, version: str) -> bool:
        """Whether objects can be read and written in this version now."""
        versions = self.spec.versions or ()
        return self.established and any(each.name == version and each.served for each in versions)

    def defines(self, kind: Kind) -> bool:
        """Whether the objects of this definition are of this kind, which its name does not say."""
        return self.spec.names is None or self.spec.names.kind in ("", kind.kind)


class Discovery:
    """See the module. `store` is kept by an informer of CustomResourceDefinitions in the view `CrdView`."""

    def __init__(self, store: Store[CrdView]) -> None:
        self._store = store

    def is_served(self, kind: Kind) -> bool:
        """Whether the kind can be listed, watched and written in its version now."""
        if kind.built_in:
            return True
        definition = self._store.get(ObjectKey("", kind.crd_name))
        return definition is not None and definition.defines(kind) and definition.serves(kind.version)

    def served(self, kind: Kind) -> bool | None:
        """The same; None while nothing is known."""
        return self.is_served(kind) if kind.built_in or self._store.synced else None

    def established(self, crd_name: str) -> bool | None:
        """Whether the definition of this name is Established; None while nothing is known."""
        if not self._store.synced:
            return None
        definition = self._store.get(ObjectKey("", crd_name))
        return definition is not None and definition.established

    def subscribe(self, handler: Callable[[str], None]) -> None:
        """Call `handler(name of the definition)` after each change that matters to the questions above."""

        def changed(old: CrdView | None, new: CrdView | None) -> None:
            if _answers(old) != _answers(new):
                handler((new or old).metadata.name)  # type: ignore[union-attr] # a change has one of both

        self._store.subscribe(changed)


def _answers(definition: CrdView | None) -> tuple[bool, frozenset[str]]:
    """What the questions above get: established, and the versions that are served."""
    if definition is None or not definition.established:
        return False, frozenset()
    return True, frozenset(version.name for version in definition.spec.versions or () if version.served)
