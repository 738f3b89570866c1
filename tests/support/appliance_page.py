"""`Appliance.status` as a whole, as a test expects it: told in a few words, compared field by field.

    page = Page(phase="Ready", modules={"litellm": Module()}, vendors={"gpu": Vendor()})
    assert page.status(generation=1) == comparable(appliance)

What the specification says of an entry once its facts are known is written down here anew, from the
specification (spec: gpu §4, §5; modules-and-apps §12); nothing of the operator's own code is asked.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from hack import yamls
from tests.support.mirror import Object

ROOT: Final = Path(__file__).resolve().parents[2]
CATALOG: Final = ROOT / "manifests" / "catalogs" / "module-catalog.yaml"
VENDORS: Final = ("gpu", "amd-gpu", "intel-gpu")

SAYS: Final[Mapping[str, str]] = {
    "NotRequired": "No node has the label",
    "Installing": "The {title} runs; no GPU of a Ready compatible node can be allocated yet.",
    "Ready": "{count} can be allocated.",
    "Unknown": "is missing on every node. The {title} stays until {module} is disabled.",
    "Disabled": "There is hardware, but {module} is switched off.",
    "Unsupported": "No node with this hardware can run the {title}; nothing is installed.",
    "Conflict": "without an activation of ours, and no GPU can be allocated",
}
"""What the message of each phase has to contain, unless a test says otherwise."""

FAILURES: Final = frozenset({"Degraded", "Unsupported", "Conflict", "Disabled"})


class Says(str):
    """Equal to every text that contains it."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and str(self) in other

    def __hash__(self) -> int:
        raise TypeError("texts that are equal to many others have no hash")


@dataclass(frozen=True, slots=True)
class Vendor:
    """What one entry of `hardwareOperators` has to say.

    Attributes:
        nodes: with the vendor's hardware, sorted.
        issues: what the preflight has against some of them.
        supported: those that the vendor's own rule supports; without a rule, and by default, all that pass.
        allocatable: GPUs.
        managed_by: who installed the vendor's operator.
        module: the phase of the vendor's module; empty without one.
        says: what the message has to contain; by default as SAYS has it.
    """

    phase: str = "NotRequired"
    nodes: tuple[str, ...] = ()
    issues: Mapping[str, Sequence[str]] = field(default_factory=dict)
    supported: tuple[str, ...] | None = None
    allocatable: int = 0
    managed_by: str = "none"
    module: str = ""
    says: str = ""

    @property
    def compatible(self) -> list[str]:
        return [each for each in self.nodes if each not in self.issues]

    def entry(self, module: str, catalog: Mapping[str, Any]) -> Object:
        """The whole entry; the checks by name, without their messages."""
        defined = catalog[module]
        hardware = defined["hardware"]
        told = {
            "module": module,
            "displayName": defined["displayName"],
            **{name: hardware[name] for name in ("vendor", "operatorVersion", "driverMode")},
            **{name: hardware[name] for name in ("detectionLabel", "supportedLabel", "resourceNames")},
            "phase": self.phase,
            "needed": bool(self.nodes),
            "operatorActive": self.managed_by == "external" or self.module not in ("", "Disabled"),
            "managedBy": self.managed_by,
            "modulePhase": self.module,
            "detectedNodes": list(self.nodes),
            "compatibleNodes": self.compatible,
            "supportedNodes": self.compatible if self.supported is None else list(self.supported),
            "allocatableResources": self.allocatable,
            "message": Says(self._message(module, defined["displayName"])),
            "checks": self._checks(),
        }
        issues = {name: list(found) for name, found in self.issues.items()}
        return {**told, "incompatibleNodes": issues} if issues else told

    def _message(self, module: str, title: str) -> str:
        count = f"{self.allocatable} GPU{'' if self.allocatable == 1 else 's'}"
        return self.says or SAYS[self.phase].format(title=title, module=module, count=count)

    def _checks(self) -> dict[str, str]:
        detected = bool(self.nodes)
        return {
            "hardware-detected": "True" if detected else "False",
            "platform-preflight": "True" if self.compatible else "False" if detected else "Unknown",
            "operator-ready": {"Ready": "True", **dict.fromkeys(FAILURES, "False")}.get(
                self.phase, "Unknown"
            ),
            "allocatable-resource": "True" if self.allocatable else "False" if detected else "Unknown",
        }


