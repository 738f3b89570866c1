"""Everything that a decision about one model is made from, as one frozen value."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from magicstick.api import labels
from magicstick.api.model_activation import ModelActivationSpec
from magicstick.api.model_activation_status import ModelActivationStatus
from magicstick.api.parse import InvalidSpec
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.models.objects import serves
from magicstick.models.pods import PodView
from magicstick.models.resolved import Backend, ProfileChoice, ProfileWait, Refusal, Resolved
from magicstick.modules.facts import Readiness
from magicstick.runtime.plan import Create


class CheckState(Enum):
    """How an engine's own check of a running model ended."""

    PASSED = "passed"
    WAITING = "waiting"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """Nobody has looked yet, or nobody could."""


@dataclass(frozen=True, slots=True)
class EngineCheck:
    """What a running model says of itself over HTTP (spec: models §10.3, §10.4, §13).

    `probes` asks, through `ports.EngineChecks`. Ollama models need it (the alias in each Pod), and FreeToken
    models (their health); vLLM has none.
    """

    state: CheckState = CheckState.UNKNOWN
    message: str = ""
    memory_usage: Mapping[str, object] | None = None
    stats: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Sharing:
    """How the GPUs of the model's compute target are shared (spec: models §8.5, gpu §12 to §14).

    A seam: the part of the operator that shares GPUs fills it, through `ports.GpuSharing`.
    """

    phase: Literal["Ready", "Starting", "Switching", "Blocked"]
    mode: Literal["exclusive", "time-slicing", "dra-shared"]
    message: str = ""
    refused: str = ""
    """Why this model holds no slot; "" while it does. Never set because of a read that failed."""
    node: str = ""
    """The node whose GPU is shared; "" where the part that shares GPUs has named none."""
    node_uid: str = ""
    slots: int = 0
    """Models that the shared GPU takes at a time."""
    claim: str = ""
    """The ResourceClaim of the shared GPU, where it is shared by one."""
    device: str = ""
    """The shared GPU."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """An object of ours that serves the activation, by its labels, wherever it is and however it came."""

    kind: Kind
    live: Resource

    @property
    def place(self) -> tuple[Kind, ObjectKey]:
        """What distinguishes it from others."""
        return self.kind, self.live.metadata.key


@dataclass(frozen=True, slots=True)
class RequiredModule:
    """One module that the model needs."""

    name: str
    readiness: Readiness


@dataclass(frozen=True, slots=True)
class ModelObservation:
    """One activation and its surroundings, read from the caches at one moment."""

    activation: Resource
    spec: ModelActivationSpec | InvalidSpec
    status: ModelActivationStatus
    """What was reported last; trackers survive a restart in it."""
    resync_s: float = 20.0
    """After so many seconds everything is looked at anyway: a timer that ends sooner has to say so."""
    ours: bool = True
    """False when the activation belongs to another Appliance; nothing else counts then."""
    blind: str = ""
    """Why the objects that serve the model cannot be told now; "" when they can."""
    runtimes: tuple[Runtime, ...] = ()
    """All that serve this activation, of every backend and in every namespace."""
    cleanup: str = ""
    """Why no local runtime may be made or changed now: the model cache is being cleared; "" if it may."""
    unknown: str = ""
    """Why the model cannot be resolved now; "" when it can."""
    without_catalog: bool = False
    """Whether that is since there never was a good copy of a catalog."""
    sharing: Sharing | None = None
    """None where sharing is not managed."""
    resolved: Resolved | Refusal | None = None
    """None while it is not known, and for a model that nobody wants."""
    modules: tuple[RequiredModule, ...] = ()
    """What the model requires, in order."""
    requests: tuple[Create, ...] = ()
    """Makes the activations of required modules that have none."""
    kubeai_served: bool = True
    """False when the server certainly serves no KubeAI Models."""
    occupant: Resource | None = None
    """The KubeAI Model that has the name of ours, whosever it is."""
    profile: ProfileChoice | ProfileWait | None = None
    """The profile for the Model, once KubeAI has taken it; for models that KubeAI serves."""
    pods: tuple[PodView, ...] | None = ()
    """All Pods of the model's name in its namespace; None while they cannot be read."""
    descriptor: Resource | None = None
    """The ConfigMap that describes the FreeToken runtime; its absence counts while `descriptor_known`."""
    descriptor_known: bool = True
    """Whether it, or its absence, could ever be read."""
    check: EngineCheck = EngineCheck()
    published: bool | None = None
    """Whether the model catalog lists the model; None while nobody can tell: `catalog_facts`."""

    @property
    def name(self) -> str:
        """Of the activation, and of what serves it."""
        return self.activation.metadata.name

    @property
    def generation(self) -> int:
        """The generation that a status speaks of."""
        return self.activation.metadata.generation

    @property
    def dying(self) -> bool:
        """Whether the activation is being deleted."""
        return self.activation.metadata.dying

    @property
    def enabled(self) -> bool:
        """Whether the model is wanted; what is absent or no boolean does not switch it off."""
        return self.activation.spec.get("enabled") is not False

    @property
    def local(self) -> bool:
        """Whether it runs here. What is absent is local; an unknown type is not (spec: models §9 row 7)."""
        return bool(self.activation.spec.get("type", "local") == "local")

    @property
    def realtime(self) -> bool:
        """Whether the realtime runtime is asked for: the key alone decides (spec: realtime §2)."""
        return self.local and asks_for_realtime(self.activation)

    @property
    def serves_realtime(self) -> bool:
        """Whether a realtime runtime is asked for, or is left and has to go."""
        backend = Backend.REALTIME
        left = any(each.live.metadata.labels.get(labels.RUNTIME_BACKEND) == backend for each in self.runtimes)
        return self.realtime or left

    @property
    def namespace(self) -> str:
        """Where the model is served, as far as it is known."""
        return namespace_of(self.activation, self.spec)

    @property
    def model(self) -> Resource | None:
        """The KubeAI Model of ours that serves the activation at the place where it should."""
        return self.occupant if self.occupant is not None and serves(self.occupant, self.name) else None


def asks_for_realtime(activation: Resource) -> bool:
    """Whether a local model has the key `realtime`, whatever its value is."""
    local = activation.spec.get("local")
    return isinstance(local, Mapping) and "realtime" in local


def namespace_of(activation: Resource, spec: ModelActivationSpec | InvalidSpec) -> str:
    """Where a model is served; of a spec that cannot be read, as far as it says, else ""."""
    if not isinstance(spec, InvalidSpec):
        return spec.target_namespace
    namespace = activation.spec.get("targetNamespace")
    return namespace if isinstance(namespace, str) else ""
