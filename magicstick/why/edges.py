"""Along which edges causes are followed: those of the reconcilers, and those of what acts around them.

The reconcilers declare what they depend on. Here stands what they do not read, and people have to know of:
what Flux itself depends on, who carries decisions out, and where they are carried out. Declared the same
way, so that a read or a link that no edge covers is an error.
"""

from collections.abc import Iterable
from typing import Any, Final

from magicstick.api.kinds import (
    APP_INSTANCE,
    APPLIANCE,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    MODEL_ACTIVATION,
    MODULE_ACTIVATION,
    PALENA_KINDS,
)
from magicstick.kube.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, LEASE, NAMESPACE, Kind, ObjectKey
from magicstick.kube.objects import View
from magicstick.runtime.reconciler import Declaration, Edge
from magicstick.runtime.settings import Settings

DECIDED: Final = (APPLIANCE, MODULE_ACTIVATION, KUSTOMIZATION, APP_INSTANCE, MODEL_ACTIVATION)
"""Kinds whose objects the operator decides about."""
WORKLOADS: Final = (APP_INSTANCE, MODEL_ACTIVATION)
"""Kinds that are explained by their own conditions and by the modules that they need."""


class Graph:
    """Which kind depends on which, by declarations."""

    def __init__(self, declarations: Iterable[Declaration]) -> None:
        self._pairs = {
            (declaration.primary, edge.kind) for declaration in declarations for edge in declaration.edges
        }

    def covers(self, kind: Kind, other: Kind) -> bool:
        """Whether an edge leads from the one to the other."""
        return (kind, other) in self._pairs


def around(settings: Settings) -> tuple[Declaration, ...]:
    """The edges that no reconciler has."""
    return (
        _declare("flux", KUSTOMIZATION, settings.flux_namespace, _flux(settings)),
        _declare("sources", GIT_REPOSITORY, settings.flux_namespace, (_installed(),)),
        _declare("discovery", APPLIANCE, settings.appliance_namespace, _discovery(settings)),
        *(_declare("site", kind, _home(kind, settings), _site(settings)) for kind in DECIDED),
        *(_declare("needs", kind, settings.appliance_namespace, _needs(settings)) for kind in WORKLOADS),
        *(_palena(settings) if settings.magicstick_enable_palena else ()),
    )


def _palena(settings: Settings) -> Iterable[Declaration]:
    """What objects of Palena are explained by, wherever they are."""
    for kind in PALENA_KINDS:
        edges = (
            _edge(LEASE, "whether an operator carries out what is decided", *settings.lease_place),
            _edge(CUSTOM_RESOURCE_DEFINITION, "whether the kinds that it drives are served"),
            *(_edge(other, "whether what it refers to is ready") for other in PALENA_KINDS if other != kind),
        )
        yield _declare("palena", kind, "", edges)


def catalog_places(settings: Settings) -> tuple[ObjectKey, ...]:
    """The ConfigMaps of the catalogs."""
    return (
        ObjectKey(settings.module_catalog_namespace, settings.module_catalog_name),
        ObjectKey(settings.app_catalog_namespace, settings.app_catalog_name),
        ObjectKey(settings.compute_target_catalog_namespace, settings.compute_target_catalog_name),
        ObjectKey(settings.model_presets_namespace, settings.model_presets_name),
    )


def _home(kind: Kind, settings: Settings) -> str:
    return settings.flux_namespace if kind == KUSTOMIZATION else settings.appliance_namespace


def _flux(settings: Settings) -> tuple[Edge[Any], ...]:
    place = settings.flux_namespace
    return (
        _edge(GIT_REPOSITORY, "where Flux takes the manifests from", namespace=place),
        _edge(KUSTOMIZATION, "what Flux applies first", namespace=place),
        _installed(),
    )


def _installed() -> Edge[Any]:
    return _edge(CUSTOM_RESOURCE_DEFINITION, "whether Flux is installed")


def _site(settings: Settings) -> tuple[Edge[Any], ...]:
    lease_namespace, lease_name = settings.lease_place
    catalogs = (_edge(CONFIG_MAP, "a catalog", *place) for place in dict.fromkeys(catalog_places(settings)))
    return (
        _edge(LEASE, "whether an operator carries out what is decided", lease_namespace, lease_name),
        _edge(NAMESPACE, "whether anything can be made there", name=settings.flux_namespace),
        _edge(CUSTOM_RESOURCE_DEFINITION, "whether the kind is served"),
        *catalogs,
    )


def _discovery(settings: Settings) -> tuple[Edge[Any], ...]:
    place = settings.flux_namespace
    return (
        _edge(KUSTOMIZATION, "whether what labels the nodes is installed", namespace=place),
        _edge(GIT_REPOSITORY, "where the modules come from", namespace=place),
    )


def _needs(settings: Settings) -> tuple[Edge[Any], ...]:
    return (
        _edge(MODULE_ACTIVATION, "the modules that it needs", settings.appliance_namespace),
        _edge(KUSTOMIZATION, "the static modules that it needs", settings.flux_namespace),
    )


def _edge(kind: Kind, why: str, namespace: str = "", name: str | None = None) -> Edge[Any]:
    return Edge(kind, _nobody, why, namespace=namespace, name=name)


def _nobody(_old: View | None, _new: View | None) -> Iterable[ObjectKey]:
    """Nothing is woken here: everything is read once."""
    return ()


def _declare(name: str, primary: Kind, namespace: str, edges: tuple[Edge[Any], ...]) -> Declaration:
    return Declaration(
        name=name,
        primary=primary,
        namespace=namespace,
        edges=edges,
        requeue_s={},
        writes=frozenset(),
        owns_status=False,
    )
