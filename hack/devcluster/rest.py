"""A minimal client of the API server: enough to start a cluster and put objects into it.

Synchronous, and independent of the operator's own client on purpose.
"""

import json
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeAlias

import urllib3
import yaml

Object: TypeAlias = dict[str, Any]

TIMEOUT_S = 30.0
IDLE_CONNECTIONS = 8
"""As many threads find a connection that is open already; a handshake costs more than most requests."""
FIELD_MANAGER = "devcluster"

ASKED_AGAIN = urllib3.Retry(
    total=5,
    connect=0,
    read=0,
    redirect=0,
    other=0,
    allowed_methods=None,
    status_forcelist=[HTTPStatus.TOO_MANY_REQUESTS],
    raise_on_status=False,
)
"""While the server asks to wait, a second at a time, as it does for a kind that comes or goes."""


class ApiError(Exception):
    """The API server refused, or could not be reached (code 0)."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}" if code else message)
        self.code = code


class Rest:
    """Requests to one API server, from any thread.

    None is sent again but what the server asks to send later: what failed may have been done.
    """

    def __init__(self, url: str, *, token: str = "", ca_file: Path | None = None, user_agent: str) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Accept": "application/json", "User-Agent": user_agent}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._connections = urllib3.PoolManager(
            maxsize=IDLE_CONNECTIONS, retries=ASKED_AGAIN, ca_certs=ca_file and str(ca_file)
        )
        self._resources: dict[str, dict[str, tuple[str, bool]]] = {}

    @classmethod
    def of_kubeconfig(cls, file: Path, *, user_agent: str) -> "Rest":
        """From one of the kubeconfigs that this package writes: a token and a CA file."""
        config = yaml.safe_load(file.read_text())
        cluster = config["clusters"][0]["cluster"]
        token = config["users"][0]["user"]["token"]
        ca_file = Path(cluster["certificate-authority"])
        return cls(cluster["server"], token=token, ca_file=ca_file, user_agent=user_agent)

    def request(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> Object:
        """One request; returns the decoded JSON answer (`{"text": ...}` for plain text).

        Raises:
            ApiError: any answer above 299, and any failure of the connection.
        """
        return _decode(self._send(method, path, body, content_type, TIMEOUT_S).data)

    def get(self, path: str) -> Object:
        """GET."""
        return self.request("GET", path)

    def apply(self, obj: Object, *, subresource: str = "", field_manager: str = FIELD_MANAGER) -> Object:
        """Server-side apply with force."""
        query = urllib.parse.urlencode({"fieldManager": field_manager, "force": "true"})
        path = self.path_of(obj) + (f"/{subresource}" if subresource else "")
        return self.request("PATCH", f"{path}?{query}", obj, "application/apply-patch+yaml")

    def watch(self, path: str, *, timeout_s: float) -> Iterator[tuple[str, Object]]:
        """Events (type, object) until the server ends the watch.

        `path` is a collection with a query; `watch=true` is added.
        """
        target = f"{path}{'&' if '?' in path else '?'}watch=true&timeoutSeconds={int(timeout_s)}"
        lines = self._send("GET", target, None, "application/json", timeout_s + TIMEOUT_S, whole=False)
        try:
            with _told("GET", path):
                for line in lines:
                    event = json.loads(line)
                    yield event["type"], event["object"]
        finally:
            lines.close()  # what is left of it costs the connection

    def path_of(self, obj: Object) -> str:
        """The path of an object, found through discovery.

        Raises:
            ApiError: 404 when its kind is not served.
        """
        version, kind, meta = obj["apiVersion"], obj["kind"], obj["metadata"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if kind not in self._resources.get(version, {}):
            listed = self.get(root)["resources"]
            self._resources[version] = {
                each["kind"]: (each["name"], each["namespaced"]) for each in listed if "/" not in each["name"]
            }
        if kind not in self._resources[version]:
            raise ApiError(404, f"{version} has no {kind}")
        plural, namespaced = self._resources[version][kind]
        scope = f"/namespaces/{meta.get('namespace', 'default')}" if namespaced else ""
        return f"{root}{scope}/{plural}/{meta['name']}"

    def _send(
        self,
        method: str,
        path: str,
        body: object,
        content_type: str,
        timeout_s: float,
        *,
        whole: bool = True,
    ) -> urllib3.BaseHTTPResponse:
        """An answer, read as a whole or still to be read line by line."""
        with _told(method, path):
            answer = self._connections.urlopen(
                method,
                self._url + path,
                body=None if body is None else json.dumps(body).encode(),
                headers={**self._headers, "Content-Type": content_type},
                timeout=timeout_s,
                redirect=False,
                preload_content=whole,
            )
            if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
                raise ApiError(answer.status, _message(answer.data))
            return answer


@contextmanager
def _told(method: str, path: str) -> Iterator[None]:
    """Whatever happens to a connection is an ApiError without a code."""
    try:
        yield
    except (OSError, urllib3.exceptions.HTTPError) as error:
        raise ApiError(0, f"{method} {path}: {error or type(error).__name__}") from error


def _decode(body: bytes) -> Object:
    try:
        decoded = json.loads(body)
    except ValueError:
        return {"text": body.decode(errors="replace")}
    return decoded if isinstance(decoded, dict) else {"items": decoded}


def _message(body: bytes) -> str:
    decoded = _decode(body)
    return str(decoded.get("message") or decoded.get("text") or "no message")
