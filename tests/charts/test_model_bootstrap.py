"""The script that registers the model with Odysseus (spec: platform §4.5)."""

import importlib.util
import json
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.charts.rendering import CHARTS

SOURCE = CHARTS / "odysseus/files/model-bootstrap.py"
KEY = "sk-marker-77aa"
ENVIRON = {"ODYSSEUS_DEFAULT_MODEL": "qwen", "LITELLM_API_KEY": KEY}
DEADLINE_S = 30.0


class Stop(Exception):
    """Ends the loop that has no end."""


@pytest.fixture(scope="module")
def script() -> Iterator[Any]:
    spec = importlib.util.spec_from_file_location("model_bootstrap", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for their module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def answer(**fields: Any) -> bytes:
    return json.dumps({"id": "e1", "models": ["qwen"], **fields}).encode()


def post(*answers: bytes | Exception, seen: list[tuple[urllib.request.Request, float]] | None = None) -> Any:
    """Answers in this order, the last one for ever."""
    left = list(answers)

    def send(request: urllib.request.Request, timeout: float) -> bytes:
        if seen is not None:
            seen.append((request, timeout))
        given = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(given, Exception):
            raise given
        return given

    return send


def http_error(code: int) -> urllib.error.HTTPError:
    return urllib.error.HTTPError("http://x", code, f"echo {KEY}", Message(), None)


def sleeps(
    limit: int, on_sleep: Callable[[float], None] = lambda _: None
) -> tuple[list[float], Callable[[float], None]]:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        on_sleep(seconds)
        if len(pauses) == limit:
            raise Stop

    return pauses, sleep


def test_a_model_and_a_key_are_enough(script: Any) -> None:
    config = script.Config.from_env(ENVIRON)

    assert config.litellm_url == "http://litellm.ai.svc.cluster.local:4000/v1"
    assert config.odysseus_url == "http://127.0.0.1:7000"
    assert config.endpoint_name == "Magic Stick LiteLLM"
    assert (config.request_timeout, config.interval) == (45, 300)
    assert str(config.ready_file) == "/tmp/ready"  # noqa: S108 - in the Pod
    assert KEY not in repr(config)


@pytest.mark.parametrize(
    ("changed", "variable"),
    [
        ({"ODYSSEUS_DEFAULT_MODEL": ""}, "ODYSSEUS_DEFAULT_MODEL"),
        ({"ODYSSEUS_DEFAULT_MODEL": "CHANGEME_MODEL"}, "ODYSSEUS_DEFAULT_MODEL"),
        ({"LITELLM_API_KEY": " "}, "LITELLM_API_KEY"),
        ({"ODYSSEUS_API_URL": "ftp://x"}, "ODYSSEUS_API_URL"),
        ({"ODYSSEUS_API_URL": "http://"}, "ODYSSEUS_API_URL"),
        ({"LITELLM_BASE_URL": "litellm:4000"}, "LITELLM_BASE_URL"),
        ({"LITELLM_BASE_URL": "http://[x"}, "LITELLM_BASE_URL"),
        ({"ODYSSEUS_BOOTSTRAP_REQUEST_TIMEOUT": "4"}, "ODYSSEUS_BOOTSTRAP_REQUEST_TIMEOUT"),
        ({"ODYSSEUS_BOOTSTRAP_REQUEST_TIMEOUT": "121"}, "ODYSSEUS_BOOTSTRAP_REQUEST_TIMEOUT"),
        ({"ODYSSEUS_BOOTSTRAP_REQUEST_TIMEOUT": "5.5"}, "ODYSSEUS_BOOTSTRAP_REQUEST_TIMEOUT"),
        ({"ODYSSEUS_BOOTSTRAP_REQUEST_TIMEOUT": "²0"}, "ODYSSEUS_BOOTSTRAP_REQUEST_TIMEOUT"),
        ({"ODYSSEUS_BOOTSTRAP_RECONCILE_INTERVAL": "29"}, "ODYSSEUS_BOOTSTRAP_RECONCILE_INTERVAL"),
        ({"ODYSSEUS_BOOTSTRAP_RECONCILE_INTERVAL": "3601"}, "ODYSSEUS_BOOTSTRAP_RECONCILE_INTERVAL"),
        ({"ODYSSEUS_BOOTSTRAP_RECONCILE_INTERVAL": "x"}, "ODYSSEUS_BOOTSTRAP_RECONCILE_INTERVAL"),
    ],
)
def test_what_cannot_work_is_refused_with_the_name_of_the_variable(
    script: Any, changed: dict[str, str], variable: str
) -> None:
    with pytest.raises(script.ConfigError, match=variable) as refused:
        script.Config.from_env({**ENVIRON, **changed})

    assert KEY not in str(refused.value)


@pytest.mark.parametrize(("timeout", "interval"), [("5", "30"), ("120", "3600")])
def test_bounds_are_included(script: Any, timeout: str, interval: str) -> None:
    config = script.Config.from_env(
        {
            **ENVIRON,
            "ODYSSEUS_BOOTSTRAP_REQUEST_TIMEOUT": timeout,
            "ODYSSEUS_BOOTSTRAP_RECONCILE_INTERVAL": interval,
            "ODYSSEUS_API_URL": "https://odysseus.example.com/base//",
            "ODYSSEUS_ENDPOINT_NAME": "  ",
        }
    )

    assert (config.request_timeout, config.interval) == (int(timeout), int(interval))
    assert config.odysseus_url == "https://odysseus.example.com/base"
    assert config.endpoint_name == "Magic Stick LiteLLM"


def test_registering_is_one_request_with_seven_fields(script: Any) -> None:
    seen: list[tuple[urllib.request.Request, float]] = []
    made = script.register(script.Config.from_env(ENVIRON), post(answer(), seen=seen))
    ((request, timeout),) = seen
    assert isinstance(request.data, bytes)

    assert (request.method, request.full_url, timeout) == (
        "POST",
        "http://127.0.0.1:7000/api/model-endpoints",
        45,
    )
    assert dict(urllib.parse.parse_qsl(request.data.decode(), strict_parsing=True)) == {
        "name": "Magic Stick LiteLLM",
        "base_url": "http://litellm.ai.svc.cluster.local:4000/v1",
        "api_key": KEY,
        "require_models": "true",
        "endpoint_kind": "proxy",
        "pinned_models": "qwen",
        "shared": "true",
    }
    assert (made.endpoint, made.existing) == ("e1", False)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"models": [], "pinned_models": ["qwen"]},
        {"models": [{"id": "qwen"}]},
        {"models": None, "pinned_models": ["x", "qwen"]},
    ],
)
def test_the_model_may_stand_in_either_list(script: Any, fields: dict[str, Any]) -> None:
    assert script.register(script.Config.from_env(ENVIRON), post(answer(**fields))).endpoint == "e1"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (answer(models=["other"]), "selected model"),
        (answer(models="qwen"), "selected model"),
        (answer(id=""), "id of an endpoint"),
        (b"[]", "id of an endpoint"),
        (b"<html>", "JSON"),
        (b"\xff", "JSON"),
        (http_error(400), "HTTP 400"),
        (http_error(503), "HTTP 503"),
        (urllib.error.URLError(f"refused {KEY}"), "URLError"),
        (TimeoutError(), "TimeoutError"),
        (ConnectionResetError(), "ConnectionResetError"),
    ],
)
def test_what_is_no_registration_is_told_without_the_key(
    script: Any, given: bytes | Exception, text: str
) -> None:
    with pytest.raises(script.RegistrationError, match=text) as failed:
        script.register(script.Config.from_env(ENVIRON), post(given))

    assert KEY not in str(failed.value)
    assert failed.value.__cause__ is None


