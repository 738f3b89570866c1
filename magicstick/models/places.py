"""Which objects a resolved model is served by, and where: everything else of ours is of the past."""

from typing import Final

from magicstick.api.kinds import KUBEAI_MODEL
from magicstick.api.names import suffixed
from magicstick.kube.kinds import CONFIG_MAP, Kind, ObjectKey
from magicstick.models.kinds import DEPLOYMENT, SERVICE
from magicstick.models.observation import Runtime
from magicstick.models.resolved import (
    Refusal,
    Resolved,
    ResolvedFreeToken,
    ResolvedKubeAi,
    ResolvedRealtime,
)

_FREETOKEN: Final = "freetoken"
_REALTIME: Final = "realtime"


def freetoken_name(name: str) -> str:
    """Name of the Deployment and the Service that serve an activation with FreeToken."""
    return _direct_name(name, _FREETOKEN)


def realtime_name(name: str) -> str:
    """Name of the ConfigMap, the Service and the Deployment of a realtime model."""
    return _direct_name(name, _REALTIME)


def _direct_name(name: str, suffix: str) -> str:
    """A name that every server takes for a Service.

    A name that is no DNS label, or that no server would take since it begins with a digit, is replaced by
    one that is, with a hash of the whole, so that distinct activations stay distinct.
    """
    return suffixed(name if name[:1].isalpha() else f"m.{name}", suffix)


def belongs(runtime: Runtime, resolved: Resolved | Refusal | None) -> bool:
    """Whether the model as it is resolved now is served by this object."""
    return runtime.place in _places(resolved)


def _places(resolved: Resolved | Refusal | None) -> frozenset[tuple[Kind, ObjectKey]]:
    match resolved:
        case ResolvedKubeAi(name=name, namespace=namespace):
            return frozenset({(KUBEAI_MODEL, ObjectKey(namespace, name))})
        case ResolvedFreeToken(name=name, namespace=namespace):
            key = ObjectKey(namespace, freetoken_name(name))
            return frozenset({(DEPLOYMENT, key), (SERVICE, key)})
        case ResolvedRealtime(name=name, namespace=namespace):
            key = ObjectKey(namespace, realtime_name(name))
            return frozenset({(DEPLOYMENT, key), (SERVICE, key), (CONFIG_MAP, key)})
        case _:
            return frozenset()
