"""What the guard does with bytes that are no question, or barely one (spec: companions §2.1)."""

import asyncio
import logging
from urllib.parse import urlsplit

import pytest

from tests.support.guard_scene import DENIAL, Scene, gatekeeping

pytestmark = pytest.mark.anyio
ASK = "GET /internal/instance-access/demo/uid-of-demo/ HTTP/1.1\r\nHost: guard\r\n"
CANARY = "canary-token"


async def exchange(scene: Scene, text: str) -> tuple[int, bytes]:
    """Status and body of the answer to these bytes."""
    address = urlsplit(scene.program.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        writer.write(text.encode("latin-1"))
        async with asyncio.timeout(5.0):
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.decode().lower().split("\r\n")
            length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length:"))
            return int(lines[0].split()[1]), await reader.readexactly(length)
    finally:
        writer.close()


@pytest.mark.parametrize(
    "text",
    [
        f"nonsense {CANARY}\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: guard\r\nAuthorization : Bearer {CANARY}\r\n\r\n",
        f"{ASK}Authorization: Bearer {CANARY}\x00\r\n\r\n",
        f"{ASK}Cookie: a={CANARY * 20000}\r\n\r\n",
        f"GET /{CANARY * 20000} HTTP/1.1\r\nHost: guard\r\n\r\n",
        f"{ASK}Content-Length: 5\r\nTransfer-Encoding: chunked\r\nX: {CANARY}\r\n\r\n",
        f"{ASK}Content-Length: x{CANARY}\r\n\r\n",
        "GET http://guard/internal/instance-access/demo/uid-of-demo/ HTTP/1.1\r\nHost: guard\r\n\r\n",
        "GET http://[ HTTP/1.1\r\nHost: guard\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: guard\r\n\r\n",
        "CONNECT demo:443 HTTP/1.1\r\nHost: demo:443\r\n\r\n",
        "GET /healthz/ HTTP/1.1\r\nHost: guard\r\n\r\n",
        "GET /internal/instance-access/demo/uid-of-demo%2f HTTP/1.1\r\nHost: guard\r\n\r\n",
    ],
    ids=lambda text: text[:60],
)
async def test_bytes_that_are_no_question_get_the_one_no_and_are_not_logged(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with gatekeeping() as scene:
        scene.instance("demo")
        assert await exchange(scene, text) == (403, DENIAL)
        assert CANARY not in str(scene.logs) + caplog.text
        assert await scene.allowed("demo")


@pytest.mark.parametrize("where", ["server.read", "guard.authorize"])
async def test_a_fault_of_ours_is_a_no_and_tells_its_place_alone(
    where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with gatekeeping(faults=1) as scene:
        scene.instance("demo")

        def broken(*_: object) -> None:
            raise RuntimeError(CANARY)

        with monkeypatch.context() as patch:
            patch.setattr(f"magicstick.access_guard.{where}", broken)
            assert await exchange(scene, f"{ASK}\r\n") == (403, DENIAL)
        assert CANARY not in str(scene.logs) + caplog.text
        (told,) = (entry for entry in scene.logs if "fault" in entry)
        assert told["fault"] == "RuntimeError"
        assert "test_guard_wire.py" in told["frames"][-1]
        assert await scene.allowed("demo")


async def test_cookies_as_large_as_a_domain_may_have_them_are_read() -> None:
    async with gatekeeping() as scene:
        scene.instance("demo", sharing={"mode": "selected", "users": ["alice"]})
        scene.realm.add("alice")
        padding = "; ".join(f"cookie{number}={'x' * 4000}" for number in range(20))
        cookie = f"{padding}; MagicStickAccessToken={scene.realm.token('alice')}"
        assert await scene.allowed("demo", headers={"Cookie": cookie})


async def test_a_body_is_never_read() -> None:
    async with gatekeeping() as scene:
        scene.instance("demo")
        assert await exchange(scene, f"{ASK}Content-Length: 1000000\r\n\r\n") == (200, b"")


async def test_health_is_told_whatever_becomes_of_others() -> None:
    async with gatekeeping() as scene:
        await scene.server.stop()
        await scene.realm.stop()
        assert await exchange(scene, "GET /healthz HTTP/1.1\r\nHost: guard\r\n\r\n") == (200, b"ok\n")
        assert not await scene.allowed("demo", uid="uid-of-demo")
        await scene.server.start()
