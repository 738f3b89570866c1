"""The application catalog: which applications instances can be made of (spec: magicstick-api §3.2)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from magicstick.api.base import Model
from magicstick.catalogs.entries import document, member, read_all
from magicstick.catalogs.fields import CrdName, Flag, Names, Number, RepositoryPath

Port = Annotated[Number, Field(ge=1, le=65535)]


class Route(Model):
    """How an instance is reached. Everything else about routes is derived."""

    service_name: Literal["instance", "shortName"] = "instance"
    """Whether the Service is called like the instance or like its short name."""
    port: Port
    """Port of the Service."""
    request_timeout: Literal["0s"] | None = None
    """`0s` lets streams on the application's routes last; there is no other choice."""
    strip_cookies: Flag = False
    """Whether the application never sees the browser's cookies."""


class ApplicationDefinition(Model):
    """One application: a chart, what it needs, and how it is reached."""

    display_name: str = ""
    """Title; empty for the key."""
    description: str = ""
    """What the application is, in a sentence."""
    chart_path: RepositoryPath
    """Folder of the chart in the source, without a leading `./`."""
    route: Route
    """How its instances are reached."""
    required_modules: Names = ()
    """Modules that must be ready first, by key or alias."""
    required_crds: tuple[CrdName, ...] = ()
    """CustomResourceDefinitions that must be established first."""


@dataclass(frozen=True)
class ApplicationCatalog:
    """All applications. Immutable."""

    applications: Mapping[str, ApplicationDefinition]
    """The valid entries, in catalog order."""
    invalid: Mapping[str, str] = field(default_factory=dict)
    """Disabled entries: key -> "field: what is allowed"."""

    @classmethod
    def parse(cls, text: str) -> "ApplicationCatalog":
        """The catalog in the value of `applications.json`.

        Raises:
            CatalogError: the document as a whole is malformed.
        """
        return cls(*read_all(ApplicationDefinition, member(document(text), "applications")))
