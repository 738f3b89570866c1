"""Instances, and the namespaces that Paperclip makes for itself."""

from magicstick.apps.facts import InstanceFacts
from magicstick.apps.ports import GatewaySite
from magicstick.apps.reconciler import InstanceReconciler
from magicstick.apps.tenants import TenantReconciler
from magicstick.catalogs.loader import Catalogs
from magicstick.kube.discovery import Discovery
from magicstick.modules.facts import ModuleFacts
from magicstick.runtime.reads import Reads
from magicstick.runtime.reconciler import Followed
from magicstick.runtime.settings import Settings


def apps(
    modules: ModuleFacts, reads: Reads, catalogs: Catalogs, settings: Settings, discovery: Discovery
) -> tuple[Followed, ...]:
    """The applications' half."""
    defaults = (settings.default_mdns_domain, settings.default_public_domain)
    facts = InstanceFacts(modules, reads, GatewaySite.of(settings), defaults)
    resync_s = settings.requeue_seconds
    return (
        InstanceReconciler(facts, reads, catalogs, discovery, resync_s),
        TenantReconciler(facts, reads, settings.litellm_namespace, resync_s),
    )
