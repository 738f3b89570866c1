"""The reconciler `hardware`: requests the module of each vendor whose hardware is there.

It only ever creates ModuleActivations: one that exists, in whatever state, is left entirely alone, and
none is ever removed because a label is gone. Without an Appliance nothing is requested: it is the
Appliance that an activation belongs to.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import structlog

from magicstick.api.kinds import APPLIANCE, KUSTOMIZATION, MODULE_ACTIVATION
from magicstick.api.labels import SOURCE_HARDWARE
from magicstick.gpu.decide import HardwareObservation, decide
from magicstick.gpu.facts import HardwareFacts, edges
from magicstick.gpu.status import Outcome
from magicstick.kube.errors import ApiError
from magicstick.kube.kinds import ObjectKey
from magicstick.kube.objects import View
from magicstick.modules.needs import request_modules
from magicstick.modules.ports import Modules, WakeUp, on_new_catalog
from magicstick.runtime.plan import Plan
from magicstick.runtime.reconciler import Declaration, Edge

SETTLING_S: Final = 0.1
"""How often it is looked while a label settles, so that its vendor is requested right when it has."""

HOLDING_S: Final = 1.0
"""How often it is looked while a label is missing; over caches, for a minute at most."""

log = structlog.get_logger(__name__)


class HardwareReconciler:
    """See the module. Its primary is the one Appliance, whose status is not its to write."""

    def __init__(self, facts: HardwareFacts, catalogs: Modules, resync_s: float) -> None:
        self._facts = facts
        self._catalogs = catalogs
        site = facts.modules.site
        self._key = ObjectKey(site.appliance_namespace, site.appliance_name)
        self._declaration = _declare(facts, self._key, resync_s)

    @property
    def declaration(self) -> Declaration:
        """See `runtime.reconciler.Reconciler`."""
        return self._declaration

    def follow(self, wake: WakeUp) -> None:
        """Have `wake` called for what no watched object tells: a catalog, and time that has passed."""
        on_new_catalog(self._catalogs, lambda _old, _new: wake([self._key]))
        self._facts.follow(lambda: wake([self._key]))

    async def observe(self, key: ObjectKey) -> HardwareObservation | None:
        """None also for any other Appliance: there is one."""
        facts, modules = self._facts, self._facts.modules
        appliance = modules.appliance
        if key != self._key or appliance is None:
            return None
        requested = facts.requested()
        return HardwareObservation(
            appliance,
            known=not (facts.blind() or modules.blind() or modules.catalog is None),
            missing=request_modules(requested, modules, source=SOURCE_HARDWARE),
            motion=facts.motion,
        )

    def decide(self, observation: HardwareObservation, now: datetime) -> Plan:  # noqa: ARG002 - no clock here
        """See `decide.decide`."""
        return decide(observation)

    def decide_failure(
        self,
        observation: HardwareObservation,  # noqa: ARG002 - there is no status of ours to report in
        error: ApiError,
        now: datetime,  # noqa: ARG002 - no clock here
    ) -> Plan:
        """It is logged, and tried again slowly; the vendor's entry stays `Detected`."""
        log.warning("a vendor's module cannot be activated", error=error.message)
        return Plan(Outcome.REFUSED)


def _declare(facts: HardwareFacts, key: ObjectKey, resync_s: float) -> Declaration:
    def the_appliance(_old: View | None, _new: View | None) -> Iterable[ObjectKey]:
        return [key]

    site = facts.modules.site
    return Declaration(
        name="hardware",
        primary=APPLIANCE,
        namespace=site.appliance_namespace,
        owns_status=False,
        writes=frozenset({MODULE_ACTIVATION}),
        workers=1,
        edges=(
            *edges(facts, the_appliance),
            Edge(
                MODULE_ACTIVATION,
                the_appliance,
                "whether a vendor's module is activated already",
                facts.activation_changed,
                namespace=site.appliance_namespace,
            ),
            Edge(
                KUSTOMIZATION,
                the_appliance,
                "whether it is known what is installed, without which nothing is requested",
                _never,
                namespace=site.flux_namespace,
            ),
        ),
        requeue_s={
            Outcome.SETTLING: SETTLING_S,
            Outcome.HOLDING: HOLDING_S,
            Outcome.AT_REST: resync_s,
            Outcome.BLIND: resync_s,
            Outcome.REFUSED: resync_s,
            Outcome.LEAVING: None,
        },
    )


def _never(_old: View | None, _new: View | None) -> bool:
    """Only whether the kind can be read at all matters, and that wakes anyway."""
    return False
