"""A model of the appliance in the same cluster, as a source of a PalenaModel (spec: palena §12.3)."""

from typing import Final

from magicstick.kube.kinds import ObjectKey
from magicstick.kube.objects import Resource
from magicstick.palena.common.children import condition_holds, text
from magicstick.palena.common.prerequisites import CRD_MISSING
from magicstick.palena.model.objects import Source
from magicstick.palena.model.observation import KUBEAI, Bridged

MODEL_ACTIVATION_NOT_READY: Final = "ModelActivationNotReady"
READY: Final = "Ready"
EXTERNAL: Final = "external"


def bridged(key: ObjectKey, live: Resource | None, *, served: bool) -> Bridged:
    """What the activation `live` at `key` gives; `served`: whether there are activations at all."""
    if not served:
        message = "This cluster has no ModelActivations: name a provider instead of modelActivationRef."
        return Bridged(reason=CRD_MISSING, message=message)
    if live is None:
        return _not_ready(f"ModelActivation {key} does not exist.")
    if text(live.status, "engine") == EXTERNAL:
        return _not_ready(f"ModelActivation {key} is no model of this cluster: name its provider instead.")
    if live.metadata.dying or not condition_holds(live, READY):
        return _not_ready(f"ModelActivation {key} is not ready yet.")
    endpoint = text(live.status, "runtimeEndpoint")
    return Bridged(Source(f"openai/{live.metadata.name}", endpoint or KUBEAI))


def _not_ready(message: str) -> Bridged:
    return Bridged(reason=MODEL_ACTIVATION_NOT_READY, message=message)
