"""Which Pods of a model may be asked over HTTP, and where: those that are the model's own, and no others."""

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from magicstick.api import labels
from magicstick.kube.objects import Resource
from magicstick.models.pods import PodView, owned_by

PORT_ANNOTATION: Final = "model-pod-port"
"""Where KubeAI says at which port the Pod of a Model serves."""
DEFAULT_PORT: Final = 8000
MAX_PORT: Final = 65535
TEMPLATE_HASH: Final = "pod-template-hash"
"""The label by which a Deployment tells the Pods of its ReplicaSets apart; also the end of their names."""


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """One Pod's HTTP server. Its identity is the Pod's uid as well: an address may be another's next."""

    uid: str
    host: str
    """As it stands in a URL."""
    port: int

    def url(self, path: str) -> str:
        """Address of a path, which begins with a slash."""
        return f"http://{self.host}:{self.port}{path}"


def kubeai_endpoints(pods: Iterable[PodView], model: Resource) -> tuple[Endpoint, ...]:
    """The Pods that exactly this KubeAI Model controls and that are Ready (spec: models §10.3)."""
    found = ((each, _port(each)) for each in pods if each.ready and owned_by(each, model))
    return _reachable(found)


def direct_endpoints(pods: Iterable[PodView], deployment: Resource, port: int) -> tuple[Endpoint, ...]:
    """The live Pods of a Deployment of ours, Ready or not: one that cannot become Ready may say why.

    ReplicaSets are not watched. That one of them is the Deployment's tells its name, which no other
    controller of its kind can have in this namespace.
    """
    found = ((each, port) for each in pods if each.live and not each.terminal and _is_of(each, deployment))
    return _reachable(found)


def _is_of(pod: PodView, deployment: Resource) -> bool:
    metadata = pod.metadata
    name = f"{deployment.metadata.name}-{metadata.labels.get(TEMPLATE_HASH, '')}"
    ours = metadata.labels.get(labels.MODEL) == deployment.metadata.labels.get(labels.MODEL)
    return ours and any(
        owner.controller and (owner.api_version, owner.kind, owner.name) == ("apps/v1", "ReplicaSet", name)
        for owner in metadata.owner_references
    )


def _reachable(found: Iterable[tuple[PodView, int]]) -> tuple[Endpoint, ...]:
    """In an order of their own, so that the same Pods are the same endpoints."""
    return tuple(sorted(_endpoints(found)))


def _endpoints(found: Iterable[tuple[PodView, int]]) -> Iterator[Endpoint]:
    for pod, port in found:
        host = _host(pod.status.pod_ip)
        if host:
            yield Endpoint(pod.metadata.uid, host, port)


def _host(text: str) -> str:
    """An address as it stands in a URL; "" for what is none, and for one that no Pod can have."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return ""
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return ""  # the cloud's metadata service, for one, is link-local
    return f"[{address}]" if address.version == 6 else str(address)  # noqa: PLR2004 - of the Internet Protocol


def _port(pod: PodView) -> int:
    text = pod.metadata.annotations.get(PORT_ANNOTATION, "")
    named = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(MAX_PORT)) else 0
    return named if 1 <= named <= MAX_PORT else DEFAULT_PORT
