"""What a realtime runtime says of its health: the server's own word, and nothing else (spec: realtime §9)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus

from magicstick.models.endpoints import Endpoint
from magicstick.models.observation import CheckState, EngineCheck
from magicstick.models.questions import Found, Sample
from magicstick.models.realtime.objects import HEALTH
from magicstick.models.runtime_http import RuntimeHttp


@dataclass(frozen=True, slots=True)
class RealtimeQuestion:
    """Is it well?"""

    endpoints: tuple[Endpoint, ...]

    async def ask(self, http: RuntimeHttp, endpoint: Endpoint) -> Found:
        """See `questions.Question`. The answer's body is not looked at."""
        answer = await http.get(endpoint.url(HEALTH))
        if answer.status == HTTPStatus.OK:
            return Found(CheckState.PASSED)
        return Found(CheckState.WAITING, f"The runtime says that it is not well yet (HTTP {answer.status}).")

    def completed(self, check: EngineCheck, samples: Sequence[Sample], now: datetime) -> EngineCheck:  # noqa: ARG002 - as the protocol says
        """See `questions.Question`. Nothing is measured."""
        return check
