"""Runs the wrapper in the first Python interpreter of a vLLM container, before vLLM reads its arguments.

Python imports a module of this name when it starts, if PYTHONPATH leads to it. Whatever goes wrong ends
the process: a model that starts without its memory budget would take the memory of its neighbours.
"""

# ruff: noqa: INP001 - a file on its own, found through PYTHONPATH

import os
import sys
import traceback
from typing import NoReturn

ENABLED = "MAGICSTICK_VLLM_WRAPPER_ENABLED"
APPLIED = "MAGICSTICK_VLLM_WRAPPER_APPLIED"
REFUSED = 2


def apply() -> None:
    """Rewrite this interpreter's arguments, once; interpreters that it starts inherit the mark."""
    if os.environ.get(ENABLED) != "true" or APPLIED in os.environ:
        return
    os.environ[APPLIED] = "true"
    try:
        sys.argv[1:] = _rewritten()
    except BaseException:  # noqa: BLE001 - Python would print it and go on without the budget
        _refuse(traceback.format_exc())


def _rewritten() -> list[str]:
    import wrapper  # noqa: PLC0415 - other interpreters must not pay for it

    try:
        return wrapper.rewritten(sys.argv[1:], os.environ)
    except wrapper.Refused as refused:
        _refuse(str(refused))


def _refuse(why: str) -> NoReturn:
    print(f"[magicstick-vllm-wrapper] {why}", file=sys.stderr, flush=True)  # noqa: T201 - the log
    # An exit by exception would become another code while Python is still starting.
    os._exit(REFUSED)


apply()
