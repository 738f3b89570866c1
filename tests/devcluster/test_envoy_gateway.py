"""The real Envoy Gateway on a cluster of ours: it decides, its proxies are played, and nothing leaves loopback."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.devcluster import WITH_CONTROLLERS, Component, DevCluster
from hack.devcluster.rest import Object
from hack.devcluster.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

GATEWAYS = "/apis/gateway.networking.k8s.io/v1"
LISTENING = "0A"
LOOPBACK = "0100007F"
"""Of 127.0.0.1, as the kernel writes it."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster.start((*WITH_CONTROLLERS, Component.ENVOY_GATEWAY)) as cluster:
        cluster.add_node("node-0")
        cluster.apply([gateway_class("envoy"), gateway("front", "envoy")])
        yield cluster


def gateway_class(name: str) -> Object:
    spec = {"controllerName": "gateway.envoyproxy.io/gatewayclass-controller"}
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "GatewayClass",
        "metadata": {"name": name},
        "spec": spec,
    }


def gateway(name: str, class_name: str) -> Object:
    listener = {"name": "http", "protocol": "HTTP", "port": 80}
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"gatewayClassName": class_name, "listeners": [listener]},
    }


def programmed(cluster: DevCluster, name: str) -> list[dict[str, Any]] | None:
    """The addresses of a Gateway, once it is programmed."""
    status = cluster.rest.get(f"{GATEWAYS}/namespaces/default/gateways/{name}").get("status", {})
    said = {each["type"]: each["status"] for each in status.get("conditions", ())}
    return list(status["addresses"]) if said.get("Programmed") == "True" else None


def pids_of(program: Path) -> list[Path]:
    """The processes that run a program, as folders of /proc."""
    running = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "exe").resolve(strict=True) == program:
                running.append(folder)
        except OSError:
            continue  # it ended meanwhile, or is none of ours
    return running


def listeners(process: Path) -> set[str]:
    """The local addresses on which a process listens, as the kernel writes them."""
    sockets = {
        match[1]
        for file in (process / "fd").iterdir()
        if (match := re.fullmatch(r"socket:\[(\d+)\]", str(file.readlink()))) is not None
    }
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in (process / "net" / name).read_text().splitlines()[1:]
    ]
    return {row[1].split(":")[0] for row in rows if row[3] == LISTENING and row[9] in sockets}


def test_a_gateway_gets_an_address(cluster: DevCluster) -> None:
    addresses = wait_until(lambda: programmed(cluster, "front"), "the Gateway to be programmed", 60)
    assert addresses == [{"type": "IPAddress", "value": "192.0.2.10"}]


def test_it_listens_on_loopback_alone(cluster: DevCluster) -> None:
    program = cluster.builder.ensure(["envoy-gateway"])["envoy-gateway"].resolve()
    mine = [
        each
        for each in pids_of(program)
        if str(cluster.directory) in (each / "environ").read_bytes().decode(errors="replace")
    ]
    assert len(mine) == 1
    assert listeners(mine[0]) == {LOOPBACK}


def test_its_certificates_are_those_in_the_cluster_and_nobody_else_reads_them(cluster: DevCluster) -> None:
    secret = cluster.rest.get("/api/v1/namespaces/envoy-gateway-system/secrets/envoy-gateway")
    key = cluster.directory / "envoy-gateway" / "certs" / "tls.key"
    assert key.read_bytes() == base64.b64decode(secret["data"]["tls.key"])
    assert key.stat().st_mode & 0o077 == 0


def test_it_can_be_stopped_and_goes_on_where_it_was(cluster: DevCluster) -> None:
    cluster.stop_component(Component.ENVOY_GATEWAY)
    cluster.apply(gateway("later", "envoy"))
    cluster.start_component(Component.ENVOY_GATEWAY)
    wait_until(lambda: programmed(cluster, "later"), "the Gateway to be programmed", 60)
