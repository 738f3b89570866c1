"""References between Palena objects: whether they lead anywhere, and may (spec: palena §1.2)."""

from dataclasses import dataclass
from typing import Final

from magicstick.api.palena.shared import AllowedConsumers, Reference
from magicstick.kube.objects import Resource
from magicstick.palena.common.children import text
from magicstick.runtime.conditions import READY, conditions_of, is_true

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
    unread: bool = False
    """Whether it cannot be read who may use it, so that nothing may be taken away because of it."""

    @property
    def ready(self) -> bool:
        """Whether its Ready is True for its present generation, and it is not going."""
        if self.live is None or self.live.metadata.dying:
            return False
        return is_true(conditions_of(self.live.status), READY, self.live.metadata.generation)

    @property
    def endpoint(self) -> str:
        """Where its LiteLLM is reached; "" while that is not known."""
        return text(self.live.status, "endpoint") if self.live is not None else ""

    @property
    def instance(self) -> str:
        """Its LiteLLMInstance; "" while there is none."""
        return text(self.live.status, "litellmInstanceRef", "name") if self.live is not None else ""


def resolve(
    reference: Reference, home: str, live: Resource | None, allowed: AllowedConsumers | None
) -> Target:
    """What a reference from the namespace `home` leads to.

    `allowed` by the target, `live`; None where that cannot be read, which admits nobody from elsewhere.
    """
    namespace, name = reference.place(home)
    permitted = (allowed or AllowedConsumers()).permits(namespace, home)
    return Target(namespace, name, live, permitted, unread=allowed is None and not permitted)
