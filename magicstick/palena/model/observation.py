"""Everything that a decision about one model is made from, as one frozen value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from magicstick.api.base import HOME_NAMESPACE
from magicstick.api.kinds import PALENA_MODEL
from magicstick.api.palena.model import PalenaModelSpec
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.palena.common.observing import Observed
from magicstick.palena.common.references import Target
from magicstick.palena.common.schemas import SchemaNode
from magicstick.palena.common.secrets import SecretValue
from magicstick.palena.common.verdicts import Verdict
from magicstick.palena.model.objects import Source

KUBEAI: Final = "http://kubeai.ai.svc.cluster.local/openai/v1"
"""Where the appliance's models answer that KubeAI serves (spec: palena §12.3)."""
ACTIVATION_HOME: Final = HOME_NAMESPACE


@dataclass(frozen=True, slots=True)
class Bridged:
    """What a ModelActivation of the appliance gives: where it answers, or why it does not."""

    source: Source | None = None
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class GatewayRef:
    """One gateway that the model names, and what there is of the model on it."""

    target: Target
    child: Resource | None = None
    """What there is under the child's name, whosever it is."""
    credentials: Resource | None = None
    """What there is under the name of the copied key, whosever it is."""

    @property
    def namespace(self) -> str:
        """Where the gateway is, and with it the child."""
        return self.target.namespace


@dataclass(frozen=True, slots=True)
class ModelObservation(Observed[PalenaModelSpec]):
    """One model, its gateways, and everything that was ever made for it, read at one moment."""

    KIND: ClassVar = PALENA_MODEL

    refs: tuple[GatewayRef, ...] = ()
    """In the order of the spec."""
    api_key: SecretValue | None = field(default=None, repr=False)
    """The provider's key; None where the model names none."""
    bridged: Bridged | None = None
    """None where the model names a provider."""
    owned: tuple[tuple[Kind, Resource], ...] = field(default=(), repr=False)
    """All LiteLLMModels and copied keys that were made for this model, in every namespace."""
    schema: SchemaNode | None = field(default=None, repr=False)
    refused: Mapping[ObjectKey, Verdict] = field(default_factory=dict)
    """Children that could not be written in this pass, and why."""
