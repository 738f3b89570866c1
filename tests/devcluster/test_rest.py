"""The small client: answers and errors of servers, proxies and nobody at all."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.devcluster.access import exists
from hack.devcluster.layout import free_ports, kubeconfig
from hack.devcluster.rest import ApiError, Rest

PERIOD_S = 0.01
"""How often the server looks whether it should end."""
Answer = tuple[int, bytes]
STATUS = {"kind": "Status", "message": 'configmaps "a" not found', "code": 404}
RESOURCES = {
    "resources": [
        {"name": "things", "kind": "Thing", "namespaced": True},
        {"name": "things/status", "kind": "Thing", "namespaced": True},
        {"name": "worlds", "kind": "World", "namespaced": False},
    ]
}


class Scripted:
    """A server that gives prepared answers by path, and remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.busy = 0
        """So many requests are asked to wait before one is answered."""
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.asked.append((self.command, self.path, dict(self.headers), body))
                code, content = outer.answers.get(self.path, (404, b"404 page not found\n"))
                if outer.busy:
                    outer.busy -= 1
                    code, content = 429, b"later"
                self.send_response(code)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def do_GET(self) -> None:
                self.answer()

            def do_PATCH(self) -> None:
                self.answer()

            def log_message(self, *_args: object) -> None:
                """Quiet."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(PERIOD_S,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Scripted]:
    server = Scripted()
    yield server
    server.close()


@pytest.fixture
def rest(server: Scripted) -> Rest:
    return Rest(server.url, token="t0ken", user_agent="test/1")


def test_an_answer_is_decoded(server: Scripted, rest: Rest) -> None:
    server.answers["/api"] = (200, b'{"kind": "APIVersions"}')
    assert rest.get("/api") == {"kind": "APIVersions"}
    method, path, headers, _ = server.asked[0]
    assert (method, path) == ("GET", "/api")
    assert headers["User-Agent"] == "test/1"
    assert headers["Authorization"] == "Bearer t0ken"


def test_a_text_is_an_answer_too(server: Scripted, rest: Rest) -> None:
    server.answers["/readyz"] = (200, b"ok")
    assert rest.get("/readyz") == {"text": "ok"}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((404, json.dumps(STATUS).encode()), '404: configmaps "a" not found'),
        ((404, b"404 page not found\n"), "404: 404 page not found\n"),
        ((503, b""), "503: no message"),
        ((302, b"<html>"), "302: <html>"),
    ],
)
def test_a_refusal_is_an_error_with_its_code(
    server: Scripted, rest: Rest, answer: Answer, message: str
) -> None:
    server.answers["/x"] = answer
    with pytest.raises(ApiError) as caught:
        rest.get("/x")
    assert str(caught.value) == message
    assert caught.value.code == answer[0]


def test_a_server_that_asks_to_wait_is_asked_again_and_not_forever(server: Scripted, rest: Rest) -> None:
    server.answers["/x"] = (200, b"{}")
    server.busy = 2
    assert rest.get("/x") == {}
    assert len(server.asked) == 3

    server.busy = 100
    with pytest.raises(ApiError, match="429: later"):
        rest.get("/x")
    assert len(server.asked) == 3 + 6


def test_nobody_at_the_other_end_is_code_zero() -> None:
    (port,) = free_ports(1)
    rest = Rest(f"http://127.0.0.1:{port}", user_agent="test")
    with pytest.raises(ApiError, match=r"GET /x: .*refused") as caught:
        rest.get("/x")
    assert caught.value.code == 0
    assert not exists(rest, "/x")


def test_only_absence_means_that_something_does_not_exist(server: Scripted, rest: Rest) -> None:
    server.answers |= {"/there": (200, b"{}"), "/hidden": (403, b"forbidden")}
    assert exists(rest, "/there")
    assert not exists(rest, "/absent")
    with pytest.raises(ApiError, match="403"):
        exists(rest, "/hidden")


@pytest.mark.parametrize(
    ("kind", "namespace", "path"),
    [
        ("Thing", "n", "/apis/example.com/v1/namespaces/n/things/a"),
        ("Thing", None, "/apis/example.com/v1/namespaces/default/things/a"),
        ("World", None, "/apis/example.com/v1/worlds/a"),
    ],
)
def test_paths_come_from_discovery(
    server: Scripted, rest: Rest, kind: str, namespace: str | None, path: str
) -> None:
    server.answers["/apis/example.com/v1"] = (200, json.dumps(RESOURCES).encode())
    meta = {"name": "a", **({"namespace": namespace} if namespace else {})}
    obj = {"apiVersion": "example.com/v1", "kind": kind, "metadata": meta}
    assert rest.path_of(obj) == path


def test_discovery_is_asked_again_for_a_kind_that_is_new(server: Scripted, rest: Rest) -> None:
    obj = {"apiVersion": "example.com/v1", "kind": "Newcomer", "metadata": {"name": "a"}}
    server.answers["/apis/example.com/v1"] = (200, json.dumps(RESOURCES).encode())
    with pytest.raises(ApiError, match=r"example\.com/v1 has no Newcomer"):
        rest.path_of(obj)
    newcomer = {"name": "newcomers", "kind": "Newcomer", "namespaced": False}
    server.answers["/apis/example.com/v1"] = (200, json.dumps({"resources": [newcomer]}).encode())
    assert rest.path_of(obj) == "/apis/example.com/v1/newcomers/a"


def test_apply_is_server_side_and_forced(server: Scripted, rest: Rest) -> None:
    server.answers["/apis/example.com/v1"] = (200, json.dumps(RESOURCES).encode())
    target = "/apis/example.com/v1/worlds/a/status?fieldManager=me&force=true"
    server.answers[target] = (200, b'{"applied": true}')
    obj = {"apiVersion": "example.com/v1", "kind": "World", "metadata": {"name": "a"}}
    assert rest.apply(obj, subresource="status", field_manager="me") == {"applied": True}
    method, _, headers, body = server.asked[-1]
    assert method == "PATCH"
    assert headers["Content-Type"] == "application/apply-patch+yaml"
    assert json.loads(body) == obj


def test_a_watch_gives_events_until_the_server_ends_it(server: Scripted, rest: Rest) -> None:
    lines = [{"type": "ADDED", "object": {"a": 1}}, {"type": "DELETED", "object": {"a": 2}}]
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    server.answers["/things?resourceVersion=5&watch=true&timeoutSeconds=9"] = (200, body)
    events = rest.watch("/things?resourceVersion=5", timeout_s=9)
    assert list(events) == [("ADDED", {"a": 1}), ("DELETED", {"a": 2})]


def test_a_kubeconfig_of_ours_is_understood(server: Scripted, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig(server.url, "from-file", tmp_path / "ca.crt"))
    server.answers["/api"] = (200, b"{}")
    Rest.of_kubeconfig(file, user_agent="test").get("/api")
    assert server.asked[0][2]["Authorization"] == "Bearer from-file"
