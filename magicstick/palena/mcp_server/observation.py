"""Everything that a decision about one MCP server is made from, as one frozen value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from magicstick.api.kinds import PALENA_MCP_SERVER
from magicstick.api.palena.mcp_server import PalenaMCPServerSpec
from magicstick.kube.kinds import CONFIG_MAP, Kind
from magicstick.kube.objects import Resource
from magicstick.palena.common.addresses import CLUSTER_DOMAIN
from magicstick.palena.common.desired import Desired
from magicstick.palena.common.facts import Place
from magicstick.palena.common.kinds import DEPLOYMENT, NETWORK_POLICY, SERVICE
from magicstick.palena.common.observing import Observed
from magicstick.palena.common.secrets import SECRET, Fresh, SecretRecipe
from magicstick.palena.mcp_server.components import SEARXNG, SEARXNG_KEY, SIDECARS
from magicstick.palena.mcp_server.objects import Names

SIDECAR_KINDS: Final = (NETWORK_POLICY, DEPLOYMENT, SERVICE)


@dataclass(frozen=True, slots=True)
class McpServerObservation(Observed[PalenaMCPServerSpec]):
    """One MCP server and what there is under the names of its objects, read at one moment."""

    KIND: ClassVar = PALENA_MCP_SERVER

    live: Mapping[Place, Resource] = field(default_factory=dict)
    """Whosever it is; what does not exist is left out."""
    fresh: Fresh = field(default_factory=Fresh)
    domain: str = CLUSTER_DOMAIN

    @property
    def names(self) -> Names:
        """What its objects are called."""
        return Names(self.name)

    def desired(self, kind: Kind, body: dict[str, Any]) -> Desired:
        """An object beside it that is to be there, next to what is there."""
        return Desired(kind, body, self.live.get((kind, body["metadata"]["name"])))


def secret_recipe(names: Names) -> SecretRecipe:
    """The Secret that SearXNG signs with."""
    return SecretRecipe(names.secret, SEARXNG, {SEARXNG_KEY: lambda entropy: entropy.hex(64)})


def places(names: Names) -> tuple[Place, ...]:
    """Every object that an MCP server may ever have."""
    return (
        (SECRET, names.secret),
        (CONFIG_MAP, names.settings),
        (CONFIG_MAP, names.configuration),
        (DEPLOYMENT, names.server),
        (SERVICE, names.server),
        *((kind, names.sidecar(sidecar)) for sidecar in SIDECARS for kind in SIDECAR_KINDS),
    )
