"""What the served HelmRelease knows, read off its definition alone: everything else of it is not kept."""

from typing import Final

import msgspec

from magicstick.api.kinds import HELM_RELEASE
from magicstick.kube.objects import ObjectMeta

HELM_RELEASE_DEFINITION: Final = HELM_RELEASE.crd_name
"""The definition that tells whether Helm's retries can be asked for."""


class _Anything(msgspec.Struct, frozen=True, gc=False):
    """An object of which nothing is kept."""


class _Install(msgspec.Struct, frozen=True, gc=False):
    properties: dict[str, _Anything] = {}


class _SpecFields(msgspec.Struct, frozen=True, gc=False):
    install: _Install = _Install()


class _SpecSchema(msgspec.Struct, frozen=True, gc=False):
    properties: _SpecFields = _SpecFields()


class _RootFields(msgspec.Struct, frozen=True, gc=False):
    spec: _SpecSchema = _SpecSchema()


class _RootSchema(msgspec.Struct, frozen=True, gc=False):
    properties: _RootFields = _RootFields()


class _Schema(msgspec.Struct, frozen=True, rename={"root": "openAPIV3Schema"}, gc=False):
    root: _RootSchema = _RootSchema()


class _Version(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    schema: _Schema = _Schema()


class _DefinitionSpec(msgspec.Struct, frozen=True, gc=False):
    versions: tuple[_Version, ...] = ()


class ReleaseDefinition(msgspec.Struct, frozen=True, gc=False):
    """The definition of HelmReleases, reduced to what an installation may say."""

    metadata: ObjectMeta
    spec: _DefinitionSpec = _DefinitionSpec()

    @property
    def retries(self) -> bool:
        """Whether it knows `spec.install.strategy`."""
        found = (each for each in self.spec.versions if each.name == HELM_RELEASE.version)
        installs = (each.schema.root.properties.spec.properties.install for each in found)
        return any("strategy" in each.properties for each in installs)
