"""How many tokens each consumer may use of a model. Whole numbers, rounded down (spec: models §16)."""

from dataclasses import dataclass
from typing import Final

from magicstick.model_catalog.values import Object

SMALL_CONTEXT: Final = 32768
"""Up to here OpenClaw compacts by a reserve that fits the context, above by its usual floor."""
RESERVE_LEAST: Final = 1024
RESERVE_MOST: Final = 4096
RESERVE_FLOOR: Final = 20000
PART: Final = 4


@dataclass(frozen=True, slots=True)
class Limit:
    """Tokens of a whole conversation, and of one answer."""

    context: int
    output: int


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """What holds where a model does not tell, and what Paperclip leaves free. All at least 1."""

    context: int = 131072
    output: int = 8192
    paperclip_output: int = 4096
    paperclip_headroom: int = 4096


def opencode_limit(context: int | None, output: int | None, settings: LimitSettings) -> Limit:
    """For OpenCode; None is unknown."""
    whole = context or settings.context
    return Limit(whole, min(output or settings.output, whole))


def paperclip_limit(context: int | None, output: int | None, settings: LimitSettings) -> Limit:
    """For OpenCode under Paperclip, which puts text of its own before each conversation."""
    plain = opencode_limit(context, output, settings)
    headroom = min(settings.paperclip_headroom, max(1, plain.context // PART), plain.context - 1)
    left = plain.context - headroom
    return Limit(left, min(plain.output, settings.paperclip_output, max(1, left // PART)))


def compaction(context: int | None) -> Object:
    """For OpenClaw, by the context of the default model; None is unknown."""
    if context is None or context > SMALL_CONTEXT:
        return {"reserveTokensFloor": RESERVE_FLOOR}
    return {"reserveTokens": min(max(context // PART, RESERVE_LEAST), RESERVE_MOST), "reserveTokensFloor": 0}
