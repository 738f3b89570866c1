"""Fixtures of tests that call commands of the development tools within this process."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def own_signals() -> Iterator[None]:
    """The command takes SIGTERM; afterwards it is the test run's again."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)
