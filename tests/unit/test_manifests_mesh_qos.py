"""The hook that LiteLLM loads, run against the callbacks as LiteLLM calls them."""

import http.client
import importlib.util
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.support.manifests import MANIFESTS

pytestmark = pytest.mark.anyio

SOURCE = MANIFESTS / "modules/litellm/mesh_qos.py"
REMOTE_KEY = SimpleNamespace(metadata={"magicstick_traffic_class": "MESH_REMOTE"})
LOCAL_KEY = SimpleNamespace(metadata={})
START = datetime(2026, 1, 1, tzinfo=UTC)


class HTTPException(Exception):
    def __init__(self, status_code: int, detail: str) -> None:
        super().__init__(detail)
        self.status_code = status_code


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, loaded anew with stand-ins for what is installed beside LiteLLM."""
    fastapi, logger = ModuleType("fastapi"), ModuleType("litellm.integrations.custom_logger")
    vars(fastapi)["HTTPException"] = HTTPException
    vars(logger)["CustomLogger"] = type("CustomLogger", (), {})
    for name, module in {
        "fastapi": fastapi,
        "litellm": ModuleType("litellm"),
        "litellm.integrations": ModuleType("litellm.integrations"),
        "litellm.integrations.custom_logger": logger,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delenv("MAGICSTICK_MESH_METRICS_PORT", raising=False)
    spec = importlib.util.spec_from_file_location("mesh_qos", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def before_call(hook: Any, key: Any, **data: Any) -> dict[str, Any]:
    result: dict[str, Any] = await hook.mesh_qos.async_pre_call_hook(key, None, data, "completion")
    return result


@pytest.mark.parametrize("key", [LOCAL_KEY, SimpleNamespace(metadata=None), SimpleNamespace()])
async def test_a_caller_cannot_set_a_priority(hook: Any, key: Any) -> None:
    data = await before_call(hook, key, model="qwen", priority=-5, extra_body={"priority": -5, "top_k": 1})

    assert data == {"model": "qwen", "extra_body": {"top_k": 1}}


@pytest.mark.parametrize("model", ["share/qwen"])
async def test_a_remote_key_reaches_shared_models(hook: Any, model: str) -> None:
    assert await before_call(hook, REMOTE_KEY, model=model) == {"model": model}


@pytest.mark.parametrize(
    ("key", "model"),
    [(REMOTE_KEY, "qwen"), (REMOTE_KEY, "local/qwen"), (REMOTE_KEY, ""), (LOCAL_KEY, "share/qwen")],
)
async def test_every_other_pair_of_key_and_model_is_forbidden(hook: Any, key: Any, model: str) -> None:
    with pytest.raises(HTTPException) as refusal:
        await before_call(hook, key, model=model)

    assert refusal.value.status_code == 403


@pytest.mark.parametrize("model", ["local/qwen", "mesh/qwen"])
async def test_a_caller_cannot_send_a_mesh_model_somewhere_else(hook: Any, model: str) -> None:
    data = await before_call(
        hook, LOCAL_KEY, model=model, messages=[], **dict.fromkeys(hook.ROUTING_FIELDS, "x")
    )

    assert data == {"model": model, "messages": []}


async def test_other_models_keep_what_their_callers_say(hook: Any) -> None:
    data = await before_call(hook, LOCAL_KEY, model="qwen", fallbacks=["other"])

    assert data == {"model": "qwen", "fallbacks": ["other"]}


@pytest.mark.parametrize(
    ("info", "extra_body"),
    [
        ({"magicstick_vllm_priority": True, "source": "mesh-export"}, {"top_k": 1, "priority": 10}),
        ({"magicstick_vllm_priority": True, "source": "kubeai"}, {"top_k": 1, "priority": 0}),
        ({"magicstick_vllm_priority": False, "source": "mesh-export"}, {"top_k": 1}),
        ({"magicstick_vllm_priority": "true"}, {"top_k": 1}),
        ({}, {"top_k": 1}),
        (None, {"top_k": 1}),
    ],
)
async def test_only_vllm_is_told_whose_request_it_is(
    hook: Any, info: object, extra_body: dict[str, Any]
) -> None:
    kwargs = {"model_info": info, "extra_body": {"top_k": 1}}

    result = await hook.mesh_qos.async_pre_call_deployment_hook(kwargs, "acompletion")

    assert result["extra_body"] == extra_body


async def test_requests_errors_and_latency_are_counted_by_class_and_model(hook: Any) -> None:
    metadata = {"user_api_key_metadata": REMOTE_KEY.metadata, "model_group": "share/qwen"}
    remote = {"model": "openai/qwen", "litellm_params": {"metadata": metadata}}

    await hook.mesh_qos.async_log_success_event(remote, None, START, START + timedelta(seconds=2))
    await hook.mesh_qos.async_log_failure_event(remote, None, START, START + timedelta(seconds=1))
    await hook.mesh_qos.async_log_success_event({"model": "qwen"}, None, START, START)

    assert hook.mesh_qos.metrics.snapshot() == [
        {"traffic_class": "LOCAL", "model": "qwen", "requests": 1, "errors": 0, "latency_seconds": 0.0},
        {
            "traffic_class": "MESH_REMOTE",
            "model": "share/qwen",
            "requests": 2,
            "errors": 1,
            "latency_seconds": 3.0,
        },
    ]


def test_the_number_of_series_and_the_length_of_names_are_bounded(hook: Any) -> None:
    metrics = hook.Metrics()
    for number in range(hook.SERIES_LIMIT + 50):
        metrics.count("LOCAL", f"{number}-" + "x" * 1000, 1.0, failed=False)
    series = {each["model"]: each["requests"] for each in metrics.snapshot()}

    assert len(series) == hook.SERIES_LIMIT + 1
    assert series["other"] == 50
    assert max(map(len, series)) == hook.NAME_LIMIT


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    return tmp_path / "MESH_ADMIN_TOKEN"


@pytest.fixture
def port(hook: Any, token_file: Path) -> Iterator[int]:
    server = hook.serve(hook.mesh_qos.metrics, 0, token_file)
    yield server.server_port
    server.shutdown()
    server.server_close()


def scrape(port: int, header: str = "", path: str = "/metrics") -> tuple[int, bytes, str | None]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("GET", path, headers={"Authorization": header} if header else {})
    response = connection.getresponse()
    answer = (response.status, response.read(), response.headers["Cache-Control"])
    connection.close()
    return answer


def test_metrics_are_for_whoever_has_the_token_as_it_is_now(port: int, token_file: Path) -> None:
    assert scrape(port, "Bearer one")[0] == 403
    token_file.write_text("one\n")
    assert scrape(port, "Bearer one") == (200, b'{"series": []}', "no-store")
    token_file.write_text("two")
    assert scrape(port, "Bearer one")[0] == 403
    assert scrape(port, "Bearer two")[0] == 200


@pytest.mark.parametrize("header", ["", "Bearer ", "one", "Basic one", "Bearer onee"])
def test_any_other_header_is_refused(port: int, token_file: Path, header: str) -> None:
    token_file.write_text("one")

    assert scrape(port, header)[:2] == (403, b"")


def test_an_empty_token_admits_nobody(port: int, token_file: Path) -> None:
    token_file.write_text("")

    assert scrape(port, "Bearer ")[0] == 403


def test_there_is_nothing_but_metrics(port: int) -> None:
    assert scrape(port, path="/")[0] == 404


def test_the_hook_holds_nothing_that_flux_would_replace() -> None:
    assert "${" not in SOURCE.read_text()
