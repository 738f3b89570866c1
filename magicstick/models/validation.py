"""How bad input leaves resolution: the first rule that does not hold ends it with a `Refusal`.

Inside resolution a refusal travels as `RefusedError`; `resolve.resolve` is the one place that catches it.
"""

from collections.abc import Mapping
from typing import Final, NoReturn

import msgspec

from magicstick.api.model_activation import LocalModel, ModelActivationSpec
from magicstick.api.names import KUBEAI_MODEL_LIMIT, dns_label_problem
from magicstick.api.parse import InvalidSpec, parse
from magicstick.kube.objects import Resource
from magicstick.models.kv_cache import canonical
from magicstick.models.resolved import Reason, Refusal

MOST_REPLICAS: Final = 2**31 - 1
"""KubeAI counts them in 32 bits."""
TYPES: Final = ("local", "external")
_FORBIDDEN_IN_ENV_NAMES: Final = ("=", "\0")


class RefusedError(Exception):
    """Resolution ended: what is asked for cannot be."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def refuse(field: str, problem: str, reason: Reason = Reason.INVALID_SPEC) -> NoReturn:
    """End the resolution; `problem` completes the sentence that begins with the field.

    Raises:
        RefusedError: always.
    """
    raise RefusedError(Refusal(reason, field, problem))


def read_spec(activation: Resource) -> ModelActivationSpec:
    """The spec, once its type is known to be one of ours and every field fits its schema.

    Raises:
        RefusedError: with `UnsupportedType` before anything else is looked at.
    """
    kind = activation.spec.get("type")
    if kind is not None and kind not in TYPES:
        refuse("spec.type", "must be 'local' or 'external'", Reason.UNSUPPORTED_TYPE)
    spec = parse(ModelActivationSpec, _in_one_spelling(activation))
    if isinstance(spec, InvalidSpec):
        refuse(spec.field, spec.allowed)
    return spec


def check_namespace(spec: ModelActivationSpec) -> None:
    """The target namespace must be able to exist.

    Raises:
        RefusedError: it is no DNS label.
    """
    if problem := dns_label_problem(spec.target_namespace):
        refuse("spec.targetNamespace", problem)


def check_model_name(name: str) -> None:
    """KubeAI must be able to serve the model under the activation's own name (decision 17).

    Raises:
        RefusedError: with `InvalidName`.
    """
    if problem := dns_label_problem(name, KUBEAI_MODEL_LIMIT):
        refuse("metadata.name", f"{problem}, since KubeAI serves the model under it", Reason.INVALID_NAME)


def replicas(local: LocalModel) -> tuple[int, int]:
    """Least and most replicas; what is left out is one.

    Raises:
        RefusedError: there may be none at all, fewer than there must be, or more than can be counted.
    """
    least = 1 if local.min_replicas is None else local.min_replicas
    most = 1 if local.max_replicas is None else local.max_replicas
    if most < 1:
        refuse("spec.local.maxReplicas", "must be at least 1: set spec.enabled to false to stop the model")
    if most > MOST_REPLICAS:
        refuse("spec.local.maxReplicas", f"must be at most {MOST_REPLICAS}")
    if most < least:
        refuse("spec.local.maxReplicas", "must be at least minReplicas, which is 1 where it is left out")
    return least, most


def check_environment(env: Mapping[str, str]) -> None:
    """Names that no container can have would fail in the Pod, where nobody looks.

    Raises:
        RefusedError: a name is empty or holds '='.
    """
    if any(not name or any(each in name for each in _FORBIDDEN_IN_ENV_NAMES) for name in env):
        refuse("spec.local.env", "must have names that are not empty and hold no '='")


def _in_one_spelling(activation: Resource) -> Resource:
    """The activation with the KV cache type as the schema spells it.

    Objects older than the schema have other spellings, and words for the engine's usual type.
    """
    local = activation.spec.get("local")
    raw = local.get("kvCacheType") if isinstance(local, Mapping) else None
    if not isinstance(local, Mapping) or not isinstance(raw, str):
        return activation
    spec = {**activation.spec, "local": {**local, "kvCacheType": canonical(raw)}}
    return msgspec.structs.replace(activation, spec=spec)
