"""Where a cluster keeps its things, which ports it has, and who may talk to it."""

import json
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

LOOPBACK = "127.0.0.1"
ADMIN = "admin"
# user name -> groups. Names as in a real cluster, so that the audit log reads like one.
USERS: dict[str, tuple[str, ...]] = {
    ADMIN: ("system:masters",),
    "system:kube-controller-manager": (),
    "system:kube-scheduler": (),
    "kwok": ("system:masters",),
    "kustomize-controller": ("system:masters",),
    "git-source": ("system:masters",),
    "actors": ("system:masters",),
    "envoy-gateway": ("system:masters",),
}


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on right now, all different.

    Another process may still take one before we do; starting is tried again then.
    """
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


@dataclass(frozen=True, slots=True)
class Ports:
    """One loopback port for each listener."""

    etcd: int
    etcd_peer: int
    apiserver: int
    scheduler: int
    kwok: int
    kustomize_controller: int
    kustomize_metrics: int
    git_source: int
    actors: int
    litellm: int
    envoy_gateway: int
    envoy_gateway_admin: int

    @classmethod
    def choose(cls) -> "Ports":
        """Takes free ones."""
        return cls(*free_ports(len(cls.__dataclass_fields__)))


@dataclass(frozen=True, slots=True)
class Layout:
    """Files below one directory. Nothing of a cluster is anywhere else."""

    directory: Path

    @property
    def ca_file(self) -> Path:
        """Certificates that verify the API server: it signs its own at its first start."""
        return self.certificates / "apiserver.crt"

    @property
    def signing_key(self) -> Path:
        """The serving key signs service account tokens too: the API server has made it before it needs it."""
        return self.certificates / "apiserver.key"

    @property
    def certificates(self) -> Path:
        """The API server's --cert-dir."""
        return self.directory / "certificates"

    @property
    def etcd_data(self) -> Path:
        """Everything that is stored."""
        return self.directory / "etcd"

    @property
    def audit_log(self) -> Path:
        """JSON lines."""
        return self.directory / "audit.jsonl"

    @property
    def token_file(self) -> Path:
        """The API server's --token-auth-file."""
        return self.directory / "tokens.csv"

    @property
    def logs(self) -> Path:
        """One file for each component."""
        return self.directory / "logs"

    @property
    def scratch(self) -> Path:
        """TMPDIR of the components."""
        return self.directory / "tmp"

    @property
    def gateway(self) -> Path:
        """What Envoy Gateway reads: its configuration, and its certificates in `certs`."""
        return self.directory / "envoy-gateway"

    def log(self, name: str) -> Path:
        """The log of one component."""
        return self.logs / f"{name}.log"

    def kubeconfig(self, user: str = ADMIN) -> Path:
        """The kubeconfig of one of USERS."""
        return self.directory / ("kubeconfig" if user == ADMIN else f"kubeconfig-{user.replace(':', '-')}")

    def create(self) -> dict[str, str]:
        """Makes folders and tokens, keeps those of an earlier start, and returns the tokens by user name."""
        for folder in (self.directory, self.certificates, self.etcd_data, self.logs, self.scratch):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        tokens = self._read_tokens()
        tokens |= {user: secrets.token_urlsafe(32) for user in USERS if user not in tokens}
        rows = (f'{token},{user},{user},"{",".join(USERS[user])}"\n' for user, token in tokens.items())
        write_private(self.token_file, "".join(rows))
        return tokens

    def write_kubeconfigs(self, url: str, tokens: dict[str, str]) -> None:
        """One for each user; they name the certificates by path, which appear once the server has started."""
        for user, token in tokens.items():
            write_private(self.kubeconfig(user), kubeconfig(url, token, self.ca_file))

    def _read_tokens(self) -> dict[str, str]:
        if not self.token_file.exists():
            return {}
        rows = [line.split(",", 2) for line in self.token_file.read_text().splitlines()]
        return {user: token for token, user, _ in rows if user in USERS}


def kubeconfig(url: str, token: str, ca_file: Path) -> str:
    """A kubeconfig with one context, `devcluster`."""
    name = "devcluster"
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": url, "certificate-authority": str(ca_file)}}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        },
        sort_keys=False,
    )


def write_private(file: Path, content: str) -> None:
    """Replaces a file in one step; only its owner may read it."""
    partial = file.with_name(f".{file.name}.partial")
    partial.touch(mode=0o600)
    partial.write_text(content)
    partial.replace(file)


def write_json(file: Path, content: dict[str, object] | Sequence[object]) -> None:
    """Replaces a JSON file in one step."""
    write_private(file, json.dumps(content, indent=2) + "\n")
