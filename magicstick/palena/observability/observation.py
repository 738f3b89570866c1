"""Everything that a decision about one observability is made from, as one frozen value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from magicstick.api.kinds import PALENA_OBSERVABILITY
from magicstick.api.palena.gateway import PalenaGatewaySpec
from magicstick.api.palena.observability import PalenaObservabilitySpec
from magicstick.kube.kinds import Kind
from magicstick.kube.objects import Resource
from magicstick.palena.common.addresses import CLUSTER_DOMAIN
from magicstick.palena.common.observing import Observed
from magicstick.palena.common.owners import is_foreign
from magicstick.palena.common.references import Target
from magicstick.palena.common.schemas import SchemaNode
from magicstick.palena.common.secrets import Fresh
from magicstick.palena.observability.callbacks import Shape
from magicstick.palena.observability.names import Names

Place = tuple[Kind, str, str]
"""An object by its kind, namespace and name."""


@dataclass(frozen=True, slots=True)
class Schemas:
    """How the foreign kinds are served; None for what cannot be read."""

    langfuse: SchemaNode | None = None
    litellm: SchemaNode | None = None
    cluster: SchemaNode | None = None
    database: SchemaNode | None = None
    role: SchemaNode | None = None
    roles_served: bool = False
    """Whether there are DatabaseRoles at all."""


@dataclass(frozen=True, slots=True)
class ObservabilityObservation(Observed[PalenaObservabilitySpec]):
    """One observability and its surroundings, read from the caches at one moment."""

    KIND: ClassVar = PALENA_OBSERVABILITY

    gateway: Target
    gateway_spec: PalenaGatewaySpec | None = None
    """None when there is no gateway, or its spec cannot be read."""
    live: Mapping[Place, Resource] = field(default_factory=dict, repr=False)
    """What has the name of one of our objects, or is named by a spec, whosever it is."""
    cluster: Resource | None = None
    """The gateway's Cluster."""
    instance: Resource | None = None
    """The gateway's LiteLLMInstance."""
    older: str = ""
    """The older observability of the same gateway that has the callback; "" when there is none."""
    schemas: Schemas = field(default_factory=Schemas)
    shape: Shape | None = None
    """Which callbacks the setting asks for; None to go by the served schema."""
    fresh_keys: Fresh = field(default_factory=Fresh)
    fresh_role: Fresh = field(default_factory=Fresh)
    domain: str = CLUSTER_DOMAIN

    @property
    def names(self) -> Names:
        """What its objects are called."""
        return Names(self.name)

    @property
    def elsewhere(self) -> bool:
        """Whether the gateway is in another namespace."""
        return self.gateway.namespace != self.namespace

    @property
    def gateway_lives(self) -> bool:
        """Whether the gateway is there and stays."""
        return self.gateway.live is not None and not self.gateway.live.metadata.dying

    def beside(self, kind: Kind, name: str) -> Resource | None:
        """What is there under a name beside the observability, whosever it is."""
        return self.live.get((kind, self.namespace, name))

    def at_gateway(self, kind: Kind, name: str) -> Resource | None:
        """What is there under a name beside the gateway, whosever it is."""
        return self.live.get((kind, self.gateway.namespace, name))

    def ours(self, found: Resource | None) -> Resource | None:
        """The object if it is this observability's, or may be taken over by it."""
        return None if is_foreign(found, self.owner) else found
