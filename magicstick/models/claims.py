"""Which profiles each activation wants, worked out anew only for those about which something changed."""

from collections.abc import Iterable
from dataclasses import dataclass

from magicstick.kube.objects import Resource
from magicstick.models.hardware import Hardware
from magicstick.models.kubeai_release import KubeAi, Profiles
from magicstick.models.profiles import choose
from magicstick.models.resolve import ModelCatalogs, resolve
from magicstick.models.resolved import DerivedProfile, ProfileChoice, ResolvedKubeAi
from magicstick.models.store_document import Claim
from magicstick.modules.activations import belongs_to
from magicstick.modules.objects import Site

Identity = tuple[str, int]
"""UID and generation: what an activation asks for."""


@dataclass(frozen=True, slots=True)
class _Ground:
    """What all claims depend on. Equal ones give equal claims."""

    catalogs: ModelCatalogs
    hardware: Hardware
    installed: Profiles | None
    reads_store: bool


class Claims:
    """Remembers the claim of each activation for as long as it and the ground of all stay the same."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._ground: _Ground | None = None
        self._known: dict[Identity, tuple[DerivedProfile, ...]] = {}

    def of(
        self, activations: Iterable[Resource], catalogs: ModelCatalogs, hardware: Hardware, kubeai: KubeAi
    ) -> tuple[Claim, ...]:
        """The claims of all that want to be served and need a profile, in no particular order."""
        ground = _Ground(catalogs, hardware, kubeai.installed, kubeai.reads_store)
        if ground != self._ground:
            self._ground, self._known = ground, {}
        wanted = {_identity(each): each for each in activations if self._counts(each)}
        self._known = {
            identity: self._known[identity] if identity in self._known else _profiles(each, ground)
            for identity, each in wanted.items()
        }
        return tuple(
            Claim(wanted[identity].metadata.key, wanted[identity].metadata.creation_timestamp, profiles)
            for identity, profiles in self._known.items()
            if profiles
        )

    def _counts(self, activation: Resource) -> bool:
        enabled = activation.spec.get("enabled") is not False
        return enabled and not activation.metadata.dying and belongs_to(activation, self._site)


def _identity(activation: Resource) -> Identity:
    return activation.metadata.uid, activation.metadata.generation


def _profiles(activation: Resource, ground: _Ground) -> tuple[DerivedProfile, ...]:
    model = resolve(activation, ground.catalogs, ground.hardware)
    if not isinstance(model, ResolvedKubeAi):
        return ()
    choice = choose(model, KubeAi(installed=ground.installed, reads_store=ground.reads_store))
    return choice.derived if isinstance(choice, ProfileChoice) else ()
