"""The current kubeconfig's cluster in place of one of ours."""

import os
import re
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NoReturn

from hack.devcluster.access import ClusterAccess
from hack.devcluster.audit import AuditMark, AuditRecord
from hack.devcluster.build import Builder
from hack.devcluster.cluster import READY_TIMEOUT_S, DevCluster, Log
from hack.devcluster.components import Component
from hack.devcluster.errors import AuditUnavailableError, DevClusterError
from hack.devcluster.process import guarded
from hack.devcluster.rest import Rest
from hack.devcluster.waiting import wait_until


class ExistingCluster(DevCluster):
    """Bound to a cluster that somebody else runs (USE_EXISTING_CLUSTER=1).

    `kubectl proxy` stands between, so that every way to authenticate works that kubectl knows. `url` is
    the proxy's; `kubeconfig` is the real one. What only the owner of a cluster can do raises.
    """

    def __init__(self, log: Log, builder: Builder) -> None:  # a proxy, no processes of a cluster
        """Starts the proxy."""
        kubeconfig = Path(os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config").expanduser()
        if os.pathsep in str(kubeconfig):
            raise DevClusterError("KUBECONFIG names several files; USE_EXISTING_CLUSTER takes one")
        kubectl = builder.ensure(["kubectl"])["kubectl"]
        command = guarded([str(kubectl), f"--kubeconfig={kubeconfig}", "proxy", "--port=0"])
        self._proxy = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self._proxy.stdout.readline() if self._proxy.stdout else ""
        address = re.search(r"127\.0\.0\.1:\d+", line)
        if address is None:
            self.stop()
            raise DevClusterError(f"kubectl proxy did not start with {kubeconfig}")
        url = f"http://{address.group()}"
        log(f"using the cluster of {kubeconfig}")
        ClusterAccess.__init__(self, url, kubeconfig, Rest(url, user_agent="devcluster"), builder)
        self.components = ()

    def stop(self) -> None:
        """Ends the proxy; the cluster stays."""
        if self._proxy.stdin and not self._proxy.stdin.closed:
            self._proxy.stdin.close()
            self._proxy.wait()
            if self._proxy.stdout:
                self._proxy.stdout.close()

    @property
    def litellm_url(self) -> NoReturn:
        """Not played here."""
        raise self._not_ours("LiteLLM")

    def start_component(self, name: Component | str) -> NoReturn:
        """Not possible here."""
        raise self._not_ours(name)

    def stop_component(self, name: Component | str) -> NoReturn:
        """Not possible here."""
        raise self._not_ours(name)

    def kill_component(self, name: Component | str) -> NoReturn:
        """Not possible here."""
        raise self._not_ours(name)

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """As for our own."""
        wait_until(lambda: self.rest.get("/readyz"), "the API server to be ready", timeout_s)

    def alive(self) -> dict[Component, bool]:
        """Empty: nothing here is ours."""
        return {}

    def component_log(self, name: Component | str) -> NoReturn:
        """Not possible here."""
        raise self._not_ours(name)

    def audit(
        self, user_agent: str | None = None, since: AuditMark | datetime | None = None
    ) -> Iterator[AuditRecord]:
        """Not possible here."""
        del user_agent, since  # the signature is the base class's
        raise AuditUnavailableError("the audit log of an existing cluster cannot be read")

    def audit_mark(self) -> NoReturn:
        """Not possible here."""
        raise AuditUnavailableError("the audit log of an existing cluster cannot be read")

    @staticmethod
    def _not_ours(name: Component | str) -> DevClusterError:
        return DevClusterError(f"{name} belongs to an existing cluster (USE_EXISTING_CLUSTER is set)")
