"""Broken appliances, each with one true cause, for those who have to name it.

A scene says what is prepared before anything runs, what a running operator then has to have told, and what
is asked. Each lives in a corner of its own; nodes and definitions have names that no other corner has.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hack.devcluster.actors.flux import Verdict, applied
from tests.support.scene import FAILED
from tests.support.world import BASIS, FLUX_GROUP, GROUP, SMALL_CATALOG, World

Prepare = Callable[[World], Awaitable[None]]
SOURCE_GROUP = "source.toolkit.fluxcd.io/v1"
OWN_GROUP = GROUP.partition("/")[0]
OLD, NEW = "main@sha1:1111111", "main@sha1:2222222"
SOURCE_MANAGER = "source-controller"


@dataclass(frozen=True)
class Scene:
    """One broken appliance. `told` are the phases of activations to wait for; `ask` the words of `why`."""

    name: str
    prepare: Prepare
    ask: Sequence[str]
    told: Mapping[str, str] = field(default_factory=dict)
    flux: bool = True
    operator: bool = True
    every: bool = False


SCENES: list[Scene] = []


def scene(*ask: str, told: Mapping[str, str] | None = None, **options: Any) -> Callable[[Prepare], Prepare]:
    """Have the decorated function prepare a scene of its own name."""

    def add(prepare: Prepare) -> Prepare:
        SCENES.append(Scene(prepare.__name__.replace("_", "-"), prepare, ask, told or {}, **options))
        return prepare

    return add


# --- objects -------------------------------------------------------------------------------------


def with_entries(**entries: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The small catalog with further entries; `_` in a key stands for `-`."""
    made = {}
    for key, entry in entries.items():
        name = key.replace("_", "-")
        made[name] = {"path": f"manifests/modules/{name}", "kustomizationName": f"app-{name}", **entry}
    return {**SMALL_CATALOG, **made}


async def git_repository(
    world: World, verdict: tuple[str, str, str] | None = None, *, revision: str = "", suspend: bool = False
) -> None:
    """The source of everything, with what source-controller says of it."""
    path = f"/apis/{SOURCE_GROUP}/namespaces/{world.flux_namespace}/gitrepositories/flux-system"
    metadata = {"name": "flux-system", "namespace": world.flux_namespace}
    body: dict[str, Any] = {"apiVersion": SOURCE_GROUP, "kind": "GitRepository", "metadata": metadata}
    spec = {"interval": "1m0s", "url": "https://git.example.com/appliance.git", "suspend": suspend}
    await world.client.apply(path, {**body, "spec": spec}, manager="git")
    if verdict is None:
        return
    status: dict[str, Any] = {"observedGeneration": 1, "conditions": [ready(*verdict)]}
    if revision:
        status["artifact"] = {
            "digest": f"sha256:{'0' * 64}",
            "lastUpdateTime": "2026-01-01T00:00:00Z",
            "path": "artifact.tar.gz",
            "revision": revision,
            "url": "http://source.example.local/artifact.tar.gz",
        }
    await world.client.apply(f"{path}/status", {**body, "status": status}, manager=SOURCE_MANAGER)


def fail(world: World, name: str, verdict: Verdict = FAILED) -> None:
    """From now on Flux fails to apply this Kustomization."""
    world.flux.verdict = lambda item: verdict if item["metadata"]["name"] == name else applied(item)


def ready(status: str, reason: str, message: str) -> dict[str, Any]:
    """A Ready condition of the first generation."""
    return {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


async def flux_status(world: World, name: str, condition: Mapping[str, Any], **status: Any) -> None:
    """What kustomize-controller says of a Kustomization of the first generation."""
    body = {
        "apiVersion": FLUX_GROUP,
        "kind": "Kustomization",
        "metadata": {"name": name, "namespace": world.flux_namespace},
        "status": {"observedGeneration": 1, "conditions": [condition], **status},
    }
    await world.client.apply(f"{world.kustomizations}/{name}/status", body, manager="kustomize-controller")


async def lease(world: World, holder: str, renewed: str) -> None:
    """The operator's Lease, as some operator left it."""
    place = {"name": "magicstick-operator", "namespace": world.namespace}
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 35, "renewTime": renewed}
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": place, "spec": spec}
    path = f"/apis/coordination.k8s.io/v1/namespaces/{world.namespace}/leases/magicstick-operator"
    await world.client.apply(path, body, manager="old-operator")


