"""Our programs as child processes: with their own service accounts, logs in files, and an end with ours."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from hack.dev.appliance import NAMESPACE, SERVICE_ACCOUNT
from hack.devcluster import DevCluster
from hack.devcluster.process import ManagedProcess, tail

STOP_TIMEOUT_S = 25.0
TOKEN_S = 24 * 3600


@dataclass(frozen=True, slots=True)
class Account:
    """A service account; without one, the administrator."""

    namespace: str
    name: str


class Program:
    """Runs a command of `magicstick` until `stop`, and never longer than this process."""

    def __init__(
        self,
        cluster: DevCluster,
        directory: Path,
        name: str,
        command: str,
        account: Account | None,
        env: Mapping[str, str],
    ) -> None:
        self.log = directory / f"{name}.log"
        self.log.unlink(missing_ok=True)
        self.name = name
        kubeconfig = (
            cluster.kubeconfig if account is None else _own_kubeconfig(cluster, directory, name, account)
        )
        self._process = ManagedProcess(
            name,
            [sys.executable, "-m", "magicstick", command],
            self.log,
            {
                "KUBECONFIG": str(kubeconfig),
                "HEALTH_BIND_ADDRESS": "127.0.0.1:0",
                "METRICS_BIND_ADDRESS": "127.0.0.1:0",
                **env,
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


class OperatorProcess(Program):
    """`magicstick run`."""

    def __init__(
        self,
        cluster: DevCluster,
        directory: Path,
        *,
        as_admin: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        account = None if as_admin else Account(NAMESPACE, SERVICE_ACCOUNT)
        super().__init__(cluster, directory, "operator", "run", account, environment or {})


def _own_kubeconfig(cluster: DevCluster, directory: Path, name: str, account: Account) -> Path:
    """The administrator's kubeconfig with the service account's token in place of the credentials."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    token = cluster.service_account_token(account.namespace, account.name, seconds=TOKEN_S)
    for user in config["users"]:
        user["user"] = {"token": token}
    kubeconfig = directory / f"{name}.kubeconfig"
    kubeconfig.unlink(missing_ok=True)
    # Nobody else may read it, not even between its creation and its first byte.
    with os.fdopen(os.open(kubeconfig, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as sink:
        yaml.safe_dump(config, sink)
    return kubeconfig
