"""What stands on the development cluster: installed once, then read for the view."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from hack import yamls
from hack.dev.view import (
    PalenaObject,
    Picture,
    Row,
    of_activation,
    of_hardware,
    of_instance,
    of_model,
    of_palena,
    of_static,
    phase_of,
)
from hack.devcluster import DevCluster
from hack.devcluster.access import load
from hack.devcluster.rest import ApiError
from hack.devcluster.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = "ai-system"
FLUX_NAMESPACE = "flux-system"
SERVICE_ACCOUNT = "magicstick-operator"
GROUP = "appliance.magicstick.dev/v1alpha1"
OURS = f"/apis/{GROUP}/namespaces/{NAMESPACE}"
FLUX = f"/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/{FLUX_NAMESPACE}/kustomizations"
STATIC = {"infrastructure-basis": "basis", "hardware-discovery": "hardware-discovery", "apps": "dashboard"}
PALENA = {
    "PalenaGateway": "palenagateways",
    "PalenaModel": "palenamodels",
    "PalenaMCPServer": "palenamcpservers",
    "PalenaUI": "palenauis",
    "PalenaObservability": "palenaobservabilities",
}
"""Palena's kinds with their plurals, in the order in which they are shown."""
LEFT_OUT = frozenset({"magicstick-operator"})
"""This operator itself, which runs as a process."""
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FOREIGN = ("flux", "helm", "gateway", "envoy")
"""Whose kinds the modules' folders are made of."""

BUSY = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
"""A kind that has just been defined answers so until its storage is ready."""
ANSWER_S = 30.0

Object = Mapping[str, Any]


def install(cluster: DevCluster, say: Callable[[str], None], source: Path = ROOT) -> None:
    """CRDs, catalogs, RBAC, the default Appliance, the static Flux graph and its source.

    The Deployment stays away: the operator runs as a process beside this one. `source` is the tree
    whose manifests these are, the one that the cluster delivers.
    """
    say("installing Flux's CRDs, the gateway's, ours, the catalogs and the default Appliance")
    cluster.apply(missing_definitions(cluster))
    cluster.apply(namespace(FLUX_NAMESPACE))
    rendered = cluster.kubectl("kustomize", str(source / "manifests"))
    objects = [obj for obj in yamls.load_all(rendered) if obj]
    cluster.apply([obj for obj in objects if obj["kind"] != "Deployment"])
    say("handing the module folders to Flux")
    cluster.apply(git_repository())
    cluster.apply([static_kustomization(obj) for obj in static_graph(source)])


def missing_definitions(cluster: DevCluster) -> list[dict[str, Any]]:
    """The foreign kinds that the cluster does not have yet."""
    known = {item["metadata"]["name"] for item in cluster.rest.get(DEFINITIONS)["items"]}
    definitions = load(file for group in FOREIGN for file in cluster.crd_files(group))
    return [each for each in definitions if each["metadata"]["name"] not in known]


def namespace(name: str) -> dict[str, Any]:
    """A bare namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def git_repository() -> dict[str, Any]:
    """The source that every Kustomization names; on this cluster it delivers a local folder."""
    return {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "GitRepository",
        "metadata": {"name": "flux-system", "namespace": FLUX_NAMESPACE},
        "spec": {"interval": "1m0s", "url": "https://example.com/magicstick.git", "ref": {"branch": "main"}},
    }


def static_graph(source: Path = ROOT) -> list[dict[str, Any]]:
    """The static Kustomizations that this cluster can apply."""
    documents = [
        document
        for path in sorted((source / "manifests" / "flux").glob("*.yaml"))
        for document in yamls.load_all(path.read_text())
        if document and document["kind"] == "Kustomization" and "toolkit" in document["apiVersion"]
    ]
    return [document for document in documents if document["metadata"]["name"] not in LEFT_OUT]


def static_kustomization(document: dict[str, Any]) -> dict[str, Any]:
    """The same without dependencies on what is left out here."""
    spec = dict(document["spec"])
    depends = [entry for entry in spec.pop("dependsOn", []) if entry["name"] not in LEFT_OUT]
    if depends:
        spec["dependsOn"] = depends
    return {**document, "spec": spec}


class Reader:
    """Reads the appliance's present state. A server that is busy for a moment is asked again.

    With `palena`, what there is of Palena as well.
    """

    def __init__(self, cluster: DevCluster, *, palena: bool = False) -> None:
        self._rest = cluster.rest
        self._palena = palena

    def _get(self, path: str) -> Object:
        def answer() -> Object | None:
            try:
                return self._rest.get(path)
            except ApiError as error:
                if error.code in BUSY:
                    return None
                raise

        return wait_until(answer, f"an answer to {path}", ANSWER_S)

    def picture(self) -> Picture:
        """All that is shown."""
        appliance = self._appliance()
        models = self._get(f"{OURS}/modelactivations")["items"]
        instances = self._get(f"{OURS}/appinstances")["items"]
        return Picture(
            appliance,
            self._rows(),
            of_hardware(appliance),
            tuple(map(of_model, models)),
            tuple(map(of_instance, instances)),
            tuple(self._of_palena()) if self._palena else (),
        )

    def _of_palena(self) -> Iterator[PalenaObject]:
        """Of all namespaces. The items of a list do not say what they are."""
        for kind, plural in PALENA.items():
            for item in self._get(f"/apis/palena.ai/v1alpha1/{plural}")["items"]:
                yield of_palena({**item, "kind": kind})

    def _appliance(self) -> Object | None:
        """The Appliance; None while it is not there."""
        try:
            return self._get(f"{OURS}/appliances/local")
        except ApiError as error:
            if error.code == HTTPStatus.NOT_FOUND:
                return None
            raise

    def _rows(self) -> tuple[Row, ...]:
        """All modules, the static ones first."""
        static = [
            of_static(STATIC[item["metadata"]["name"]], item)
            for item in self._get(FLUX)["items"]
            if item["metadata"]["name"] in STATIC
        ]
        generated = [of_activation(item) for item in self._get(f"{OURS}/moduleactivations")["items"]]
        return tuple(
            row for group in (static, generated) for row in sorted(group, key=lambda each: each.module)
        )


@dataclass(frozen=True, slots=True)
class Expected:
    """What has to be Ready in the end, besides all that is shown.

    Attributes:
        modules: that were switched on.
        vendors: whose GPUs the nodes have.
        models: that were applied, or will be.
        instances: the same.
        palena: the same, by kind and name.
    """

    modules: frozenset[str] = frozenset()
    vendors: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()
    instances: frozenset[str] = frozenset()
    palena: frozenset[tuple[str, str]] = frozenset()


def settled(picture: Picture, expected: Expected) -> bool:
    """Whether the Appliance and everything shown are Ready, and what was asked for is among it."""
    ready = {row.module for row in picture.rows if row.phase == "Ready"}
    usable = {each.vendor for each in picture.hardware if each.phase == "Ready"}
    return (
        picture.appliance is not None
        and phase_of(picture.appliance) == "Ready"
        and bool(picture.rows)
        and all(row.phase in {"Ready", "Disabled"} for row in picture.rows)
        and expected.modules <= ready
        and expected.vendors <= usable
        and all(model.phase in {"Ready", "Disabled"} for model in picture.models)
        and expected.models <= {model.name for model in picture.models if model.phase == "Ready"}
        and all(each.phase in {"Ready", "Suspended"} for each in picture.instances)
        and expected.instances <= {each.name for each in picture.instances if each.phase == "Ready"}
        and all(each.phase == "Running" for each in picture.palena)
        and expected.palena <= {(each.kind, each.name) for each in picture.palena}
    )
