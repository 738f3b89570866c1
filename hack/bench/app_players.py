"""Whoever acts on instances besides the operator, played as fast as this process can.

Helm installs every release and Envoy Gateway accepts every policy, in each generation, at once.
"""

from collections.abc import Mapping

from hack.bench import app_objects as objects
from hack.bench.players import Changed, Players


class AppPlayers(Players):
    """See the module. Instances are counted; their goal is to be Ready."""

    def _followed(self) -> Mapping[str, Changed]:
        reports = {objects.RELEASES: objects.installed, objects.POLICIES: objects.accepted}
        return {
            **{path: self._each_generation(self._reporting(path, of)) for path, of in reports.items()},
            objects.INSTANCES: self._counting("Ready"),
        }
