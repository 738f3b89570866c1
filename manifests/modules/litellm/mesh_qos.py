"""Keeps traffic of the private mesh apart from local traffic, inside LiteLLM.

LiteLLM loads `mesh_qos` as a callback. A key whose metadata says so belongs to another appliance:
it reaches shared models alone, and waits behind local requests. Where no private mesh is installed
there are no such keys, and all that happens is that callers cannot set a priority of their own.

Not verified against a running LiteLLM: written for the callbacks of version 1.101.
"""

# ruff: noqa: ARG002, INP001 - LiteLLM's signatures; a file on its own, loaded by its path

import hmac
import json
import os
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from fastapi import HTTPException
from litellm.integrations.custom_logger import CustomLogger

LOCAL, REMOTE = "LOCAL", "MESH_REMOTE"
SHARED_PREFIX = "share/"
MESH_PREFIXES = ("local/", "mesh/", SHARED_PREFIX)
ROUTING_FIELDS = ("api_base", "base_url", "api_key", "fallbacks", "model_list", "deployment_id")
"""With these a caller could send a request somewhere else than to the model that it names."""
REMOTE_PRIORITY, LOCAL_PRIORITY = 10, 0
"""vLLM serves lower numbers first."""
SERIES_LIMIT = 512
NAME_LIMIT = 200
TOKEN_FILE = Path("/var/run/magicstick-mesh/MESH_ADMIN_TOKEN")
SOCKET_TIMEOUT_S = 3.0

Fields = dict[str, Any]


class Metrics:
    """Requests, errors and latency by traffic class and model. Holds no prompt, address or key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._series: dict[tuple[str, str], Fields] = {}

    def count(self, traffic: str, model: str, seconds: float, *, failed: bool) -> None:
        """Add one request. Models beyond the limit are counted together, as `other`."""
        with self._lock:
            key = (traffic, model[:NAME_LIMIT])
            if key not in self._series and len(self._series) >= SERIES_LIMIT:
                key = (traffic, "other")
            series = self._series.setdefault(key, {"requests": 0, "errors": 0, "latency_seconds": 0.0})
            series["requests"] += 1
            series["errors"] += int(failed)
            series["latency_seconds"] += seconds

    def snapshot(self) -> list[Fields]:
        """All series, as of now."""
        with self._lock:
            return [
                {"traffic_class": traffic, "model": model, **series}
                for (traffic, model), series in sorted(self._series.items())
            ]


class MeshQos(CustomLogger):
    """The callback. See the module."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__()
        self.metrics = metrics

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: Fields, call_type: str
    ) -> Fields:
        """Before a model is chosen: refuse what the key may not use, drop what a caller may not set."""
        data.pop("priority", None)
        if isinstance(data.get("extra_body"), dict):
            data["extra_body"].pop("priority", None)
        model = str(data.get("model") or "")
        remote = is_remote(getattr(user_api_key_dict, "metadata", None))
        if remote != model.startswith(SHARED_PREFIX):
            raise HTTPException(status_code=403, detail="this key may not use this model")
        if model.startswith(MESH_PREFIXES):
            for field in ROUTING_FIELDS:
                data.pop(field, None)
        return data

    async def async_pre_call_deployment_hook(self, kwargs: Fields, call_type: Any) -> Fields:
        """When a deployment is chosen: tell vLLM whose request it is."""
        info = kwargs.get("model_info")
        if isinstance(info, Mapping) and info.get("magicstick_vllm_priority") is True:
            priority = REMOTE_PRIORITY if info.get("source") == "mesh-export" else LOCAL_PRIORITY
            kwargs["extra_body"] = {**(kwargs.get("extra_body") or {}), "priority": priority}
        return kwargs

    async def async_log_success_event(self, kwargs: Fields, response_obj: Any, start: Any, end: Any) -> None:
        """Count an answer."""
        self._count(kwargs, start, end, failed=False)

    async def async_log_failure_event(self, kwargs: Fields, response_obj: Any, start: Any, end: Any) -> None:
        """Count a failure."""
        self._count(kwargs, start, end, failed=True)

    def _count(self, kwargs: Fields, start: Any, end: Any, *, failed: bool) -> None:
        metadata = (kwargs.get("litellm_params") or {}).get("metadata") or {}
        traffic = REMOTE if is_remote(metadata.get("user_api_key_metadata")) else LOCAL
        model = str(metadata.get("model_group") or kwargs.get("model") or "")
        self.metrics.count(traffic, model, (end - start).total_seconds(), failed=failed)


def is_remote(key_metadata: object) -> bool:
    """Whether a key belongs to another appliance."""
    return isinstance(key_metadata, Mapping) and key_metadata.get("magicstick_traffic_class") == REMOTE


def serve(metrics: Metrics, port: int, token_file: Path = TOKEN_FILE) -> ThreadingHTTPServer:
    """Serve the metrics as JSON at /metrics, to whoever has the mesh's token; without it to nobody."""

    class Handler(BaseHTTPRequestHandler):
        timeout = SOCKET_TIMEOUT_S

        def do_GET(self) -> None:
            """Answer one request. The token is read each time, since it may be rotated."""
            if self.path != "/metrics":
                self._answer(404, b"")
            elif not is_authorized(self.headers.get("Authorization", ""), token_file):
                self._answer(403, b"")
            else:
                self._answer(200, json.dumps({"series": metrics.snapshot()}).encode())

        def _answer(self, code: int, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Cache-Control", "no-store")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """LiteLLM's log is not for scrapes."""

    server = ThreadingHTTPServer(("", port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def is_authorized(header: str, token_file: Path) -> bool:
    """Whether the header carries the token; False as well while there is none."""
    try:
        token = token_file.read_text().strip()
    except OSError:
        return False
    return bool(token) and hmac.compare_digest(header.encode(), f"Bearer {token}".encode())


mesh_qos = MeshQos(Metrics())

if port := os.environ.get("MAGICSTICK_MESH_METRICS_PORT"):
    serve(mesh_qos.metrics, int(port))
