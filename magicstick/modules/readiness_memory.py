"""What of a Kustomization is news to those who depend on its module."""

from magicstick.catalogs.modules import STATIC_KUSTOMIZATIONS
from magicstick.kube.objects import Resource
from magicstick.modules.facts import ModuleFacts, Readiness, State, readiness_of


class ReadinessMemory:
    """The last certain readiness of each Kustomization that somebody asked about, by its name.

    Flux looks at everything every ten minutes, and says so: only what becomes of it is news.
    """

    def __init__(self, facts: ModuleFacts) -> None:
        self._facts = facts
        self._last: dict[str, Readiness] = {}

    def flipped(self, name: str, module: str, new: Resource | None) -> bool:
        """Whether the module became ready with this change of its Kustomization, or is it no more.

        One that goes is news where it was known; while nobody can tell, nothing is.
        """
        if new is None:
            return self._last.pop(name, None) is not None
        catalog = self._facts.catalog
        definition = catalog.modules.get(module) if catalog is not None else None
        static = module in STATIC_KUSTOMIZATIONS if definition is None else definition.static
        readiness = readiness_of(new, static=static)
        if readiness.state is State.UNKNOWN or self._last.get(name) == readiness:
            return False
        self._last[name] = readiness
        return True
