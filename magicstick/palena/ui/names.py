"""What the objects of a UI are called, and where they listen (spec: palena §6.4, §10)."""

from dataclasses import dataclass
from typing import Final

LIBRECHAT: Final = "librechat"
MONGODB: Final = "mongodb"
MEILISEARCH: Final = "meilisearch"

LIBRECHAT_PORT: Final = 3080
MONGODB_PORT: Final = 27017
MEILISEARCH_PORT: Final = 7700

GATEWAY_KEY: Final = "api-key"
"""The key of the Secret in which LiteLLM's operator puts a virtual key."""


@dataclass(frozen=True, slots=True)
class Names:
    """Of the objects of one UI. Its own has at most 40 characters, so that none of these is too long."""

    ui: str

    @property
    def librechat(self) -> str:
        """LibreChat's Deployment, Service and Ingress, and its virtual key."""
        return f"{self.ui}-{LIBRECHAT}"

    @property
    def configuration(self) -> str:
        """The ConfigMap of `librechat.yaml`."""
        return f"{self.librechat}-config"

    @property
    def data(self) -> str:
        """The volume of uploads and images."""
        return f"{self.librechat}-data"

    @property
    def secrets(self) -> str:
        """The Secret of everything that is generated once."""
        return f"{self.librechat}-secrets"

    @property
    def gateway_key(self) -> str:
        """The Secret of the virtual key, beside the gateway and beside the UI."""
        return f"{self.librechat}-gateway-key"

    @property
    def mongodb(self) -> str:
        """MongoDB's StatefulSet and its headless Service."""
        return f"{self.ui}-{MONGODB}"

    @property
    def mongodb_claim(self) -> str:
        """The volume that the StatefulSet makes for its one Pod."""
        return f"data-{self.mongodb}-0"

    @property
    def meilisearch(self) -> str:
        """MeiliSearch's Deployment, Service and volume."""
        return f"{self.ui}-{MEILISEARCH}"
