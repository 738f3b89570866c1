"""The reconciler of instances: what it watches, and what it sees of one instance."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Protocol

from magicstick.api import labels
from magicstick.api.app_instance import AppInstanceSpec, AppInstanceStatus
from magicstick.api.kinds import APP_INSTANCE, APPLIANCE, HELM_RELEASE, KUSTOMIZATION, MODULE_ACTIVATION
from magicstick.api.parse import parse, read_status
from magicstick.apps.decide import decide, decide_failure
from magicstick.apps.facts import (
    MADE_KINDS,
    InstanceFacts,
    target_of,
)
from magicstick.apps.kinds import HTTP_ROUTE, REFERENCE_GRANT, SECURITY_POLICY, SERVICE
from magicstick.apps.observation import (
    UNKNOWN_DOMAINS,
    Entry,
    InstanceObservation,
    RequiredModule,
    application_of,
)
from magicstick.apps.release_schema import HELM_RELEASE_DEFINITION, ReleaseDefinition
from magicstick.apps.status import InstancePhase, Outcome
from magicstick.apps.wakes import InstanceWakes, namespace_changed, service_changed
from magicstick.apps.way_in import backend_service
from magicstick.catalogs.applications import ApplicationCatalog, ApplicationDefinition
from magicstick.catalogs.modules import ModuleCatalog
from magicstick.kube.errors import ApiError
from magicstick.kube.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, NAMESPACE, Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.modules.activations import belongs_to
from magicstick.modules.dependence import need_edges
from magicstick.modules.needs import request_modules
from magicstick.modules.ports import Definitions, Reads, WakeUp, on_new_state
from magicstick.modules.wakes import Wakes as ModuleWakes
from magicstick.modules.wakes import identity_changed
from magicstick.runtime.plan import Plan
from magicstick.runtime.reconciler import Declaration, Edge

NAME: Final = "instances"

_KINDS: Final = frozenset(
    {*MADE_KINDS, NAMESPACE, SERVICE, APPLIANCE, CONFIG_MAP, MODULE_ACTIVATION, KUSTOMIZATION}
)
"""Whether these can be read, and are served, decides what may be concluded."""


class Catalogs(Protocol):
    """The catalogs that instances are made from; `catalogs.loader.Catalogs` is the real one."""

    @property
    def applications(self) -> ApplicationCatalog | None:
        """The last good copy; None before the first."""
        ...

    def subscribe(self, handler: Callable[[str, Any, Any], None]) -> None:
        """Call `handler(name, old copy, new copy)` after each change of a catalog or of its problem."""
        ...


class InstanceReconciler:
    """Keeps one HelmRelease and one guarded way in per enabled instance, and the status of each.

    The watch needs: AppInstances, ModuleActivations and HelmReleases in the Appliance's namespace, the
    Appliance, Kustomizations and the settings ConfigMap in Flux's, CustomResourceDefinitions, HTTPRoutes,
    SecurityPolicies, ReferenceGrants, Namespaces and Services.
    """

    def __init__(
        self,
        facts: InstanceFacts,
        reads: Reads,
        catalogs: Catalogs,
        definitions: Definitions,
        resync_s: float,
    ) -> None:
        self.facts = facts
        self._reads = reads
        self._catalogs = catalogs
        self._definitions = definitions
        self._wakes = InstanceWakes(facts, lambda: catalogs.applications)
        self._declaration = _declare(facts, self._wakes, resync_s)

    @property
    def declaration(self) -> Declaration:
        """See `runtime.reconciler.Reconciler`."""
        return self._declaration

    def follow(self, wake: WakeUp) -> None:
        """Have `wake` called for what no watched object tells: other catalogs, a kind that can be read."""

        def changed(_name: str, old: object, new: object) -> None:
            if isinstance(new, ApplicationCatalog) and new is not old:
                before = old if isinstance(old, ApplicationCatalog) else None
                wake(self._wakes.by_catalog(before, new))
            elif isinstance(new, ModuleCatalog) and new is not old:
                wake(self._wakes.everyone())

        self._catalogs.subscribe(changed)
        on_new_state(self._reads, _KINDS, lambda: wake(self._wakes.everyone()))

    async def observe(self, key: ObjectKey) -> InstanceObservation | None:
        """See `runtime.reconciler.Reconciler`."""
        instance = self.facts.instances.get(key)
        return None if instance is None else self.observation(instance)

    def decide(self, observation: InstanceObservation, now: datetime) -> Plan:  # noqa: ARG002 - no clock here
        """See `decide.decide`."""
        return decide(observation)

    def decide_failure(
        self,
        observation: InstanceObservation,
        error: ApiError,
        now: datetime,  # noqa: ARG002 - no clock here
    ) -> Plan:
        """See `decide.decide_failure`."""
        return decide_failure(observation, error)

    # --- observing -------------------------------------------------------------------------------

    def observation(self, instance: Resource) -> InstanceObservation:
        """What there is to know about one instance now; of one that nobody wants, only what is left."""
        facts, name = self.facts, instance.metadata.name
        standing = InstanceObservation(
            instance,
            parse(AppInstanceSpec, instance),
            read_status(AppInstanceStatus, instance),
            facts.site,
            facts.gateway,
            ours=belongs_to(instance, facts.site),
            blind=facts.blind(),
        )
        if not standing.ours or standing.blind:
            return standing
        complete = replace(
            standing,
            releases=facts.releases(name),
            stranger=facts.stranger(name),
            live=facts.live_access(instance),
            entry=self._entry(instance),
            domains=facts.domains() or UNKNOWN_DOMAINS,
        )
        definition = complete.definition
        return complete if complete.dying or definition is None else self._surrounded(complete, definition)

    def _entry(self, instance: Resource) -> Entry | None:
        catalog, key = self._catalogs.applications, application_of(instance)
        if catalog is None:
            return None
        return Entry(catalog.applications.get(key), catalog.invalid.get(key, ""))

    def _surrounded(self, o: InstanceObservation, definition: ApplicationDefinition) -> InstanceObservation:
        """With what matters to an instance whose application is known."""
        facts, modules = self.facts, self.facts.modules
        required = tuple(dict.fromkeys(map(modules.canonical, definition.required_modules)))
        established = {name: self._definitions.established(name) for name in definition.required_crds}
        source, retries = modules.source(), facts.retries()
        read = {
            "module catalog": modules.catalog is not None,
            "settings": o.domains is not UNKNOWN_DOMAINS,
            "Appliance": source is not None,
            "definitions": retries is not None and None not in established.values(),
        }
        unread = ", ".join(name for name, done in read.items() if not done)
        backend = backend_service(o.instance, definition)
        return replace(
            o,
            unknown=facts.unreadable() or (f"Not known yet: {unread}" if unread else ""),
            host_owner=facts.host_owner(o.instance),
            unserved=facts.unserved(),
            modules=tuple(RequiredModule(each, modules.readiness(each)) for each in required),
            requests=request_modules(required, modules) if o.enabled else (),
            missing_crds=tuple(name for name, there in established.items() if not there),
            place=facts.place(target_of(o.instance), backend),
            source=source,
            retries=retries is not False,
        )


def _declare(facts: InstanceFacts, wakes: InstanceWakes, resync_s: float) -> Declaration:
    return Declaration(
        name=NAME,
        primary=APP_INSTANCE,
        namespace=facts.site.appliance_namespace,
        finalizer=labels.INSTANCE_FINALIZER,
        writes=frozenset(
            {MODULE_ACTIVATION, NAMESPACE, HELM_RELEASE, HTTP_ROUTE, SECURITY_POLICY, REFERENCE_GRANT}
        ),
        edges=(*_own_edges(facts, wakes), *_surrounding_edges(facts, wakes)),
        requeue_s={
            **dict.fromkeys(InstancePhase, resync_s),
            Outcome.HELD: resync_s,
            Outcome.NOT_OURS: None,
            Outcome.RELEASED: None,
        },
    )


_WHY_PIECES: Final[dict[Kind, str]] = {
    HTTP_ROUTE: "whether the routes are as they should be",
    SECURITY_POLICY: "whether the gateway has accepted the policies, and nobody has edited them",
    REFERENCE_GRANT: "whether the routes may lead into the application's namespace",
}


def _piece_edge(kind: Kind, facts: InstanceFacts, wakes: InstanceWakes) -> Edge[Resource]:
    return Edge(kind, wakes.by_piece(kind), _WHY_PIECES[kind], namespace=facts.where(kind))


def _own_edges(facts: InstanceFacts, wakes: InstanceWakes) -> tuple[Edge[Any], ...]:
    """What is made for instances, and what may stand in its way."""
    return (
        Edge(
            APP_INSTANCE,
            wakes.by_rival,
            "which instance has a host name that several claim",
            identity_changed,
            namespace=facts.site.appliance_namespace,
        ),
        Edge(
            HELM_RELEASE,
            wakes.by_release,
            "what Flux says of the installation",
            namespace=facts.site.appliance_namespace,
        ),
        *(_piece_edge(kind, facts, wakes) for kind in _WHY_PIECES),
        Edge(SERVICE, wakes.by_service, "whose Service the routes would lead to", service_changed),
        Edge(NAMESPACE, wakes.by_namespace, "whether the target namespace is there", namespace_changed),
    )


def _surrounding_edges(facts: InstanceFacts, wakes: InstanceWakes) -> tuple[Edge[Any], ...]:
    site = facts.site
    return (
        *need_edges(site, wakes, bringers="the application's operators"),
        Edge(
            CUSTOM_RESOURCE_DEFINITION,
            wakes.everyone,
            "whether Flux can be told to try an installation again",
            name=HELM_RELEASE_DEFINITION,
            view=ReleaseDefinition,
        ),
        Edge(
            APPLIANCE,
            wakes.everyone,
            "where Flux takes charts from",
            ModuleWakes(facts.modules).source_changed,
            namespace=site.appliance_namespace,
        ),
        Edge(
            CONFIG_MAP,
            wakes.everyone,
            "under which domains instances are served",
            wakes.settings_changed,
            namespace=site.flux_namespace,
            name=site.settings_configmap,
        ),
    )
