"""A gateway as those see it that stand around it: found, permitted, ready (spec: palena §1.2, §6.5, §7.7)."""

from dataclasses import dataclass
from typing import Final

from magicstick.api.kinds import PALENA_GATEWAY
from magicstick.api.palena.gateway import PalenaGatewaySpec
from magicstick.api.palena.shared import AllowedConsumers, Reference
from magicstick.api.parse import parse
from magicstick.kube.kinds import ObjectKey
from magicstick.palena.common.facts import PalenaFacts
from magicstick.palena.common.references import (
    GATEWAY_NOT_FOUND,
    GATEWAY_NOT_READY,
    REF_NOT_PERMITTED,
    Target,
    resolve,
)
from magicstick.palena.common.verdicts import Verdict, absent, failed, fine, waiting

GATEWAY_READY: Final = "GatewayReady"


@dataclass(frozen=True, slots=True)
class FoundGateway:
    """What a reference to a gateway leads to."""

    target: Target
    spec: PalenaGatewaySpec | None = None
    """None when there is no gateway, or its spec cannot be read."""


def find_gateway(facts: PalenaFacts, reference: Reference, home: str) -> FoundGateway:
    """What a reference from the namespace `home` leads to. Raises like `PalenaFacts.find`.

    A gateway whose spec cannot be read permits what one permits by default: its own namespace.
    """
    live = facts.find(PALENA_GATEWAY, *reference.place(home))
    spec = None if live is None else parse(PalenaGatewaySpec, live)
    known = spec if isinstance(spec, PalenaGatewaySpec) else None
    allowed = known.allowed_consumers if known is not None else AllowedConsumers()
    return FoundGateway(resolve(reference, home, live, allowed), known)


def gateway_ready(gateway: Target, home: str) -> Verdict:
    """The condition `GatewayReady` of an object in the namespace `home`."""
    place = ObjectKey(gateway.namespace, gateway.name)
    if gateway.live is None:
        return absent(GATEWAY_READY, GATEWAY_NOT_FOUND, f"PalenaGateway {place} does not exist")
    if not gateway.permitted:
        message = f"PalenaGateway {place} may not be used from namespace {home}"
        return failed(GATEWAY_READY, REF_NOT_PERMITTED, message)
    if not gateway.ready or not gateway.endpoint:
        return waiting(GATEWAY_READY, GATEWAY_NOT_READY, f"PalenaGateway {place} is not ready")
    return fine(GATEWAY_READY, "GatewayReady", f"PalenaGateway {place} is ready")
