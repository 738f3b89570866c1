"""Where the API server is and how to authenticate, as kubectl knows it.

kubernetes-asyncio reads kubeconfigs (contexts, exec plugins, client certificates, OIDC) and the
in-cluster service account. Importing it the ordinary way loads thousands of generated models (110 MiB,
1.3 s); `_enter_package` makes its packages known without running their `__init__`, so that only what
is needed here gets imported.
"""

import asyncio
import importlib.util
import os
import ssl
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubernetes_asyncio.client.configuration import Configuration

REREAD_AFTER_S = 60.0
"""Credentials are read anew at most this often, and at once after a 401."""


class ConfigError(Exception):
    """The configuration cannot be used; the message says which part, and what to do."""


def _enter_package(name: str, location: Path) -> ModuleType:
    """Make a package importable without running its `__init__`; one that is loaded stays."""
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__path__ = [str(location)]
    sys.modules[name] = module
    return module


def _library() -> "type[Configuration]":
    """The library's Configuration class; afterwards `kubernetes_asyncio.config` can be imported."""
    spec = importlib.util.find_spec("kubernetes_asyncio") if "kubernetes_asyncio" not in sys.modules else None
    if spec is not None and spec.origin is not None:
        root = Path(spec.origin).parent
        _enter_package("kubernetes_asyncio", root)
        _enter_package("kubernetes_asyncio.client.models", root / "client" / "models")
        client = _enter_package("kubernetes_asyncio.client", root / "client")
        from kubernetes_asyncio.client.configuration import Configuration  # noqa: PLC0415

        client.Configuration = Configuration  # type: ignore[attr-defined] # as its __init__ would do
        from kubernetes_asyncio.client.api_client import ApiClient  # noqa: PLC0415

        client.ApiClient = ApiClient  # type: ignore[attr-defined] # as its __init__ would do
    from kubernetes_asyncio.client.configuration import Configuration as Loaded  # noqa: PLC0415

    return Loaded


@dataclass(slots=True)
class ClusterConfig:
    """Address, TLS and credentials of one API server.

    `authorization` gives the header's value; it re-reads its source (token file, exec plugin,
    kubeconfig) at most every `REREAD_AFTER_S` seconds, and immediately when asked for a fresh one.
    """

    url: str
    tls: ssl.SSLContext | None
    description: str
    """Where the configuration came from, for messages and logs; holds no secret."""
    _read: Callable[[], Awaitable[str | None]] = field(repr=False)
    _value: str | None = field(default=None, repr=False)
    _read_at: float = field(default=-REREAD_AFTER_S * 2, repr=False)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    @classmethod
    def plain(cls, url: str, *, token: str | None = None, ca_file: Path | None = None) -> "ClusterConfig":
        """A fixed address and token, for tests and tools."""

        async def read() -> str | None:
            return f"Bearer {token}" if token else None

        tls = ssl.create_default_context(cafile=ca_file) if url.startswith("https") else None
        return cls(url.rstrip("/"), tls, url, read)

    @classmethod
    async def load(
        cls, kubeconfig: Path | None = None, context: str | None = None, *, in_cluster_url: str | None = None
    ) -> "ClusterConfig":
        """From a kubeconfig (argument, `$KUBECONFIG`, or the default place), else from inside the cluster.

        Raises:
            ConfigError: naming the file, context or field that is wrong.
        """
        explicit = kubeconfig is not None or bool(os.environ.get("KUBECONFIG"))
        if not explicit and os.environ.get("KUBERNETES_SERVICE_HOST"):
            return await cls._load_in_cluster(in_cluster_url)
        return await cls._load_kubeconfig(kubeconfig, context)

    @classmethod
    async def _load_kubeconfig(cls, kubeconfig: Path | None, context: str | None) -> "ClusterConfig":
        location = str(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG") or "~/.kube/config"
        if not _any_exists(location):
            raise ConfigError(
                f"no kubeconfig at {location}: set KUBECONFIG or --kubeconfig to an existing file, "
                "or run inside a cluster"
            )
        configuration_class = _library()
        from kubernetes_asyncio.config.config_exception import ConfigException  # noqa: PLC0415
        from kubernetes_asyncio.config.kube_config import load_kube_config  # noqa: PLC0415

        async def configuration() -> "Configuration":
            fresh = configuration_class()
            try:
                await load_kube_config(
                    config_file=location, context=context, client_configuration=fresh, persist_config=False
                )
            except ConfigException as error:
                raise ConfigError(f"kubeconfig {location}: {error}") from error
            except Exception as error:
                # The library lets whatever YAML or base64 or a missing key raised pass through.
                raise ConfigError(f"kubeconfig {location} cannot be read: {error}") from error
            return fresh

        async def read() -> str | None:
            return await (await configuration()).get_api_key_with_prefix("BearerToken")

        loaded = await configuration()
        described = f"kubeconfig {location}" + (f", context {context}" if context else "")
        return cls(str(loaded.host).rstrip("/"), _tls(loaded), described, read)

    @classmethod
    async def _load_in_cluster(cls, url: str | None) -> "ClusterConfig":
        configuration_class = _library()
        from kubernetes_asyncio.config.config_exception import ConfigException  # noqa: PLC0415
        from kubernetes_asyncio.config.incluster_config import load_incluster_config  # noqa: PLC0415

        def configuration() -> "Configuration":
            fresh = configuration_class()
            try:
                load_incluster_config(client_configuration=fresh)  # type: ignore[no-untyped-call] # untyped there
            except (ConfigException, OSError) as error:
                raise ConfigError(f"in-cluster configuration: {error}") from error
            return fresh

        async def read() -> str | None:
            return await configuration().get_api_key_with_prefix("BearerToken")

        loaded = configuration()
        return cls((url or str(loaded.host)).rstrip("/"), _tls(loaded), "in-cluster service account", read)

    async def authorization(self, *, fresh: bool = False) -> str | None:
        """The value of the Authorization header; None where a client certificate or nothing is used.

        Raises:
            ConfigError: the source cannot be read and no earlier value is known.
        """
        if not fresh and time.monotonic() - self._read_at < REREAD_AFTER_S:
            return self._value
        begun = time.monotonic()
        async with self._reading:
            if self._read_at >= begun:  # somebody else read while we waited
                return self._value
            try:
                self._value = await self._read()
            except ConfigError:
                if self._value is None:
                    raise
            self._read_at = time.monotonic()
        return self._value


def _any_exists(location: str) -> bool:
    """Whether one of the files of a colon-separated list is there."""
    return any(Path(part).expanduser().is_file() for part in location.split(os.pathsep) if part)


def _tls(configuration: "Configuration") -> ssl.SSLContext | None:
    """One context for all connections: each costs close to a mebibyte."""
    if not str(configuration.host).startswith("https"):
        return None
    try:
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"certificates of {configuration.host} cannot be used: {error}") from error
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
