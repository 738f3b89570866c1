"""What the caches know of instances: what installs them, their way in, and who else wants their names.

Everything is read from caches, at the cost of the instance that is asked for.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from magicstick.api import labels
from magicstick.api.base import DEFAULT_TARGET_NAMESPACE
from magicstick.api.kinds import APP_INSTANCE, HELM_RELEASE
from magicstick.api.names import RELEASE_NAME_LIMIT, is_dns_label
from magicstick.apps.gateway.hosts import domains_of, label, owner_of
from magicstick.apps.gateway.places import references
from magicstick.apps.kinds import ACCESS_KINDS, HTTP_ROUTE, REFERENCE_GRANT, SERVICE
from magicstick.apps.objects import is_ours
from magicstick.apps.observation import Place, application_of
from magicstick.apps.ports import Domains, GatewaySite, LiveAccess, Piece, Reference
from magicstick.apps.release_schema import HELM_RELEASE_DEFINITION, ReleaseDefinition
from magicstick.apps.way_in import short_of
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, NAMESPACE, Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.kube.store import Store
from magicstick.modules.activations import belongs_to
from magicstick.modules.facts import ModuleFacts
from magicstick.modules.objects import Site
from magicstick.modules.ports import Reads

INSTANCE_INDEX: Final = "instance"
"""What was made for an instance, by the instance's name."""
HOST_INDEX: Final = "host"
"""Instances, and the routes of ours to them, by short name and application, which begin a host name."""
APPLICATION_INDEX: Final = "application"
"""Instances by application."""
PLACE_INDEX: Final = "place"
"""Instances by every place that a piece of their way in, or their backend, may have."""
NAMESPACE_INDEX: Final = "namespace"
"""Instances by target namespace."""

MADE_KINDS: Final = (HELM_RELEASE, *ACCESS_KINDS)
"""What is made for an instance, and found again by its label."""


