"""What may be asked of the Pods of a running model, whatever serves it, and what each of them answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from magicstick.models.endpoints import Endpoint
from magicstick.models.observation import CheckState, EngineCheck
from magicstick.models.runtime_http import RuntimeHttp

Sample = Mapping[str, int | float]
"""What one Pod measures of itself."""


@dataclass(frozen=True, slots=True)
class Found:
    """What one Pod says of itself; UNKNOWN where it does not answer as it should."""

    state: CheckState
    message: str = ""
    sample: Sample | None = None


class Question(Protocol):
    """What is asked of all Pods of a model. Equal questions are the same question."""

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Whom to ask."""
        ...

    async def ask(self, http: RuntimeHttp, endpoint: Endpoint) -> Found:
        """What one Pod says.

        Raises:
            NoAnswer: nothing that can be understood.
        """
        ...

    def completed(self, check: EngineCheck, samples: Sequence[Sample], now: datetime) -> EngineCheck:
        """The check, with what the samples say together."""
        ...
