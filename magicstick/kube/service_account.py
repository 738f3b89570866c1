"""Credentials of the Pod that this process runs in."""

import os
from pathlib import Path

from magicstick.kube import library
from magicstick.kube.credentials import ConfigError, Credentials

DIRECTORY = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST = "KUBERNETES_SERVICE_HOST"
PORT = "KUBERNETES_SERVICE_PORT"


class ServiceAccountSource:
    """The token and the authorities that the kubelet mounts and rotates."""

    description = "in-cluster service account"

    def __init__(self, url: str | None = None, directory: Path = DIRECTORY) -> None:
        self._url = url
        self._directory = directory

    async def read(self, *, fresh: bool) -> Credentials:  # noqa: ARG002 # every read is a fresh one here
        """See `CredentialSource`."""
        configuration = library.enter()()
        from kubernetes_asyncio.config.config_exception import ConfigException  # noqa: PLC0415 # see library
        from kubernetes_asyncio.config.incluster_config import load_incluster_config  # noqa: PLC0415 # as well

        environment = dict(os.environ)
        if self._url:
            # The library insists on an address that then goes unused.
            environment |= {HOST: environment.get(HOST, "unused"), PORT: environment.get(PORT, "443")}
        try:
            load_incluster_config(  # type: ignore[no-untyped-call] # the library does not type it
                client_configuration=configuration,
                token_filename=str(self._directory / "token"),
                cert_filename=str(self._directory / "ca.crt"),
                environ=environment,
            )
            return await Credentials.of(configuration, self._url)
        except (ConfigException, OSError) as error:
            raise ConfigError(
                f"in-cluster configuration ({self._directory}): {error} Mount a service account token, "
                "or set KUBECONFIG to an existing file."
            ) from error
