"""The operator as a child process: its own service account, its log in a file, its end with ours."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import yaml

from hack.dev.appliance import NAMESPACE, SERVICE_ACCOUNT
from hack.devcluster import DevCluster

STOP_TIMEOUT_S = 25
TOKEN_S = 24 * 3600


class OperatorProcess:
    """Runs `magicstick run` until `stop`."""

    def __init__(self, cluster: DevCluster, directory: Path, *, as_admin: bool = False) -> None:
        self.log = directory / "operator.log"
        self._kubeconfig = directory / "operator.kubeconfig"
        kubeconfig = cluster.kubeconfig if as_admin else self._own_kubeconfig(cluster)
        with self.log.open("wb") as sink:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "magicstick", "run"],
                stdout=sink,
                stderr=sink,
                env={
                    **os.environ,
                    "KUBECONFIG": str(kubeconfig),
                    "HEALTH_BIND_ADDRESS": "127.0.0.1:0",
                    "METRICS_BIND_ADDRESS": "127.0.0.1:0",
                },
                start_new_session=True,  # Ctrl-C reaches us; we decide about the order of ending
            )

    def _own_kubeconfig(self, cluster: DevCluster) -> Path:
        """The administrator's kubeconfig with the service account's token in place of the credentials."""
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        token = cluster.service_account_token(NAMESPACE, SERVICE_ACCOUNT, seconds=TOKEN_S)
        for user in config["users"]:
            user["user"] = {"token": token}
        self._kubeconfig.touch(mode=0o600)
        self._kubeconfig.write_text(yaml.safe_dump(config))
        return self._kubeconfig

    def ended(self) -> int | None:
        """The exit code, once it has ended."""
        return self._process.poll()

    def tail(self, lines: int = 15) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self) -> None:
        """Ask it to end, and make it end after a while."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