def vendor(world: World) -> dict[str, Mapping[str, Any]]:
    """A catalog with a GPU vendor of this corner's own."""
    mark = world.namespace
    hardware = {
        "vendor": "nvidia",
        "detectionLabel": f"{mark}.example.com/present",
        "supportedLabel": f"{mark}.example.com/supported",
        "architectures": ["amd64"],
        "minimumKubernetes": "1.28",
        "resourceNames": [f"{mark}.example.com/gpu"],
    }
    definition = f"policies.{mark}.example.com"
    entry = {"requires": ["basis"], "hardware": hardware, "requiredCrds": [definition], "waitForReady": True}
    finder = {
        "path": "manifests/modules/hardware-discovery",
        "kustomizationName": "hardware-discovery",
        "activationMode": "static",
    }
    return {**with_entries(gpu=entry), "hardware-discovery": finder}


async def node(
    world: World, *labels: str, architecture: str = "amd64", gpus: str = "", ready: bool = True
) -> None:
    """A node of this corner with labels of the corner's vendor."""
    mark = world.namespace
    metadata = {"name": f"node-{mark}", "labels": {f"{mark}.example.com/{label}": "true" for label in labels}}
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
    await world.client.apply(f"/api/v1/nodes/node-{mark}", body, manager="kubelet")
    condition = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "reason": "KubeletReady",
        "message": "",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    info = {
        "architecture": architecture,
        "bootID": "",
        "containerRuntimeVersion": "",
        "kernelVersion": "",
        "kubeProxyVersion": "",
        "kubeletVersion": "v1.36.0",
        "machineID": "",
        "operatingSystem": "linux",
        "osImage": "",
        "systemUUID": "",
    }
    status: dict[str, Any] = {"conditions": [condition], "nodeInfo": info}
    if gpus:
        status["allocatable"] = status["capacity"] = {f"{mark}.example.com/gpu": gpus}
    await world.client.apply(
        f"/api/v1/nodes/node-{mark}/status", {**body, "status": status}, manager="kubelet"
    )


async def definition(world: World) -> None:
    """The definition that the corner's vendor would bring."""
    group = f"{world.namespace}.example.com"
    names = {"plural": "policies", "singular": "policy", "kind": "Policy", "listKind": "PolicyList"}
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"policies.{group}"},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [version]},
    }
    await world.client.apply(
        f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/policies.{group}", body, manager="vendor"
    )


async def appliance_reports(world: World, message: str) -> None:
    """Wait until the Appliance says so; its status is written once a second at most."""

    def said() -> bool:
        found = world.mirror.get(world.appliances, "local") or {}
        conditions = found.get("status", {}).get("conditions", [])
        return any((each["type"], each["message"]) == ("Ready", message) for each in conditions)

    await world.mirror.until(f"the Appliance says {message}", said)


# --- modules -------------------------------------------------------------------------------------


@scene(told={"alpha": "Ready"})
async def everything_works(world: World) -> None:
    await world.appliance({"alpha": True})
    await appliance_reports(world, "Everything works that is switched on: 1 module.")


@scene("module/gamma", told={"alpha": "Degraded", "gamma": "WaitingForModules"})
async def flux_fails_three_levels_below(world: World) -> None:
    fail(world, "app-alpha")
    await world.activate("gamma")


@scene("beta", told={"alpha": "Disabled", "beta": "WaitingForModules"})
async def requirement_switched_off(world: World) -> None:
    await world.activate("alpha", enabled=False)
    await world.activate("beta")


@scene("alpha", told={"alpha": "Disabled"})
async def module_switched_off(world: World) -> None:
    await world.activate("alpha", enabled=False)


@scene("module/operator", told={"operator": "WaitingForCRD"})
async def definition_missing(world: World) -> None:
    entry = {"requires": ["basis"], "requiredCrds": ["things.why.example.com"], "waitForReady": True}
    await world.catalog(with_entries(operator=entry))
    await world.activate("operator")


@scene("module/alpha", told={"alpha": "Degraded"})
async def source_unreachable(world: World) -> None:
    failed = ("False", "GitOperationFailed", "failed to checkout: authentication required")
    await git_repository(world, failed)
    lacking = ("False", "ArtifactFailed", "Source artifact not found, retrying in 30s")
    fail(world, "app-alpha", lacking)
    await world.activate("alpha")


@scene("module/alpha", told={"alpha": "Degraded"})
async def source_missing(world: World) -> None:
    lacking = ("False", "ArtifactFailed", "Source 'GitRepository/flux-system' not found")
    fail(world, "app-alpha", lacking)
    await world.activate("alpha")


