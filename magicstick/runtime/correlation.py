"""Which Events are worth writing: client-go's rules and numbers (`tools/record/events_cache.go`).

    the same again        within the window: counted in the series of the first, not written anew
    similar ones          over `SIMILAR` different messages of one reason on one object within the window
                          become one series, "(combined from similar events): …"
    too many              an object may have `BURST` at once and one per `REFILL_S` afterwards

Pure: no I/O, no clock of its own. Remembers at most `REMEMBERED` objects, reasons and series each.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

BURST: Final = 25
REFILL_S: Final = 300.0
SIMILAR: Final = 10
WINDOW_S: Final = 600.0
REMEMBERED: Final = 4096
COMBINED: Final = "(combined from similar events): "


class Happening(NamedTuple):
    """What happened to which object (`uid`), as an Event would say it."""

    uid: str
    type: str
    reason: str
    note: str


class Verdict(NamedTuple):
    """What to write: a new Event (`times` 1), or the next count of the series that is called `name`."""

    name: str
    note: str
    times: int


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


@dataclass(slots=True)
class _Similar:
    at: float
    notes: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Series:
    name: str
    at: float
    times: int = 0


class _Recent(Generic[K, V]):
    """The most recently used entries."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The entry, which is thereby the most recent."""
        if key in self._entries:
            self._entries.move_to_end(key)
        return self._entries.get(key)

    def put(self, key: K, value: V) -> V:
        """Remember the entry, and forget the oldest if there are too many."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._limit:
            self._entries.popitem(last=False)
        return value

    def __len__(self) -> int:
        return len(self._entries)


class Correlator:
    """See the module's docstring. `name` makes a new, unused name for an Event."""

    def __init__(self, name: Callable[[], str], remembered: int = REMEMBERED) -> None:
        self._name = name
        self._buckets: _Recent[str, _Bucket] = _Recent(remembered)
        self._similar: _Recent[tuple[str, str, str], _Similar] = _Recent(remembered)
        self._series: _Recent[Happening, _Series] = _Recent(remembered)

    def judge(self, happening: Happening, now_s: float) -> Verdict | None:
        """What to write of this, at `now_s` on a monotonic clock; None when there were too many.

        What is not written still counts, so that the next count of the series tells the truth.
        """
        combined = self._is_combined(happening, now_s)
        key = happening._replace(note=COMBINED) if combined else happening
        series = self._series.get(key)
        if series is None or now_s - series.at > WINDOW_S:
            series = self._series.put(key, _Series(self._name(), now_s))
        series.at = now_s
        series.times += 1
        if not self._take_token(happening.uid, now_s):
            return None
        note = COMBINED + happening.note if combined else happening.note
        return Verdict(series.name, note, series.times)

    def _is_combined(self, happening: Happening, now_s: float) -> bool:
        group = (happening.uid, happening.type, happening.reason)
        similar = self._similar.get(group)
        if similar is None or now_s - similar.at > WINDOW_S:
            similar = self._similar.put(group, _Similar(now_s))
        similar.at = now_s
        if happening.note not in similar.notes and len(similar.notes) >= SIMILAR:
            return True
        similar.notes.add(happening.note)
        return False

    def _take_token(self, uid: str, now_s: float) -> bool:
        bucket = self._buckets.get(uid) or self._buckets.put(uid, _Bucket(BURST, now_s))
        bucket.tokens = min(BURST, bucket.tokens + (now_s - bucket.at) / REFILL_S)
        bucket.at = now_s
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True
