"""What Git ships around the profile store, and what the operator may do with it (spec: models §8.2)."""

import json
from typing import Any

import pytest

from magicstick.models.kubeai_release import PROFILES, STORE_KEY, STORE_NAME
from tests.support.manifests import MANIFESTS, Object, objects, one

KUBEAI = MANIFESTS / "modules" / "kubeai"
WRITING = {"create", "update", "patch", "delete", "deletecollection", "*"}


@pytest.mark.req("MS-147")
def test_git_ships_an_empty_store_that_is_made_once() -> None:
    store = one(KUBEAI, "ConfigMap", STORE_NAME, "flux-system")
    assert json.loads(store["data"][STORE_KEY]) == {PROFILES: {}}
    assert store["metadata"]["annotations"]["kustomize.toolkit.fluxcd.io/ssa"] == "IfNotPresent"
    assert store["metadata"]["labels"]["reconcile.fluxcd.io/watch"] == "Enabled"


@pytest.mark.req("MS-132")
def test_the_release_takes_values_from_the_store_first_and_can_do_without() -> None:
    release = one(KUBEAI, "HelmRelease", "kubeai")
    first = release["spec"]["valuesFrom"][0]
    assert first == {"kind": "ConfigMap", "name": STORE_NAME, "valuesKey": STORE_KEY, "optional": True}


def rules(resource: str, group: str) -> list[tuple[Object, dict[str, Any]]]:
    """Every rule for the operator about a resource, with the role that has it."""
    return [
        (obj, rule)
        for file, obj in objects(MANIFESTS / "rbac")
        if file.name != "human-access.yaml" and obj["kind"] in {"Role", "ClusterRole"}
        for rule in obj["rules"]
        if resource in rule["resources"] and group in rule["apiGroups"]
    ]


@pytest.mark.req("MS-151")
def test_the_store_may_be_patched_by_its_name_and_no_configmap_may_be_made() -> None:
    writing = [(obj, rule) for obj, rule in rules("configmaps", "") if WRITING & {*rule["verbs"]}]
    ((role, rule),) = writing
    assert (role["kind"], role["metadata"]["namespace"]) == ("Role", "flux-system")
    assert rule["resourceNames"] == [STORE_NAME]
    assert {"get", "patch"} <= {*rule["verbs"]} <= {"get", "list", "watch", "patch"}


def test_of_fluxs_helm_releases_only_kubeais_may_be_patched_and_none_made() -> None:
    """Those of instances are in the operator's own namespace."""
    for role, rule in rules("helmreleases", "helm.toolkit.fluxcd.io"):
        if role["metadata"].get("namespace") == "ai-system":
            continue
        assert WRITING & {*rule["verbs"]} <= {"patch"}
        assert role["metadata"].get("namespace") == "flux-system"
        assert rule["resourceNames"] == ["kubeai"]
