"""What way in an instance wants: hosts, backend and rules, from its spec and the catalog (spec: §9)."""

from collections.abc import Mapping
from typing import Final

from pydantic import Field

from magicstick.api.app_instance import Access as AccessSpec
from magicstick.api.app_instance import AppInstanceSpec
from magicstick.api.base import Model
from magicstick.api.parse import InvalidSpec, parse
from magicstick.apps.gateway.hosts import hosts_of, short_name
from magicstick.apps.observation import InstanceObservation, application_of
from magicstick.apps.ports import Access, Admitted, Backend, Hosts
from magicstick.apps.status import Addresses
from magicstick.catalogs.applications import ApplicationDefinition
from magicstick.kube.objects import Resource

RELEASE_NAME: Final = "meta.helm.sh/release-name"
"""Annotation with which Helm marks what it installs."""

RESERVED_SERVICES: Final = frozenset(
    {
        "ai-appliance-dashboard",
        "ai-appliance-dashboard-api",
        "anything-llm",
        "keycloak",
        "kubeai",
        "kubernetes",
        "litellm",
        "litellm-postgresql",
        "magicstick-access-guard",
        "private-mesh",
        "qdrant",
    }
)
"""Services of the platform, which no instance may be called like (spec: platform P7)."""


def short_of(instance: Resource) -> str:
    """The short name of an instance, whatever its spec is."""
    values = instance.spec.get("values")
    given: Mapping[str, object] = values if isinstance(values, Mapping) else {}
    return short_name(instance.metadata.name, application_of(instance), given)


def hosts(o: InstanceObservation) -> Hosts:
    """Under which names the instance is served."""
    return hosts_of(short_of(o.instance), o.application, o.domains)


class _AccessAlone(Model):
    """Of a spec, who may use the instance: read for itself, since a wrong one must close the way in."""

    access: AccessSpec = Field(default_factory=AccessSpec)


def admitted(instance: Resource) -> Admitted | InvalidSpec:
    """Whom the instance admits, whatever the rest of its spec is."""
    read = parse(_AccessAlone, instance)
    if isinstance(read, InvalidSpec):
        return read
    return Admitted(read.access.authentication, read.access.role, read.access.exposure)


def access(o: InstanceObservation, spec: AppInstanceSpec, definition: ApplicationDefinition) -> Access:
    """The way in that the instance wants."""
    names, route = hosts(o), definition.route
    return Access(
        instance=o.name,
        uid=o.instance.metadata.uid,
        application=o.application,
        hosts=names,
        domains=o.domains,
        authentication=spec.access.authentication,
        role=spec.access.role,
        exposure=spec.access.exposure,
        backend=Backend(backend_service(o.instance, definition), spec.target_namespace, route.port),
        request_timeout=route.request_timeout,
        strip_cookies=route.strip_cookies,
    )


def addresses(wanted: Access, *, guarded: bool) -> Addresses:
    """What the status says of a way in that is made."""
    local = f"https://{wanted.hosts.local}/"
    public = f"https://{wanted.hosts.public}/" if wanted.exposure == "localAndPublic" else ""
    return Addresses(local, local, public, wanted.authentication, wanted.role, guarded)


def backend_service(instance: Resource, definition: ApplicationDefinition) -> str:
    """The name of the Service that the routes lead to (spec: modules-and-apps §9.3)."""
    if definition.route.service_name == "shortName":
        return short_of(instance)
    return instance.metadata.name


def belongs(service: Resource, o: InstanceObservation, definition: ApplicationDefinition) -> bool:
    """Whether the Service is this instance's: installed by its release, or made by its native resource.

    A native resource is of a group that the application requires, and is called like the instance or like
    its short name (spec: platform P7).
    """
    if service.metadata.annotations.get(RELEASE_NAME) == o.name:
        return True
    groups = {crd.partition(".")[2] for crd in definition.required_crds}
    names = {o.name, short_of(o.instance)}
    return any(
        owner.controller and owner.name in names and owner.api_version.partition("/")[0] in groups
        for owner in service.metadata.owner_references
    )
