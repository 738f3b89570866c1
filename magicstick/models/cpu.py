"""CPU of a replica: the catalog's defaults, overlaid by the model's own words (spec: models §8.6)."""

from collections.abc import Mapping
from typing import Final, Literal

from pydantic import ValidationError

from magicstick.api.model_activation import LIMIT_BELOW_REQUEST, CpuResources
from magicstick.catalogs.compute_targets import ComputeTargetCatalog, CpuPolicy
from magicstick.models.validation import refuse

FALLBACK: Final[Mapping[tuple[str, str], CpuPolicy]] = {
    ("VLLM", "cpu"): CpuPolicy(requestMillicores=2000, limitMillicores=8000),
    ("OLlama", "cpu"): CpuPolicy(requestMillicores=2000, limitMillicores=8000),
    ("VLLM", "gpu"): CpuPolicy(requestMillicores=1000),
    ("OLlama", "gpu"): CpuPolicy(requestMillicores=500),
    ("FreeToken", "gpu"): CpuPolicy(requestMillicores=4000, limitMillicores=8000),
}
"""Where a catalog is silent; the shipped one says the same (spec: models §4.1)."""


def cpu_policy(
    catalog: ComputeTargetCatalog, engine: str, kind: Literal["cpu", "gpu"], wanted: CpuResources | None
) -> CpuPolicy:
    """Request and limit in thousandths of a core, a limit of 0 for none. Inherited values count too.

    Raises:
        RefusedError: the limit is below the request that holds.
    """
    inherited = _inherited(catalog, engine, kind)
    if wanted is None:
        return inherited
    request = wanted.request_millicores
    limit = wanted.limit_millicores
    try:
        return CpuPolicy(
            requestMillicores=inherited.request_millicores if request is None else request,
            limitMillicores=inherited.limit_millicores if limit is None else limit,
        )
    except ValidationError:
        field = "requestMillicores" if limit is None else "limitMillicores"
        refuse(f"spec.local.cpuResources.{field}", f"is refused: {LIMIT_BELOW_REQUEST}, inherited ones too")


def _inherited(catalog: ComputeTargetCatalog, engine: str, kind: Literal["cpu", "gpu"]) -> CpuPolicy:
    definition = catalog.engines.get(engine)
    given = None
    if definition is not None:
        given = definition.cpu_defaults.cpu if kind == "cpu" else definition.cpu_defaults.gpu
    return given or FALLBACK[engine, kind]
