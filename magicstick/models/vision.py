"""The backend of vLLM's vision encoder: an explicit choice owns its flag and its environment.

Left out, arguments and environment stay as they are, with or without a `vllm` block (decision 30).
What is chosen is a request: the engine may still fall back (spec: models §7.2).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from magicstick.api.model_activation import LocalModel
from magicstick.catalogs.compute_targets import ComputeTargetCatalog
from magicstick.models.validation import refuse

FLAG: Final = "mm-encoder-attn-backend"
_FIELD: Final = "spec.local.vllm.visionAttention"


@dataclass(frozen=True, slots=True)
class VisionChoice:
    """An explicit choice."""

    value: str
    """As the model names it."""
    backend: str | None
    """Value of the flag; None removes the flag."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment that the backend needs."""
    owned_env: frozenset[str] = frozenset()
    """Environment of any choice: removed, before that of this one is set."""


def vision_choice(catalog: ComputeTargetCatalog, local: LocalModel, target: str) -> VisionChoice | None:
    """What the model chooses; None where it leaves the choice out.

    Raises:
        RefusedError: the catalog offers no such choice on this target.
    """
    wanted = local.vllm.vision_attention if local.vllm is not None else None
    if wanted is None:
        return None
    engine = catalog.engines.get("VLLM")
    offer = engine.deployment_settings.vision_attention if engine is not None else None
    if offer is None or target not in offer.compute_targets:
        where = ", ".join(offer.compute_targets) if offer is not None else ""
        only = f"only {where} can choose" if where else "the compute-target catalog offers no choice"
        refuse(_FIELD, f"must be left out on {target}: {only}")
    options = {option.value: option for option in offer.options}
    if wanted not in options:
        refuse(_FIELD, f"must be one of {', '.join(options)}")
    owned = frozenset(name for option in offer.options for name in option.env)
    return VisionChoice(wanted, options[wanted].backend, options[wanted].env, owned)
