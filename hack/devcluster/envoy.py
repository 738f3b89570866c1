"""What Envoy Gateway needs before it starts: a namespace, certificates and a configuration.

Its chart would make these. The program itself is the real one, and so is all that it decides; only its
proxies are Pods that kwok plays, so that nobody ever asks it for their configuration.
"""

import base64
import os
import subprocess

import yaml

from hack.devcluster.components import GATEWAY_NAMESPACE, Component, Context
from hack.devcluster.errors import DevClusterError
from hack.devcluster.layout import LOOPBACK, write_private
from hack.devcluster.rest import Object, Rest

NAMESPACE: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": GATEWAY_NAMESPACE}}
CERTIFICATES = ("tls.crt", "tls.key", "ca.crt")
CERTGEN_TIMEOUT_S = 60.0


def prepare(context: Context, rest: Rest) -> None:
    """Has its certificates made, in the cluster unless they are there, and puts its own where it reads them.

    Raises:
        DevClusterError: its certificates could not be made.
    """
    folder = context.layout.gateway
    (folder / "certs").mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(folder / "config.yaml", yaml.safe_dump(configuration(context), sort_keys=False))
    _generate(context)
    secret = rest.get(f"/api/v1/namespaces/{GATEWAY_NAMESPACE}/secrets/envoy-gateway")
    for name in CERTIFICATES:
        write_private(folder / "certs" / name, base64.b64decode(secret["data"][name]).decode())


def configuration(context: Context) -> Object:
    """On loopback alone; there is one of it, so that no lease is waited for."""
    return {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "EnvoyGateway",
        "gateway": {"controllerName": "gateway.envoyproxy.io/gatewayclass-controller"},
        "provider": {
            "type": "Kubernetes",
            "kubernetes": {"leaderElection": {"disable": True}, "proxyTopologyInjector": {"disabled": True}},
        },
        "admin": {"address": {"host": LOOPBACK, "port": context.ports.envoy_gateway_admin}},
        "telemetry": {"metrics": {"prometheus": {"disable": True}}},
    }


def _generate(context: Context) -> None:
    environment = {
        "KUBECONFIG": str(context.layout.kubeconfig("envoy-gateway")),
        "ENVOY_GATEWAY_NAMESPACE": GATEWAY_NAMESPACE,
    }
    result = subprocess.run(
        [context.binaries[Component.ENVOY_GATEWAY], "certgen", "--disable-topology-injector"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=CERTGEN_TIMEOUT_S,
    )
    if result.returncode:
        raise DevClusterError(f"envoy-gateway certgen: {result.stderr.strip() or result.stdout.strip()}")
