"""What models need of the rest of the operator, as protocols, and what stands in while nobody answers.

The seams of later parts are here, each with what models do until it is filled: they wait, and say for
what. Nothing is taken for true that nobody has looked at.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from magicstick.catalogs.compute_targets import ComputeTargetCatalog
from magicstick.catalogs.modules import ModuleCatalog
from magicstick.catalogs.presets import PresetCatalog
from magicstick.hostops.facts import Gate
from magicstick.kube.kinds import ObjectKey
from magicstick.models.observation import EngineCheck, Sharing
from magicstick.models.questions import Question

WakeUp = Callable[[Iterable[ObjectKey]], None]
"""Puts keys into a controller's queue: `runtime.controller.Controller.wake`."""


class Catalogs(Protocol):
    """The catalogs that models are resolved with; `catalogs.loader.Catalogs` is the real one."""

    @property
    def modules(self) -> ModuleCatalog | None:
        """The last good copy; None before the first."""
        ...

    @property
    def compute_targets(self) -> ComputeTargetCatalog | None:
        """The last good copy; None before the first."""
        ...

    @property
    def presets(self) -> PresetCatalog | None:
        """The last good copy; None while not known."""
        ...

    def subscribe(self, handler: Callable[[str, Any, Any], None]) -> None:
        """Call `handler(name, old copy, new copy)` after each change of a catalog or of its problem."""
        ...


class ModelSettings(Protocol):
    """What the reconciler needs of the settings; `runtime.settings.Settings` has all of it."""

    @property
    def requeue_seconds(self) -> float: ...  # noqa: D102 - named like its variable


class CacheGate(Protocol):
    """Whether the model cache is being cleared; `hostops.facts.HostOperationFacts` is the real one."""

    def cache_cleanup(self, now: datetime) -> Gate:
        """Whether local models have to wait at this moment."""
        ...


class Publication(Protocol):
    """What the model catalog lists (spec: models §11)."""

    def published(self, name: str, namespace: str) -> bool | None:
        """Whether it lists the model; None while nobody can tell."""
        ...

    def follow(self, wake: WakeUp) -> None:
        """Have `wake` called with the activations of models that came or went."""
        ...


class EngineChecks(Protocol):
    """What running models say of themselves over HTTP (spec: models §10.3, §10.4, §13)."""

    def check(self, key: ObjectKey, question: Question | None) -> EngineCheck:
        """The last answer of the model of an activation to this question.

        Never waits: whoever asks the runtime remembers. With None there is nothing to ask any more.
        """
        ...

    def follow(self, wake: WakeUp) -> None:
        """Have `wake` called with the activations whose answer changed."""
        ...


class GpuSharing(Protocol):
    """How GPUs are shared, and who holds a slot (spec: models §8.5)."""

    def sharing(self, target: str, name: str, namespace: str) -> Sharing | None:
        """What holds for a model on a compute target; None where sharing is not managed."""
        ...

    def follow(self, wake: WakeUp) -> None:
        """Have `wake` called with the activations for which something else holds now."""
        ...


class NobodyKnows:
    """Fills every seam that no part of the operator fills: nothing is known, nothing is shared."""

    def published(self, name: str, namespace: str) -> bool | None:  # noqa: ARG002 - as the protocol says
        """See `Publication`."""
        return None

    def check(self, key: ObjectKey, question: Question | None) -> EngineCheck:  # noqa: ARG002 - as above
        """See `EngineChecks`."""
        return EngineCheck()

    def sharing(self, target: str, name: str, namespace: str) -> Sharing | None:  # noqa: ARG002 - as above
        """See `GpuSharing`."""
        return None

    def follow(self, wake: WakeUp) -> None:
        """There is no news."""


@dataclass(frozen=True, slots=True)
class Seams:
    """The parts that may be filled later, each for itself."""

    publication: Publication = field(default_factory=NobodyKnows)
    checks: EngineChecks = field(default_factory=NobodyKnows)
    sharing: GpuSharing = field(default_factory=NobodyKnows)
