"""The manifests as text and objects, and Flux's substitution of variables."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from hack import yamls

ROOT: Final = Path(__file__).resolve().parents[2]
MANIFESTS: Final = ROOT / "manifests"

# `$${X}` stays as `${X}`; `${X:=default}`, `${X:-default}` and `${X}` are replaced (spec: platform §0.2).
_VARIABLE: Final = re.compile(
    r"\$(?P<escaped>\$\{[^}]*\})|\$\{(?P<name>[A-Za-z_]\w*)(?::?[=-](?P<default>[^}]*))?\}"
)

Object = dict[str, Any]


def objects(folder: Path) -> Iterator[tuple[Path, Object]]:
    """Every object below a folder with its file, kustomize's own files left out."""
    for file in sorted(folder.rglob("*.yaml")):
        if file.name == "kustomization.yaml":
            continue
        for document in yamls.load_all(file.read_text()):
            if document:
                yield file, document


def one(folder: Path, kind: str, name: str, namespace: str | None = None) -> Object:
    """The only object of this kind and name below a folder."""
    (found,) = [
        obj
        for _, obj in objects(folder)
        if obj["kind"] == kind
        and obj["metadata"]["name"] == name
        and namespace in (None, obj["metadata"].get("namespace"))
    ]
    return found


def substitute(text: str, variables: Mapping[str, str]) -> str:
    """What Flux makes of a built module: unknown variables without a default become nothing."""

    def replace(match: re.Match[str]) -> str:
        if match["escaped"]:
            return match["escaped"]
        return variables.get(match["name"]) or match["default"] or ""

    return _VARIABLE.sub(replace, text)
