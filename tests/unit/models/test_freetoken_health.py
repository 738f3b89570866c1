"""What a FreeToken runtime says of its health and measures of itself (spec: models §13)."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from magicstick.models.freetoken_health import DETAIL_LIMIT, FreeTokenQuestion, health
from magicstick.models.freetoken_runtime import FreeTokenRuntime, freetoken_runtime
from magicstick.models.freetoken_stats import COUNTS, RATES, TIMES, freetoken_stats, sample_of
from magicstick.models.observation import CheckState, EngineCheck
from magicstick.models.questions import Found
from magicstick.models.runtime_http import Answer, NoAnswer, RuntimeHttp
from magicstick.runtime.clock import SystemClock
from tests.support.model_objects import NOW, descriptor
from tests.support.runtime_server import Reply, RuntimeServer

pytestmark = pytest.mark.anyio


def judged(content: Any, status: int = 200) -> Found:
    body = content if isinstance(content, bytes) else msgspec.json.encode(content)
    return health(Answer(status, body))


@pytest.mark.parametrize("content", [{"status": each} for each in ("ok", "ready", "healthy", "OK ")])
async def test_what_says_that_it_is_well_is(content: Any) -> None:
    assert judged(content) == Found(CheckState.PASSED)


@pytest.mark.parametrize("content", [b"", b"ok", b"[]", b'"loading"', b"{"])
async def test_success_without_a_json_object_is_health(content: bytes) -> None:
    assert judged(content) == Found(CheckState.PASSED)


@pytest.mark.parametrize("content", [{}, {"status": "loading"}, {"status": None}, {"status": 7}])
async def test_anything_else_is_loading(content: Any) -> None:
    found = judged(content)
    assert (found.state, found.message) == (CheckState.WAITING, "The runtime is loading the model.")


@pytest.mark.parametrize("nested", [False, True])
async def test_progress_is_told_in_whole_percent(*, nested: bool) -> None:
    bytes_ = {"done_bytes": 999, "total_bytes": 2000}
    found = judged({"status": "loading", **({"progress": bytes_} if nested else bytes_)})
    assert found == Found(CheckState.WAITING, "The runtime is loading the model (49 % of 2000 bytes).")


@pytest.mark.parametrize("done, total", [(2, 1), (-1, 5), (0, 0), ("1", 2), (True, 2), (1, None)])  # noqa: PT006 - two numbers
async def test_progress_that_cannot_be_is_left_out(done: Any, total: Any) -> None:
    assert judged({"done_bytes": done, "total_bytes": total}).message == "The runtime is loading the model."


@pytest.mark.parametrize("code", [200, 404, 500, 503])
async def test_e35_an_error_is_one_whatever_the_code(code: int) -> None:
    found = judged({"status": "error", "error": "it broke"}, code)
    assert found == Found(CheckState.FAILED, "Runtime: it broke")


@pytest.mark.parametrize(
    ("code", "content", "state"),
    [
        (500, b"it broke", CheckState.FAILED),
        (502, {"detail": "it broke"}, CheckState.FAILED),
        (500, b"  ", CheckState.WAITING),
        (503, b"it broke", CheckState.WAITING),
        (404, b"it broke", CheckState.WAITING),
        (302, b"", CheckState.WAITING),
    ],
)
async def test_a_server_error_with_a_text_is_one_and_being_unavailable_is_loading(
    code: int, content: Any, state: CheckState
) -> None:
    assert judged(content, code).state is state


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("CUDA out of memory", "GPU memory"),
        ("CUDA OOM on device 0", "GPU memory"),
        ("VRAM budget exceeded by the model", "GPU memory"),
        ("memory allocation failed", "GPU memory"),
        ("NVIDIA driver too old for this model", "GPU driver"),
        ("compute capability 7.5 is not supported", "GPU driver"),
        ("cannot read model.safetensors", "Model artifact"),
        ("unknown architecture", "Model artifact"),
        ("port is taken", "Runtime"),
    ],
)
async def test_an_error_is_told_with_what_it_is_about(text: str, cause: str) -> None:
    assert judged({"status": "error", "message": text}).message == f"{cause}: {text}"


async def test_an_error_is_one_line_of_bounded_length_without_control_characters() -> None:
    found = judged({"status": "error", "error": {"message": "a\n\x1b[31mb\x00  c" + "d" * 5000}})
    assert found.message.startswith("Runtime: a [31mb cd")
    assert len(found.message) <= len("Runtime: ") + DETAIL_LIMIT


@pytest.mark.parametrize("content", [{"status": "error"}, {"status": "error", "error": {"a": {}}}])
async def test_an_error_without_words_says_so(content: Any) -> None:
    assert judged(content).message == "Runtime: the runtime gives no reason"


# --- measurements ----------------------------------------------------------------------------------


@pytest.mark.parametrize("beyond", [10**400, 10**30, 1e308, -1, "1", True])
async def test_what_cannot_be_measured_is_nothing(beyond: Any) -> None:
    names = ("vram_bytes", "decode_tokens_per_second", "prefill_tokens_per_second", "active_requests")
    stats = sample_of(dict.fromkeys(names, beyond))
    assert not any(stats.values())


async def test_a_size_that_cannot_be_is_no_progress() -> None:
    said = judged({"status": "loading", "progress": {"done_bytes": 1, "total_bytes": 10**400}})
    assert said.message == "The runtime is loading the model."


async def test_measurements_are_told_under_the_names_of_the_status() -> None:
    stats = freetoken_stats(
        sample_of(
            {
                "vram_bytes": (3 << 20) + 1,
                "decode_tokens_per_second": 40.128,
                "prefill_tokens_per_second": 100,
                "p95_latency_ms": 12.5,
                "ttft_ms": 3,
                "active_requests": 2,
                "kv_used_pages": 5,
                "mamba_total_slots": 6,
                "swa_page_size": 7,
                "lifetime_tokens": 8,
            }
        ),
        "0.1.3",
        NOW,
    )
    assert stats["source"] == "freetoken-v1-stats/v0.1.3"
    assert stats["sampledAt"] == "2026-01-01T12:00:00Z"
    assert (stats["vramMi"], stats["tokensPerSecond"]) == (4, 140.13)
    assert (stats["p95LatencyMs"], stats["ttftMs"], stats["activeRequests"]) == (12.5, 3, 2)
    assert [stats[each] for each in ("kvUsedPages", "mambaTotalSlots", "swaPageSize", "lifetimeTokens")] == [
        5,
        6,
        7,
        8,
    ]


@pytest.mark.parametrize("value", [None, "7", True, -1, float("inf"), float("nan"), [], {}])
async def test_what_is_missing_or_no_number_is_zero(value: Any) -> None:
    names = ("vram_bytes", "decode_tokens_per_second", "ttft_ms", "active_requests")
    for fields in ({}, dict.fromkeys(names, value)):
        sample = sample_of(fields)
        assert set(sample) == {"vramMi", "tokensPerSecond", *RATES, *TIMES, *COUNTS}
        assert set(sample.values()) == {0}


# --- over HTTP ---------------------------------------------------------------------------------------


@pytest.fixture
async def server() -> AsyncIterator[RuntimeServer]:
    async with RuntimeServer() as running:
        yield running


async def asked(server: RuntimeServer) -> Found:
    async with RuntimeHttp(SystemClock(), fence=lambda: None) as http:
        return await FreeTokenQuestion("/health", "0.1.3", ()).ask(http, server.endpoint())


async def test_only_a_healthy_runtime_is_measured(server: RuntimeServer) -> None:
    server.answers = {"GET /health": Reply(200, {"status": "loading"}), "GET /v1/stats": Reply(200, {})}
    assert (await asked(server)).sample is None
    assert server.calls == ["GET /health"]
    server.answers["GET /health"] = Reply(200, {"status": "ok"})
    server.answers["GET /v1/stats"] = Reply(200, {"active_requests": 1})
    sample = (await asked(server)).sample
    assert sample is not None
    assert sample["activeRequests"] == 1


@pytest.mark.parametrize("answer", [Reply(500), Reply(200, b"no JSON"), Reply(404, {"active_requests": 1})])
async def test_what_cannot_be_measured_is_unknown_and_the_runtime_stays_healthy(
    server: RuntimeServer, answer: Reply
) -> None:
    server.answers = {"GET /health": Reply(200, {"status": "ok"}), "GET /v1/stats": answer}
    found = await asked(server)
    assert found == Found(CheckState.PASSED)
    check = FreeTokenQuestion("/health", "0.1.3", ()).completed(EngineCheck(found.state), [], NOW)
    assert (check.stats, check.memory_usage) == (None, None)


async def test_a_runtime_that_is_not_reached_says_nothing(server: RuntimeServer) -> None:
    await server.__aexit__()
    with pytest.raises(NoAnswer):
        await asked(server)


# --- where it is asked ---------------------------------------------------------------------------------


async def test_the_health_path_is_as_the_description_says_and_usually_health() -> None:
    described = freetoken_runtime(descriptor(healthPath="/v1/health.json").data)
    assert isinstance(described, FreeTokenRuntime)
    assert described.health_path == "/v1/health.json"
    usual = freetoken_runtime(descriptor().data)
    assert isinstance(usual, FreeTokenRuntime)
    assert usual.health_path == "/health"


@pytest.mark.parametrize("path", ["", "/", "health", "//x", "/a b", "/x?y=1", "/x#y", "@host/x", "/x" * 200])
async def test_a_health_path_that_is_none_makes_the_description_unusable(path: str) -> None:
    found = freetoken_runtime(descriptor(healthPath=path).data)
    assert isinstance(found, str)
    assert "healthPath must be" in found
