"""References between Palena objects: whether they exist, and whether they are permitted (spec: palena §1.2)."""

from dataclasses import dataclass
from typing import Final

from magicstick.api.palena.shared import AllowedConsumers, Reference
from magicstick.kube.objects import Resource

REF_NOT_PERMITTED: Final = "RefNotPermitted"
GATEWAY_NOT_FOUND: Final = "GatewayNotFound"
GATEWAY_NOT_READY: Final = "GatewayNotReady"


@dataclass(frozen=True, slots=True)
class Target:
    """A gateway as its consumers see it."""

    namespace: str
    name: str
    live: Resource | None = None
    """None when it does not exist."""
    permitted: bool = False

    @property
    def ready(self) -> bool:
        """Whether its Ready is True for its present generation."""
        raise NotImplementedError

    @property
    def endpoint(self) -> str:
        """Where its LiteLLM is reached; "" while that is not known."""
        raise NotImplementedError

    @property
    def instance(self) -> str:
        """Its LiteLLMInstance; "" while there is none."""
        raise NotImplementedError


def resolve(reference: Reference, home: str, live: Resource | None, allowed: AllowedConsumers) -> Target:
    """What a reference from the namespace `home` leads to; `allowed` by the target, `live`."""
    raise NotImplementedError
