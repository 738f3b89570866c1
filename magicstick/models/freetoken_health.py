"""What a FreeToken runtime says of its health, and what it measures (spec: models §13)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from http import HTTPStatus
from typing import Final

from magicstick.models.endpoints import Endpoint
from magicstick.models.freetoken_stats import freetoken_stats, sample_of
from magicstick.models.memory_usage import MOST
from magicstick.models.observation import CheckState, EngineCheck
from magicstick.models.questions import Found, Sample
from magicstick.models.runtime_http import Answer, NoAnswer, RuntimeHttp
from magicstick.runtime.conditions import cut

STATS: Final = "/v1/stats"
DETAIL_LIMIT: Final = 600
_HEALTHY: Final = frozenset({"ok", "ready", "healthy"})
_ERROR: Final = "error"
_DETAILS: Final = ("error", "message", "detail")
_PERCENT: Final = 100
_CAUSES: Final[Sequence[tuple[str, tuple[str, ...]]]] = (
    ("GPU memory", ("out of memory", "cuda oom", "memory ratio", "vram", "memory allocation")),
    ("GPU driver", ("driver", "cuda", "compute capability", "nvcc")),
    ("Model artifact", ("model", "safetensors", "checkpoint", "architecture")),
)
"""What an error is about, by the first words that are in it."""


@dataclass(frozen=True, slots=True)
class FreeTokenQuestion:
    """Does the runtime serve, and how much?"""

    health_path: str
    version: str
    endpoints: tuple[Endpoint, ...]

    async def ask(self, http: RuntimeHttp, endpoint: Endpoint) -> Found:
        """See `questions.Question`."""
        found = health(await http.get(endpoint.url(self.health_path)))
        if found.state is not CheckState.PASSED:
            return found
        return replace(found, sample=await _stats(http, endpoint))

    def completed(self, check: EngineCheck, samples: Sequence[Sample], now: datetime) -> EngineCheck:
        """See `questions.Question`. There is one Pod; while two of them change over, one speaks."""
        return replace(check, stats=freetoken_stats(samples[0], self.version, now) if samples else None)


def health(answer: Answer) -> Found:
    """What an answer of the health path means."""
    fields = answer.fields
    status = str((fields or {}).get("status", "")).strip().casefold()
    if status == _ERROR:
        return _failed(answer)
    if not answer.succeeded:
        broken = answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR and _detail(answer)
        starting = answer.status == HTTPStatus.SERVICE_UNAVAILABLE
        return _failed(answer) if broken and not starting else _loading(fields)
    if fields is None or status in _HEALTHY:
        return Found(CheckState.PASSED)
    return _loading(fields)


async def _stats(http: RuntimeHttp, endpoint: Endpoint) -> Sample | None:
    """What is not measured is unknown, and no reason to doubt the runtime."""
    try:
        answer = await http.get(endpoint.url(STATS))
    except NoAnswer:
        return None
    return sample_of(answer.fields) if answer.succeeded and answer.fields is not None else None


def _failed(answer: Answer) -> Found:
    detail = _detail(answer) or "the runtime gives no reason"
    folded = detail.casefold()
    cause = next((name for name, words in _CAUSES if any(word in folded for word in words)), "Runtime")
    return Found(CheckState.FAILED, f"{cause}: {detail}")


def _detail(answer: Answer) -> str:
    """What is wrong, on one line."""
    fields = answer.fields
    texts = [answer.body.decode(errors="replace")] if fields is None else _texts(fields)
    text = next((each for each in texts if each.strip()), "")
    return cut(" ".join(re.sub(r"[^\x20-\x7e\xa0-\U0010ffff]", " ", text).split()), DETAIL_LIMIT)


def _texts(fields: Mapping[str, object]) -> list[str]:
    found: list[str] = []
    for name in _DETAILS:
        value = fields.get(name)
        if isinstance(value, dict):
            found += _texts({key: value.get(key) for key in _DETAILS if not isinstance(value.get(key), dict)})
        elif isinstance(value, str):
            found.append(value)
    return found


def _loading(fields: Mapping[str, object] | None) -> Found:
    """How far it is, in whole percent: anything finer would be news at each look."""
    said = fields or {}
    nested = said.get("progress")
    progress = nested if isinstance(nested, dict) else said
    done, total = progress.get("done_bytes"), progress.get("total_bytes")
    message = "The runtime is loading the model"
    if type(done) is int and type(total) is int and 0 <= done <= total and 0 < total <= MOST:
        return Found(CheckState.WAITING, f"{message} ({_PERCENT * done // total} % of {total} bytes).")
    return Found(CheckState.WAITING, f"{message}.")
