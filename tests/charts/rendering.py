"""The charts, rendered by the real Helm from values as the operator hands them over."""

import functools
import json
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from hack import yamls
from hack.devcluster.build import Builder

ROOT: Final = Path(__file__).resolve().parents[2]
CHARTS: Final = ROOT / "charts"
APPS: Final = ("openclaw", "hermes", "paperclip", "kubeopencode", "odysseus")
MASTER_KEY: Final = "litellm-masterkey-secret"

_UNPRINTABLE: Final = re.compile("[\x7f-\x9f\ufeff\ufffe\uffff]")

Object = dict[str, Any]


class Refused(Exception):
    """Helm did not render; the text is what it said."""


def instance(app: str, values: Mapping[str, Any] | None = None, **fields: Any) -> Object:
    """The values that the operator gives a release of `app`; a field that is None is left out."""
    made: Object = {
        "name": f"{app}-demo",
        "namespace": "ai",
        "application": app,
        "localHost": f"demo.{app}.example.local",
        "localName": f"demo.{app}.example",
        "publicHost": f"demo.{app}.example.com",
        "values": dict(values or {}),
        **fields,
    }
    return {"instance": {key: value for key, value in made.items() if value is not None}}


def own_key(name: str, revision: str = "0123abcd") -> Object:
    """The reference to an instance's own key of LiteLLM."""
    return {"name": f"{name}-litellm", "key": "LITELLM_API_KEY", "revision": revision}


def render(app: str, values: Mapping[str, Any] | None = None, **fields: Any) -> list[Object]:
    """The objects of an instance of `app`.

    Raises:
        Refused: the chart does not accept the values.
    """
    return parsed(text(app, instance(app, values, **fields)))


def text(app: str, values: Mapping[str, Any]) -> str:
    """What `helm template` writes for these values, whole as they are.

    Raises:
        Refused: the chart does not accept them.
    """
    # JSON that is YAML as well: characters beyond 16 bits as they are, and those that YAML forbids escaped.
    written = json.dumps(values, ensure_ascii=False)
    return _template(app, _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", written))


def parsed(rendered: str) -> list[Object]:
    """The objects of a rendered text."""
    return [obj for obj in yamls.load_all(rendered) if obj]


def one(objects: list[Object], kind: str, name: str | None = None) -> Object:
    """The only object of this kind, or of this kind and name."""
    (found,) = [obj for obj in objects if obj["kind"] == kind and name in (None, obj["metadata"]["name"])]
    return found


def named(items: list[Object], name: str) -> Object:
    """The only item of a list (env, ports, containers) with this name."""
    (found,) = [item for item in items if item["name"] == name]
    return found


def env(container: Object) -> dict[str, Any]:
    """A container's environment: text, or where the value comes from; a name that stands twice is an error."""
    names = [entry["name"] for entry in container["env"]]
    assert len(names) == len(set(names))
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container["env"]}


def walk(value: Any, visit: Callable[[str, Any], None], path: str = "") -> None:
    """Calls `visit(path, value)` for everything in an object."""
    visit(path, value)
    if isinstance(value, dict):
        for key, item in value.items():
            walk(item, visit, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            walk(item, visit, f"{path}[{index}]")


@functools.cache
def helm() -> Path:
    """The binary, built when it is not there yet."""
    return Builder().ensure(["helm"])["helm"]


@functools.cache
def _template(app: str, values: str) -> str:
    # Under a name of its own, since no chart may look at the release.
    command = [str(helm()), "template", "release", str(CHARTS / app), "--values", "-"]
    result = subprocess.run(command, input=values, capture_output=True, text=True, check=False)
    if result.returncode:
        raise Refused(result.stderr)
    return result.stdout
