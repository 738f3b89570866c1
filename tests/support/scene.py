"""A corner with a running operator in it, and what must hold at the end of every scene.

    async with scene(control_plane) as world:
        await world.activate("alpha")
        await world.until_phase("alpha", "Ready")

At the end of the block the operator must be silent and its objects sound; whatever it wrote was checked
strictly by the server and accepted (or met a newer version, and was decided anew), and concerned nothing
but what is the operator's to write.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Final
from urllib.parse import parse_qs, urlsplit

from hack.devcluster import DevCluster
from hack.devcluster.actors.flux import Verdict, applied
from hack.devcluster.audit import AuditMark, AuditRecord
from tests.support.mirror import Object
from tests.support.operator import operator
from tests.support.oracles import assert_settled, told
from tests.support.world import World, corner

OURS_TO_WRITE: Final = frozenset(
    {
        ("appliance.magicstick.dev", "moduleactivations", ""),
        ("appliance.magicstick.dev", "moduleactivations", "status"),
        ("appliance.magicstick.dev", "appliances", "status"),
        ("kustomize.toolkit.fluxcd.io", "kustomizations", ""),
        ("events.k8s.io", "events", ""),
        ("coordination.k8s.io", "leases", ""),
    }
)
"""(group, resource, subresource) of everything that the operator ever writes."""

CONFLICT: Final = 409
"""Somebody else wrote the object at the same moment: it is read, and decided, anew."""

FAILED: Final[Verdict] = ("False", "ReconciliationFailed", "the Deployment is not valid")


async def as_furnished(_: World) -> None:
    """Nothing is changed before the operator starts."""


@contextlib.asynccontextmanager
async def scene(
    cluster: DevCluster, *, before: Callable[[World], Awaitable[None]] = as_furnished
) -> AsyncIterator[World]:
    """A furnished corner in which Flux and the operator run; see the module.

    `before` makes what the operator has to find when it starts. What is changed later it may see after
    something of another kind that was changed later still, since each kind has a watch of its own.
    """
    mark = cluster.audit_mark()
    async with corner(cluster) as world:
        await before(world)
        async with operator(world):
            yield world
            await assert_settled(world)
    assert_honest_writes(world.operator_writes(mark))


def assert_honest_writes(
    writes: list[AuditRecord], more: Collection[tuple[str, str, str]] = frozenset()
) -> None:
    """Each was checked strictly, accepted unless somebody was faster, and concerned what is ours to write.

    `more` is what is written in this scene besides `OURS_TO_WRITE`.
    """
    allowed = OURS_TO_WRITE.union(more)
    refused = [each for each in writes if not 200 <= each.code < 300 and each.code != CONFLICT]
    assert not refused, told(refused)
    lax = [each for each in writes if each.verb != "delete" and _validation(each) != "Strict"]
    assert not lax, [each.uri for each in lax]
    foreign = [each for each in writes if (each.group, each.resource, each.subresource) not in allowed]
    assert not foreign, told(foreign)


def _validation(record: AuditRecord) -> str:
    return parse_qs(urlsplit(record.uri).query).get("fieldValidation", [""])[0]


class Verdicts:
    """Lets Flux judge single Kustomizations: `fail` and `recover`, both at once."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._given: dict[str, Verdict] = {}
        self._asked = 0
        world.flux.verdict = lambda item: self._given.get(item["metadata"]["name"]) or applied(item)

    async def fail(self, name: str, verdict: Verdict = FAILED) -> None:
        """From now on Flux fails to apply it."""
        self._given[name] = verdict
        await self._look_again(name)

    async def recover(self, name: str) -> None:
        """From now on it can be applied."""
        self._given.pop(name, None)
        await self._look_again(name)

    async def _look_again(self, name: str) -> None:
        """As `flux reconcile` does it."""
        self._asked += 1
        annotations = {"reconcile.fluxcd.io/requestedAt": str(self._asked)}
        await self._world.client.merge(
            f"{self._world.kustomizations}/{name}", {"metadata": {"annotations": annotations}}
        )


def applies(world: World, mark: AuditMark, kustomization: str) -> list[Object]:
    """The spec of each apply of a Kustomization that an operator sent since the mark, in order."""
    return [
        record.request_object["spec"]
        for record in world.operator_writes(mark)
        if (record.resource, record.name, record.verb) == ("kustomizations", kustomization, "patch")
        and record.request_object is not None
    ]


def deletions(world: World, mark: AuditMark) -> list[str]:
    """The Kustomizations whose deletion an operator asked for since the mark, in order."""
    return [
        record.name
        for record in world.operator_writes(mark)
        if (record.resource, record.verb) == ("kustomizations", "delete")
    ]


def ready(world: World, kustomization: str) -> str:
    """The status of a Kustomization's condition Ready; empty where there is none."""
    conditions = (world.child(kustomization) or {}).get("status", {}).get("conditions", [])
    return next((str(each["status"]) for each in conditions if each["type"] == "Ready"), "")


def spec(world: World, kustomization: str) -> Object:
    """The spec of a Kustomization that must be there."""
    found = world.child(kustomization)
    assert found is not None, f"there is no Kustomization {kustomization}\n{world.mirror.describe()}"
    return dict(found["spec"])


def status(world: World, activation: str) -> Object:
    """The status of an activation that must be there."""
    found = world.activation(activation)
    assert found is not None, f"there is no ModuleActivation {activation}\n{world.mirror.describe()}"
    return dict(found.get("status", {}))
