"""Named indexes of a store: from a value to the keys of the entries that have it."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import structlog

from magicstick.kube.kinds import ObjectKey

T = TypeVar("T")

log = structlog.get_logger(__name__)


class Index(Generic[T]):
    """One index, maintained with each change at the cost of the changed entry alone.

    `function` must be pure: what it says of an entry is asked again when the entry goes. One that
    raises for an entry indexes it under nothing; that is logged once, until it succeeds again.
    """

    def __init__(self, name: str, function: Callable[[T], Iterable[str]]) -> None:
        self.name = name
        self.function = function
        self._keys: dict[str, dict[ObjectKey, None]] = {}
        self._failing = False

    def keys(self, value: str) -> Iterable[ObjectKey]:
        """The keys of the entries that have `value`, in the order in which they came to have it."""
        return self._keys.get(value, {})

    def change(self, key: ObjectKey, old: T | None, new: T | None) -> None:
        """Take the change of one entry: None for `old` when it came, for `new` when it went."""
        before = self._values(old)
        after = self._values(new)
        for value in before - after:
            self._discard(value, key)
        for value in after - before:
            self._keys.setdefault(value, {})[key] = None

    def clear(self) -> None:
        """Forget every entry."""
        self._keys.clear()

    def _discard(self, value: str, key: ObjectKey) -> None:
        keys = self._keys.get(value)
        if keys is None:
            return
        keys.pop(key, None)
        if not keys:
            del self._keys[value]

    def _values(self, entry: T | None) -> frozenset[str]:
        if entry is None:
            return frozenset()
        try:
            values = frozenset(self.function(entry))
        except Exception:
            if not self._failing:
                log.exception("index function failed; the entry is not indexed", index=self.name)
            self._failing = True
            return frozenset()
        self._failing = False
        return values
