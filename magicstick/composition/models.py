"""Models, and the one writer of the profiles that they name."""

from collections.abc import Mapping

from magicstick.catalogs.loader import Catalogs
from magicstick.gpu.evidence import evidence_of
from magicstick.gpu.facts import NodeView
from magicstick.hostops.facts import HostOperationFacts
from magicstick.models.facts import ModelFacts
from magicstick.models.ports import Seams
from magicstick.models.profile_store import ProfileStoreReconciler
from magicstick.models.reconciler import ModelReconciler
from magicstick.models.release_facts import ReleaseFacts
from magicstick.modules.facts import ModuleFacts
from magicstick.runtime.clock import Clock
from magicstick.runtime.reads import Reads
from magicstick.runtime.reconciler import Followed
from magicstick.runtime.settings import Settings


def models(
    modules: ModuleFacts, reads: Reads, catalogs: Catalogs, settings: Settings, clock: Clock, seams: Seams
) -> tuple[Followed, ...]:
    """The models' half. `seams`: where it is asked what no object tells."""

    def evidence(node: NodeView) -> Mapping[str, object]:
        """What the host of a node says of itself, while it is believed."""
        found = evidence_of(node, clock.now())
        return {} if found is None else found.fields

    facts = ModelFacts(modules, reads, evidence, clock)
    release = ReleaseFacts(reads, modules.site)
    gate = HostOperationFacts(reads, modules.site.appliance_namespace)
    return (
        ModelReconciler(facts, catalogs, settings, gate=gate, release=release, clock=clock, seams=seams),
        ProfileStoreReconciler(facts, release, reads, catalogs, settings, clock),
    )
