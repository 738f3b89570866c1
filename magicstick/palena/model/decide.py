"""The decision about one model (spec: palena §5.3, §5.4).

What is wrong on one gateway holds up no other. Only when every gateway was seen to, whatever is superfluous
goes: this is how the removal of a reference reaches the gateway.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from magicstick.api.kinds import PALENA_MODEL
from magicstick.api.palena.model import PalenaModelSpec
from magicstick.kube.errors import ApiError
from magicstick.palena.common import frame
from magicstick.palena.common.desired import removed
from magicstick.palena.common.frame import Findings, KindFrame
from magicstick.palena.common.references import GATEWAY_NOT_READY
from magicstick.palena.common.schemas import UNKNOWN_FIELD_IGNORED
from magicstick.palena.common.teardown import Stage, Target
from magicstick.palena.common.verdicts import Verdict, fine, waiting
from magicstick.palena.model.entry import SYNCED, Entry, entry
from magicstick.palena.model.observation import ModelObservation
from magicstick.runtime.conditions import READY
from magicstick.runtime.plan import Notice, Plan

PARTIALLY_SYNCED: Final = "PartiallySynced"
GONE_WITHIN_S: Final = 60.0
"""LiteLLM's operator lets its models go also without their instance; nobody waits longer for it."""

FRAME: Final = KindFrame(
    kind=PALENA_MODEL,
    order=(SYNCED, READY),
    ready_reason="ModelReady",
    ready_message="Every gateway serves the model.",
    prerequisites_type=SYNCED,
    blames=lambda _kind, _key: SYNCED,
)


def decide(o: ModelObservation, now: datetime) -> Plan:
    """What to do next for this model, and the status that it has now."""
    plan = frame.decide(
        o.subject,
        FRAME,
        findings=lambda spec: _findings(o, spec),
        stages=lambda: _stages(o, now),
        now=now,
    )
    return replace(plan, independent=True)


def decide_failure(o: ModelObservation, error: ApiError, now: datetime) -> Plan:
    """What to report after a step failed: it counts for the gateway that it was about."""
    if error.about is None or o.subject.live.metadata.dying:
        return frame.decide_failure(o.subject, FRAME, error, now)
    _, key = error.about
    found = frame.verdict_on(error, SYNCED)
    plan = decide(replace(o, refused={key: found}), now)
    return Plan(plan.outcome, status=plan.status)


def _findings(o: ModelObservation, spec: PalenaModelSpec) -> Findings:
    entries = tuple(entry(o, spec, ref) for ref in o.refs)
    kept = {place for each in entries for place in each.kept}
    superfluous = ((kind, live) for kind, live in o.owned if (kind, live.metadata.key) not in kept)
    count = sum(each.synced for each in entries)
    return Findings(
        verdicts=(_synced(entries), *_needed_besides(entries)),
        steps=(*(step for each in entries for step in each.steps), *removed(o.owner, superfluous)),
        fields={
            "gateways": [each.status for each in entries],
            "syncedCount": count,
            "totalCount": len(entries),
            "gatewaysSummary": f"{count}/{len(entries)}",
        },
        notices=_notices(entries),
    )


def _synced(entries: Sequence[Entry]) -> Verdict:
    missing = [each for each in entries if not each.synced]
    if not missing:
        return fine(SYNCED, "AllGatewaysSynced", "Every gateway has taken the model.")
    if len(missing) == len(entries):
        return max((each.verdict for each in missing), key=lambda verdict: verdict.weight)
    told = " ".join(f"{each.ref.target.name}: {each.verdict.message}" for each in missing)
    return waiting(SYNCED, PARTIALLY_SYNCED, told, degrades=True)


def _needed_besides(entries: Sequence[Entry]) -> tuple[Verdict, ...]:
    """What readiness needs besides: gateways that are ready, and models that are not known to fail."""
    if not all(each.synced for each in entries):
        return ()
    if ill := [each.ref.target.name for each in entries if not each.healthy]:
        return (waiting(READY, "Unhealthy", f"The model is unhealthy on {', '.join(ill)}."),)
    if idle := [each.ref.target.name for each in entries if not each.ref.target.ready]:
        return (waiting(READY, GATEWAY_NOT_READY, f"Not ready: {', '.join(idle)}."),)
    return ()


def _notices(entries: Sequence[Entry]) -> tuple[Notice, ...]:
    unknown = sorted({path for each in entries for path in each.dropped})
    message = f"This LiteLLM operator does not know {', '.join(unknown)}."
    return (Notice(UNKNOWN_FIELD_IGNORED, message),) if unknown else ()


def _stages(o: ModelObservation, now: datetime) -> Sequence[Stage]:
    if not o.owned or _overdue(o, now):
        return ()
    return (Stage("what was made for the model", tuple(Target(kind, live) for kind, live in o.owned)),)


def _overdue(o: ModelObservation, now: datetime) -> bool:
    """Whether all of it is going, and has been for long enough."""
    begun = o.subject.live.metadata.deletion_timestamp
    if begun is None or not all(live.metadata.dying for _, live in o.owned):
        return False
    return (now - datetime.fromisoformat(begun)).total_seconds() > GONE_WITHIN_S