@scene("module/alpha", told={"alpha": "Degraded"})
async def source_suspended(world: World) -> None:
    await git_repository(world, suspend=True)
    lacking = ("False", "ArtifactFailed", "Source artifact not found, retrying in 30s")
    fail(world, "app-alpha", lacking)
    await world.activate("alpha")


@scene("module/alpha", told={"alpha": "Degraded"}, flux=False)
async def correction_not_tried_yet(world: World) -> None:
    await git_repository(world, ("True", "Succeeded", "stored artifact"), revision=NEW)
    await world.activate("alpha")
    await world.mirror.until("the Kustomization is there", lambda: world.child("app-alpha"))
    failed = ready("False", "BuildFailed", "kustomize build failed: accumulating resources")
    await flux_status(world, "app-alpha", failed, lastAttemptedRevision=OLD)


@scene("module/alpha", told={"alpha": "Degraded"}, flux=False)
async def health_check_failed(world: World) -> None:
    await git_repository(world, ("True", "Succeeded", "stored artifact"), revision=NEW)
    await world.activate("alpha")
    await world.mirror.until("the Kustomization is there", lambda: world.child("app-alpha"))
    message = (
        "health check failed after 5m0s:\n timeout waiting for: [Deployment/ai/alpha status: 'InProgress']"
    )
    await flux_status(
        world, "app-alpha", ready("False", "HealthCheckFailed", message), lastAttemptedRevision=NEW
    )


@scene("module/gamma", told={"gamma": "Degraded"})
async def parameter_invalid(world: World) -> None:
    for module in ("alpha", "beta"):
        await world.activate(module)
    await world.activate("gamma", parameters={"storage": "ten gigabytes"})


@scene("alhpa", told={"alhpa": "Degraded"})
async def module_unknown(world: World) -> None:
    await world.activate("alhpa")


@scene("module/broken", told={"broken": "Degraded"})
async def catalog_entry_invalid(world: World) -> None:
    await world.catalog(with_entries(broken={"kustomizationName": "Not a name"}))
    await world.activate("broken")


@scene("module/delta", told={"delta": "WaitingForModules"})
async def requirement_not_in_catalog(world: World) -> None:
    await world.catalog(with_entries(delta={"requires": ["alpah"]}))
    await world.activate("delta")


@scene("module/one", told={"one": "Degraded"})
async def requirements_in_a_circle(world: World) -> None:
    await world.catalog(with_entries(one={"requires": ["two"]}, two={"requires": ["one"]}))
    await world.activate("one")


@scene("appliance", told={"alpha": "Ready"})
async def catalog_malformed(world: World) -> None:
    await world.appliance({"alpha": True})
    await appliance_reports(world, "Everything works that is switched on: 1 module.")
    await world.config_map("magicstick-module-catalog", {"modules.json": "{"})


@scene("module/alpha", operator=False)
async def catalog_missing(world: World) -> None:
    await world.activate("alpha")
    await world.delete(f"/api/v1/namespaces/{world.namespace}/configmaps", "magicstick-module-catalog")


@scene("module/alpha", told={"alpha": "Degraded"})
async def kustomization_of_somebody_else(world: World) -> None:
    await world.kustomization("app-alpha", {})
    await world.activate("alpha")


@scene("module/alpha", told={"alpha": "Degraded"})
async def named_like_an_activation_of_another_module(world: World) -> None:
    await world.activate("nothing", name="alpha")


@scene("module/beta", told={"beta": "WaitingForModules"})
async def requirement_whose_name_is_taken(world: World) -> None:
    await world.activate("gamma", name="alpha", enabled=False)
    await world.activate("beta")


@scene("moduleactivation/alpha", operator=False)
async def activation_of_another_appliance(world: World) -> None:
    await world.activate("alpha", applianceRef={"name": "other", "namespace": world.namespace})


@scene("moduleactivation/second", told={"second": "Degraded"})
async def two_activations_of_one_module(world: World) -> None:
    await world.activate("alpha")
    await world.activate("alpha", name="second")


@scene("moduleactivation/basis", told={"basis": "Degraded"})
async def activation_of_a_static_module(world: World) -> None:
    await world.activate("basis")


@scene("module/alpha", told={"alpha": "WaitingForModules"})
async def foundation_suspended_by_hand(world: World) -> None:
    await world.client.merge(f"{world.kustomizations}/{BASIS}", {"spec": {"suspend": True}})
    await world.activate("alpha")


