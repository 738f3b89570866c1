"""What a FreeToken runtime measures: its answer to `GET /v1/stats` as the status has it (spec: models §13).

The runtime spells names with underscores. What it leaves out, and what cannot be measured, is 0.
"""

import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from magicstick.models.memory_usage import MIB, MOST
from magicstick.models.questions import Sample
from magicstick.models.samples import SAMPLED_AT
from magicstick.runtime.conditions import timestamp

RATES: Final = ("decodeTokensPerSecond", "prefillTokensPerSecond")
TIMES: Final = ("p95LatencyMs", "ttftMs")
COUNTS: Final = (
    "activeRequests",
    "completedRequests",
    "promptTokens",
    "completionTokens",
    "lifetimeTokens",
    "kvUsedPages",
    "kvTotalPages",
    "kvPageSize",
    "mambaUsedSlots",
    "mambaTotalSlots",
    "swaUsedPages",
    "swaTotalPages",
    "swaPageSize",
)
DECIMALS: Final = 2


def sample_of(fields: Mapping[str, object]) -> Sample:
    """The numbers of one answer, by their names in the status."""
    rates = {name: round(_number(fields, name), DECIMALS) for name in RATES}
    return {
        "vramMi": math.ceil(_number(fields, "vramBytes") / MIB),
        **rates,
        "tokensPerSecond": round(sum(rates.values()), DECIMALS),
        **{name: round(_number(fields, name), DECIMALS) for name in TIMES},
        **{name: int(_number(fields, name)) for name in COUNTS},
    }


def freetoken_stats(sample: Sample, version: str, now: datetime) -> dict[str, object]:
    """`status.freeTokenStats`."""
    return {"source": f"freetoken-v1-stats/v{version}", SAMPLED_AT: timestamp(now), **sample}


def _number(fields: Mapping[str, object], name: str) -> float:
    value = fields.get(_underscored(name))
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
        return 0
    return value


def _underscored(name: str) -> str:
    return re.sub(r"([A-Z])", lambda found: f"_{found[1].lower()}", name)
