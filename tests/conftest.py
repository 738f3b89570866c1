"""Fixtures that every test may ask for."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """All of the project runs on asyncio."""
    return "asyncio"