@scene("module/alpha", told={"alpha": "WaitingForModules"}, flux=False)
async def foundation_waits_in_flux(world: World) -> None:
    await world.kustomization("first-run-bootstrap", {})
    failed = ready("False", "ReconciliationFailed", "Secret first-run is missing")
    await flux_status(world, "first-run-bootstrap", failed)
    depends = {"spec": {"dependsOn": [{"name": "first-run-bootstrap"}]}}
    await world.client.merge(f"{world.kustomizations}/{BASIS}", depends)
    waits = ready("False", "DependencyNotReady", "dependency 'first-run-bootstrap' is not ready")
    await flux_status(world, BASIS, {**waits, "observedGeneration": 2})
    await world.activate("alpha")


@scene("module/alpha", told={"alpha": "Reconciling"}, flux=False)
async def flux_silent(world: World) -> None:
    await git_repository(world, ("True", "Succeeded", "stored artifact"), revision=NEW)
    await world.activate("alpha")
    await world.mirror.until("the Kustomization is there", lambda: world.child("app-alpha"))


@scene("module/alpha", told={"alpha": "Removing"})
async def removal_held_by_a_finalizer(world: World) -> None:
    await world.activate("alpha")
    await world.until_phase("alpha", "Ready")
    kept = {"metadata": {"finalizers": ["finalizers.fluxcd.io", "example.com/keep"]}}
    await world.client.merge(f"{world.kustomizations}/app-alpha", kept)
    await world.activate("alpha", enabled=False)


@scene("module/alpha", told={"alpha": "Reconciling"})
async def namespace_going(world: World) -> None:
    await world.delete("/api/v1/namespaces", world.flux_namespace)
    await world.activate("alpha")


@scene("kustomization/app-beta", told={"alpha": "Disabled", "beta": "WaitingForModules"})
async def kustomization_suspended_by_the_operator(world: World) -> None:
    await world.activate("alpha")
    await world.activate("beta")
    await world.until_phase("beta", "Ready")
    await world.activate("alpha", enabled=False)


@scene("module/beta", told={"beta": "WaitingForModules"})
async def requirement_being_removed(world: World) -> None:
    await world.activate("alpha")
    await world.activate("beta")
    await world.until_phase("beta", "Ready")
    world.flux.pause()
    await world.delete(world.activations, "alpha")


@scene("kustomization/orphan", operator=False)
async def kustomization_without_an_activation(world: World) -> None:
    labels = {"app.kubernetes.io/managed-by": "magicstick-operator", f"{OWN_GROUP}/module": "alpha"}
    await world.kustomization("orphan", labels)


@scene("appliance", every=True, told={"twice": "Degraded", "lost": "Degraded"})
async def several_causes(world: World) -> None:
    fail(world, "app-alpha")
    await world.activate("alpha", name="twice")
    await world.activate("nothing-of-the-kind", name="lost")
    await world.appliance({"gamma": True})
    for module in ("beta", "gamma"):
        await world.until_phase(module, "WaitingForModules")
    await appliance_reports(world, "Not working: alpha (Degraded), nothing-of-the-kind (Degraded)")


@scene("module/alpha", operator=False, flux=False)
async def operator_slow_to_report(world: World) -> None:
    await lease(world, "magicstick-7f9c_1234", "2026-01-01T11:59:40.000000Z")
    await world.activate("alpha")
    labels = {"app.kubernetes.io/managed-by": "magicstick-operator", f"{OWN_GROUP}/module": "alpha"}
    await world.kustomization("app-alpha", labels)
    await activation_status(world, "alpha", "Ready", "KustomizationReady")
    failed = ready("False", "ReconciliationFailed", "the Deployment is not valid")
    await flux_status(world, "app-alpha", failed)


@scene("appliance", operator=False)
async def appliance_missing(world: World) -> None:
    await world.activate("alpha")


# --- the operator --------------------------------------------------------------------------------


@scene("module/alpha", operator=False)
async def operator_never_ran(world: World) -> None:
    await world.activate("alpha")


@scene("module/alpha", operator=False)
async def operator_gone(world: World) -> None:
    await lease(world, "magicstick-7f9c_1234", "2026-01-01T11:15:00.000000Z")
    await world.activate("alpha")


@scene("module/alpha", operator=False)
async def operator_ended(world: World) -> None:
    await lease(world, "", "2026-01-01T11:59:00.000000Z")
    await world.activate("alpha")


@scene("module/alpha", operator=False)
async def operator_about_to_act(world: World) -> None:
    await lease(world, "magicstick-7f9c_1234", "2026-01-01T11:59:57.000000Z")
    await world.activate("alpha")


# --- hardware ------------------------------------------------------------------------------------


@scene("hardware/gpu", operator=False, flux=False)
async def hardware_without_labels(world: World) -> None:
    await world.catalog(vendor(world))
    await world.kustomization("hardware-discovery", {})
    await flux_status(world, "hardware-discovery", ready("True", "ReconciliationSucceeded", "applied"))
    await node(world)


