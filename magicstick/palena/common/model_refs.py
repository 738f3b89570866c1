"""Which gateways a PalenaModel names, read from the object as it is stored, since several kinds ask."""

from collections.abc import Iterable

from magicstick.api.kinds import PALENA_GATEWAY
from magicstick.kube.objects import Resource
from magicstick.palena.common.referrers import Reference


def gateways_of(model: Resource) -> Iterable[Reference]:
    """Its gateways, each once; what is no reference is passed over."""
    entries = model.spec.get("gatewayRefs")
    found = (
        (PALENA_GATEWAY, str(each.get("namespace") or model.metadata.namespace), str(each["name"]))
        for each in (entries if isinstance(entries, list | tuple) else ())
        if isinstance(each, dict) and isinstance(each.get("name"), str)
    )
    return dict.fromkeys(found)
