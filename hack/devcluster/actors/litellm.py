"""LiteLLM's management API on loopback, as far as the model catalog uses it.

It keeps to what the real one does where it matters: models live in a database or stand in its
configuration (`db_model`); an update merges, and never takes a field away; keys come back masked; a call
without the master key is refused. It can be told to fail, to be slow, to be away, to answer nonsense, to
forget models and to show writes late. Every call is noted, so that a test can say that there was none.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import unquote

from aiohttp import web

from hack.devcluster.actors.loopback import DoorServer

Deployment: TypeAlias = dict[str, Any]
MASKED = "*****"
SECRET_PARAMETERS = ("api_key",)
PROXY_ERROR = "ProxyException"
NOT_LOADED = "LLM Model List not loaded in. Make sure you passed models in your config.yaml"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Call:
    """One request. `name` is the model that it is about, `id` its id; "" where it names none."""

    method: str
    path: str
    name: str = ""
    id: str = ""
    authorized: bool = True

    @property
    def writes(self) -> bool:
        """Whether it would change something."""
        return self.method != "GET"


@dataclass
class Fault:
    """What happens to the calls that `when` picks, as long as it is in force."""

    when: Callable[[Call], bool]
    status: int = 500
    body: bytes = b'{"error":{"message":"no","type":"' + PROXY_ERROR.encode() + b'"}}'
    headers: Mapping[str, str] = field(default_factory=dict)
    carried_out: bool = False
    """The call is carried out all the same, and its answer lost."""


class LiteLlmActor(DoorServer):
    """See the module. `models` are the deployments by id, as they are stored.

    `master_key` is the key, or tells what it is now; while it is empty, every call is refused. It listens at
    `port`, or at one that is free.
    """

    def __init__(self, master_key: str | Callable[[], str], *, patches: bool = True, port: int = 0) -> None:
        super().__init__(port)
        self._key = master_key
        self._patches = patches
        self.models: dict[str, Deployment] = {}
        self.loaded = True
        """False after a start: as long as no model was made or changed, the real one then says that it has no
        list of models, whatever is in its database."""
        self.calls: list[Call] = []
        self._faults: list[Fault] = []
        self._shown: dict[str, Deployment] | None = None

    # -- for those who look and direct -----------------------------------------------------------------

    def named(self, name: str) -> Deployment | None:
        """A deployment of this name; the first of several."""
        return next((each for each in self.models.values() if each["model_name"] == name), None)

    def put(self, name: str, deployment_id: str, *, stored: bool = True, **info: Any) -> None:
        """A model that somebody else made, in the database or in LiteLLM's configuration."""
        self.models[deployment_id] = {
            "model_name": name,
            "litellm_params": {"model": f"openai/{name}", "api_base": "https://models.example.com/v1"},
            "model_info": {"id": deployment_id, "db_model": stored, **info},
        }

    def forget(self, *names: str) -> None:
        """Lose the models of these names; all without any."""
        gone = [key for key, each in self.models.items() if not names or each["model_name"] in names]
        for key in gone:
            del self.models[key]

    def writes(self) -> list[Call]:
        """The calls that would change something."""
        return [call for call in self.calls if call.writes]

    @contextlib.contextmanager
    def fault(self, when: Callable[[Call], bool], status: int = 500, **how: Any) -> Any:
        """These calls fail within the block."""
        fault = Fault(when, status, **how)
        self._faults.append(fault)
        try:
            yield fault
        finally:
            self._faults.remove(fault)

    def lag(self) -> None:
        """From now on show what there is at this moment, whatever is written, until `catch_up`."""
        self._shown = json.loads(json.dumps(self.models))

    def catch_up(self) -> None:
        """Show what is stored again."""
        self._shown = None

    async def until(self, holds: Callable[[], object], *, deadline_s: float = 20.0) -> None:
        """Wait until the condition holds; it is looked at after every call."""
        async with self._changed:
            try:
                await asyncio.wait_for(self._changed.wait_for(lambda: bool(holds())), deadline_s)
            except TimeoutError:
                names = sorted(each["model_name"] for each in self.models.values())
                raise AssertionError(f"not within {deadline_s:g} s; models {names}") from None

    # -- serving ---------------------------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else {}
        call = self._noted(request, body)
        await self._admitted()
        fault = next((each for each in self._faults if each.when(call)), None)
        if fault is not None and not fault.carried_out:
            answer = web.Response(status=fault.status, body=fault.body, headers=fault.headers)
        else:
            answer = self._carried_out(call, body) if call.authorized else _refused(401, "Authentication")
            if fault is not None:
                answer = web.Response(status=fault.status, body=fault.body, headers=fault.headers)
        async with self._changed:
            self._changed.notify_all()
        return answer

    def _noted(self, request: web.Request, body: Mapping[str, Any]) -> Call:
        path = unquote(request.raw_path)
        info = body.get("model_info") or {}
        parts = path.split("/")
        in_path = parts[2] if request.method == "PATCH" and len(parts) > 2 else ""  # noqa: PLR2004 # /model/<id>/…
        call = Call(
            request.method,
            path,
            str(body.get("model_name", "")),
            str(in_path or info.get("id") or body.get("id") or ""),
            self._admits(request.headers.get("Authorization", "")),
        )
        self.calls.append(call)
        return call

    def _admits(self, authorization: str) -> bool:
        key = self._key if isinstance(self._key, str) else self._key()
        return bool(key) and authorization == f"Bearer {key}"

    def _carried_out(self, call: Call, body: Deployment) -> web.Response:
        if (call.method, call.path) == ("GET", "/model/info"):
            return self._info()
        if (call.method, call.path) == ("POST", "/model/new"):
            return self._new(call, body)
        if (call.method, call.path) == ("POST", "/model/delete"):
            return self._delete(call)
        if (call.method, call.path) == ("POST", "/model/update"):
            return self._update(call, body, with_info=not self._patches)
        if call.method == "PATCH" and call.path == f"/model/{call.id}/update" and self._patches:
            return self._update(call, body, with_info=True)
        return web.json_response({"detail": "Not Found"}, status=404)

    def _info(self) -> web.Response:
        if not self.loaded:
            return web.json_response({"detail": {"error": NOT_LOADED}}, status=500)
        shown = self.models if self._shown is None else self._shown
        return web.json_response({"data": [_masked(each) for each in shown.values()]})

    def _new(self, call: Call, body: Deployment) -> web.Response:
        if not call.name or call.id in self.models:
            return _refused(400, "Unique constraint failed on the fields: (`model_id`)")
        if not body.get("litellm_params", {}).get("model"):
            return _refused(400, "model is required")
        stored: Deployment = json.loads(json.dumps(body))
        stored["model_info"]["db_model"] = True
        self.loaded = True
        self.models[call.id] = stored
        return web.json_response({"model_id": call.id})

    def _update(self, call: Call, body: Deployment, *, with_info: bool) -> web.Response:
        """Newer ones leave `model_info` alone when they are asked the old way."""
        stored = self.models.get(call.id)
        if stored is None or not stored["model_info"].get("db_model"):
            return _refused(400, f"Model id = {call.id} not found on litellm proxy")
        self.loaded = True
        stored["model_name"] = body.get("model_name", stored["model_name"])
        stored["litellm_params"] |= {
            key: value for key, value in body["litellm_params"].items() if value is not None
        }
        if with_info:
            stored["model_info"] |= {
                key: value for key, value in body["model_info"].items() if value is not None
            }
        return web.json_response({"model_id": call.id})

    def _delete(self, call: Call) -> web.Response:
        stored = self.models.get(call.id)
        if stored is None or not stored["model_info"].get("db_model"):
            return _refused(400, f"Model with id={call.id} not found in db")
        del self.models[call.id]
        return web.json_response({"message": "Model deleted"})


def _masked(stored: Deployment) -> Deployment:
    params = {
        key: MASKED if key in SECRET_PARAMETERS else value for key, value in stored["litellm_params"].items()
    }
    return {**stored, "litellm_params": params}


def _refused(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message, "type": PROXY_ERROR}}, status=status)
