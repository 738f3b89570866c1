"""What the applier remembers of its own writes."""

import hashlib
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import msgspec

from magicstick.kube.differ import Differences, differences
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource


@dataclass(frozen=True, slots=True)
class Place:
    """What a write goes to: an object, or a subresource of it."""

    kind: Kind
    key: ObjectKey
    subresource: str = ""


def digest(body: object) -> str:
    """A short fingerprint of a JSON value, the same for the same value in any process."""
    encoded = msgspec.json.encode(body, order="sorted")
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()


@dataclass(frozen=True)
class Wanted:
    """What is to be true at a place."""

    place: Place
    body: Mapping[str, Any]

    @cached_property
    def content(self) -> Any:
        """What is compared: of a status only that."""
        return self.body["status"] if self.place.subresource else self.body

    @cached_property
    def digest(self) -> str:
        """The fingerprint of the content, made once however often one pass asks for it."""
        return digest(self.content)


class Rewritten:
    """Differences that remain after a write, since the server spells or prunes something its own way.

    Sending the same again would change nothing, so exactly these differences, for the same object
    and the same desired content, count as none. Anything else in the object that changes later is a
    difference as ever.
    """

    def __init__(self) -> None:
        self._remaining: dict[Place, tuple[str, str, Differences]] = {}

    def settle(self, wanted: Wanted, uid: str, remaining: Differences) -> None:
        """Remember what differs right after a write of this content."""
        if remaining:
            self._remaining[wanted.place] = (uid, wanted.digest, remaining)
        else:
            self._remaining.pop(wanted.place, None)

    def explains(self, wanted: Wanted, uid: str, found: Differences) -> bool:
        """Whether the differences are those that the last write of this content left."""
        return self._remaining.get(wanted.place) == (uid, wanted.digest, found)

    def forget(self, kind: Kind, key: ObjectKey) -> None:
        """The object is gone."""
        for place in [place for place in self._remaining if (place.kind, place.key) == (kind, key)]:
            del self._remaining[place]

    def __len__(self) -> int:
        return len(self._remaining)


class Compared:
    """What comparisons came to, while neither the object nor what is wanted of it has changed.

    A pass looks at everything that its object has, however little of it moved, and a fingerprint costs a
    tenth of a comparison. An object is told from any other by its uid and resourceVersion. What has not been
    asked for longest is forgotten first, so that objects of the past take no memory for ever.
    """

    LIMIT: Final = 20_000

    def __init__(self) -> None:
        self._known: OrderedDict[Place, tuple[tuple[str, str, str], Differences]] = OrderedDict()

    def differences(self, wanted: Wanted, live: Resource, manager: str) -> Differences:
        """See `differ.differences`."""
        place, version = wanted.place, live.metadata.resource_version
        asked = (live.metadata.uid, version, wanted.digest)
        known = self._known.get(place)
        if known is not None and known[0] == asked and version:
            self._known.move_to_end(place)
            return known[1]
        found = differences(wanted.body, live, manager)
        self._known[place] = (asked, found)
        self._known.move_to_end(place)
        if len(self._known) > self.LIMIT:
            self._known.popitem(last=False)
        return found

    def __len__(self) -> int:
        return len(self._known)


@dataclass(slots=True)
class _Burst:
    desired: str
    times: deque[float] = field(default_factory=deque)
    reported: bool = False


class HotWrites:
    """Notices that one object is written again and again although nothing new is wanted.

    That is a loop that feeds itself: somebody (a webhook, another controller, a pruned field) undoes
    or alters each write, or the wanted content is compared with something that it can never equal.
    """

    def __init__(self, *, limit: int = 5, window_s: float = 60.0) -> None:
        self._limit = limit
        self._window_s = window_s
        self._bursts: dict[Place, _Burst] = {}
        self._sweep_at = 0.0

    def note(self, place: Place, desired: str, now: float) -> int:
        """Note one write; the number of writes in the window when that first exceeds the limit, else 0."""
        self._sweep(now)
        burst = self._bursts.get(place)
        if burst is None or burst.desired != desired:
            burst = self._bursts[place] = _Burst(desired)
        burst.times.append(now)
        while burst.times[0] < now - self._window_s:
            burst.times.popleft()
        if len(burst.times) <= self._limit or burst.reported:
            return 0
        burst.reported = True
        return len(burst.times)

    def _sweep(self, now: float) -> None:
        """Once a window, forget what left it, so that memory is bounded by the writes of two windows."""
        if now < self._sweep_at:
            return
        self._sweep_at = now + self._window_s
        since = now - self._window_s
        self._bursts = {place: burst for place, burst in self._bursts.items() if burst.times[-1] >= since}

    def __len__(self) -> int:
        return len(self._bursts)
