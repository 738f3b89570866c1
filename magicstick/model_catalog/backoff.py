"""When what failed is tried again: for each name on its own, later each time, at once when it changed.

(spec: companions §1.4: 30 s up to 10 min)
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from magicstick.runtime.clock import Clock

FIRST_S: Final = 30.0
LONGEST_S: Final = 600.0
_DOUBLINGS: Final = 10


@dataclass(frozen=True, slots=True)
class _Failure:
    revision: str
    times: int
    due: float
    reason: str


class Backoffs:
    """Failures by key. A key that no longer occurs is forgotten with `keep`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: dict[str, _Failure] = {}

    def due(self, key: str, revision: str) -> bool:
        """Whether it may be tried now."""
        failure = self._failures.get(key)
        return failure is None or failure.revision != revision or self._clock.monotonic() >= failure.due

    def failed(self, key: str, revision: str, reason: str, *, at_least_s: float = 0.0) -> None:
        """It was tried and failed."""
        known = self._failures.get(key)
        times = known.times + 1 if known is not None and known.revision == revision else 1
        delay_s = min(FIRST_S * 2 ** min(times - 1, _DOUBLINGS), LONGEST_S)
        due = self._clock.monotonic() + max(delay_s, at_least_s)
        self._failures[key] = _Failure(revision, times, due, reason)

    def times(self, key: str) -> int:
        """How many times in a row it failed."""
        failure = self._failures.get(key)
        return failure.times if failure else 0

    def reasons(self) -> Mapping[str, str]:
        """Why each failed last, while it is waited for as well: what is told must not come and go."""
        return {key: failure.reason for key, failure in sorted(self._failures.items())}

    def succeeded(self, key: str) -> None:
        """It was tried and went well."""
        self._failures.pop(key, None)

    def keep(self, keys: Iterable[str]) -> None:
        """Forget all other keys."""
        kept = set(keys)
        self._failures = {key: failure for key, failure in self._failures.items() if key in kept}

    def next_s(self) -> float | None:
        """Seconds until the first of them may be tried again; None without any."""
        if not self._failures:
            return None
        return max(0.0, min(each.due for each in self._failures.values()) - self._clock.monotonic())
