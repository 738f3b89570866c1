"""The synthetic appliance that is measured: a catalog of N small modules on top of `basis`."""

import json
from typing import Any

OPERATOR_NAMESPACE = "ai-system"
FLUX_NAMESPACE = "flux-system"
AI_NAMESPACE = "ai"
"""Where models and applications run."""
IDENTITY_NAMESPACE = "identity-system"
GROUP = "appliance.magicstick.dev/v1alpha1"
KUSTOMIZE = "kustomize.toolkit.fluxcd.io/v1"
HELM = "helm.toolkit.fluxcd.io/v2"
FINALIZER = "appliance.magicstick.dev/module-cleanup"
ACTIVATIONS = f"/apis/{GROUP}/namespaces/{OPERATOR_NAMESPACE}/moduleactivations"
KUSTOMIZATIONS = f"/apis/{KUSTOMIZE}/namespaces/{FLUX_NAMESPACE}/kustomizations"
CONFIG_MAPS = f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/configmaps"
BASIS = "infrastructure-basis"
SOURCE = {"kind": "GitRepository", "name": "flux-system", "namespace": FLUX_NAMESPACE}
STAMP = "2026-01-01T00:00:00Z"
"""When everything that is told here came about."""


def namespace(name: str) -> dict[str, Any]:
    """A namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def module_name(number: int) -> str:
    """The key of the n-th synthetic module."""
    return f"synthetic-{number:05d}"


def catalog(count: int) -> dict[str, Any]:
    """The module catalog's ConfigMap: `basis` and `count` modules that require it."""
    modules: dict[str, Any] = {
        "basis": {
            "path": "manifests/modules/basis",
            "kustomizationName": "platform-basis",
            "activationMode": "static",
        }
    }
    for number in range(count):
        name = module_name(number)
        modules[name] = {
            "path": f"manifests/modules/{name}",
            "kustomizationName": f"app-{name}",
            "requires": ["basis"],
            "parameters": [{"name": "flavour", "label": "Flavour", "substitution": "FLAVOUR"}],
        }
    text = json.dumps({"groups": {}, "modules": modules}, separators=(",", ":"))
    return config_map("magicstick-module-catalog", {"modules.json": text})


def config_map(name: str, data: dict[str, str]) -> dict[str, Any]:
    """A ConfigMap in the operator's namespace."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": OPERATOR_NAMESPACE},
        "data": data,
    }


def activation(number: int, flavour: str = "plain") -> dict[str, Any]:
    """The ModuleActivation of the n-th module."""
    return module_activation(module_name(number), parameters={"flavour": flavour})


def module_activation(name: str, **spec: Any) -> dict[str, Any]:
    """The ModuleActivation of any module."""
    return {
        "apiVersion": GROUP,
        "kind": "ModuleActivation",
        "metadata": {"name": name, "namespace": OPERATOR_NAMESPACE},
        "spec": {"module": name, "enabled": True, **spec},
    }


def kustomization(number: int, flavour: str = "plain") -> dict[str, Any]:
    """The child that the operator makes for the n-th module, as the yardstick writes it."""
    name = module_name(number)
    return {
        "apiVersion": KUSTOMIZE,
        "kind": "Kustomization",
        "metadata": {
            "name": f"app-{name}",
            "namespace": FLUX_NAMESPACE,
            "labels": {
                "app.kubernetes.io/managed-by": "magicstick-operator",
                "appliance.magicstick.dev/module": name,
            },
        },
        "spec": {
            "interval": "10m0s",
            "retryInterval": "1m0s",
            "path": f"./manifests/modules/{name}",
            "prune": True,
            "deletionPolicy": "Delete",
            "suspend": False,
            "wait": False,
            "sourceRef": SOURCE,
            "dependsOn": [{"name": BASIS}],
            "postBuild": {"substitute": {"FLAVOUR": flavour}},
        },
    }


def status(number: int) -> dict[str, Any]:
    """The status that the operator writes first, as the yardstick writes it."""
    name = module_name(number)
    message = "waiting for the Kustomization to report"
    condition = {
        "lastTransitionTime": STAMP,
        "observedGeneration": 1,
        "reason": "WaitingForKustomization",
        "message": message,
    }
    return {
        "apiVersion": GROUP,
        "kind": "ModuleActivation",
        "metadata": {"name": name, "namespace": OPERATOR_NAMESPACE},
        "status": {
            "observedGeneration": 1,
            "phase": "Reconciling",
            "kustomization": f"app-{name}",
            "message": message,
            "conditions": [
                {"type": "Ready", "status": "False", **condition},
                {"type": "Reconciling", "status": "True", **condition},
            ],
        },
    }


def ready_basis() -> tuple[dict[str, Any], dict[str, Any]]:
    """The static Kustomization that everything requires, and the status that makes it ready."""
    body = {
        "apiVersion": KUSTOMIZE,
        "kind": "Kustomization",
        "metadata": {"name": BASIS, "namespace": FLUX_NAMESPACE},
        "spec": {
            "interval": "10m0s",
            "path": "./manifests/modules/basis",
            "prune": True,
            "sourceRef": {"kind": "GitRepository", "name": "flux-system"},
        },
    }
    return body, ready_status(BASIS, 1)


def ready_status(name: str, generation: int) -> dict[str, Any]:
    """A Kustomization's status as Flux writes it after a successful apply of this generation."""
    return {
        "apiVersion": KUSTOMIZE,
        "kind": "Kustomization",
        "metadata": {"name": name, "namespace": FLUX_NAMESPACE},
        "status": {
            "observedGeneration": generation,
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "ReconciliationSucceeded",
                    "message": "Applied revision: main@sha1:0000000000000000000000000000000000000000",
                    "observedGeneration": generation,
                    "lastTransitionTime": STAMP,
                }
            ],
        },
    }
