"""The GPU compatibility catalog: profiles beyond vendor support, and test images (spec: gpu §6.1)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from magicstick.api.base import Model
from magicstick.catalogs.entries import document, optional_items, optional_member, read, read_all
from magicstick.catalogs.fields import Flag, Names, Text

PciDevice = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{4}:[0-9a-f]{4}$")]
"""Vendor and device of a PCI device: `1002:1586`."""


class EngineTest(Model):
    """How an engine is tried on a device."""

    image: Text
    """Image of the test."""
    test_model: Text
    """Model of the test."""


class Diagnostics(Model):
    """Tests for the devices of a vendor without a profile."""

    engines: dict[str, EngineTest] = Field(default_factory=dict)
    """Tests by engine."""


class GpuProfile(Model):
    """Devices that work although their vendor does not say so."""

    id: Text
    """As users name it."""
    display_name: str = ""
    """Title; empty for the id."""
    description: str = ""
    """What it covers, in a sentence."""
    version: Text
    """Part of every test's identity: a change makes results stale."""
    vendor: Literal["amd"]
    """Vendor of the devices."""
    architectures: Names
    """CPU architectures of hosts."""
    pci_devices: tuple[PciDevice, ...]
    """Display devices that the profile covers."""
    expected_architecture: Text
    """GPU architecture that must be measured."""
    memory_architecture: Literal["unified"] | None = None
    """`unified` where device and host share one memory."""
    experimental: Flag = False
    """Whether a user must consent."""
    engines: dict[str, EngineTest] = Field(default_factory=dict)
    """Tests by engine."""


@dataclass(frozen=True)
class GpuCompatibilityCatalog:
    """All profiles and diagnostics. Immutable."""

    profiles: Mapping[str, GpuProfile] = field(default_factory=dict)
    """The valid profiles by id, in catalog order."""
    diagnostics: Mapping[str, Diagnostics] = field(default_factory=dict)
    """The valid diagnostics by vendor."""
    invalid: Mapping[str, str] = field(default_factory=dict)
    """Disabled entries: `profiles[<position>]` or `diagnostics.<vendor>` -> "field: what is allowed"."""

    @classmethod
    def parse(cls, text: str) -> "GpuCompatibilityCatalog":
        """The catalog in the value of `profiles.json`.

        Raises:
            CatalogError: the document as a whole is malformed.
        """
        content = document(text)
        profiles: dict[str, GpuProfile] = {}
        invalid: dict[str, str] = {}
        for position, entry in enumerate(optional_items(content, "profiles")):
            outcome = read(GpuProfile, entry)
            if isinstance(outcome, str):
                invalid[f"profiles[{position}]"] = outcome
            elif outcome.id in profiles:
                invalid[f"profiles[{position}]"] = f"id: must not be {outcome.id}, which another profile has"
            else:
                profiles[outcome.id] = outcome
        diagnostics, bad = read_all(Diagnostics, optional_member(content, "diagnostics"))
        invalid |= {f"diagnostics.{vendor}": problem for vendor, problem in bad.items()}
        return cls(profiles, diagnostics, invalid)
