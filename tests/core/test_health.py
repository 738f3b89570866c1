"""Probes and metrics over HTTP."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping

import aiohttp
import pytest
from structlog.testing import capture_logs

from magicstick.runtime.health import (
    LAG_LIMIT_S,
    AddressInUseError,
    Check,
    LoopLag,
    Probes,
    serve_health,
    serve_metrics,
)
from tests.support.sleeping_time import SleepingTime, settle

pytestmark = pytest.mark.anyio

ANY_PORT = "127.0.0.1:0"


def well() -> str:
    return ""


def ill() -> str:
    return "it hurts"


def broken() -> str:
    raise RuntimeError("secret detail")


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def answer(
    http: aiohttp.ClientSession,
    path: str,
    *,
    live: Mapping[str, Check] | None = None,
    ready: Mapping[str, Check] | None = None,
) -> tuple[int, str]:
    probes = Probes(live=live or {}, ready=ready or {})
    async with serve_health(ANY_PORT, probes) as url, http.get(url + path) as response:
        return response.status, await response.text()


@pytest.mark.parametrize("path", ["/livez", "/healthz", "/readyz"])
async def test_a_probe_without_complaints_is_ok(http: aiohttp.ClientSession, path: str) -> None:
    assert await answer(http, path, live={"a": well}, ready={"b": well}) == (200, "ok\n")


@pytest.mark.parametrize(("path", "status"), [("/livez", 503), ("/healthz", 503), ("/readyz", 200)], ids=str)
async def test_a_failed_live_check_fails_livez_and_healthz_alone(
    http: aiohttp.ClientSession, path: str, status: int
) -> None:
    assert (await answer(http, path, live={"loop": ill}))[0] == status


async def test_not_ready_is_not_dead_and_says_what_is_missing(http: aiohttp.ClientSession) -> None:
    checks = {"caches": ill, "lease": well}
    assert await answer(http, "/readyz", ready=checks) == (503, "caches: it hurts\n")
    assert await answer(http, "/livez", ready=checks) == (200, "ok\n")


async def test_verbose_gives_every_check_as_json(http: aiohttp.ClientSession) -> None:
    probes = Probes(live={}, ready={"caches": ill, "lease": well})
    async with serve_health(ANY_PORT, probes) as url, http.get(f"{url}/readyz?verbose") as response:
        assert response.status == 503
        assert await response.json() == {"caches": "it hurts", "lease": "ok"}


async def test_a_check_that_raises_counts_as_failed_and_quotes_nothing(http: aiohttp.ClientSession) -> None:
    with capture_logs() as logs:
        status, text = await answer(http, "/livez", live={"odd": broken, "other": well})
    assert (status, text) == (503, "odd: the check itself failed: RuntimeError\n")
    assert [line["check"] for line in logs] == ["odd"]


async def test_probes_are_asked_anew_each_time(http: aiohttp.ClientSession) -> None:
    state = ["not yet"]
    probes = Probes(live={}, ready={"caches": lambda: state[0]})
    async with serve_health(ANY_PORT, probes) as url:
        async with http.get(url + "/readyz") as before:
            assert before.status == 503
        state[0] = ""
        async with http.get(url + "/readyz") as after:
            assert after.status == 200


async def test_metrics_are_served_at_their_own_address(http: aiohttp.ClientSession) -> None:
    async with serve_metrics(ANY_PORT, lambda: b"up 1\n") as url:
        async with http.get(url + "/metrics") as response:
            assert response.headers["Content-Type"].startswith("text/plain")
            assert await response.read() == b"up 1\n"
        async with http.get(url + "/livez") as other:
            assert other.status == 404


@pytest.mark.parametrize("off", ["", "off"])
async def test_a_server_can_be_switched_off(off: str) -> None:
    async with serve_metrics(off, lambda: b"") as metrics, serve_health(off, Probes({}, {})) as health:
        assert (metrics, health) == ("", "")


async def test_a_port_that_is_taken_is_told_with_the_setting_that_changes_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(AddressInUseError) as caught:
            async with serve_health(f"127.0.0.1:{port}", Probes({}, {})):
                pass
    assert str(caught.value) == (
        f"cannot listen on 127.0.0.1:{port} (Address already in use): set HEALTH_BIND_ADDRESS or "
        "--health-bind-address to a free address, or to 'off'"
    )


async def test_an_address_of_another_machine_is_told_too() -> None:
    with pytest.raises(AddressInUseError, match="METRICS_BIND_ADDRESS"):
        async with serve_metrics("203.0.113.1:0", lambda: b""):
            pass


async def test_every_interface_is_served_without_a_host(http: aiohttp.ClientSession) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]  # port 0 would give each address family another one
    address = f"http://127.0.0.1:{port}/metrics"
    async with serve_metrics(f":{port}", lambda: b"x"), http.get(address) as response:
        assert response.status == 200


async def test_after_the_block_the_port_is_free_again() -> None:
    async with serve_health(ANY_PORT, Probes({}, {})) as url:
        port = int(url.rsplit(":", 1)[1])
    with socket.create_server(("127.0.0.1", port)):
        pass


async def test_a_loop_that_is_late_is_measured_and_told() -> None:
    clock, reported = SleepingTime(), list[float]()
    lag = LoopLag(clock, reported.append)
    task = asyncio.create_task(lag.run())
    await clock.elapse(2)
    assert lag.check() == ""
    assert max(reported) == 0.0
    clock._now += LAG_LIMIT_S + 1  # something kept the loop busy
    assert "late" in lag.check()
    await clock.elapse(0)
    assert reported[-1] == pytest.approx(LAG_LIMIT_S + 0.5, abs=0.6)
    assert "late" in lag.check()
    await clock.elapse(2)
    assert lag.check() == ""
    task.cancel()
    await settle()
