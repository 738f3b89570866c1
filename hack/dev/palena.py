"""Palena on the development cluster: the examples, applied as a user would, with the operators played.

The operator runs both halves, each with its own rights. CloudNativePG, LiteLLM's operator and Langfuse's are
played by the cluster's actors, as soon as their kinds are defined.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hack.dev.appliance import ROOT
from hack.devcluster import DevCluster
from hack.devcluster.access import load
from hack.devcluster.actors.definitions import PALENA_CRDS
from hack.devcluster.rest import Object

EXAMPLES: Final = ROOT / "examples" / "palena"
ENABLED: Final[Mapping[str, str]] = {"MAGICSTICK_ENABLE_PALENA": "true"}
GROUP: Final = "palena.ai/v1alpha1"


def examples() -> list[Object]:
    """The objects of the examples, in the order in which they can be made."""
    resources = load([EXAMPLES / "kustomization.yaml"])[0]["resources"]
    return load(EXAMPLES / name for name in resources)


def names_of(objects: list[Object]) -> frozenset[tuple[str, str]]:
    """Kind and name of Palena's among them."""
    ours = (each for each in objects if each["apiVersion"] == GROUP)
    return frozenset((each["kind"], each["metadata"]["name"]) for each in ours)


def install(cluster: DevCluster, source: Path = ROOT) -> None:
    """The operator's rights to Palena's half, as a tree has them, and the kinds that it drives."""
    cluster.apply([source / "manifests" / "palena" / "rbac.yaml", *sorted(PALENA_CRDS.glob("*.yaml"))])