@dataclass(frozen=True, slots=True)
class Module:
    """What one entry of `modules` has to say.

    Attributes:
        auto: whether the operator made the activation.
    """

    phase: str = "Ready"
    auto: bool = True

    def entry(self, module: str, catalog: Mapping[str, Any]) -> Object:
        """The whole entry; its message is Flux's, and of any kind. What is switched off has no Kustomization."""
        kustomization = "" if self.phase == "Disabled" else catalog[module]["kustomizationName"]
        return {
            "phase": self.phase,
            "kustomization": kustomization,
            "autoEnabled": self.auto,
            "message": Says(""),
        }


@dataclass(frozen=True, slots=True)
class Page:
    """All of the status: what is not told here must not be there.

    Attributes:
        phase: of the Appliance.
        waits_for: what its message names, as `module (Phase)`, while it is not Ready.
        seeded: the modules that were seeded.
        invalid: what the condition CatalogsValid says is wrong; empty while all catalogs are valid.
    """

    phase: str = "Ready"
    waits_for: tuple[str, ...] = ()
    modules: Mapping[str, Module] = field(default_factory=dict)
    vendors: Mapping[str, Vendor] = field(default_factory=lambda: dict.fromkeys(VENDORS, Vendor()))
    seeded: tuple[str, ...] = ()
    invalid: str = ""

    def turned(
        self,
        phase: str = "Ready",
        *waits_for: str,
        modules: Mapping[str, Module | None] | None = None,
        **vendors: Vendor,
    ) -> "Page":
        """The same with these entries changed; a module that is None is gone. `_` stands for `-`."""
        entries = {**self.modules, **(modules or {})}
        return replace(
            self,
            phase=phase,
            waits_for=waits_for,
            modules={name: each for name, each in entries.items() if each is not None},
            vendors={
                **self.vendors,
                **{name.replace("_", "-"): each for name, each in vendors.items()},
            },
        )

    def status(self, generation: int) -> Object:
        """As `comparable` has it."""
        catalog = shipped_modules()
        found: dict[str, Any] = {
            "phase": self.phase,
            "observedGeneration": generation,
            "hardwareOperators": {name: vendor.entry(name, catalog) for name, vendor in self.vendors.items()},
            "seededModules": list(self.seeded),
            "conditions": self._conditions(generation),
        }
        modules = {name: module.entry(name, catalog) for name, module in self.modules.items()}
        return {**found, "modules": modules} if modules else found

    def _conditions(self, generation: int) -> dict[str, Object]:
        """`Ready` always, `Reconciling` only while it is, and whether the catalogs are valid."""
        ready = "True" if self.phase == "Ready" else "False"
        told = {"Ready": (ready, self.phase, self._summary())}
        if self.phase == "Reconciling":
            told["Reconciling"] = ("True", self.phase, self._summary())
        valid = ("False", "CatalogMalformed", self.invalid) if self.invalid else ("True", "CatalogsValid", "")
        return {
            name: {
                "status": status,
                "reason": reason,
                "message": Says(message),
                "observedGeneration": generation,
            }
            for name, (status, reason, message) in {**told, "CatalogsValid": valid}.items()
        }

    def _summary(self) -> str:
        if self.phase != "Ready":
            opening = "Not working" if self.phase == "Degraded" else "Waiting for"
            return f"{opening}: {', '.join(self.waits_for)}"
        count = sum(each.phase == "Ready" for each in self.modules.values())
        told = f"{count} module{'' if count == 1 else 's'}" if count else "nothing"
        return f"Everything works that is switched on: {told}."


def comparable(appliance: Object) -> Object:
    """The status of an Appliance without times; conditions and checks by their names."""
    status = dict(appliance.get("status", {}))
    timed = {"type", "lastTransitionTime"}
    status["conditions"] = {
        each["type"]: {name: value for name, value in each.items() if name not in timed}
        for each in status.get("conditions", [])
    }
    status["hardwareOperators"] = {
        name: {**entry, "checks": {each["name"]: each["status"] for each in entry.get("checks", [])}}
        for name, entry in status.get("hardwareOperators", {}).items()
    }
    return status


def differences(wanted: object, found: object, place: str = "status") -> list[str]:
    """Where two of these differ, a line each."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return [
            line
            for name in sorted({*wanted, *found})
            for line in differences(wanted.get(name), found.get(name), f"{place}.{name}")
        ]
    return [] if wanted == found else [f"{place}: wanted {wanted!r}, found {found!r}"]


@functools.cache
def shipped_modules() -> Mapping[str, Any]:
    """The module catalog as it is delivered, read as plain JSON."""
    data = yamls.load(CATALOG.read_text())["data"]
    modules: Mapping[str, Any] = json.loads(data["modules.json"])["modules"]
    return modules
