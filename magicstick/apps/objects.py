"""Builders of what installs an instance: its HelmRelease and its namespace. Values in, plain dicts out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from magicstick.api import labels
from magicstick.api.appliance import Source
from magicstick.api.kinds import HELM_RELEASE
from magicstick.apps.ports import Hosts
from magicstick.kube.kinds import NAMESPACE
from magicstick.kube.objects import Resource

Object = dict[str, Any]

INTERVAL: Final = "10m0s"
TIMEOUT: Final = "15m0s"
"""So that an application that waits for its model is given the time (spec: platform P10)."""
RETRY: Final[Mapping[str, str]] = {"name": "RetryOnFailure", "retryInterval": "1m0s"}
"""So that a failed installation is tried again without anybody's doing (spec: platform P10)."""

_OWN_FIELDS: Final = (
    "interval",
    "releaseName",
    "targetNamespace",
    "storageNamespace",
    "timeout",
    "install",
    "upgrade",
    "uninstall",
    "chart",
    "values",
)
"""What `with_suspension` takes over from a live HelmRelease unchanged."""

_OWN_LABELS: Final = (labels.MANAGED_BY, labels.INSTANCE, labels.APPLICATION)


@dataclass(frozen=True, slots=True)
class Release:
    """Everything that an instance's HelmRelease is made from."""

    name: str
    """Of the AppInstance, of the HelmRelease and of the Helm release: never shortened."""
    home: str
    """Namespace of the HelmRelease and of Helm's own records."""
    target: str
    """Namespace that the application runs in."""
    application: str
    chart_path: str
    """Folder in the source, without a leading `./`."""
    source: Source
    hosts: Hosts
    values: Mapping[str, Any]
    """`spec.values` of the AppInstance."""
    retries: bool = True
    """Whether the served HelmRelease knows the strategy that tries again."""


def is_ours(resource: Resource) -> bool:
    """Whether the operator generated the object."""
    return resource.metadata.labels.get(labels.MANAGED_BY) == labels.OPERATOR


def helm_release(release: Release) -> Object:
    """The HelmRelease of an enabled instance (spec: modules-and-apps §8.5)."""
    spec: Object = {
        "interval": INTERVAL,
        "releaseName": release.name,
        "targetNamespace": release.target,
        "storageNamespace": release.home,
        "suspend": False,
        "timeout": TIMEOUT,
        "install": {"createNamespace": True, **_strategy(release)},
        "upgrade": {"cleanupOnFail": True, **_strategy(release)},
        "uninstall": {"keepHistory": False},
        "chart": {"spec": _chart(release)},
        "values": {"instance": _values(release)},
    }
    own = {
        labels.MANAGED_BY: labels.OPERATOR,
        labels.INSTANCE: release.name,
        labels.APPLICATION: release.application,
    }
    return _release(release.home, release.name, own, spec)


def with_suspension(live: Resource, *, suspend: bool) -> Object:
    """A live HelmRelease of ours as it is, but for its suspension.

    Made from the live object alone: whether an instance is stopped depends on nothing else. Flux does not
    uninstall what a suspended release had installed, so it is resumed before it is deleted (spec:
    modules-and-apps §8.3).
    """
    spec: Object = {field: live.spec[field] for field in _OWN_FIELDS if field in live.spec}
    own = {key: value for key, value in live.metadata.labels.items() if key in _OWN_LABELS}
    return _release(live.metadata.namespace, live.metadata.name, own, spec | {"suspend": suspend})


def namespace(name: str) -> Object:
    """A bare Namespace: it is everybody's, and never deleted by us (spec: modules-and-apps §8.4)."""
    return {"apiVersion": NAMESPACE.api_version, "kind": NAMESPACE.kind, "metadata": {"name": name}}


def _release(home: str, name: str, own_labels: Mapping[str, str], spec: Object) -> Object:
    return {
        "apiVersion": HELM_RELEASE.api_version,
        "kind": HELM_RELEASE.kind,
        "metadata": {"name": name, "namespace": home, "labels": dict(own_labels)},
        "spec": spec,
    }


def _strategy(release: Release) -> Object:
    return {"strategy": dict(RETRY)} if release.retries else {}


def _chart(release: Release) -> Object:
    source = release.source
    return {
        "chart": f"./{release.chart_path}",
        "interval": INTERVAL,
        "reconcileStrategy": "Revision",
        "sourceRef": {"kind": source.kind, "name": source.name, "namespace": source.namespace},
    }


def _values(release: Release) -> Object:
    """What a chart is told (spec: modules-and-apps §8.7); the user's values are copied, never changed."""
    hosts = release.hosts
    return {
        "name": release.name,
        "namespace": release.target,
        "application": release.application,
        "localHost": hosts.local,
        "localName": hosts.local_name,
        "publicHost": hosts.public,
        "values": _closed(release.values, hosts.public),
    }


def _closed(values: Mapping[str, Any], host: str) -> Object:
    """The user's values without any way in of the chart's own: the gateway is the only one."""
    server = _object(values.get("server"))
    return {
        **values,
        "ingress": _ingress(values.get("ingress"), host),
        "server": {**server, "ingress": _ingress(server.get("ingress"), host)},
    }


def _ingress(given: object, host: str) -> Object:
    return {**_object(given), "enabled": False, "host": host}


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
