"""Objects of our kinds as a server has them, for what only reads them."""

from typing import Any

from magicstick.api.appearances import APPEARANCES
from magicstick.api.kinds import APPLIANCE, HOME_NAMESPACE, MODULE_ACTIVATION
from magicstick.kube.kinds import Kind
from tests.support.apiserver import Answer, ScriptedServer, listing

Object = dict[str, Any]

CREATED = "2026-01-01T00:00:00Z"


def path_of(kind: Kind, name: str | None = None, *, namespace: str = HOME_NAMESPACE) -> str:
    """Of the collection, or of one object."""
    return kind.path(namespace, name)


def an_object(kind: Kind, name: str, *, version: int = 1, **fields: Any) -> Object:
    """Any kind; `metadata` adds to the metadata."""
    metadata = {
        "name": name,
        "namespace": HOME_NAMESPACE,
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
        "generation": 1,
        "creationTimestamp": CREATED,
        **fields.pop("metadata", {}),
    }
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": {}, **fields}


def ready(status: str, reason: str, message: str) -> list[Object]:
    """Conditions with `Ready` alone."""
    condition = {"type": "Ready", "status": status, "reason": reason, "message": message}
    return [{**condition, "lastTransitionTime": CREATED}]


def a_module(
    name: str, phase: str = "Ready", message: str = "Applied.", *, version: int = 1, **fields: Any
) -> Object:
    """A ModuleActivation in this phase."""
    conditions = ready("True" if phase == "Ready" else "False", f"Because{phase}", message)
    return an_object(
        MODULE_ACTIVATION,
        name,
        version=version,
        spec={"module": name, "enabled": True},
        status={
            "phase": phase,
            "kustomization": f"app-{name}",
            "observedGeneration": 1,
            "conditions": conditions,
        },
        **fields,
    )


def an_appliance(
    phase: str = "Ready", message: str = "Everything works.", *, version: int = 1, **status: Any
) -> Object:
    """The Appliance in this phase; `status` adds to the status."""
    conditions = ready("True" if phase == "Ready" else "False", phase, message)
    spec = {"profile": "full", "source": {"kind": "GitRepository", "name": "flux-system"}}
    return an_object(
        APPLIANCE,
        "local",
        version=version,
        spec=spec,
        status={"phase": phase, "observedGeneration": 1, "conditions": conditions, **status},
    )


def serve(server: ScriptedServer, *objects: Object, namespace: str = HOME_NAMESPACE) -> None:
    """Lists of all our kinds, with these objects in them, and each of the objects by its name."""
    for appearance in APPEARANCES:
        kind = appearance.kind
        mine = [obj for obj in objects if obj["kind"] == kind.kind]
        server.answer("GET", path_of(kind, namespace=namespace), listing(mine, "100"))
        for obj in mine:
            server.answer("GET", path_of(kind, obj["metadata"]["name"]), Answer(200, obj))
