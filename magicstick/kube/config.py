"""Where the API server is and how to authenticate, as kubectl knows it."""

import asyncio
import os
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import structlog

from magicstick.kube.credentials import ConfigError, Credentials, CredentialSource, TlsMaterial
from magicstick.kube.kubeconfig import KubeconfigSource, kubeconfig_files
from magicstick.kube.service_account import HOST, ServiceAccountSource

REREAD_AFTER_S = 60.0
"""Credentials are read anew at most this often, and at once when they were refused."""
REFUSED_AFTER_S = 1.0
"""What was read less than this ago is not read anew for a refusal either: a server that refuses
everything must not make us run an exec plugin for each request."""

log = structlog.get_logger(__name__)


class ClusterConfig:
    """Address, TLS and credentials of one API server.

    Guarantees: tokens, client certificates and authorities that rotate are taken over within
    `REREAD_AFTER_S`, and at once after a refusal. Once loaded it never fails: a source that cannot be
    read for a while leaves the last credentials in use, with a warning in the log.

    Assumes that the address stays: a source that names another later is another cluster.
    """

    def __init__(
        self,
        source: CredentialSource,
        credentials: Credentials,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Use `load`. ConfigError when the certificates cannot be used."""
        self.url = credentials.url
        self.description = source.description
        """Where the configuration came from, for messages and logs; holds no secret."""
        self.tls: ssl.SSLContext | None = None
        """For new connections, None for plain HTTP; another object after a rotation."""
        self._source = source
        self._clock = clock
        self._tls_material: TlsMaterial | None = None
        self._take(credentials)
        self._read_at = clock()
        self._reading = asyncio.Lock()
        self._stale = False

    @classmethod
    async def load(
        cls, kubeconfig: Path | None = None, context: str | None = None, *, in_cluster_url: str | None = None
    ) -> Self:
        """Find the configuration.

        A kubeconfig that was asked for, by argument or `$KUBECONFIG`, comes first; then the inside of a
        cluster; then the kubeconfig in the home directory.

        Args:
            kubeconfig: a file, in place of `$KUBECONFIG` and the default.
            context: a context, in place of the current one.
            in_cluster_url: where a Pod reaches the API server, in place of `KUBERNETES_SERVICE_HOST`.

        Raises:
            ConfigError: naming the file and field that is wrong.
        """
        asked = kubeconfig is not None or context is not None or bool(os.environ.get("KUBECONFIG"))
        source: CredentialSource
        if not asked and (in_cluster_url or os.environ.get(HOST)):
            source = ServiceAccountSource(in_cluster_url)
        else:
            source = KubeconfigSource(kubeconfig_files(kubeconfig), context)
        return await cls.of(source)

    @classmethod
    async def of(cls, source: CredentialSource, *, clock: Callable[[], float] = time.monotonic) -> Self:
        """From a source. ConfigError as `load`."""
        return cls(source, await source.read(fresh=False), clock=clock)

    @classmethod
    def plain(cls, url: str, *, token: str | None = None, ca_file: Path | None = None) -> Self:
        """A fixed address and token, for tests and tools."""
        source = _Fixed(url, token, ca_file)
        return cls(source, source.credentials)

    @property
    def server_name(self) -> str | None:
        """The name that the server's certificate has, where it is not the host of the URL."""
        return self._credentials.server_name

    @property
    def proxy(self) -> str | None:
        """The URL of an HTTP proxy. May hold a password."""
        return self._credentials.proxy

    async def authorization(self, *, refused: bool = False) -> str | None:
        """The value of the Authorization header; None where a client certificate or nothing is used.

        `refused` says that the server did not accept the last one.
        """
        if not refused and (self._reading.locked() or self._age() < REREAD_AFTER_S):
            return self._credentials.authorization
        async with self._reading:
            # Whoever waited here finds what the first one read.
            if self._age() >= (REFUSED_AFTER_S if refused else REREAD_AFTER_S):
                await self._reread(refused=refused)
        return self._credentials.authorization

    def _age(self) -> float:
        return self._clock() - self._read_at

    async def _reread(self, *, refused: bool) -> None:
        try:
            self._take(await self._source.read(fresh=refused))
        except ConfigError as error:
            if not self._stale:
                log.warning(
                    "credentials cannot be read; keeping the last", source=self.description, error=str(error)
                )
            self._stale = True
        else:
            self._stale = False
        finally:
            self._read_at = self._clock()

    def _take(self, credentials: Credentials) -> None:
        if credentials.tls is not None and credentials.tls != self._tls_material:
            try:
                self.tls = credentials.tls.context()
            except (OSError, ValueError) as error:
                raise ConfigError(f"{self.description}: the certificates cannot be used: {error}") from error
            self._tls_material = credentials.tls
        self._credentials = credentials


class _Fixed:
    """Credentials that never change."""

    def __init__(self, url: str, token: str | None, ca_file: Path | None) -> None:
        self.description = url
        tls = TlsMaterial.read(ca_file, "", "", verify=True) if url.startswith("https://") else None
        self.credentials = Credentials(url.rstrip("/"), f"Bearer {token}" if token else None, tls)

    async def read(self, *, fresh: bool) -> Credentials:  # noqa: ARG002 # nothing is fresher
        return self.credentials


__all__ = ["ClusterConfig", "ConfigError"]
