"""Every folder that Flux applies, built as Flux builds it: by kustomize, then with variables replaced."""

import functools
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hack import yamls
from hack.devcluster.build import Builder
from tests.support.manifests import MANIFESTS, ROOT, Object, objects, substitute
from tests.support.shipped import MODULES

CLUSTER_SCOPED: Final = {
    "APIService",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "GatewayClass",
    "Namespace",
}
"""Kinds among those we ship that live in no namespace."""


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder that a Kustomization of Flux points to.

    Attributes:
        name: below `manifests/`, for example `modules/gpu`.
        substituted: whether Flux replaces variables in it.
    """

    name: str
    substituted: bool

    @property
    def path(self) -> Path:
        """Where it is."""
        return MANIFESTS / self.name

    def text(self) -> str:
        """What kustomize makes of it.

        Raises:
            subprocess.CalledProcessError: it cannot be built; `stderr` says why.
        """
        return _kustomize(self.path)

    def built(self, **variables: str) -> list[Object]:
        """The objects that Flux applies, with these variables in the settings ConfigMap."""
        text = substitute(self.text(), variables) if self.substituted else self.text()
        return [obj for obj in yamls.load_all(text) if obj]

    def releases(self) -> dict[str, Object]:
        """HelmReleases by name, substituted with all defaults."""
        return {obj["metadata"]["name"]: obj for obj in self.built() if obj["kind"] == "HelmRelease"}


@functools.cache
def _kustomize(path: Path) -> str:
    program = Builder().ensure(["kubectl"])["kubectl"]
    done = subprocess.run([program, "kustomize", path], check=True, capture_output=True, text=True)
    return done.stdout


def identity(obj: Object) -> str:
    """Group, kind, namespace and name: what makes two objects the same one in a cluster."""
    group = obj["apiVersion"].rpartition("/")[0]
    metadata = obj["metadata"]
    return f"{obj['kind']}.{group}/{metadata.get('namespace', '')}/{metadata['name']}"


def scalars(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every scalar of a document with its path; items of lists go by their position."""
    if isinstance(value, Mapping):
        for key, child in value.items():
            yield from scalars(child, (*path, str(key)))
    elif isinstance(value, list):
        for position, child in enumerate(value):
            yield from scalars(child, (*path, str(position)))
    else:
        yield path, value


def _static_substitution() -> dict[str, bool]:
    return {
        str(Path(obj["spec"]["path"])): "postBuild" in obj["spec"]
        for _, obj in objects(MANIFESTS / "flux")
        if obj["kind"] == "Kustomization"
    }


MODULE_FOLDERS: Final = {
    key: Folder(str((ROOT / module.path).relative_to(MANIFESTS)), module.post_build_substitution)
    for key, module in MODULES.modules.items()
}
"""By module, of every module in the catalog, whether the folder is there or not."""

PLATFORM_FOLDERS: Final = [
    Folder(path.removeprefix("manifests/"), substituted)
    for path, substituted in sorted(_static_substitution().items())
    if path.startswith("manifests/platform/")
]
FOLDERS: Final = [*MODULE_FOLDERS.values(), *PLATFORM_FOLDERS]
