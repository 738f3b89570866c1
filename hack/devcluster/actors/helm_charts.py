"""The charts that a GitRepository delivers, as files that helm can read.

Stands in for what Flux's source-controller does with a HelmChart: the artifact of the source is fetched and
checked, and the chart in it gets its version. With `reconcileStrategy: Revision` that version has the
source's revision as build metadata, so every revision is another chart; otherwise a chart stays what it was
when it was first seen, until its own version changes.

`valuesFiles` is not looked at, charts have no dependencies, and what was fetched is kept as long as the
folder is.
"""

import asyncio
import hashlib
import io
import shutil
import tarfile
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from hack.devcluster.actors.following import Key, Object, condition, key_of
from hack.devcluster.actors.releases import ChartIdentity, NotYetError

FETCH_S: Final = 30.0
SHORT: Final = 12
"""So many characters of a revision's hash stand in a version, as Flux has them."""

Fetch = Callable[[str], bytes]


@dataclass(frozen=True, slots=True)
class ChartFiles:
    """A chart that helm can install."""

    identity: ChartIdentity
    folder: Path


def fetched(url: str) -> bytes:
    """What is served at an address of the cluster's own Git source."""
    if not url.startswith("http://"):
        raise ValueError(f"{url} is no address of a source here")
    with urllib.request.urlopen(url, timeout=FETCH_S) as response:  # noqa: S310 - the scheme is checked above
        content: bytes = response.read()
    return content


class ChartStore:
    """Charts by revision, in a folder of ours."""

    def __init__(self, folder: Path, fetch: Fetch = fetched) -> None:
        self._folder = folder
        self._fetch = fetch
        self._unpacking = asyncio.Lock()
        self._standing: dict[tuple[Key, str], ChartFiles] = {}
        self._revised: dict[tuple[str, str], ChartFiles] = {}

    async def get(self, release: Object, source: Object) -> ChartFiles:
        """The chart that a release asks for.

        Raises:
            NotYetError: the source delivers nothing, or no such chart.
        """
        asked = release["spec"]["chart"]["spec"]
        artifact = source.get("status", {}).get("artifact")
        if artifact is None or condition(source, "Ready").get("status") != "True":
            raise NotYetError("SourceNotReady", f"GitRepository '{'/'.join(key_of(source))}' is not ready")
        path = str(asked["chart"])
        if asked.get("reconcileStrategy") != "Revision":
            return await self._lasting(key_of(release), artifact, path)
        key = (str(artifact["digest"]), path)
        if key not in self._revised:
            found = await self._found(artifact, path)
            self._revised[key] = await asyncio.to_thread(_revised, found, artifact["revision"])
        return self._revised[key]

    async def _lasting(self, release: Key, artifact: Object, path: str) -> ChartFiles:
        found = await self._found(artifact, path)
        known = self._standing.get((release, path))
        if known is None or known.identity != found.identity:
            self._standing[release, path] = known = found
        return known

    async def _found(self, artifact: Object, path: str) -> ChartFiles:
        try:
            async with self._unpacking:
                tree = await asyncio.to_thread(self._unpacked, artifact)
        except (OSError, ValueError, tarfile.TarError) as error:
            raise NotYetError("ArtifactFailed", f"could not load the chart's source: {error}") from error
        folder = (tree / path).resolve()
        if not folder.is_relative_to(tree.resolve()):
            raise NotYetError("SourceNotReady", f"the chart '{path}' is outside of its source")
        return ChartFiles(_identity(folder, path), folder)

    def _unpacked(self, artifact: Object) -> Path:
        digest = str(artifact["digest"])
        tree = self._folder / digest.removeprefix("sha256:")
        if tree.is_dir():
            return tree
        content = self._fetch(str(artifact["url"]))
        if f"sha256:{hashlib.sha256(content).hexdigest()}" != digest:
            raise ValueError(f"the artifact is not the one with digest {digest}")
        half = tree.with_suffix(".half")
        shutil.rmtree(half, ignore_errors=True)
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
            archive.extractall(half, filter="data")
        return half.rename(tree)


def _revised(found: ChartFiles, revision: str) -> ChartFiles:
    """A copy whose version has the revision in it."""
    short = revision.rpartition(":")[2][:SHORT]
    name = f"{found.folder.name}+{short}"
    folder = found.folder.with_name(name)
    shutil.copytree(found.folder, folder, dirs_exist_ok=True)
    described = _described(folder)
    described["version"] = version = f"{found.identity.version}+{short}"
    (folder / "Chart.yaml").write_text(yaml.safe_dump(described))
    return ChartFiles(ChartIdentity(found.identity.name, version, found.identity.app_version), folder)


def _identity(folder: Path, path: str) -> ChartIdentity:
    try:
        described = _described(folder)
        name, version = str(described["name"]), str(described["version"])
    except (OSError, KeyError, TypeError, yaml.YAMLError) as error:
        said = f"no chart can be read at '{path}': {type(error).__name__}"
        raise NotYetError("SourceNotReady", said) from error
    return ChartIdentity(name, version, str(described.get("appVersion", "")))


def _described(folder: Path) -> dict[str, Any]:
    described: dict[str, Any] = yaml.safe_load((folder / "Chart.yaml").read_text())
    return described
