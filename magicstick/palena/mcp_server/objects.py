"""The objects of an MCP server: a workload and a Service for each part, and who may reach it.

(spec: palena §8.1, §8.4)
"""

from dataclasses import dataclass
from typing import Final

from magicstick.api.palena.mcp_server import PalenaMCPServerSpec
from magicstick.palena.common import labels
from magicstick.palena.common.addresses import mcp_url, service_url
from magicstick.palena.common.owners import Describe, Object
from magicstick.palena.common.workloads import (
    Port,
    User,
    config_map,
    deployment,
    http_probe,
    merged_env,
    plain_env,
    resources,
    restricted,
    selector,
    service,
    tcp_probe,
    unprivileged,
)
from magicstick.palena.mcp_server import configuration, searxng
from magicstick.palena.mcp_server.components import (
    CHROMIUM,
    SEARXNG,
    SERVER,
    SERVER_LIMITS,
    SERVER_PORT,
    SERVER_REQUESTS,
    Sidecar,
    sidecars,
)

CONFIG_FOLDER: Final = "/config"
SETTINGS_FOLDER: Final = "/etc/searxng"
PORT_NAME: Final = "http"
SERVER_USER: Final = User(uid=10001, gid=10001)


@dataclass(frozen=True, slots=True)
class Names:
    """What the objects of one MCP server are called."""

    server: str

    def sidecar(self, name: str) -> str:
        """Its Deployment, its Service and its NetworkPolicy."""
        return f"{self.server}-{name}"

    @property
    def configuration(self) -> str:
        """The ConfigMap of `palena.yaml`."""
        return f"{self.server}-config"

    @property
    def settings(self) -> str:
        """The ConfigMap of SearXNG's settings."""
        return f"{self.server}-searxng-config"

    @property
    def secret(self) -> str:
        """The Secret that SearXNG signs with."""
        return f"{self.server}-{SEARXNG}"


@dataclass(frozen=True, slots=True)
class Files:
    """The generated configuration."""

    configuration: str
    settings: str


@dataclass(frozen=True, slots=True)
class Blueprint:
    """One MCP server, as everything of it is built from."""

    name: str
    namespace: str
    spec: PalenaMCPServerSpec
    domain: str
    describe: Describe

    @property
    def names(self) -> Names:
        """What its objects are called."""
        return Names(self.name)

    @property
    def sidecars(self) -> tuple[Sidecar, ...]:
        """All of them, wanted or not."""
        return sidecars(self.spec, self.names.secret)

    def endpoint(self, sidecar: Sidecar) -> str:
        """Where a sidecar is reached, whoever runs it; "" for one that is not wanted."""
        if not sidecar.enabled:
            return ""
        if sidecar.external_url:
            return sidecar.external_url
        name, nature = self.names.sidecar(sidecar.name), sidecar.nature
        return service_url(name, self.namespace, nature.port, scheme=nature.scheme, domain=self.domain)

    @property
    def url(self) -> str:
        """Where tools are called."""
        return mcp_url(self.name, self.namespace, self.spec.service.port, self.domain)

    def files(self) -> Files:
        """The configuration that is wanted."""
        endpoints = {each.name: self.endpoint(each) for each in self.sidecars if each.enabled}
        engines = searxng.engines_of(configuration.engines(self.spec), configuration.routes(self.spec))
        settings = searxng.render(
            instance=self.name,
            language=self.spec.search.default_language,
            safe_search=self.spec.search.safe_search,
            engines=engines,
        )
        return Files(configuration.render(self.spec, endpoints), settings)


def settings_map(blueprint: Blueprint, files: Files) -> Object:
    """SearXNG's settings."""
    metadata = blueprint.describe(blueprint.names.settings, SEARXNG)
    return config_map(metadata, {searxng.FILE: files.settings})


def configuration_map(blueprint: Blueprint, files: Files) -> Object:
    """`palena.yaml`."""
    metadata = blueprint.describe(blueprint.names.configuration, SERVER)
    return config_map(metadata, {configuration.FILE: files.configuration})


def sidecar_deployment(blueprint: Blueprint, sidecar: Sidecar, settings_hash: str) -> Object:
    """A sidecar's one Pod; SearXNG's is made anew with its settings."""
    nature = sidecar.nature
    container: Object = {
        "name": sidecar.name,
        "image": sidecar.image,
        "ports": [{"name": PORT_NAME, "containerPort": nature.port, "protocol": "TCP"}],
        "resources": resources(sidecar.resources, nature.requests, nature.limits),
        "securityContext": _SEARXNG_CONTEXT if sidecar.name == SEARXNG else unprivileged(),
        **_probes(sidecar),
    }
    container |= {"command": list(sidecar.command)} if sidecar.command else {}
    container |= {"args": list(sidecar.args)} if sidecar.args else {}
    container |= {"env": list(sidecar.env)} if sidecar.env else {}
    volumes, mounts = _volumes(blueprint, sidecar)
    pod: Object = {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}
    if volumes:
        container["volumeMounts"], pod["volumes"] = mounts, volumes
    pod |= {"automountServiceAccountToken": False, "containers": [container]}
    annotations = {labels.CONFIG_HASH: settings_hash} if sidecar.name == SEARXNG else None
    metadata = blueprint.describe(blueprint.names.sidecar(sidecar.name), sidecar.name)
    return deployment(metadata, pod, annotations=annotations)


