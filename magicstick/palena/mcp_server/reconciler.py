"""The reconciler of MCP servers: what it watches, and what it sees of one."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from magicstick.api.kinds import PALENA_MCP_SERVER
from magicstick.api.palena.mcp_server import PalenaMCPServerSpec
from magicstick.api.parse import parse
from magicstick.kube.errors import ApiError
from magicstick.kube.kinds import CONFIG_MAP, ObjectKey
from magicstick.palena.common.addresses import CLUSTER_DOMAIN
from magicstick.palena.common.declaring import declare
from magicstick.palena.common.edges import owned
from magicstick.palena.common.facts import PalenaFacts
from magicstick.palena.common.frame import Subject
from magicstick.palena.common.kinds import DEPLOYMENT, NETWORK_POLICY, SERVICE
from magicstick.palena.common.secrets import SECRET, Entropy, draw
from magicstick.palena.mcp_server.decide import decide, decide_failure
from magicstick.palena.mcp_server.objects import Names
from magicstick.palena.mcp_server.observation import McpServerObservation, places, secret_recipe
from magicstick.runtime.plan import Plan
from magicstick.runtime.reconciler import Declaration

NAME: Final = "palena-mcpserver"


class McpServerReconciler:
    """Keeps what each PalenaMCPServer needs, and its status.

    The watch needs: PalenaMCPServers, and the Deployments, Services, ConfigMaps, Secrets and NetworkPolicies
    that were made for them.
    """

    def __init__(self, facts: PalenaFacts, entropy: Entropy, *, domain: str = CLUSTER_DOMAIN) -> None:
        self._facts = facts
        self._entropy = entropy
        self._domain = domain

    @property
    def declaration(self) -> Declaration:
        """See `runtime.reconciler.Reconciler`."""
        return _DECLARATION

    def follow(self, wake: Callable[[Iterable[ObjectKey]], None]) -> None:
        """Nothing but watched objects matters here."""

    async def observe(self, key: ObjectKey) -> McpServerObservation | None:
        """See `runtime.reconciler.Reconciler`."""
        live = self._facts.find(PALENA_MCP_SERVER, *key)
        if live is None:
            return None
        subject = Subject(live, parse(PalenaMCPServerSpec, live), blind=self._facts.blind(MADE))
        if subject.blind:
            return McpServerObservation(subject)
        names = Names(key.name)
        present = self._facts.present(key.namespace, places(names))
        return McpServerObservation(
            subject,
            present,
            draw(secret_recipe(names), present.get((SECRET, names.secret)), self._entropy),
            self._domain,
        )

    def decide(self, observation: McpServerObservation, now: datetime) -> Plan:
        """See `decide.decide`."""
        return decide(observation, now)

    def decide_failure(self, observation: McpServerObservation, error: ApiError, now: datetime) -> Plan:
        """See `decide.decide_failure`."""
        return decide_failure(observation, error, now)


MADE: Final = (DEPLOYMENT, SERVICE, CONFIG_MAP, SECRET, NETWORK_POLICY)
"""What is made for an MCP server; no decision is made while one of these cannot be read."""

_DECLARATION: Final = declare(
    NAME,
    PALENA_MCP_SERVER,
    writes=MADE,
    edges=(
        owned(DEPLOYMENT, PALENA_MCP_SERVER, "whether the server and its sidecars are ready"),
        owned(SERVICE, PALENA_MCP_SERVER, "whether they are reached as they should be"),
        owned(CONFIG_MAP, PALENA_MCP_SERVER, "whether their configuration is as it should be"),
        owned(SECRET, PALENA_MCP_SERVER, "whether SearXNG has what it signs with", labelled=False),
        owned(NETWORK_POLICY, PALENA_MCP_SERVER, "whether only the server reaches the sidecars"),
    ),
)
