"""A model and the gateways around it, in a world that a test fills."""

from typing import Any, Final

from magicstick.api.kinds import LITELLM_MODEL, PALENA_GATEWAY, PALENA_MODEL
from magicstick.kube.objects import Resource
from magicstick.palena.model.reconciler import ModelReconciler
from magicstick.runtime.plan import Plan
from tests.support.palena_objects import HOME, gateway, gateway_status, litellm_status, model
from tests.support.palena_world import PalenaWorld

NAME: Final = "chat-large"
KEY: Final[dict[str, Any]] = {
    "model": "openai/gpt-4o",
    "apiKeySecretRef": {"name": "provider", "key": "OPENAI_API_KEY"},
}
"""A provider with a key."""


class ModelScene:
    """One model and the gateways around it."""

    def __init__(self, *refs: str | dict[str, str], gateways: tuple[str, ...] = ("gw",), **spec: Any) -> None:
        self.world = PalenaWorld()
        self.reconciler = ModelReconciler(self.world.facts, self.world.reads)
        self.world.declare(self.reconciler)
        for each in gateways:
            self.gateway(each)
        self.world.put(PALENA_MODEL, model(NAME, *refs, **spec))

    def gateway(self, name: str, *, namespace: str = HOME, status: Any = None, **spec: Any) -> None:
        body = gateway(name, namespace=namespace, **spec)
        self.world.put(PALENA_GATEWAY, {**body, "status": status or gateway_status(name)})

    @property
    def model(self) -> Resource:
        return self.world.must(PALENA_MODEL, HOME, NAME)

    @property
    def phase(self) -> str:
        return str(self.model.status["phase"])

    @property
    def children(self) -> set[str]:
        return self.world.names(LITELLM_MODEL)

    def child(self, gateway_name: str = "gw", namespace: str = HOME) -> Resource:
        return self.world.must(LITELLM_MODEL, namespace, f"{NAME}-{gateway_name}")

    def synced(self, *gateways: str, namespace: str = HOME, **status: Any) -> None:
        """The LiteLLM operator reports."""
        for each in gateways:
            self.world.change(LITELLM_MODEL, namespace, f"{NAME}-{each}", status=litellm_status(**status))

    def condition(self, type_: str) -> tuple[str, str]:
        (found,) = (each for each in self.model.status["conditions"] if each["type"] == type_)
        return found["status"], found["reason"]

    def entry(self, gateway_name: str) -> dict[str, Any]:
        (found,) = (each for each in self.model.status["gateways"] if each["name"] == gateway_name)
        return dict(found)

    def refer(self, *refs: str | dict[str, str]) -> None:
        self.world.change(PALENA_MODEL, HOME, NAME, spec=model(NAME, *refs)["spec"])

    async def plan(self) -> Plan:
        return await self.world.plan(self.reconciler, HOME, NAME)

    async def settle(self) -> Plan:
        return await self.world.settle(self.reconciler, HOME, NAME)
