"""Which objects a resolved model is served by, and where: everything else of ours is of the past."""

from typing import Final

from magicstick.api.kinds import KUBEAI_MODEL
from magicstick.api.names import suffixed
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.models.kinds import DEPLOYMENT, SERVICE
from magicstick.models.observation import Runtime
from magicstick.models.resolved import Refusal, Resolved, ResolvedFreeToken, ResolvedKubeAi

_SUFFIX: Final = "freetoken"


def freetoken_name(name: str) -> str:
    """Name of the Deployment and the Service that serve an activation with FreeToken.

    A name that is no DNS label, or that no server would take for a Service since it begins with a digit,
    is replaced by one that is, with a hash of the whole, so that distinct activations stay distinct.
    """
    return suffixed(name if name[:1].isalpha() else f"m.{name}", _SUFFIX)


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
        case _:
            return frozenset()
