"""Small objects for tests of modules and of the Appliance, and a catalog to try everything with."""

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hack import yamls
from magicstick.api import labels
from magicstick.api.kinds import APPLIANCE, KUSTOMIZATION, MODULE_ACTIVATION
from magicstick.catalogs.modules import ModuleCatalog
from magicstick.kube.kinds import Kind
from magicstick.kube.objects import Resource
from tests.support.objects import resource

HOME = "ai-system"
FLUX = "flux-system"
BORN = "2026-01-01T00:00:00Z"
ROOT = Path(__file__).parents[2]


@functools.cache
def shipped_catalog() -> ModuleCatalog:
    """The catalog that this repository ships."""
    return ModuleCatalog.parse(json.dumps(yamls.load((ROOT / "catalogs/modules.yaml").read_text())))


def catalog(**entries: Mapping[str, Any] | None) -> ModuleCatalog:
    """A catalog of `basis` (static) and the given modules; `_` in a key stands for `-`.

    An entry needs nothing: path and kustomizationName follow from the key. None makes it a static one.
    """
    modules: dict[str, Any] = {"basis": static("platform-basis")}
    for key, entry in entries.items():
        name = key.replace("_", "-")
        modules[name] = {
            "path": f"manifests/modules/{name}",
            "kustomizationName": f"app-{name}",
            **({"activationMode": "static"} if entry is None else entry),
        }
    return ModuleCatalog.parse(json.dumps({"modules": modules}))


def static(kustomization_name: str) -> dict[str, Any]:
    """An entry of a module that belongs to Git."""
    return {
        "path": "manifests/modules/basis",
        "kustomizationName": kustomization_name,
        "activationMode": "static",
    }


def activation(
    name: str,
    *,
    module: str | None = None,
    enabled: object = True,
    parameters: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    created: str = BORN,
    **metadata: Any,
) -> Resource:
    """A ModuleActivation; `metadata` as for `body`."""
    wanted = {
        "module": module or name,
        "enabled": enabled,
        "parameters": dict(parameters or {}),
        **(spec or {}),
    }
    made = body(MODULE_ACTIVATION, HOME, name, created=created, **metadata)
    return resource({**made, "spec": wanted, "status": dict(status or {})})


def kustomization(
    name: str,
    *,
    module: str | None = None,
    ready: str | None = "True",
    reason: str = "ReconciliationSucceeded",
    message: str = "Applied revision: main@sha1:0000",
    observed: int | None = None,
    suspend: bool = False,
    ours: bool = True,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **metadata: Any,
) -> Resource:
    """A Kustomization with a Ready condition of its current generation; `ready` None: without status."""
    made = body(KUSTOMIZATION, FLUX, name, **metadata)
    if ours:
        made["metadata"]["labels"] = {labels.MANAGED_BY: labels.OPERATOR}
        if module is not None:
            made["metadata"]["labels"][labels.MODULE] = module
    generation = made["metadata"]["generation"]
    seen = generation if observed is None else observed
    told = (
        {}
        if ready is None
        else {"observedGeneration": seen, "conditions": [condition(ready, reason, message, seen)]}
    )
    return resource(
        {**made, "spec": {"suspend": suspend, **(spec or {})}, "status": {**told, **(status or {})}}
    )


def condition(status: str, reason: str = "", message: str = "", observed: int = 1) -> dict[str, Any]:
    """A Ready condition as Flux writes it."""
    return {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": observed,
        "lastTransitionTime": BORN,
    }


def appliance(
    modules: Mapping[str, Any] | None = None,
    *,
    source: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    name: str = "local",
    **metadata: Any,
) -> Resource:
    """An Appliance; `modules` are its `spec.modules`."""
    spec = {
        "modules": dict(modules or {}),
        "source": source or {"kind": "GitRepository", "name": "flux-system"},
    }
    return resource({**body(APPLIANCE, HOME, name, **metadata), "spec": spec, "status": dict(status or {})})


def body(
    kind: Kind,
    namespace: str,
    name: str,
    *,
    generation: int = 1,
    version: int = 1,
    uid: str = "",
    created: str = BORN,
    finalizers: Sequence[str] = (),
    annotations: Mapping[str, str] | None = None,
    dying: bool = False,
) -> dict[str, Any]:
    """An object without content, as the server would send it."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"uid-{kind.kind}-{name}",
        "resourceVersion": str(version),
        "generation": generation,
        "creationTimestamp": created,
        "labels": {},
        "annotations": dict(annotations or {}),
        "finalizers": list(finalizers),
    }
    if dying:
        metadata["deletionTimestamp"] = BORN
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
