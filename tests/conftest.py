"""Fixtures that every test may ask for."""

import gc
import os
import signal
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import structlog

from hack.devcluster import CONTROL_PLANE, FULL, AuditUnavailableError, DevCluster
from tests.support import effort
from tests.support.open_routes import watched_to_its_end

ON_CLUSTERS = tuple(Path(__file__).parent / folder for folder in ("integration", "e2e"))

effort.register()

# As the operator's own log: structlog's default renders each local value of each frame, which takes seconds.
structlog.configure(
    processors=[
        structlog.stdlib.add_log_level,
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-cluster", action="store_true", help="skip the tests that need a control plane")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whatever asks for a cluster is marked so, which makes `-m "not cluster"` complete.

    Beside those that use the common clusters, these are all tests of the folders that exist for it, since
    some start a cluster of their own.
    """
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        if names & {"control_plane", "cluster_full"} or any(
            item.path.is_relative_to(each) for each in ON_CLUSTERS
        ):
            item.add_marker(pytest.mark.cluster)
        if config.getoption("--no-cluster") and item.get_closest_marker("cluster"):
            item.add_marker(pytest.mark.skip(reason="--no-cluster"))


BEGUN = time.monotonic()


def pytest_configure(config: pytest.Config) -> None:
    """Let what tests start be interruptible: a shell ignores SIGINT for what it starts in the background,
    and that is inherited.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Say what the run cost; where workers run the tests they have ended by now."""
    if not hasattr(config, "workerinput"):
        took_s, worked_s = time.monotonic() - BEGUN, sum(os.times()[:4])
        sys.stderr.write(f"{took_s:.0f} s, in which processors worked for {worked_s:.0f} s\n")


def pytest_collection_finish() -> None:
    """The tests stay until the end, so the garbage collector need not go through all of them again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, bool | None, bool | None]:
    """A test that reads the audit log is skipped on a cluster whose audit log is not ours."""
    try:
        return (yield)
    except AuditUnavailableError as unavailable:
        pytest.skip(str(unavailable))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """All of the project runs on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def routes_are_guarded() -> Iterator[None]:
    """Whatever else a test shows: no cluster may end in which a route led anywhere unguarded."""
    with watched_to_its_end():
        yield


@pytest.fixture(scope="session")
def control_plane() -> Iterator[DevCluster]:
    """etcd and the API server: objects are stored and validated, no controller acts on them."""
    with DevCluster.start(CONTROL_PLANE) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cluster_full() -> Iterator[DevCluster]:
    """Controllers, scheduler, kwok's kubelets and Flux's kustomize-controller as well; no nodes yet."""
    with DevCluster.start(FULL) as cluster:
        yield cluster