_SEARXNG_CONTEXT: Final[Object] = {
    # Its entrypoint hands its folders over to its own user before it becomes that user.
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "SETGID", "SETUID"]},
}


def _probes(sidecar: Sidecar) -> Object:
    nature = sidecar.nature
    return {
        "readinessProbe": _probe(nature.health, nature.ready_after_s, 10),
        "livenessProbe": _probe(nature.health, nature.alive_after_s, 30),
    }


def _probe(path: str, delay_s: int, period_s: int) -> Object:
    """A probe of the part's port: by GET where there is a path, else by connecting."""
    if not path:
        return tcp_probe(PORT_NAME, delay_s=delay_s, period_s=period_s)
    return http_probe(path, PORT_NAME, delay_s=delay_s, period_s=period_s)


def _volumes(blueprint: Blueprint, sidecar: Sidecar) -> tuple[list[Object], list[Object]]:
    volumes: list[Object] = []
    mounts: list[Object] = []
    if sidecar.name == SEARXNG:
        volumes.append({"name": "settings", "configMap": {"name": blueprint.names.settings}})
        path = f"{SETTINGS_FOLDER}/{searxng.FILE}"
        mounts.append({"name": "settings", "mountPath": path, "subPath": searxng.FILE, "readOnly": True})
    if sidecar.scratch:
        volumes.append({"name": "scratch", "emptyDir": {}})
        mounts.append({"name": "scratch", "mountPath": sidecar.scratch})
    if sidecar.name == CHROMIUM:
        volumes.append({"name": "shared-memory", "emptyDir": {"medium": "Memory"}})
        mounts.append({"name": "shared-memory", "mountPath": "/dev/shm"})  # noqa: S108 - the container's own
    return volumes, mounts


def sidecar_service(blueprint: Blueprint, sidecar: Sidecar) -> Object:
    """The Service of a sidecar."""
    metadata = blueprint.describe(blueprint.names.sidecar(sidecar.name), sidecar.name)
    return service(metadata, Port(PORT_NAME, sidecar.nature.port))


def sidecar_policy(blueprint: Blueprint, sidecar: Sidecar) -> Object:
    """Who reaches a sidecar: the Pods of its server, on its port."""
    metadata = blueprint.describe(blueprint.names.sidecar(sidecar.name), sidecar.name)
    server = selector(blueprint.describe(blueprint.name, SERVER)["labels"])
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": {
            "podSelector": {"matchLabels": selector(metadata["labels"])},
            "policyTypes": ["Ingress"],
            "ingress": [
                {
                    "from": [{"podSelector": {"matchLabels": server}}],
                    "ports": [{"protocol": "TCP", "port": sidecar.nature.port}],
                }
            ],
        },
    }


def server_deployment(blueprint: Blueprint, config_hash: str) -> Object:
    """The MCP server itself; another configuration makes its Pods anew."""
    spec = blueprint.spec
    given = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in spec.env]
    container: Object = {
        "name": SERVER,
        "image": spec.image,
        "ports": [{"name": PORT_NAME, "containerPort": SERVER_PORT, "protocol": "TCP"}],
        "env": merged_env(plain_env({"PALENA_CONFIG_PATH": f"{CONFIG_FOLDER}/{configuration.FILE}"}), given),
        "resources": resources(spec.resources, SERVER_REQUESTS, SERVER_LIMITS),
        "securityContext": unprivileged(),
        "readinessProbe": _probe("/health", 3, 10),
        "livenessProbe": _probe("/health", 5, 30),
        "volumeMounts": [{"name": "configuration", "mountPath": CONFIG_FOLDER, "readOnly": True}],
    }
    pod: Object = {
        "automountServiceAccountToken": False,
        "securityContext": restricted(SERVER_USER),
        "containers": [container],
        "volumes": [{"name": "configuration", "configMap": {"name": blueprint.names.configuration}}],
    }
    metadata = blueprint.describe(blueprint.name, SERVER)
    return deployment(metadata, pod, replicas=spec.replicas, annotations={labels.CONFIG_HASH: config_hash})


def server_service(blueprint: Blueprint) -> Object:
    """The Service of the MCP server."""
    metadata = blueprint.describe(blueprint.name, SERVER)
    port = Port(PORT_NAME, SERVER_PORT)
    return service(metadata, port, numbers={PORT_NAME: blueprint.spec.service.port})
