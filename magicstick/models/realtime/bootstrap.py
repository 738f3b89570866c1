"""Starts vLLM-Omni in a realtime Pod: completes the stage plan, and repairs the runtime where it must.

This file is a program of its own. The operator reads it as text and puts it into the runtime's ConfigMap;
it runs with nothing but the container's Python and imports nothing else (spec: realtime §8).

The repair concerns one reviewed release of vLLM-Omni, whose typed configuration does not carry
`cpu_offload_gb` to the engine. It adds the field in the two places that pass it on, in this container's copy
alone. Any other source is refused, so nothing that nobody has reviewed is ever changed; the runtime's own
validation of fields stays as it is.
"""

import ast
import hashlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

CONFIG = Path("/etc/magicstick-realtime/profile.json")
PLAN = Path("/tmp/magicstick-realtime.json")  # noqa: S108 - of a container that one process has for itself
PACKAGE = "vllm_omni"
REPAIR = "MAGICSTICK_PINNED_OFFLOAD_PATCH"
OFFLOAD = "cpu_offload_gb"

ORIGINAL = "cfc1ab70e1405979f5346b1adf1e27eb1cc1fcf9d34bc6f139971391e54188c7"
"""SHA-256 of the one source that the repair knows."""
MARKER = "# magicstick: cpu_offload_gb is passed on to the engine\n"
OVERRIDES = "_LoadEngineOverrides"
OVERRIDE = f"    {OFFLOAD}: float"
STAGE = "OmniStageLoadConfig"
FIELD = f"    {OFFLOAD}: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)"


class BootstrapError(Exception):
    """The runtime cannot be started as it should; the message says why, for the Pod's log."""


# --- the start ---------------------------------------------------------------------------------------


def main(config: Path = CONFIG, plan: Path = PLAN) -> NoReturn:
    """Write the plan and become the runtime.

    Raises:
        BootstrapError: the runtime is not installed, or its source must be repaired and is not known.
    """
    stages = json.loads(config.read_text(encoding="utf-8"))
    package = package_folder()
    if os.environ.get(REPAIR) == "true" and offloads(stages):
        repair(package / "config" / "omni_config.py")
    base = package / "deploy" / stages["base_config"]
    plan.write_text(json.dumps({**stages, "base_config": str(base)}, sort_keys=True), encoding="utf-8")
    command = serve_command(os.environ["MODEL_ID"], os.environ["SERVED_MODEL_NAME"], plan)
    os.execvp(command[0], command)  # noqa: S606 - no shell: what the user named reaches no interpreter


def package_folder() -> Path:
    """Where the runtime is installed; it is found without being imported, since it is large.

    Raises:
        BootstrapError: it is not installed.
    """
    found = importlib.util.find_spec(PACKAGE)
    places = None if found is None else found.submodule_search_locations
    if not places:
        raise BootstrapError(f"the image has no Python package {PACKAGE}")
    return Path(next(iter(places)))


def offloads(stages: Mapping[str, Any]) -> bool:
    """Whether any stage keeps weights in host memory."""
    return any(stage.get("engine_extras", {}).get(OFFLOAD, 0) > 0 for stage in stages["stages"])


def serve_command(model: str, served_name: str, plan: Path) -> list[str]:
    """The runtime's own command line."""
    return [
        *("vllm", "serve", model, "--omni"),
        *("--deploy-config", str(plan)),
        *("--served-model-name", served_name),
        *("--host", "0.0.0.0", "--port", "8000"),  # noqa: S104 - reached through the Pod's address
    ]


# --- the repair --------------------------------------------------------------------------------------


def repair(source: Path) -> None:
    """Have the source pass the offload on. Once is enough: a repaired source is left as it is.

    Raises:
        BootstrapError: the source is not the reviewed one; nothing is written then.
    """
    text = source.read_bytes().decode("utf-8")
    if text.startswith(MARKER):
        before = restored(text)
        if digest(before) != ORIGINAL or repaired(before) != text:
            raise BootstrapError(f"{source} was repaired, and has changed since: it is inconsistent")
        return
    if digest(text) != ORIGINAL:
        raise BootstrapError(
            f"{source} is not the reviewed, pinned source that CPU offloading needs: "
            "set thinkerCpuOffloadGiB to 0, or name a runtimeImage that supports it"
        )
    replace(source, repaired(text))


def digest(text: str) -> str:
    """SHA-256 of the text, in hex."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def repaired(text: str) -> str:
    """The source with both additions, which still compiles.

    Raises:
        BootstrapError: a place for them is missing or is there twice, or the result is no Python.
    """
    try:
        tree = ast.parse(text)
        stage = _only_class(tree, STAGE)
        if ast.get_docstring(stage) is None:
            raise BootstrapError(f"class {STAGE} has no docstring, after which the field belongs")
        additions = {_line_of_body(_only_class(tree, OVERRIDES)): OVERRIDE, _line_of_body(stage): FIELD}
        lines = text.split("\n")
        for line in sorted(additions, reverse=True):
            lines.insert(line, additions[line])
        result = MARKER + "\n".join(lines)
        compile(result, STAGE, "exec")
    except SyntaxError as error:
        raise BootstrapError(f"the source does not compile: {error.msg} in line {error.lineno}") from None
    return result


def restored(text: str) -> str:
    """A repaired source as it was before; anything else comes out as something else."""
    lines = text.removeprefix(MARKER).split("\n")
    for addition in (OVERRIDE, FIELD):
        if lines.count(addition) == 1:
            lines.remove(addition)
    return "\n".join(lines)


def replace(source: Path, text: str) -> None:
    """Put the text in the place of the source in one step; byte-code of the old one goes."""
    with tempfile.NamedTemporaryFile(
        "wb", dir=source.parent, prefix=source.stem, suffix=".tmp", delete=False
    ) as file:
        temporary = Path(file.name)
        file.write(text.encode("utf-8"))
    shutil.copymode(source, temporary)
    temporary.replace(source)
    for stale in (source.parent / "__pycache__").glob(f"{source.stem}.*.pyc"):
        stale.unlink(missing_ok=True)


def _only_class(tree: ast.Module, name: str) -> ast.ClassDef:
    found = [each for each in ast.walk(tree) if isinstance(each, ast.ClassDef) and each.name == name]
    if len(found) != 1:
        raise BootstrapError(f"the source has {len(found)} classes {name}, where it must have one")
    return found[0]


def _line_of_body(owner: ast.ClassDef) -> int:
    """How many lines stand before the fields of a class, its docstring included."""
    first = owner.body[0]
    return first.lineno - 1 if ast.get_docstring(owner) is None else first.end_lineno or first.lineno


if __name__ == "__main__":
    try:
        main()
    except BootstrapError as error:
        sys.exit(f"bootstrap: {error}")
