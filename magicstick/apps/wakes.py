"""Which instances have to be looked at again after a change of something that they depend on.

The cost of a change is that of what it concerns: a release, a route or a Service wakes its own instance, a
module only the instances of applications that need it, and only when its readiness really changes.
"""

from collections.abc import Callable, Iterable, Iterator

from magicstick.apps.facts import (
    APPLICATION_INDEX,
    HOST_INDEX,
    NAMESPACE_INDEX,
    InstanceFacts,
    host_of,
    hosts_of_route,
    instance_of,
)
from magicstick.apps.kinds import SERVICE
from magicstick.apps.ports import Reference
from magicstick.catalogs.applications import ApplicationCatalog
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.modules.readiness_memory import ReadinessMemory

Applications = Callable[[], ApplicationCatalog | None]


def service_changed(old: View | None, new: View | None) -> bool:
    """Whether it may be another instance's Service than before: it came, went, or says so otherwise."""
    if old is None or new is None:
        return True
    a, b = old.metadata, new.metadata
    return (a.uid, a.annotations, a.owner_references) != (b.uid, b.annotations, b.owner_references)


def namespace_changed(old: View | None, new: View | None) -> bool:
    """Whether it came, went, or is going."""
    return old is None or new is None or old.metadata.dying != new.metadata.dying


class InstanceWakes:
    """From changes to the keys of instances. Remembers the last certain readiness of each module."""

    def __init__(self, facts: InstanceFacts, applications: Applications) -> None:
        self._facts = facts
        self._applications = applications
        self._memory = ReadinessMemory(facts.modules)

    def by_rival(self, old: Resource | None, new: Resource | None) -> Iterator[ObjectKey]:
        """The instances that are, or were, to be served under the same host names."""
        for host in {host_of(each) for each in (old, new) if each is not None}:
            yield from self._indexed(HOST_INDEX, host)

    def by_release(self, old: Resource | None, new: Resource | None) -> Iterator[ObjectKey]:
        """Whom the release installs, and whoever has its name: it may be in that one's way."""
        for each in (old, new):
            if each is not None:
                yield from self._named(instance_of(each))
                yield from self._named(each.metadata.name)

    def by_piece(self, kind: Kind) -> Callable[[Resource | None, Resource | None], Iterator[ObjectKey]]:
        """For a kind of the way in: whom its object serves, and whoever needs the place where it is."""

        def wakes(old: Resource | None, new: Resource | None) -> Iterator[ObjectKey]:
            for each in (old, new):
                if each is not None:
                    yield from self._named(instance_of(each))
                    yield from self._facts.at(Reference(kind, each.metadata.key))
                for host in hosts_of_route(each) if each is not None else ():
                    yield from self._indexed(HOST_INDEX, host)

        return wakes

    def by_service(self, old: Resource | None, new: Resource | None) -> Iterator[ObjectKey]:
        """Whose backend it may be."""
        changed = new or old
        if changed is not None:
            yield from self._facts.at(Reference(SERVICE, changed.metadata.key))

    def by_namespace(self, old: Resource | None, new: Resource | None) -> Iterator[ObjectKey]:
        """Those that run there."""
        changed = new or old
        if changed is not None:
            yield from self._indexed(NAMESPACE_INDEX, changed.metadata.name)

    def by_kustomization(self, old: Resource | None, new: Resource | None) -> Iterator[ObjectKey]:
        """Those that need the module, when it becomes ready, or is it no more."""
        changed, names = new or old, self._facts.modules.names
        if changed is None or names is None:
            return
        module = names.module_of(changed.metadata.name)
        if module is not None and self._memory.flipped(changed.metadata.name, module, new):
            yield from self._needing({module})

    def by_module(self, old: Resource | None, new: Resource | None) -> Iterator[ObjectKey]:
        """Those that need the module of an activation, or what it requires."""
        yield from self._needing(
            {self._facts.modules.module_of(each) for each in (old, new) if each is not None}
        )

    def by_definition(self, old: View | None, new: View | None) -> Iterator[ObjectKey]:
        """Those that wait for the definition, or need a module that does."""
        latest, names, applications = new or old, self._facts.modules.names, self._applications()
        if latest is None or applications is None:
            return
        name = latest.metadata.name
        for key, definition in applications.applications.items():
            if name in definition.required_crds:
                yield from self._indexed(APPLICATION_INDEX, key)
        if names is not None:
            yield from self._needing(set(names.modules_with_crd(name)))

    def by_catalog(
        self, old: ApplicationCatalog | None, new: ApplicationCatalog | None
    ) -> Iterator[ObjectKey]:
        """The instances of applications of which the two catalogs say different things."""
        for instance in self._facts.instances.list():
            application = instance.spec.get("application")
            if old is None or new is None or _meaning(old, application) != _meaning(new, application):
                yield instance.metadata.key

    def everyone(self, *_change: object) -> Iterable[ObjectKey]:
        """All instances."""
        return self._facts.instances.keys()

    def settings_changed(self, old: View | None, new: View | None) -> bool:
        """Whether the settings ConfigMap says something else than before."""
        before, after = (each.data if isinstance(each, Resource) else None for each in (old, new))
        return before != after

    def _needing(self, modules: set[str]) -> Iterator[ObjectKey]:
        """The instances of the applications that require one of the modules."""
        applications, canonical = self._applications(), self._facts.modules.canonical
        if applications is None or not modules:
            return
        for key, definition in applications.applications.items():
            if modules & set(map(canonical, definition.required_modules)):
                yield from self._indexed(APPLICATION_INDEX, key)

    def _indexed(self, index: str, value: str) -> Iterator[ObjectKey]:
        return (each.metadata.key for each in self._facts.instances.by_index(index, value))

    def _named(self, name: str) -> Iterator[ObjectKey]:
        instance = self._facts.instance(name) if name else None
        if instance is not None:
            yield instance.metadata.key


def _meaning(catalog: ApplicationCatalog, application: object) -> tuple[object, ...]:
    """Everything that a catalog says of an application."""
    key = application if isinstance(application, str) else ""
    return catalog.applications.get(key), catalog.invalid.get(key)
