"""Objects and rights of a folder as Flux applies them: built, substituted, found by kind and name."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.support.kustomize import FOLDERS
from tests.support.manifests import Object

BY_NAME: Final = {folder.name: folder for folder in FOLDERS}

DOMAINS: Final = {
    "AI_APPLIANCE_MDNS_DOMAIN": "example.local",
    "AI_APPLIANCE_DOMAIN": "apps.example.com",
    "AI_APPLIANCE_DASHBOARD_HOST": "dashboard.example.com",
}
"""Three names that cannot be mistaken for one another, unlike the defaults."""


def rendered(folder: str, **variables: str) -> list[Object]:
    """All objects of a folder, `modules/litellm` for example."""
    return BY_NAME[folder].built(**variables)


def find(folder: str, kind: str, name: str, **variables: str) -> Object:
    """The only object of this kind and name.

    Raises:
        ValueError: there is none, or there are several.
    """
    (found,) = [
        obj
        for obj in rendered(folder, **variables)
        if obj["kind"] == kind and obj["metadata"]["name"] == name
    ]
    return found


def of_kind(folder: str, kind: str, **variables: str) -> dict[str, Object]:
    """All objects of a kind by name."""
    return {obj["metadata"]["name"]: obj for obj in rendered(folder, **variables) if obj["kind"] == kind}


def pod(folder: str, name: str) -> Object:
    """The Pod template of the only workload of this name."""
    (template,) = [
        obj["spec"]["template"]
        for obj in rendered(folder)
        if obj["kind"] in {"Deployment", "StatefulSet"} and obj["metadata"]["name"] == name
    ]
    found: Object = template
    return found


def container(folder: str, name: str) -> Object:
    """The only container of a workload, init containers left aside."""
    (found,) = pod(folder, name)["spec"]["containers"]
    taken: Object = found
    return taken


def environment(folder: str, name: str) -> dict[str, str | None]:
    """Plain values of a workload's environment; None for what comes from elsewhere."""
    return {each["name"]: each.get("value") for each in container(folder, name)["env"]}


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one resource.

    Attributes:
        namespace: where; empty for everywhere.
        group: API group; empty for the core.
        resource: plural, with a subresource after a slash.
        name: of the only object; empty for all.
    """

    namespace: str
    group: str
    resource: str
    name: str
    verb: str


@functools.cache
def _everything() -> list[Object]:
    return [obj for folder in FOLDERS for obj in folder.built()]


def rights(namespace: str, account: str) -> set[Right]:
    """Everything that all folders together grant a ServiceAccount."""
    objects = _everything()
    roles = {_key(obj["kind"], obj): obj for obj in objects if obj["kind"] in {"Role", "ClusterRole"}}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    return {
        right
        for obj in objects
        if obj["kind"] in {"RoleBinding", "ClusterRoleBinding"} and subject in obj["subjects"]
        for right in _rights(roles[obj["roleRef"]["kind"], *_key("", obj, obj["roleRef"]["name"])[1:]], obj)
    }


def _key(kind: str, obj: Object, name: str = "") -> tuple[str, str, str]:
    metadata = obj["metadata"]
    return kind, metadata.get("namespace", ""), name or metadata["name"]


def _rights(role: Object, binding: Object) -> Iterator[Right]:
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for name in rule.get("resourceNames", [""]):
                    for verb in rule["verbs"]:
                        yield Right(binding["metadata"].get("namespace", ""), group, resource, name, verb)
