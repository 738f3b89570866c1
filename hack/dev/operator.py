"""The operator as a child process: its own service account, its log in a file, its end with ours."""

import os
import sys
from pathlib import Path

import yaml

from hack.dev.appliance import NAMESPACE, SERVICE_ACCOUNT
from hack.devcluster import DevCluster
from hack.devcluster.process import ManagedProcess, tail

STOP_TIMEOUT_S = 25.0
TOKEN_S = 24 * 3600


class OperatorProcess:
    """Runs `magicstick run` until `stop`, and never longer than this process."""

    def __init__(self, cluster: DevCluster, directory: Path, *, as_admin: bool = False) -> None:
        self.log = directory / "operator.log"
        self.log.unlink(missing_ok=True)
        kubeconfig = cluster.kubeconfig if as_admin else _own_kubeconfig(cluster, directory)
        self._process = ManagedProcess(
            "operator",
            [sys.executable, "-m", "magicstick", "run"],
            self.log,
            {
                "KUBECONFIG": str(kubeconfig),
                "HEALTH_BIND_ADDRESS": "127.0.0.1:0",
                "METRICS_BIND_ADDRESS": "127.0.0.1:0",
            },
        )

    def ended(self) -> int | None:
        """The exit code, once it has ended."""
        return self._process.exit_code

    def tail(self, lines: int = 15) -> str:
        """The end of its log."""
        return tail(self.log, lines)

    def stop(self) -> None:
        """Ask it to end, and make it end after a while."""
        self._process.stop(STOP_TIMEOUT_S)

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()


def _own_kubeconfig(cluster: DevCluster, directory: Path) -> Path:
    """The administrator's kubeconfig with the service account's token in place of the credentials."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    token = cluster.service_account_token(NAMESPACE, SERVICE_ACCOUNT, seconds=TOKEN_S)
    for user in config["users"]:
        user["user"] = {"token": token}
    kubeconfig = directory / "operator.kubeconfig"
    kubeconfig.unlink(missing_ok=True)
    # Nobody else may read it, not even between its creation and its first byte.
    with os.fdopen(os.open(kubeconfig, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as sink:
        yaml.safe_dump(config, sink)
    return kubeconfig
