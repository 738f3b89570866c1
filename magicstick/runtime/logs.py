"""Logs: constant messages with fields, JSON lines for machines, readable lines on a terminal.

Values of type `Secret` (and pydantic's) are masked by their type wherever they stand in the fields; a
secret that never enters a log call as plain text can never leave through one.
"""

import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, TextIO

import structlog
from pydantic import SecretBytes, SecretStr

Secret = SecretStr
"""Text that prints as asterisks; `get_secret_value()` gives it out."""

MASK = "**********"
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def mask(value: object) -> object:
    """The value with every secret in it masked, however deep."""
    if isinstance(value, SecretStr | SecretBytes):
        return MASK
    if isinstance(value, Mapping):
        return {key: mask(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [mask(item) for item in value]
    return value


def mask_secrets(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The processor that applies `mask` to every field."""
    for name, value in event.items():
        event[name] = mask(value)
    return event


def configure(log_format: str = "auto", level: str = "info", stream: TextIO | None = None) -> None:
    """Set up structlog and route the standard library's logging through it.

    Args:
        log_format: `json`, `console`, or `auto` for console on a terminal only.
        level: `debug`, `info`, `warning` or `error`.
        stream: where lines go; standard error by default.
    """
    out = stream or sys.stderr
    readable = log_format == "console" or (log_format == "auto" and out.isatty())
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        mask_secrets,
    ]
    last: list[structlog.types.Processor] = (
        [structlog.dev.ConsoleRenderer(colors=out.isatty())]
        if readable
        else [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer(default=str)]
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[level])
    for noisy in ("aiohttp.access", "asyncio", "kubernetes_asyncio"):
        logging.getLogger(noisy).setLevel(max(LEVELS[level], LEVELS["warning"]))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
