"""Schemas of the apps' operators, as their projects publish them; they are not ours to keep here.

The environment variable `FOREIGN_CRDS` names a folder with files `<group>_<plural>.yaml`.
"""

import os
from pathlib import Path
from typing import Any, Final

from hack import yamls
from tests.charts.rendering import Object

VARIABLE: Final = "FOREIGN_CRDS"

FILES: Final = {
    ("paperclip.inc/v1alpha1", "Instance"): "paperclip.inc_instances.yaml",
    ("kubeopencode.io/v1alpha1", "Agent"): "kubeopencode.io_agents.yaml",
    ("kubeopencode.io/v1alpha1", "AgentTemplate"): "kubeopencode.io_agenttemplates.yaml",
    ("openclaw.rocks/v1alpha1", "OpenClawInstance"): "openclaw.rocks_openclawinstances.yaml",
    ("hermes.agent/v1", "HermesInstance"): "hermes.agent_hermesinstances.yaml",
}


def file(kind: tuple[str, str]) -> Path | None:
    """The schema's file; None where there is none to be had."""
    folder = os.environ.get(VARIABLE)
    path = Path(folder) / FILES[kind] if folder else None
    return path if path is not None and path.is_file() else None


def definition(kind: tuple[str, str]) -> Object | None:
    """The definition of a kind, with what its published file lacks; None where there is no file."""
    found = file(kind)
    if found is None:
        return None
    made: Object = yamls.load(found.read_text())
    return _widened(made) if kind[1] == "Instance" else made


def _widened(definition: Object) -> Object:
    """Paperclip's file is of an early release; this is what the one we use has besides (spec: platform §2.0.4)."""
    for version in definition["spec"]["versions"]:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        modes = spec["deployment"]["properties"]["mode"]["enum"]
        adapters = spec["adapters"]["properties"]
        assert "local_trusted" not in modes, "the file has it by now: widen it no longer"
        assert not {"execution", "registry"} & set(adapters), "the file has them by now: widen it no longer"
        modes.append("local_trusted")
        adapters["execution"] = _object(
            mode=_STRING,
            kubernetes=_object(backend=_STRING, egressMode=_STRING, namespacePrefix=_STRING),
        )
        adapters["registry"] = {
            "type": "array",
            "items": _object(
                adapterType=_STRING,
                enabled={"type": "boolean"},
                runtimeImage=_STRING,
                envKeys={"type": "array", "items": _STRING},
                defaultEnv={"type": "object", "additionalProperties": _STRING},
            ),
        }
    return definition


_STRING: Final = {"type": "string"}


def _object(**properties: Any) -> Object:
    return {"type": "object", "properties": properties}
