"""Logs: constant messages with fields, JSON lines for machines, readable lines on a terminal.

Guarantees
    - A `Secret` (and pydantic's own types) prints as asterisks wherever it stands in the fields, however
      deep, and so it does in text that was composed of it.
    - A value of a type that is not known to be harmless shows as the name of its type: what `repr` says of
      an API object is its whole content.
    - Tracebacks show code, never the values of local variables.
    - What libraries log through `logging` comes out the same way.

Failure modes: text that holds a secret in plain is written as it is. Request and response bodies are
therefore never logged, and neither are those of the libraries (their debug output stays off).
"""

import logging
import sys
from collections.abc import Mapping
from enum import Enum
from typing import Final, TextIO

import structlog
from pydantic import SecretBytes, SecretStr
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import EventDict, Processor, WrappedLogger

from magicstick.runtime.options import in_cluster

Secret = SecretStr
"""Text that prints as asterisks; `get_secret_value()` gives it out."""

MASK: Final = "**********"
LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
DEEPEST: Final = 8
QUIET: Final = ("aiohttp", "asyncio", "kubernetes_asyncio", "urllib3")
"""Libraries whose debug output tells contents of requests and responses."""

_OURS: Final = frozenset({"exc_info", "_record", "_from_structlog"})
"""What structlog itself puts among the fields, and takes out again."""


def mask(value: object, depth: int = 0) -> object:
    """The value as it may be written: plain data, without secrets."""
    if isinstance(value, SecretStr | SecretBytes):
        return MASK
    if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, Enum)):
        return value
    if depth < DEEPEST and isinstance(value, Mapping):
        return {str(mask(key)): mask(item, depth + 1) for key, item in value.items()}
    if _has_text(value):
        return str(value)
    if depth < DEEPEST and isinstance(value, list | tuple | set | frozenset):
        return [mask(item, depth + 1) for item in value]
    return f"<{type(value).__name__}>"


def _has_text(value: object) -> bool:
    """Whether its type says how it is written; `repr`, the fallback of `str`, says too much."""
    return not isinstance(value, bytes | bytearray) and type(value).__str__ is not object.__str__


def mask_secrets(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """The processor that applies `mask` to every field."""
    return {name: value if name in _OURS else mask(value) for name, value in event.items()}


def configure(log_format: str = "auto", level: str = "info", stream: TextIO | None = None) -> None:
    """Set up structlog and route the standard library's logging through it.

    Args:
        log_format: `json`, `console`, or `auto` for console on a terminal outside of a cluster only.
        level: `debug`, `info`, `warning` or `error`.
        stream: where lines go; standard error by default.
    """
    out = stream or sys.stderr
    readable = log_format == "console" or (log_format == "auto" and out.isatty() and not in_cluster())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        mask_secrets,
    ]
    _route_standard_logging(out, level, shared, _renderers(readable=readable, colors=out.isatty()))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def _renderers(*, readable: bool, colors: bool) -> list[Processor]:
    """The last steps. Both show tracebacks without local variables, which could be anything."""
    if readable:
        plain = structlog.dev.plain_traceback
        return [structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain)]
    tracebacks = ExceptionDictTransformer(show_locals=False)
    return [structlog.processors.ExceptionRenderer(tracebacks), structlog.processors.JSONRenderer()]


def _route_standard_logging(
    out: TextIO, level: str, shared: list[Processor], renderers: list[Processor]
) -> None:
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[level])
    for name in QUIET:
        logging.getLogger(name).setLevel(max(LEVELS[level], LEVELS["warning"]))
    logging.captureWarnings(capture=True)
