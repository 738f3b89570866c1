"""What holds for every folder that Flux applies: each stands alone, is pinned, and holds no secret.

The folders are those of the module catalog and of the static graph, so one that is missing fails here.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest

from hack import yamls
from tests.support.kustomize import (
    CLUSTER_SCOPED,
    FOLDERS,
    MODULE_FOLDERS,
    PLATFORM_FOLDERS,
    Folder,
    identity,
    scalars,
)
from tests.support.manifests import MANIFESTS, ROOT, Object
from tests.support.shipped import MODULES

pytestmark = pytest.mark.cluster  # kustomize is a part of kubectl, which the cluster brings

EVERY_FOLDER: Final = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
EVERY_MODULE: Final = pytest.mark.parametrize("key", MODULE_FOLDERS)
OPERATOR: Final = [Folder("", substituted=False), Folder("flux", substituted=False)]

FLUX: Final = "kustomize.toolkit.fluxcd.io"
GENERATOR: Final = "secret-generator.v1.mittwald.de/autogenerate"

SURVIVORS: Final[dict[str, set[str]]] = {
    "dashboard": {"Namespace/host-management"},
    "litellm": {
        "Secret/litellm-masterkey-secret",
        "Secret/litellm-postgresql-secret",
        "PersistentVolumeClaim/litellm-postgresql-data",
    },
    "anything-llm": {
        "PersistentVolumeClaim/anything-llm-storage",
        "PersistentVolumeClaim/qdrant-storage",
        "Secret/qdrant-auth-secret",
    },
    "model-catalog": {"ConfigMap/ai-external-models"},
    "private-mesh": {"Secret/private-mesh-service", "PersistentVolumeClaim/private-mesh-state"},
    "openclaw-operator": {"Namespace/openclaw-operator-system"},
    "hermes-operator": {"Namespace/hermes-operator-system"},
    "paperclip-operator": {"Namespace/paperclip-operator-system"},
    "agent-sandbox": {"Namespace/agent-sandbox-system"},
    "kubeai": {"ConfigMap/magicstick-gpu-runtime-images"},
}
"""What is left when a module is switched off (spec: platform §2.0.3); of the others, nothing."""

RUNTIME_OWNED: Final = {
    "ConfigMap/ai-model-catalog",
    "ConfigMap/ai-external-models",
    "ConfigMap/magicstick-offloading-profiles",
    "ConfigMap/magicstick-gpu-runtime-images",
}
"""Created once and never reset, since somebody else writes them at run time (spec: platform §0.2)."""

NETWORK_POLICIES: Final = {"modules/private-mesh": {"private-mesh-boundary"}}
"""All that are applied from Git; others come from operators (spec: platform §0.5)."""

FIXED_SECRET_KEYS: Final = {
    "POSTGRES_DB",
    "POSTGRES_USER",
    "KC_BOOTSTRAP_ADMIN_USERNAME",
    "client-id",
}
"""What a Secret may hold in Git: names, not secrets (spec: platform §0.3)."""

DEFAULTS: Final = {
    "AI_APPLIANCE_MDNS_DOMAIN": "magicstick.local",
    "AI_APPLIANCE_DOMAIN": "magicstick.example.com",
    "AI_APPLIANCE_DASHBOARD_HOST": "magicstick.example.com",
    "AI_APPLIANCE_ENVOY_CRDS_POLICY": "Skip",
    "AI_APPLIANCE_KEYCLOAK_POSTGRES_STORAGE": "1Gi",
    "AI_APPLIANCE_LITELLM_POSTGRES_STORAGE": "1Gi",
    "AI_APPLIANCE_ANYTHING_LLM_STORAGE": "1Gi",
    "AI_APPLIANCE_QDRANT_STORAGE": "1Gi",
    "AI_APPLIANCE_DEFAULT_CHAT_MODEL": "auto",
    "AI_APPLIANCE_DEFAULT_EMBEDDING_MODEL": "auto",
}
"""Every variable with the default that the manifests write (spec: platform §0.4)."""

VARIABLE: Final = re.compile(r"(?<!\$)\$\{(?P<name>\w+)(?::=(?P<default>[^}]*))?")
PINNED_CHART: Final = re.compile(r"v?\d+\.\d+\.\d+(?:-[\w.]+)?")
TAG: Final = re.compile(r"v?\d+\.\d+\.\d+(?:[-+][\w.]+)?")
IMAGE: Final = re.compile(r"[\w.-]+(?:[./:][\w.-]+)*?(?::(?P<tag>[\w.-]+))?(?P<digest>@sha256:[0-9a-f]{64})?")
DNS_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?")
LABEL_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[-\w.]*[A-Za-z0-9])?)?")
CREDENTIAL: Final = re.compile(r"(?:password|token|secret|api_?key|master_?key|private_?key)$", re.IGNORECASE)


# --- the catalog and the folders -------------------------------------------------------------------------


@EVERY_FOLDER
def test_the_folder_is_there(folder: Folder) -> None:
    assert (folder.path / "kustomization.yaml").is_file()


def test_every_folder_of_a_module_is_in_the_catalog() -> None:
    catalogued = {(ROOT / module.path).resolve() for module in MODULES.modules.values()}

    assert {path.resolve() for path in (MANIFESTS / "modules").iterdir() if path.is_dir()} == catalogued


def test_every_folder_of_the_platform_is_in_the_static_graph() -> None:
    used = {folder.path for folder in PLATFORM_FOLDERS}

    assert {path for path in (MANIFESTS / "platform").iterdir() if path.is_dir()} == used


# --- built by kustomize ----------------------------------------------------------------------------------


@EVERY_FOLDER
def test_the_folder_builds_on_its_own(folder: Folder) -> None:
    built = folder.built()

    assert all(obj["apiVersion"] and obj["kind"] and obj["metadata"]["name"] for obj in built)
    assert bool(built) == (folder.name != "modules/odysseus")  # a marker, and empty on purpose


def test_no_object_is_applied_from_two_folders() -> None:
    """The second Kustomization would fight over it with the first, and prune it when it goes."""
    everywhere = [identity(obj) for folder in [*FOLDERS, *OPERATOR] for obj in folder.built()]

    assert [name for name, times in Counter(everywhere).items() if times > 1] == []


@EVERY_FOLDER
def test_every_object_says_where_it_lives(folder: Folder) -> None:
    for obj in folder.built():
        assert ("namespace" in obj["metadata"]) == (obj["kind"] not in CLUSTER_SCOPED), identity(obj)


@EVERY_MODULE
def test_every_namespace_is_there_before_what_lives_in_it(key: str) -> None:
    """Its own folder, a required module, the platform or the operator makes it."""
    available = {"flux-system", "ai-system"}
    for folder in [*PLATFORM_FOLDERS, *(MODULE_FOLDERS[each] for each in (key, *required(key)))]:
        available |= {obj["metadata"]["name"] for obj in folder.built() if obj["kind"] == "Namespace"}

    used = {obj["metadata"].get("namespace") for obj in MODULE_FOLDERS[key].built()} - {None}
    used |= {release["spec"]["targetNamespace"] for release in MODULE_FOLDERS[key].releases().values()}
    assert used <= available


def required(key: str) -> Iterator[str]:
    for each in MODULES.modules[key].requires:
        yield each
        yield from required(each)


@EVERY_FOLDER
def test_every_name_and_label_value_is_short_enough(folder: Folder) -> None:
    for obj in folder.built():
        metadata = obj["metadata"]
        if not obj["kind"].startswith(("Role", "ClusterRole")) and obj["kind"] != "CustomResourceDefinition":
            assert len(metadata["name"]) <= 63
            assert DNS_NAME.fullmatch(metadata["name"]), identity(obj)
        for value in metadata.get("labels", {}).values():
            assert len(value) <= 63
            assert LABEL_VALUE.fullmatch(value), identity(obj)


# --- substitution ----------------------------------------------------------------------------------------


@EVERY_FOLDER
def test_variables_are_known_and_have_their_default(folder: Folder) -> None:
    for match in VARIABLE.finditer(folder.text()):
        assert folder.substituted, match.group()
        assert match["default"] == DEFAULTS[match["name"]], match.group()


def test_every_parameter_with_a_substitution_reaches_its_module() -> None:
    for key, module in MODULES.modules.items():
        names = {match["name"] for match in VARIABLE.finditer(MODULE_FOLDERS[key].text())}
        assert {each.substitution for each in module.parameters if each.substitution} <= names


@EVERY_FOLDER
def test_with_all_defaults_and_with_all_set_the_same_objects_come_out(folder: Folder) -> None:
    by_default = folder.built()
    changed = folder.built(**{name: f"{value}x" for name, value in DEFAULTS.items()})

    assert [identity(obj) for obj in by_default] == [identity(obj) for obj in changed]
    assert (by_default != changed) == bool(VARIABLE.search(folder.text()))


# --- Helm releases and their sources ---------------------------------------------------------------------


@EVERY_FOLDER
def test_every_release_is_pinned_and_its_source_is_in_the_same_folder(folder: Folder) -> None:
    sources = {
        (obj["kind"], obj["metadata"]["name"], obj["metadata"]["namespace"]): obj["spec"]
        for obj in folder.built()
        if obj["apiVersion"].startswith("source.toolkit.fluxcd.io/")
    }
    used = {}
    for release in folder.releases().values():
        key, version = source_of(release)
        used[key] = sources[key]
        if key[0] == "HelmRepository":
            assert PINNED_CHART.fullmatch(version)
        else:
            assert set(sources[key]["ref"]) == {"tag"}
            assert TAG.fullmatch(sources[key]["ref"]["tag"])

    assert used.keys() == sources.keys()


def source_of(release: Object) -> tuple[tuple[str, str, str], str]:
    """Kind, name and namespace of a release's source; the chart's version, empty where the source has it."""
    spec = release["spec"]
    if reference := spec.get("chartRef"):
        namespace = reference.get("namespace", release["metadata"]["namespace"])
        return (reference["kind"], reference["name"], namespace), ""
    reference = spec["chart"]["spec"]["sourceRef"]
    return (reference["kind"], reference["name"], reference["namespace"]), spec["chart"]["spec"].get(
        "version", ""
    )


@EVERY_MODULE
def test_every_release_of_a_module_is_tried_again_and_never_rolled_back_by_itself(key: str) -> None:
    retry = {"name": "RetryOnFailure", "retryInterval": "1m0s"}
    for release in MODULE_FOLDERS[key].releases().values():
        spec = release["spec"]
        assert release["metadata"]["namespace"] == "flux-system"
        assert (spec["interval"], spec["timeout"]) == ("10m0s", "15m0s")
        assert (spec["install"]["strategy"], spec["upgrade"]["strategy"]) == (retry, retry)
        assert not {"remediation"} & (spec["install"].keys() | spec["upgrade"].keys())
        assert not {"releaseName", "storageNamespace", "suspend", "driftDetection"} & spec.keys()


@EVERY_FOLDER
def test_every_reference_to_values_is_in_the_same_folder_or_optional(folder: Folder) -> None:
    present = {identity(obj) for obj in folder.built()}
    for release in folder.releases().values():
        for reference in release["spec"].get("valuesFrom", []):
            name = f"{reference['kind']}./{release['metadata']['namespace']}/{reference['name']}"
            assert reference.get("optional") or name in present


# --- images ----------------------------------------------------------------------------------------------


@EVERY_FOLDER
def test_every_image_is_pinned(folder: Folder) -> None:
    for obj in folder.built():
        for image in images(obj):
            match = IMAGE.fullmatch(image)
            assert match, image
            assert match["digest"] or (match["tag"] and "latest" not in match["tag"]), image


def images(value: Any, parent: str = "") -> Iterator[str]:
    """Every image reference: of Pods, of Helm values in their usual shapes, and of patches."""
    if isinstance(value, list):
        for child in value:
            yield from images(child, parent)
    if not isinstance(value, dict):
        return
    if "repository" in value:
        registry = f"{value['registry']}/" if value.get("registry") else ""
        digest = f"@{value['digest']}" if value.get("digest") else ""
        yield f"{registry}{value['repository']}:{value.get('tag') or 'latest'}{digest}"
    for key, child in value.items():
        if isinstance(child, str) and (key == "image" or parent == "images"):
            yield child
        elif key == "patch" and isinstance(child, str):
            yield from patched(yamls.load(child))
        else:
            yield from images(child, key)


def patched(patch: Any) -> Iterator[str]:
    """Images that a JSON patch or a merge patch sets."""
    for operation in patch if isinstance(patch, list) else []:
        if operation["path"].endswith("/image"):
            yield operation["value"]
    yield from images(patch)


@pytest.mark.parametrize(
    "value",
    [
        {"image": "nginx"},
        {"image": "nginx:latest"},
        {"image": "registry.example.com:5000/nginx"},
        {"images": {"default": "ollama/ollama:latest"}},
        {"image": {"repository": "ghcr.io/x/y"}},
        {"image": {"repository": "ghcr.io/x/y", "tag": "latest-cpu"}},
        {"patches": [{"patch": "- {op: replace, path: /spec/x/0/image, value: nginx}"}]},
    ],
    ids=str,
)
def test_an_unpinned_image_is_found(value: Object) -> None:
    (image,) = images(value)

    match = IMAGE.fullmatch(image)
    assert match
    assert not match["digest"]
    assert not match["tag"] or "latest" in match["tag"]


# --- secrets and rights ----------------------------------------------------------------------------------


@pytest.mark.req("MS-379")
@EVERY_FOLDER
def test_a_secret_is_generated_in_the_cluster_and_holds_nothing_in_git(folder: Folder) -> None:
    for obj in folder.built():
        if obj["kind"] == "Secret":
            generated = obj["metadata"]["annotations"][GENERATOR].split(",")
            assert not obj.get("data")
            assert obj.get("stringData", {}).keys() <= FIXED_SECRET_KEYS - set(generated)


@pytest.mark.req("MS-379")
@EVERY_FOLDER
def test_no_credential_stands_in_an_environment_or_in_helm_values(folder: Folder) -> None:
    for obj in folder.built():
        for path, value in scalars(obj):
            if path[-1] == "value" and path[-3:-2] == ("env",):
                assert not CREDENTIAL.search(env_name(obj, path)), path
            if "values" in path and isinstance(value, str) and value:
                assert not CREDENTIAL.search(path[-1]), path


def env_name(obj: Object, path: tuple[str, ...]) -> str:
    entry: Any = obj
    for step in path[:-1]:
        entry = entry[int(step)] if isinstance(entry, list) else entry[step]
    return str(entry["name"])


@EVERY_FOLDER
def test_no_right_is_a_wildcard_and_none_leads_to_more_rights(folder: Folder) -> None:
    for obj in folder.built():
        for rule in obj.get("rules", []) if obj["kind"] in {"Role", "ClusterRole"} else []:
            assert "*" not in [*rule.get("apiGroups", []), *rule.get("resources", []), *rule["verbs"]]
            assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])
        if obj["kind"] == "ClusterRoleBinding":
            assert obj["roleRef"]["name"] not in {"cluster-admin", "admin", "edit"}


# --- what survives, and what there is not ----------------------------------------------------------------


@EVERY_MODULE
def test_what_survives_switching_the_module_off(key: str) -> None:
    assert annotated(MODULE_FOLDERS[key], "prune", "disabled") == SURVIVORS.get(key, set())


@EVERY_MODULE
def test_no_volume_and_no_generated_key_goes_with_its_module(key: str) -> None:
    """A key that vanishes while its volume lives locks the data up; a volume is the data."""
    precious = {
        short(obj)
        for obj in MODULE_FOLDERS[key].built()
        if obj["kind"] in {"PersistentVolumeClaim", "Secret"}
    }

    assert precious <= annotated(MODULE_FOLDERS[key], "prune", "disabled")


@EVERY_MODULE
def test_what_flux_creates_once_and_leaves_alone(key: str) -> None:
    names = {short(obj) for obj in MODULE_FOLDERS[key].built()}

    assert annotated(MODULE_FOLDERS[key], "ssa", "IfNotPresent") == names & RUNTIME_OWNED


def annotated(folder: Folder, annotation: str, value: str) -> set[str]:
    return {
        short(obj)
        for obj in folder.built()
        if obj["metadata"].get("annotations", {}).get(f"{FLUX}/{annotation}") == value
    }


def short(obj: Object) -> str:
    return f"{obj['kind']}/{obj['metadata']['name']}"


@EVERY_FOLDER
def test_network_policies_are_exactly_the_specified_ones(folder: Folder) -> None:
    found = {obj["metadata"]["name"] for obj in folder.built() if obj["kind"] == "NetworkPolicy"}

    assert found == NETWORK_POLICIES.get(folder.name, set())


@EVERY_FOLDER
def test_nothing_that_nobody_asked_for_is_applied(folder: Folder) -> None:
    kinds = Counter(obj["kind"] for obj in folder.built())

    assert not kinds.keys() & {
        "Ingress",
        "ServiceMonitor",
        "PodMonitor",
        "PrometheusRule",
        "HorizontalPodAutoscaler",
        "LimitRange",
        "PriorityClass",
    }
    assert kinds["PodDisruptionBudget"] == (folder.name == "modules/dashboard")  # the access guard's
