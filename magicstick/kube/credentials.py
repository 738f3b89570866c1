"""What a connection to an API server is made with, as read once from its source."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from kubernetes_asyncio.client.configuration import Configuration


class ConfigError(Exception):
    """The configuration cannot be used. The message says which file and field, and what to do.

    It never holds the value of a credential.
    """


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """Authorities and client certificate, by content, so that a rotated file is told from a reread one."""

    authorities: bytes | None = None
    """PEM; None for those of the system."""
    certificate: bytes | None = None
    """PEM, for comparison; OpenSSL reads it from its file."""
    key: bytes | None = field(default=None, repr=False)
    certificate_file: str = ""
    key_file: str = ""
    verify: bool = True

    @classmethod
    def read(
        cls, authorities_file: str | Path | None, certificate_file: str, key_file: str, *, verify: bool
    ) -> Self:
        """From files; "" where there is none.

        Raises:
            OSError: a file cannot be read.
        """
        return cls(
            Path(authorities_file).read_bytes() if authorities_file else None,
            Path(certificate_file).read_bytes() if certificate_file else None,
            Path(key_file).read_bytes() if key_file else None,
            certificate_file,
            key_file,
            verify,
        )

    def context(self) -> ssl.SSLContext:
        """A context for all connections of a client: each costs close to a mebibyte.

        Raises:
            OSError: a certificate or key is none, or does not fit (`ssl.SSLError` is one).
            ValueError: the authorities are no PEM.
        """
        authorities = None if self.authorities is None else self.authorities.decode("ascii", "replace")
        context = ssl.create_default_context(cadata=authorities)
        if self.certificate_file:
            context.load_cert_chain(self.certificate_file, self.key_file or None)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


@dataclass(frozen=True, slots=True)
class Credentials:
    """Address, TLS material and the value of the Authorization header."""

    url: str
    authorization: str | None = field(default=None, repr=False)
    tls: TlsMaterial | None = None
    """None for plain HTTP."""
    server_name: str | None = None
    """The name that the server's certificate has, where it is not the host of the URL."""
    proxy: str | None = field(default=None, repr=False)

    @classmethod
    async def of(cls, configuration: "Configuration", url: str | None = None) -> Self:
        """From what kubernetes-asyncio found; `url` replaces its address.

        Raises:
            OSError: a certificate cannot be read.
            ConfigError: the token cannot be one.
        """
        address = (url or str(configuration.host)).rstrip("/")
        # Token files end with a line break as a rule, which no header may hold.
        authorization = (await configuration.get_api_key_with_prefix("BearerToken") or "").strip()
        if not authorization.isprintable():
            raise ConfigError("the token holds a line break or another control character")
        tls = None
        if address.startswith("https://"):
            tls = TlsMaterial.read(
                configuration.ssl_ca_cert,
                configuration.cert_file or "",
                configuration.key_file or "",
                verify=configuration.verify_ssl,
            )
        return cls(
            address,
            authorization or None,
            tls,
            configuration.tls_server_name,
            configuration.proxy,
        )


class CredentialSource(Protocol):
    """Where credentials come from, again and again."""

    @property
    def description(self) -> str:
        """The source, for messages and logs; no secret."""
        ...

    async def read(self, *, fresh: bool) -> Credentials:
        """The credentials as of now; `fresh` when the last ones were refused.

        Raises:
            ConfigError: they cannot be had.
        """
        ...
