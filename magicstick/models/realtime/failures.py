"""What a failed request for a realtime runtime means to its model (spec: realtime §10).

The server's own words stay in the operator's log: they may quote anything.
"""

from magicstick.kube.errors import (
    ApiError,
    Forbidden,
    Gone,
    NameConflict,
    NamespaceTerminating,
    Unauthorized,
    Unavailable,
    Unreadable,
)
from magicstick.models.direct import State
from magicstick.models.observation import ModelObservation
from magicstick.models.places import realtime_name
from magicstick.models.status import ModelPhase, ModelReason


def failure(o: ModelObservation, error: ApiError) -> State | None:
    """Phase, reason and message; None where the general rules for models say it as well."""
    place = f"{o.namespace}/{realtime_name(o.name)}"
    match error:
        case NameConflict() | NamespaceTerminating():
            return None
        case Forbidden() | Unauthorized():
            message = (
                f"The API server denies what the runtime {place} needs (HTTP {error.code}). Check the "
                f"operator's permissions for ConfigMaps, Services and Deployments in namespace {o.namespace}."
            )
            return ModelPhase.DEGRADED, ModelReason.REALTIME_PERMISSION_DENIED, message
        case Unavailable() | Unreadable() | Gone():
            code = f"HTTP {error.code}" if error.code else "no answer"
            message = f"The API server could not make the runtime {place} ({code}). It is asked again."
            return ModelPhase.STARTING, ModelReason.REALTIME_API_UNAVAILABLE, message
        case _:
            message = (
                f"The API server rejects the runtime {place} (HTTP {error.code}): check admission policies "
                "and the model's settings. The operator's log says why."
            )
            return ModelPhase.DEGRADED, ModelReason.REALTIME_API_REJECTED, message
