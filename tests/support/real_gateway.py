"""A Gateway of Envoy Gateway's own in a corner, and all that the policies of instances refer to.

async with instance_scene(cluster, real_gateway) as scene:
    ...

Needs a cluster with Component.ENVOY_GATEWAY and a node. The Gateway is the shipped one, in the corner's
namespace. What policies refer to is there as the platform would bring it: the gateway looks whether Services
have ready endpoints, so that there are Deployments, whose Pods are played.
"""

import base64
import contextlib
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

from hack.devcluster.access import load
from tests.support.certificates import client_certificate
from tests.support.instance_scene import InstanceScene
from tests.support.manifests import MANIFESTS
from tests.support.mirror import Mirror, Object

GATEWAY: Final = "identity-pilot"
GUARD: Final = "magicstick-access-guard"
PROVIDER: Final = "keycloak"
CLIENT_SECRET: Final = "magicstick-human-gateway-client"
CERTIFICATE: Final = "identity-pilot-tls"
ROUTE_ACCESS: Final = {"gateway.magicstick.dev/route-access": "true"}
PROGRAMMED_S: Final = 60.0


@contextlib.asynccontextmanager
async def real_gateway(scene: InstanceScene) -> AsyncIterator[None]:
    """Returns once the Gateway has an address."""
    await furnish(scene)
    path = f"/apis/gateway.networking.k8s.io/v1/namespaces/{scene.identity}/gateways"
    async with Mirror(scene.world.client, path).running() as mirror:
        await mirror.until(
            "the Gateway is programmed",
            lambda: "True" in _said(mirror.get(path, GATEWAY) or {}, "Programmed"),
            deadline_s=PROGRAMMED_S,
        )
    yield


async def furnish(scene: InstanceScene) -> None:
    """The namespace admits routes; the Gateway, and what policies refer to, is there."""
    client, namespace = scene.world.client, scene.identity
    await client.merge(f"{scene.namespaces}/{namespace}", {"metadata": {"labels": ROUTE_ACCESS}})
    for body in (*running(GUARD), *running(PROVIDER), client_secret(), certificate()):
        await put(scene, body)
    for body in load(MANIFESTS / "platform" / "identity" / "gateway.yaml"):
        await put(scene, body)


async def put(scene: InstanceScene, body: Mapping[str, Any]) -> None:
    """Apply an object, in the gateway's namespace if it is in one."""
    group, plural = KINDS[body["kind"]]
    name = body["metadata"]["name"]
    if body["kind"] == "GatewayClass":
        await scene.world.client.apply(f"{group}/{plural}/{name}", body, manager="platform")
        return
    metadata = {**body["metadata"], "namespace": scene.identity}
    path = path_of(scene, body["kind"], name)
    await scene.world.client.apply(path, {**body, "metadata": metadata}, manager="platform")


def path_of(scene: InstanceScene, kind: str, name: str) -> str:
    """Of an object in the gateway's namespace."""
    group, plural = KINDS[kind]
    return f"{group}/namespaces/{scene.identity}/{plural}/{name}"


KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "Service": ("/api/v1", "services"),
    "Secret": ("/api/v1", "secrets"),
    "Deployment": ("/apis/apps/v1", "deployments"),
    "EnvoyProxy": ("/apis/gateway.envoyproxy.io/v1alpha1", "envoyproxies"),
    "GatewayClass": ("/apis/gateway.networking.k8s.io/v1", "gatewayclasses"),
    "Gateway": ("/apis/gateway.networking.k8s.io/v1", "gateways"),
    "HTTPRoute": ("/apis/gateway.networking.k8s.io/v1", "httproutes"),
}
"""Path of the group, and plural."""


def running(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A program that the gateway asks, and its Service."""
    return deployment(name), service(name)


def deployment(name: str, *, replicas: int = 1) -> dict[str, Any]:
    """A program that the gateway asks."""
    container = {"name": name, "image": f"example.com/{name}:1"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    }


def service(name: str) -> dict[str, Any]:
    """Where the gateway asks it."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 8080}]},
    }


def client_secret() -> dict[str, Any]:
    """What the gateway signs in to the identity provider with."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": CLIENT_SECRET},
        "stringData": {"client-secret": "CHANGEME"},
    }


def certificate() -> dict[str, Any]:
    """Of the listener for HTTPS."""
    with tempfile.TemporaryDirectory() as folder:
        files = client_certificate(Path(folder), "magicstick.local")
        data = {
            name: base64.b64encode(file.read_bytes()).decode()
            for name, file in zip(("tls.crt", "tls.key"), files, strict=True)
        }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": CERTIFICATE},
        "data": data,
    }


def _said(obj: Object, type_: str) -> set[str]:
    conditions = obj.get("status", {}).get("conditions", ())
    return {each["status"] for each in conditions if each["type"] == type_}