class InstanceFacts:
    """See the module."""

    def __init__(
        self, modules: ModuleFacts, reads: Reads, gateway: GatewaySite, defaults: tuple[str, str]
    ) -> None:
        """`defaults`: the local and the public domain where the settings ConfigMap names none."""
        self.modules = modules
        self.gateway = gateway
        self._reads = reads
        self._defaults = defaults

    @property
    def site(self) -> Site:
        """Where things are."""
        return self.modules.site

    # --- instances -------------------------------------------------------------------------------

    @property
    def instances(self) -> Store[Resource]:
        """All instances, of other Appliances too, with their indexes."""
        store: Store[Resource] = self._reads.store(APP_INSTANCE, self.site.appliance_namespace)
        store.index(HOST_INDEX, _by_host)
        store.index(APPLICATION_INDEX, _by_application)
        store.index(PLACE_INDEX, self._by_place)
        store.index(NAMESPACE_INDEX, _by_namespace)
        return store

    def instance(self, name: str) -> Resource | None:
        """The instance of this name."""
        return self.instances.get(ObjectKey(self.site.appliance_namespace, name))

    def rivals(self, instance: Resource) -> tuple[Resource, ...]:
        """All instances of our Appliance that could be served as this one, itself included."""
        found = self.instances.by_index(HOST_INDEX, host_of(instance))
        return tuple(each for each in found if belongs_to(each, self.site) and _may_be_served(each))

    def host_owner(self, instance: Resource) -> str:
        """The other instance that has the host names of this one; "" when nobody has."""
        owner = owner_of(self.rivals(instance))
        return "" if owner is None or owner.metadata.uid == instance.metadata.uid else owner.metadata.name

    def at(self, reference: Reference) -> Iterator[ObjectKey]:
        """The instances to which it matters what stands at a place."""
        return (each.metadata.key for each in self.instances.by_index(PLACE_INDEX, _place(reference)))

    # --- what is made for them -------------------------------------------------------------------

    def blind(self) -> str:
        """Why what was made for an instance cannot be told now; "" when it can.

        A kind that is not served is no obstacle: then there is nothing of it.
        """
        for kind in MADE_KINDS:
            state = self._state(kind)
            if state not in (InformerState.SYNCED, InformerState.ABSENT):
                return f"{kind.kind}s cannot be read now ({state})"
        return ""

    def releases(self, name: str) -> tuple[Resource, ...]:
        """The HelmReleases of ours that install the instance, by label or by name; sorted by name."""
        labelled = self._made(HELM_RELEASE).by_index(INSTANCE_INDEX, name)
        found = {each.metadata.name: each for each in labelled}
        named = self._release_named(name)
        if named is not None and is_ours(named):
            found[name] = named
        return tuple(found[each] for each in sorted(found))

    def stranger(self, name: str) -> Resource | None:
        """The HelmRelease of somebody else at the place of the instance's own."""
        named = self._release_named(name)
        return None if named is None or is_ours(named) else named

    def _release_named(self, name: str) -> Resource | None:
        return self._made(HELM_RELEASE).get(ObjectKey(self.site.appliance_namespace, name))

    def live_access(self, instance: Resource) -> LiveAccess:
        """What stands of the way in to an instance, and at the places and hosts that it needs."""
        name = instance.metadata.name
        pieces = tuple(
            Piece(kind, each)
            for kind in ACCESS_KINDS
            for each in self._made(kind).by_index(INSTANCE_INDEX, name)
        )
        occupants = {
            reference: live
            for reference in references(name, target_of(instance), self.gateway)
            if (live := self._made(reference.kind).get(reference.key)) is not None
        }
        return LiveAccess(pieces, occupants, self._rival_routes(instance))

    def _rival_routes(self, instance: Resource) -> tuple[Resource, ...]:
        """The routes of other instances to what this one is to be served as."""
        found = self._made(HTTP_ROUTE).by_index(HOST_INDEX, host_of(instance))
        return tuple(each for each in found if instance_of(each) != instance.metadata.name)

    def unserved(self) -> tuple[str, ...]:
        """The definitions, of Flux and the gateway, without which no instance can be made."""
        return tuple(kind.crd_name for kind in MADE_KINDS if self._state(kind) is InformerState.ABSENT)

    def retries(self) -> bool | None:
        """Whether the served HelmRelease knows the strategy that tries again; None while not known."""
        store: Store[ReleaseDefinition] = self._reads.store(
            CUSTOM_RESOURCE_DEFINITION, "", HELM_RELEASE_DEFINITION
        )
        if not store.synced:
            return None
        definition = store.get(ObjectKey("", HELM_RELEASE_DEFINITION))
        return definition is not None and definition.retries

    # --- their surroundings ----------------------------------------------------------------------

    def domains(self) -> Domains | None:
        """Under which names the appliance is served; None as long as that could never be read.

        The defaults stand in for what the settings leave out or get wrong, and for settings that are
        certainly not there: a read that failed renames nothing.
        """
        key = ObjectKey(self.site.flux_namespace, self.site.settings_configmap)
        store: Store[Resource] = self._reads.store(CONFIG_MAP, *key)
        if not store.synced:
            return None
        settings = store.get(key)
        data: Mapping[str, str] = {} if settings is None else settings.data
        return domains_of(data, *self._defaults)

    def unreadable(self) -> str:
        """Why the surroundings of an instance cannot be told now; "" when they can."""
        for kind in (NAMESPACE, SERVICE):
            state = self._reads.state(kind)
            if state is not InformerState.SYNCED:
                return f"{kind.kind}s cannot be read now ({state})"
        return ""

    def place(self, namespace: str, service: str) -> Place:
        """A target namespace, and the Service of this name in it."""
        found: Resource | None = self._reads.store(NAMESPACE).get(ObjectKey("", namespace))
        occupant: Resource | None = self._reads.store(SERVICE).get(ObjectKey(namespace, service))
        return Place(found is not None, found is not None and found.metadata.dying, occupant)

    # --- shared ----------------------------------------------------------------------------------

    def _state(self, kind: Kind) -> InformerState:
        return self._reads.state(kind, self.where(kind))

    def _made(self, kind: Kind) -> Store[Resource]:
        store: Store[Resource] = self._reads.store(kind, self.where(kind))
        store.index(INSTANCE_INDEX, _by_label)
        if kind == HTTP_ROUTE:
            store.index(HOST_INDEX, hosts_of_route)
        return store

    def where(self, kind: Kind) -> str:
        """The namespace in which a kind is made for instances; "" for grants, which go along with them."""
        if kind == HELM_RELEASE:
            return self.site.appliance_namespace
        return "" if kind == REFERENCE_GRANT else self.gateway.namespace

    def _by_place(self, instance: Resource) -> tuple[str, ...]:
        """Every place that matters to an instance: those of its way in, and of either backend."""
        name, namespace = instance.metadata.name, target_of(instance)
        backends = {name, short_of(instance)}
        services = (Reference(SERVICE, ObjectKey(namespace, each)) for each in sorted(backends))
        return tuple(map(_place, (*references(name, namespace, self.gateway), *services)))


def _may_be_served(instance: Resource) -> bool:
    """Whether a catalog could ever have its application, and Helm install it under its name."""
    named = is_dns_label(instance.metadata.name, RELEASE_NAME_LIMIT)
    return named and is_dns_label(application_of(instance))


def target_of(instance: Resource) -> str:
    """Where an instance runs, as far as its spec says."""
    value = instance.spec.get("targetNamespace")
    return value if isinstance(value, str) and value else DEFAULT_TARGET_NAMESPACE


def host_of(instance: Resource) -> str:
    """What the host names of an instance begin with, whatever the domains are; as `hosts_of` has it."""
    return f"{short_of(instance)}.{label(application_of(instance), 'application')}"


def instance_of(made: Resource) -> str:
    """The instance that an object of ours was made for; "" for any other object."""
    return made.metadata.labels.get(labels.INSTANCE, "") if is_ours(made) else ""


def _place(reference: Reference) -> str:
    return f"{reference.kind} {reference.key}"


def _by_label(made: Resource) -> tuple[str, ...]:
    name = instance_of(made)
    return (name,) if name else ()


def hosts_of_route(route: Resource) -> tuple[str, ...]:
    """What the host names of a route of ours begin with, as `host_of` has it; () for any other route."""
    names = route.spec.get("hostnames")
    listed = names if isinstance(names, list | tuple) and instance_of(route) else ()
    return tuple(".".join(str(each).split(".")[:2]) for each in listed)


def _by_host(instance: Resource) -> tuple[str, ...]:
    return (host_of(instance),)


def _by_application(instance: Resource) -> tuple[str, ...]:
    return (application_of(instance),)


def _by_namespace(instance: Resource) -> tuple[str, ...]:
    return (target_of(instance),)
