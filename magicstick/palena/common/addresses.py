"""Under which names Services are reached from everywhere in the cluster."""

from typing import Final

CLUSTER_DOMAIN: Final = "cluster.local"


def service_host(name: str, namespace: str, domain: str = CLUSTER_DOMAIN) -> str:
    """The full name of a Service; programs that compare names want it whole."""
    return f"{name}.{namespace}.svc.{domain}"


def service_url(
    name: str, namespace: str, port: int, *, scheme: str = "http", domain: str = CLUSTER_DOMAIN
) -> str:
    """The address of a Service, without a path."""
    return f"{scheme}://{service_host(name, namespace, domain)}:{port}"


def mcp_url(name: str, namespace: str, port: int, domain: str = CLUSTER_DOMAIN) -> str:
    """Where the tools of an MCP server are called; known as soon as the server is (spec: palena §6.5)."""
    return f"{service_url(name, namespace, port, domain=domain)}/mcp"
