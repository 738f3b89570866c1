"""Waking everybody who waits for the next of many occurrences."""

import asyncio


class Pulse:
    """An event that can happen again and again: each beat wakes those who waited before it."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def next(self) -> asyncio.Event:
        """An event that the next beat sets."""
        return self._event

    def beat(self) -> None:
        """Wake all who wait."""
        self._event.set()
        self._event = asyncio.Event()
