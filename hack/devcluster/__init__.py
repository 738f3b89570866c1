"""A real Kubernetes control plane on loopback, for development, tests and benchmarks.

The programs are built from pinned Go modules (`tools/*/go.mod`) into a cache outside the repository and
started in a few seconds without containers or root. This package stands alone: it imports nothing of the
operator, so that it can never share one of its faults.

    from hack.devcluster import FULL, DevCluster

    with DevCluster.start(FULL) as cluster:
        print(cluster.kubeconfig)
"""

from hack.devcluster.audit import AuditMark, AuditRecord
from hack.devcluster.cluster import DevCluster
from hack.devcluster.components import (
    CONTROL_PLANE,
    FULL,
    WITH_ACTORS,
    WITH_CONTROLLERS,
    WITH_GATEWAY,
    Component,
)
from hack.devcluster.errors import AuditUnavailableError, BuildError, DevClusterError

__all__ = [
    "CONTROL_PLANE",
    "FULL",
    "WITH_ACTORS",
    "WITH_CONTROLLERS",
    "WITH_GATEWAY",
    "AuditMark",
    "AuditRecord",
    "AuditUnavailableError",
    "BuildError",
    "Component",
    "DevCluster",
    "DevClusterError",
]
