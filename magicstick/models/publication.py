"""The last two rows of the table: a model that runs is Ready once the model catalog has published it.

Publication does not look at the phase but at `RuntimeReady`, so neither waits for the other (spec:
models §11).
"""

from typing import Final

from magicstick.models.observation import ModelObservation
from magicstick.models.plans import carry_out, is_published
from magicstick.models.status import ModelPhase, ModelReason, Report
from magicstick.runtime.conditions import State
from magicstick.runtime.plan import Plan, Step

CATALOG_NAMESPACE: Final = "ai"
"""The model catalog looks at no other namespace (spec: models §11)."""


def publication(
    o: ModelObservation,
    *,
    profile: str = "",
    endpoint: str = "",
    steps: tuple[Step, ...] = (),
    ready: ModelReason = ModelReason.CATALOG_READY,
) -> Plan:
    """The plan for an external model, or for a local one whose runtime is fine.

    `ready` is the reason that it has once it is published.
    """
    listed = is_published(o)
    known: State = "Unknown" if o.published is None and not listed else ("True" if listed else "False")
    told = Report(
        phase=ModelPhase.READY if listed else ModelPhase.RECONCILING,
        reason=ready if listed else ModelReason.WAITING_FOR_CATALOG,
        message=_message(o, known),
        profile=profile,
        endpoint=endpoint,
        runtime_ready="True",
        published=known,
        effective=o.local,
        memory_usage=o.check.memory_usage,
        freetoken_stats=o.check.stats,
    )
    return carry_out(o, told, steps)


def _message(o: ModelObservation, known: State) -> str:
    if known == "True":
        return "The model is available in the model catalog."
    where = (
        "" if o.namespace in ("", CATALOG_NAMESPACE) else f" It looks at namespace {CATALOG_NAMESPACE} alone."
    )
    if known == "Unknown":
        return f"Waiting for the model catalog, which cannot be read now.{where}"
    return f"Waiting for the model catalog to publish the model.{where}"
