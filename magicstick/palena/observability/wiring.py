"""The callback of the gateway's LiteLLM, which has it trace to Langfuse (spec: palena §3.6, §7.6).

The gateway never writes this block, and we nothing but it. A Langfuse that is away later leaves it as it is:
LiteLLM does not restart with every flap.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from magicstick.api.kinds import LITELLM_INSTANCE
from magicstick.api.palena.observability import PalenaObservabilitySpec
from magicstick.kube.differ import holds
from magicstick.palena.common import gateway_names
from magicstick.palena.common.owners import part
from magicstick.palena.common.verdicts import Verdict, failed, fine, waiting
from magicstick.palena.observability.callbacks import Callback, Shape, shape_of, with_entry, without_entry
from magicstick.palena.observability.observation import ObservabilityObservation
from magicstick.runtime.plan import ApplyPart, Patch, Step

CALLBACK_CONFIGURED: Final = "CallbackConfigured"
SHAPE_UNSUPPORTED: Final = "CallbackShapeUnsupported"


@dataclass(frozen=True, slots=True)
class Wiring:
    """What there is of the callback, and what has to be written."""

    verdict: Verdict
    steps: tuple[Step, ...] = field(default=(), repr=False)
    configured: bool = False


def wiring(
    o: ObservabilityObservation, spec: PalenaObservabilitySpec, *, langfuse_ready: bool, keys_there: bool
) -> Wiring:
    """The callback, once Langfuse is ready and LiteLLM finds the keys; from then on it stays."""
    if not spec.callback.enabled:
        return Wiring(fine(CALLBACK_CONFIGURED, "Disabled", "callback.enabled is false"), unwired(o))
    shape = chosen_shape(o)
    if o.instance is None or o.older or shape is None:
        return Wiring(_hindrance(o))
    block = with_entry(shape, _callbacks(o), Callback(o.names.api_keys, spec.callback.type))
    fields = {"spec": {"callbacks": block}}
    steps = (ApplyPart(LITELLM_INSTANCE, part(LITELLM_INSTANCE, o.instance, fields)),)
    if holds(fields, o.instance):
        told = fine(CALLBACK_CONFIGURED, "CallbackConfigured", "LiteLLM traces every request to Langfuse")
        return Wiring(told, steps if keys_there else (), configured=True)
    if not langfuse_ready or not keys_there:
        return Wiring(_awaited(langfuse_ready=langfuse_ready))
    message = "the LiteLLMInstance does not keep the callback that its schema asks for"
    return Wiring(failed(CALLBACK_CONFIGURED, SHAPE_UNSUPPORTED, message), steps)


def _hindrance(o: ObservabilityObservation) -> Verdict:
    """Why there can be no callback of ours, in the order in which a person would look."""
    if o.instance is None:
        name = gateway_names.instance(o.gateway.name)
        message = f"LiteLLMInstance {o.gateway.namespace}/{name} does not exist"
        return waiting(CALLBACK_CONFIGURED, "LiteLLMInstanceNotFound", message)
    if o.older:
        message = f"{o.older} has the callback of this gateway already: remove one of the two"
        return waiting(CALLBACK_CONFIGURED, "GatewayAlreadyObserved", message, degrades=True)
    message = "spec.callbacks of the served LiteLLMInstance has neither langfuse nor types and envVars"
    return failed(CALLBACK_CONFIGURED, SHAPE_UNSUPPORTED, message)


def _awaited(*, langfuse_ready: bool) -> Verdict:
    if not langfuse_ready:
        return waiting(
            CALLBACK_CONFIGURED, "WaitingForLangfuse", "the callback waits until Langfuse is ready"
        )
    message = "the callback waits until the API keys are complete beside the gateway"
    return waiting(CALLBACK_CONFIGURED, "WaitingForAPIKeys", message)


def unwired(o: ObservabilityObservation) -> tuple[Step, ...]:
    """Takes our entry out of the block, whoever has taken it over meanwhile; () once it is out."""
    if o.instance is None or o.instance.metadata.dying:
        return ()
    left = without_entry(_callbacks(o), o.names.api_keys)
    if left is None:
        return ()
    body = {"spec": {"callbacks": left or None}}
    return (Patch(LITELLM_INSTANCE, o.instance.metadata.key, o.instance.metadata.uid, body),)


def chosen_shape(o: ObservabilityObservation) -> Shape | None:
    """As the setting says, or as the kind is served; what cannot be read is taken for the lists."""
    if o.shape is not None:
        return o.shape
    schema = o.schemas.litellm
    return Shape.LISTS if schema is None else shape_of(schema.at("spec", "callbacks"))


def _callbacks(o: ObservabilityObservation) -> Any:
    return None if o.instance is None else o.instance.spec.get("callbacks")
