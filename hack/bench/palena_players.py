"""Whoever acts around gateways besides the operator, played as fast as this process can.

Clusters are healthy, Redis and LiteLLM run and models are known to their proxy at once.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from hack.bench import palena_objects as objects
from hack.bench.players import Changed, Players
from hack.devcluster.actors.following import Object

REPORTS: Final[Mapping[str, Callable[[Object], dict[str, Any]]]] = {
    objects.CLUSTERS: objects.healthy,
    objects.STATEFUL_SETS: objects.running,
    objects.INSTANCES: objects.serving,
    objects.CHILDREN: objects.synced,
}
"""What is reported of each collection's objects, once in each generation."""


class PalenaPlayers(Players):
    """See the module. Gateways and models are counted; their goal is to be Running."""

    def _followed(self) -> Mapping[str, Changed]:
        work = {path: self._reporting(path, status) for path, status in REPORTS.items()}
        return {
            **{path: self._each_generation(each) for path, each in work.items()},
            objects.CLUSTERS: self._each_generation(self._serve_cluster),
            **{path: self._counting("Running") for path in (objects.GATEWAYS, objects.MODELS)},
        }

    async def _serve_cluster(self, cluster: Object) -> None:
        """CloudNativePG makes the Secret with the connection before it says that a Cluster serves."""
        await self._client.create(objects.SECRETS, objects.connection(cluster))
        await self._reporting(objects.CLUSTERS, objects.healthy)(cluster)