def test_pauses_grow_until_it_works_and_start_anew_after_that(script: Any, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    config = script.Config.from_env({**ENVIRON, "ODYSSEUS_BOOTSTRAP_READY_FILE": str(ready)})
    failing = [http_error(502)] * 6
    present: list[bool] = []
    pauses, sleep = sleeps(9, lambda _: present.append(ready.exists()))

    with pytest.raises(Stop):
        script.run(config, post(*failing, answer(), http_error(502), http_error(502)), sleep)

    assert pauses == [5, 10, 20, 40, 60, 60, 300, 5, 10]
    assert present == [False] * 6 + [True] * 3  # and a later outage does not take it away
    assert ready.stat().st_mode & 0o777 == 0o600


def test_success_is_logged_once_and_without_the_key(
    script: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = script.Config.from_env({**ENVIRON, "ODYSSEUS_BOOTSTRAP_READY_FILE": str(tmp_path / "ready")})
    _, sleep = sleeps(4)

    with caplog.at_level("INFO"), pytest.raises(Stop):
        script.run(config, post(http_error(400), answer(existing=True)), sleep)

    told = [record.getMessage() for record in caplog.records]
    assert told[1:] == ["reconciled model qwen as endpoint e1"]
    assert "HTTP 400" in told[0]
    assert KEY not in caplog.text


class Odysseus(BaseHTTPRequestHandler):
    """Refuses twice, and repeats what it was sent, as a real one may."""

    seen: list[str] = []  # noqa: RUF012 - emptied by the fixture

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.seen.append(self.path)
        good = len(self.seen) > 1
        self.send_response(200 if good else 422)
        self.end_headers()
        self.wfile.write(answer() if good else body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


@pytest.fixture
def odysseus() -> Iterator[str]:
    Odysseus.seen.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Odysseus)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_the_process_gets_ready_without_a_restart_and_forgets_what_was_before_it(
    odysseus: str, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    ready.touch(mode=0o644)
    environ = {**ENVIRON, "ODYSSEUS_API_URL": odysseus, "ODYSSEUS_BOOTSTRAP_READY_FILE": str(ready)}
    environ["http_proxy"] = "http://127.0.0.1:9"  # nothing is there, and nobody asks it
    with subprocess.Popen(
        [sys.executable, SOURCE], env=environ, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            until(lambda: len(Odysseus.seen) == 2 and ready.exists())
        finally:
            process.terminate()
            _, told = process.communicate(timeout=DEADLINE_S)

    assert ready.stat().st_mode & 0o777 == 0o600
    assert "HTTP 422" in told
    assert "registered model qwen as endpoint e1" in told
    assert KEY not in told


def test_the_process_ends_at_once_without_a_model() -> None:
    ended = subprocess.run(
        [sys.executable, SOURCE],
        env={"ODYSSEUS_DEFAULT_MODEL": "CHANGEME_MODEL", "LITELLM_API_KEY": KEY},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )

    assert ended.returncode == 1
    assert ended.stderr.startswith("model-bootstrap: ODYSSEUS_DEFAULT_MODEL")
    assert "Traceback" not in ended.stderr


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)
