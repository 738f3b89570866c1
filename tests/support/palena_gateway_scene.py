"""A gateway in a world that a test fills."""

from typing import Any

from magicstick.api.kinds import PALENA_GATEWAY
from magicstick.kube.objects import Resource
from magicstick.palena.gateway.observation import Site
from magicstick.palena.gateway.reconciler import GatewayReconciler
from magicstick.runtime.plan import Plan
from tests.support.palena_objects import GATEWAY, HOME, Operators, gateway
from tests.support.palena_world import PalenaWorld


class GatewayScene:
    """One gateway, its reconciler, and those who act around it."""

    def __init__(self, **spec: Any) -> None:
        self.world = PalenaWorld()
        self.reconciler = GatewayReconciler(self.world.facts, self.world.reads, self.world.entropy, Site())
        self.world.declare(self.reconciler)
        self.world.put(PALENA_GATEWAY, gateway(**spec))
        self.operators = Operators(self.world)

    @property
    def gateway(self) -> Resource:
        return self.world.must(PALENA_GATEWAY, HOME, GATEWAY)

    @property
    def phase(self) -> str:
        return str(self.gateway.status["phase"])

    def condition(self, type_: str) -> tuple[str, str]:
        """Status and reason."""
        found = [each for each in self.gateway.status["conditions"] if each["type"] == type_]
        assert len(found) == 1, self.gateway.status
        return found[0]["status"], found[0]["reason"]

    def message(self, type_: str) -> str:
        return next(
            str(each["message"]) for each in self.gateway.status["conditions"] if each["type"] == type_
        )

    async def plan(self) -> Plan:
        return await self.world.plan(self.reconciler, HOME, GATEWAY)

    async def settle(self) -> Plan:
        return await self.world.settle(self.reconciler, HOME, GATEWAY)

    def change(self, **spec: Any) -> None:
        self.world.change(PALENA_GATEWAY, HOME, GATEWAY, spec=spec)

    async def running(self) -> Plan:
        """Everything is made and ready."""
        await self.settle()
        if self.gateway.spec.get("database", {}).get("mode") != "external":
            self.operators.database()
        if self.gateway.spec.get("redis", {}).get("mode") != "external":
            self.operators.redis()
        await self.settle()
        self.operators.litellm()
        return await self.settle()
