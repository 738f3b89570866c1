"""A whole cluster with an appliance on it, and what users, Git and chance do to it."""

import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar

from hack.dev.appliance import FLUX, NAMESPACE, OURS
from hack.dev.operator import OperatorProcess
from hack.dev.view import condition, phase_of
from hack.devcluster import DevCluster
from hack.devcluster.rest import ApiError, Object
from hack.devcluster.waiting import wait_until

GROUP = "appliance.magicstick.dev/v1alpha1"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/magicstick-operator"
DEADLINE_S = 60.0
STEADY_S = 1.0
T = TypeVar("T")


def steadily(look: Callable[[], T | None]) -> Callable[[], tuple[T] | None]:
    """What `look` finds, once that has been the same for a while; None while nothing counts yet.

    Made anew for each wait.
    """
    seen: tuple[float, T | None] = (0.0, None)

    def steady() -> tuple[T] | None:
        nonlocal seen
        now, found = time.monotonic(), look()
        if found is None or found != seen[1]:
            seen = (now, found)
        return None if found is None or now - seen[0] < STEADY_S else (found,)

    return steady


class Stand:
    """See the module. `tree` is what Git has: change files there, and Flux gets them."""

    def __init__(self, cluster: DevCluster, tree: Path, directory: Path) -> None:
        self.cluster = cluster
        self.tree = tree
        self._directory = directory
        self._operator: OperatorProcess | None = None

    # -- the operator -------------------------------------------------------------------------------

    def start_operator(self) -> None:
        """As a process of its own, with its own account."""
        self._operator = OperatorProcess(self.cluster, self._directory)

    def kill_operator(self) -> None:
        """As a crash would, save that the lease goes with it.

        A successor would wait for it to expire. That it does has tests of its own; here the wait would be
        long, or the lease so short that a busy machine loses it.
        """
        assert self._operator is not None
        assert self._operator.ended() is None, f"it had ended by itself:\n{self._operator.tail()}"
        self._operator.kill()
        self._operator = None
        if self.get(LEASE) is not None:
            self.delete(LEASE)

    def stop_operator(self) -> None:
        """If it runs."""
        if self._operator is not None:
            self._operator.stop()

    # -- reading ------------------------------------------------------------------------------------

    def get(self, path: str) -> Object | None:
        """An object; None when it is not there."""
        try:
            return self.cluster.rest.get(path)
        except ApiError as error:
            if error.code == HTTPStatus.NOT_FOUND:
                return None
            raise

    def uid(self, path: str) -> str:
        """The identity of an object; empty when it is not there or is being deleted."""
        found = self.get(path)
        if found is None or "deletionTimestamp" in found["metadata"]:
            return ""
        return str(found["metadata"]["uid"])

    def activation(self, name: str) -> Object:
        """A ModuleActivation; empty when it is not there."""
        return self.get(f"{OURS}/moduleactivations/{name}") or {}

    def kustomization(self, name: str) -> Object:
        """A Kustomization; empty when it is not there."""
        return self.get(f"{FLUX}/{name}") or {}

    def suspended(self, name: str) -> bool | None:
        """Whether a Kustomization is suspended; None when it is not there."""
        found = self.kustomization(name)
        return bool(found["spec"].get("suspend")) if found else None

    # -- waiting ------------------------------------------------------------------------------------

    def until(self, what: str, holds: Callable[[], T | None], *, deadline_s: float = DEADLINE_S) -> T:
        """Wait for a condition and return what it held with; fails with the state of all modules later."""
        try:
            return wait_until(holds, what, deadline_s)
        except Exception as error:
            raise AssertionError(f"{error}\n{self.describe()}") from error

    def until_gone(self, path: str) -> None:
        """Wait until an object is not there any more."""
        self.until(f"{path} to be gone", lambda: self.get(path) is None)

    def until_phase(self, name: str, phase: str) -> None:
        """Wait until a module is reported in this phase, for its present spec."""
        self.until(
            f"{name} to be {phase}",
            lambda: (found := self.activation(name)) and phase_of(found) == phase,
        )

    def until_appliance(self, phase: str) -> None:
        """Wait until the Appliance is reported in this phase."""
        self.until(
            f"the Appliance to be {phase}",
            lambda: (found := self.get(f"{OURS}/appliances/local")) and phase_of(found) == phase,
        )

    def describe(self) -> str:
        """All modules and Kustomizations, a line each."""
        listed = [
            item
            for path in (f"{OURS}/appliances", f"{OURS}/moduleactivations", FLUX)
            for item in self.cluster.rest.get(path)["items"]
        ]
        return "\n".join(
            f"{item['metadata']['name']}: {item.get('status', {}).get('phase', '')} "
            f"suspend={item['spec'].get('suspend')} {dict(condition(item, 'Ready'))}"
            for item in listed
        )

    # -- acting -------------------------------------------------------------------------------------

    def activate(self, module: str, **spec: object) -> None:
        """Change a module as a user would."""
        namespace = OURS.rsplit("/", 1)[1]
        body = {
            "apiVersion": GROUP,
            "kind": "ModuleActivation",
            "metadata": {"name": module, "namespace": namespace},
            "spec": {"module": module, **spec},
        }
        self.cluster.rest.apply(body, field_manager="user")

    def delete(self, path: str) -> None:
        """Delete an object as a user would."""
        self.cluster.rest.request("DELETE", path)
