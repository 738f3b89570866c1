"""Builders of what modules generate: Flux Kustomizations and ModuleActivations. Values in, dicts out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self

from magicstick.api import labels
from magicstick.api.appliance import Source
from magicstick.api.kinds import KUSTOMIZATION, MODULE_ACTIVATION
from magicstick.catalogs.modules import ModuleDefinition
from magicstick.kube.objects import Resource

Object = dict[str, Any]

INTERVAL: Final = "10m0s"
RETRY_INTERVAL: Final = "1m0s"
"""So that a failed apply is not left alone for a whole interval (spec: platform P6)."""

SUBSTITUTION_ENABLED: Final = "var_substitution_enabled"
"""Flux substitutes only when at least one variable is known; this one always is (spec: platform §0.2)."""

_OWN_FIELDS: Final = (
    "interval",
    "retryInterval",
    "path",
    "wait",
    "sourceRef",
    "dependsOn",
    "healthChecks",
)
"""What `resumed` takes over from a live Kustomization unchanged."""

_OWN_LABELS: Final = (labels.MANAGED_BY, labels.MODULE)


class SiteSettings(Protocol):
    """What modules need of the settings; `runtime.settings.Settings` has all of it."""

    @property
    def appliance_namespace(self) -> str: ...  # noqa: D102 - named like its variable
    @property
    def appliance_name(self) -> str: ...  # noqa: D102 - named like its variable
    @property
    def flux_namespace(self) -> str: ...  # noqa: D102 - named like its variable
    @property
    def settings_configmap_name(self) -> str: ...  # noqa: D102 - named like its variable


@dataclass(frozen=True, slots=True)
class Site:
    """Where things are: our kinds, the one Appliance, and what Flux reads."""

    appliance_namespace: str = "ai-system"
    appliance_name: str = "local"
    flux_namespace: str = "flux-system"
    settings_configmap: str = "ai-appliance-settings"

    @classmethod
    def of(cls, settings: SiteSettings) -> Self:
        """The site that the settings describe."""
        return cls(
            settings.appliance_namespace,
            settings.appliance_name,
            settings.flux_namespace,
            settings.settings_configmap_name,
        )


def kustomization(
    module: str,
    definition: ModuleDefinition,
    site: Site,
    *,
    source: Source,
    depends_on: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    suspend: bool = False,
) -> Object:
    """The Kustomization of a module (spec: modules-and-apps §5.1, §5.3).

    `depends_on` are names of Kustomizations that exist; `variables` what parameters substitute.
    """
    spec: Object = {
        "interval": INTERVAL,
        "retryInterval": RETRY_INTERVAL,
        "path": "./" + definition.path.lstrip("./"),
        "prune": True,
        "deletionPolicy": "Delete",
        "suspend": suspend,
        "wait": definition.wait_for_ready,
        "sourceRef": {"kind": source.kind, "name": source.name, "namespace": source.namespace},
    }
    if depends_on:
        spec["dependsOn"] = [{"name": name} for name in depends_on]
    if post_build := _post_build(definition, site, variables or {}):
        spec["postBuild"] = post_build
    if definition.required_crds:
        spec["healthChecks"] = [_crd_check(name) for name in definition.required_crds]
    return _kustomization(site.flux_namespace, definition.kustomization_name, _labels(module), spec)


def resumed(live: Resource) -> Object:
    """A live Kustomization of ours without its suspension, as it must be before it is deleted.

    Flux prunes nothing when a suspended Kustomization is deleted. Made from the live object alone,
    since its module may have left the catalog; the values of parameters are left out (spec:
    modules-and-apps §5.5).
    """
    spec: Object = {field: live.spec[field] for field in _OWN_FIELDS if field in live.spec}
    spec |= {"prune": True, "deletionPolicy": "Delete", "suspend": False}
    if post_build := _without_parameters(live.spec.get("postBuild")):
        spec["postBuild"] = post_build
    own = {key: value for key, value in live.metadata.labels.items() if key in _OWN_LABELS}
    return _kustomization(live.metadata.namespace, live.metadata.name, own, spec)


def live_variables(live: Resource) -> dict[str, str]:
    """The parameter values that a live Kustomization has, by variable."""
    post_build = live.spec.get("postBuild")
    variables = post_build.get("substitute") if isinstance(post_build, Mapping) else None
    if not isinstance(variables, Mapping):
        return {}
    return {name: str(value) for name, value in variables.items() if name != SUBSTITUTION_ENABLED}


def auto_activation(module: str, site: Site, source: str | None = None) -> Object:
    """The activation that we make of a module that is needed (spec: modules-and-apps §4).

    `source` says who needs it, where that is not plain: `labels.SOURCE_HARDWARE`.
    """
    annotations = {labels.AUTO_ENABLED: labels.TRUE}
    if source is not None:
        annotations[labels.ACTIVATION_SOURCE] = source
    return {
        "apiVersion": MODULE_ACTIVATION.api_version,
        "kind": MODULE_ACTIVATION.kind,
        "metadata": {
            "name": module,
            "namespace": site.appliance_namespace,
            "labels": _labels(module),
            "annotations": annotations,
        },
        "spec": {
            "module": module,
            "enabled": True,
            "applianceRef": {"name": site.appliance_name, "namespace": site.appliance_namespace},
        },
    }


def _labels(module: str) -> dict[str, str]:
    return {labels.MANAGED_BY: labels.OPERATOR, labels.MODULE: module}


def _kustomization(namespace: str, name: str, own_labels: Mapping[str, str], spec: Object) -> Object:
    return {
        "apiVersion": KUSTOMIZATION.api_version,
        "kind": KUSTOMIZATION.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": dict(own_labels)},
        "spec": spec,
    }


def _post_build(definition: ModuleDefinition, site: Site, variables: Mapping[str, str]) -> Object:
    if not definition.post_build_substitution:
        return {"substitute": dict(variables)} if variables else {}
    return {
        "substitute": {SUBSTITUTION_ENABLED: "true", **variables},
        "substituteFrom": [{"kind": "ConfigMap", "name": site.settings_configmap, "optional": True}],
    }


def _without_parameters(post_build: object) -> Object:
    if not isinstance(post_build, Mapping) or "substituteFrom" not in post_build:
        return {}
    return {"substitute": {SUBSTITUTION_ENABLED: "true"}, "substituteFrom": post_build["substituteFrom"]}


def _crd_check(name: str) -> Object:
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "name": name}
