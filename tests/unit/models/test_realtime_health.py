"""What the `/health` of a realtime runtime means (spec: realtime §9)."""

import anyio
import pytest

from magicstick.models.observation import CheckState, EngineCheck
from magicstick.models.realtime.health import RealtimeQuestion
from magicstick.models.runtime_http import NoAnswer, RuntimeHttp
from magicstick.runtime.clock import SystemClock
from tests.support.model_objects import NOW
from tests.support.runtime_server import Reply, RuntimeServer

pytestmark = pytest.mark.anyio


def http(timeout_s: float = 5.0) -> RuntimeHttp:
    return RuntimeHttp(SystemClock(), fence=lambda: None, timeout_s=timeout_s)


@pytest.mark.req("MS-053")
@pytest.mark.parametrize(
    ("reply", "state"),
    [
        (Reply(200), CheckState.PASSED),
        (Reply(200, b"anything at all"), CheckState.PASSED),
        (Reply(200, {"status": "error"}), CheckState.PASSED),
        (Reply(204), CheckState.WAITING),
        (Reply(302, headers={"Location": "/"}), CheckState.WAITING),
        (Reply(404), CheckState.WAITING),
        (Reply(500, b"secret"), CheckState.WAITING),
        (Reply(503), CheckState.WAITING),
    ],
)
async def test_only_an_answer_of_200_means_that_it_is_well(reply: Reply, state: CheckState) -> None:
    async with RuntimeServer() as server, http() as client:
        server.answers["GET /health"] = reply
        question = RealtimeQuestion((server.endpoint(),))
        found = await question.ask(client, server.endpoint())
        assert found.state is state
        assert "secret" not in found.message
        assert (str(reply.status) in found.message) == (state is CheckState.WAITING)
        assert server.calls == ["GET /health"]
        check = EngineCheck(found.state)
        assert question.completed(check, (), NOW) is check


@pytest.mark.req("MS-053")
async def test_a_runtime_that_does_not_answer_in_time_has_not_answered() -> None:
    async with RuntimeServer() as server, http(0.2) as client:
        server.answers["GET /health"] = Reply(silent=True)
        with anyio.fail_after(5), pytest.raises(NoAnswer):
            await RealtimeQuestion(()).ask(client, server.endpoint())
