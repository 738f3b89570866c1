"""Applications on the development cluster: instances, as a user would make them.

They are installed by the real helm and reached through the real Envoy Gateway, which accepts their policies;
the operators of the applications, and what is behind the gateway, are played.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hack.dev.appliance import GROUP, NAMESPACE
from hack.dev.catalogs import shipped_catalog
from hack.devcluster import DevClusterError
from hack.devcluster.rest import Object

EVERY: Final = "all"
SHORT: Final = "demo"
"""What the instances are called; their names have the application before it."""
MODEL: Final = "CHANGEME_MODEL"


def apps_of(source: Path) -> tuple[str, ...]:
    """The applications of the catalog that a tree of manifests ships.

    Raises:
        DevClusterError: there is none, or it cannot be read.
    """
    return tuple(shipped_catalog(source, "app-catalog", "applications"))


def chosen_apps(names: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """The applications that these names mean, each once: of the catalog, or `all`.

    Raises:
        DevClusterError: the catalog has no such application.
    """
    apps, wanted = tuple(known), tuple(dict.fromkeys(names))
    if EVERY in wanted:
        return apps
    if unknown := [name for name in wanted if name not in apps]:
        raise DevClusterError(f"there is no application {unknown[0]!r}; there are: {', '.join(apps)}")
    return wanted


def instance_name(app: str) -> str:
    """As the dashboard would name it."""
    return f"{app}-{SHORT}"


def instance_of(app: str) -> Object:
    """What a user applies to have an application."""
    return {
        "apiVersion": GROUP,
        "kind": "AppInstance",
        "metadata": {"name": instance_name(app), "namespace": NAMESPACE},
        "spec": {"application": app, "values": {"name": SHORT, "model": MODEL}},
    }
