"""Everything that a decision about one UI is made from, as one frozen value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from magicstick.api.kinds import PALENA_UI
from magicstick.api.palena.ui import MCPServerRef, PalenaUISpec
from magicstick.kube.kinds import CONFIG_MAP, Kind
from magicstick.kube.objects import Resource
from magicstick.palena.common.addresses import CLUSTER_DOMAIN
from magicstick.palena.common.desired import Desired
from magicstick.palena.common.facts import Place
from magicstick.palena.common.kinds import (
    DEPLOYMENT,
    INGRESS,
    PERSISTENT_VOLUME_CLAIM,
    SERVICE,
    STATEFUL_SET,
)
from magicstick.palena.common.observing import Observed
from magicstick.palena.common.owners import is_foreign
from magicstick.palena.common.prerequisites import Prerequisites
from magicstick.palena.common.references import Target
from magicstick.palena.common.schemas import SchemaNode
from magicstick.palena.common.secrets import SECRET, Fresh
from magicstick.palena.ui.names import Names


@dataclass(frozen=True, slots=True)
class FoundServer:
    """An MCP server that the UI refers to, and what there is of it."""

    reference: MCPServerRef
    target: Target
    port: int = 8080
    """Of its Service."""

    @property
    def usable(self) -> bool:
        """Whether it exists and may be used from here."""
        return self.target.live is not None and self.target.permitted


@dataclass(frozen=True, slots=True)
class VirtualKeys:
    """What there is of the key that the gateway mints for the UI."""

    served: Prerequisites = field(default_factory=Prerequisites)
    schema: SchemaNode | None = None
    """With which the kind is served; None while it cannot be read."""
    live: tuple[Resource, ...] = ()
    """All keys that were made for the UI, beside whatever gateway."""
    wanted: Resource | None = None
    """What has the name of the wanted one beside the gateway, whosever it is."""
    minted: Resource | None = None
    """The Secret beside the gateway."""
    unknown: str = ""
    """Why what there is cannot be told now; "" when it can."""


@dataclass(frozen=True, slots=True)
class UiObservation(Observed[PalenaUISpec]):
    """One UI and its surroundings, read from the caches at one moment."""

    KIND: ClassVar = PALENA_UI

    gateway: Target
    keys: VirtualKeys = field(default_factory=VirtualKeys)
    servers: tuple[FoundServer, ...] = ()
    """In the order of the spec."""
    models: tuple[str, ...] = ()
    """What the gateway's models are called, sorted; whether they are ready makes no difference."""
    live: Mapping[Place, Resource] = field(default_factory=dict)
    """What has the name of one of our objects, whosever it is."""
    secrets: Mapping[str, Resource] = field(default_factory=dict, repr=False)
    """Secrets beside the UI that its spec names, by name."""
    fresh: Fresh = field(default_factory=Fresh)
    growing: frozenset[str] = frozenset()
    """The names of its volumes that may grow."""
    domain: str = CLUSTER_DOMAIN

    @property
    def names(self) -> Names:
        """What its objects are called."""
        return Names(self.name)

    def ours(self, kind: Kind, name: str) -> Resource | None:
        """An object of this UI's, if there is one."""
        found = self.live.get((kind, name))
        return None if is_foreign(found, self.owner) else found

    def desired(self, kind: Kind, body: dict[str, Any]) -> Desired:
        """An object beside it that is to be there, next to what is there."""
        return Desired(kind, body, self.live.get((kind, body["metadata"]["name"])))


def places(names: Names) -> tuple[Place, ...]:
    """Every object beside a UI that it may ever have, or has to know of."""
    return (
        (SECRET, names.secrets),
        (SECRET, names.gateway_key),
        (CONFIG_MAP, names.configuration),
        (STATEFUL_SET, names.mongodb),
        (SERVICE, names.mongodb),
        (PERSISTENT_VOLUME_CLAIM, names.mongodb_claim),
        (DEPLOYMENT, names.meilisearch),
        (SERVICE, names.meilisearch),
        (PERSISTENT_VOLUME_CLAIM, names.meilisearch),
        (DEPLOYMENT, names.librechat),
        (SERVICE, names.librechat),
        (INGRESS, names.librechat),
        (PERSISTENT_VOLUME_CLAIM, names.data),
    )