@scene("hardware/gpu", operator=False, flux=False)
async def hardware_discovery_not_installed(world: World) -> None:
    await world.catalog(vendor(world))
    await node(world)


@scene(operator=False)
async def hardware_on_an_incompatible_node(world: World) -> None:
    await world.catalog(vendor(world))
    await world.appliance({})
    await node(world, "present", architecture="arm64")


@scene(operator=False)
async def hardware_of_a_foreign_operator(world: World) -> None:
    await world.catalog(vendor(world))
    await world.appliance({})
    await definition(world)
    await node(world, "present")


@scene(operator=False)
async def hardware_switched_off(world: World) -> None:
    await world.catalog(vendor(world))
    await world.appliance({})
    await world.activate("gpu", enabled=False)
    await node(world, "present")


@scene("hardware/gpu", operator=False, flux=False)
async def hardware_without_the_vendors_support(world: World) -> None:
    await world.catalog(vendor(world))
    await working_vendor(world)
    await node(world, "present")


@scene("hardware/gpu", operator=False, flux=False)
async def hardware_on_a_node_that_is_not_ready(world: World) -> None:
    await world.catalog(vendor(world))
    await working_vendor(world)
    await node(world, "present", "supported", gpus="1", ready=False)


@scene("hardware/gpu", operator=False, flux=False)
async def hardware_without_a_device_plugin(world: World) -> None:
    await world.catalog(vendor(world))
    await working_vendor(world)
    await node(world, "present", "supported")


@scene("hardware/gpu", operator=False, flux=False)
async def hardware_module_failed(world: World) -> None:
    await world.catalog(vendor(world))
    await working_vendor(world)
    await activation_status(world, "gpu", "Degraded", "ReconciliationFailed")
    failed = ready("False", "ReconciliationFailed", "the driver image cannot be pulled")
    await flux_status(world, "app-gpu", failed)
    await node(world, "present", "supported")


async def working_vendor(world: World) -> None:
    """The vendor's module, installed."""
    await definition(world)
    await world.appliance({})
    await world.activate("gpu")
    labels = {"app.kubernetes.io/managed-by": "magicstick-operator", f"{OWN_GROUP}/module": "gpu"}
    await world.kustomization("app-gpu", labels)
    await flux_status(world, "app-gpu", ready("True", "ReconciliationSucceeded", "applied"))
    await activation_status(world, "gpu", "Ready", "KustomizationReady")


async def activation_status(world: World, name: str, phase: str, reason: str) -> None:
    """What an operator reported of an activation of the first generation."""
    body = {
        "apiVersion": GROUP,
        "kind": "ModuleActivation",
        "metadata": {"name": name, "namespace": world.namespace},
        "status": {
            "observedGeneration": 1,
            "phase": phase,
            "kustomization": f"app-{name}",
            "message": "applied",
            "conditions": [ready("True" if phase == "Ready" else "False", reason, "applied")],
        },
    }
    await world.client.apply(f"{world.activations}/{name}/status", body, manager="old-operator")


# --- instances and models ------------------------------------------------------------------------


@scene("instance/notes", operator=False)
async def instance_needs_a_module(world: World) -> None:
    route = {"port": 80}
    notes = {"chartPath": "charts/notes", "route": route, "requiredModules": ["alpha"]}
    text = json.dumps({"applications": {"notes": notes}})
    await world.config_map("magicstick-app-catalog", {"applications.json": text})
    await world.activate("alpha", enabled=False)
    await own(world, "AppInstance", "appinstances", "notes", {"application": "notes"})


@scene("model/remote", operator=False)
async def model_needs_a_module(world: World) -> None:
    await world.catalog(
        with_entries(litellm={"requires": ["basis"]}, model_catalog={"requires": ["litellm"]})
    )
    await world.activate("litellm", enabled=False)
    await world.activate("model-catalog")
    provider = {"provider": "openai", "modelName": "example"}
    await own(
        world, "ModelActivation", "modelactivations", "remote", {"type": "external", "external": provider}
    )


async def own(world: World, kind: str, plural: str, name: str, spec: Mapping[str, Any]) -> None:
    """An object of ours."""
    metadata = {"name": name, "namespace": world.namespace}
    body = {"apiVersion": GROUP, "kind": kind, "metadata": metadata, "spec": spec}
    path = f"/apis/{GROUP}/namespaces/{world.namespace}/{plural}/{name}"
    await world.client.apply(path, body, manager="user")
