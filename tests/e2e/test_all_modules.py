"""Every module of the catalog at once, applied by Flux itself, and what stays when all are switched off.

Charts are not rendered: the Helm actor stands in for Flux's helm-controller, and brings the kinds that a
chart would. Everything else is real: kustomize-controller, the API server's schemas, garbage collection.
"""

import base64
from collections.abc import Iterator
from typing import Final

import pytest

from hack import yamls
from hack.dev.appliance import FLUX, STATIC
from hack.devcluster import DevClusterError
from hack.devcluster.rest import ApiError, Object
from tests.e2e.stand import Stand
from tests.support.kustomize import MODULE_FOLDERS, identity
from tests.support.shipped import MODULES

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

DEADLINE_S: Final = 180.0
OPTIONAL: Final = {key: module for key, module in MODULES.modules.items() if not module.static}
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GENERATED: Final = "secret-generator.v1.mittwald.de/autogenerate"
LITELLM_KEY: Final = "/api/v1/namespaces/ai/secrets/litellm-masterkey-secret"
LITELLM_DATA: Final = "/api/v1/namespaces/ai/persistentvolumeclaims/litellm-postgresql-data"

SURVIVORS: Final = {
    # User data, and the keys that belong to it.
    "Secret./ai/litellm-masterkey-secret",
    "Secret./ai/litellm-postgresql-secret",
    "PersistentVolumeClaim./ai/litellm-postgresql-data",
    "PersistentVolumeClaim./ai/anything-llm-storage",
    "PersistentVolumeClaim./ai/qdrant-storage",
    "Secret./ai/qdrant-auth-secret",
    "ConfigMap./ai/ai-external-models",
    "Secret./ai/private-mesh-service",
    "PersistentVolumeClaim./ai/private-mesh-state",
    # Measured on this machine's hardware.
    "ConfigMap./flux-system/magicstick-gpu-runtime-images",
    # Helm's record of a release must outlive the objects of the release.
    "Namespace.//openclaw-operator-system",
    "Namespace.//hermes-operator-system",
    "Namespace.//paperclip-operator-system",
    "Namespace.//agent-sandbox-system",
}
"""What stays when every module is switched off, as `identity` has it (spec: platform §2.0.3)."""
GOES_WITH_ITS_CHART: Final = {"models.kubeai.org"}
"""KubeAI's chart has its kind among its templates (spec: platform §2.0.3)."""


def built() -> dict[str, list[Object]]:
    """The objects of every optional module, as Flux applies them."""
    return {module: MODULE_FOLDERS[module].built() for module in OPTIONAL}


def every() -> Iterator[Object]:
    """All of them."""
    for objects in built().values():
        yield from objects


def is_there(stand: Stand, obj: Object) -> bool:
    """Whether an object exists; no while its kind does not."""
    try:
        return stand.uid(stand.cluster.rest.path_of(obj)) != ""
    except ApiError as error:
        if error.code == 404:
            return False
        raise


def inventory(stand: Stand, kustomization: str) -> set[str]:
    """What Flux says that it applied: `<namespace>_<name>_<group>_<kind>`."""
    status = stand.kustomization(kustomization).get("status", {})
    return {entry["id"] for entry in status.get("inventory", {}).get("entries", [])}


def inventory_id(obj: Object) -> str:
    group = obj["apiVersion"].rpartition("/")[0]
    meta = obj["metadata"]
    return f"{meta.get('namespace', '')}_{meta['name']}_{group}_{obj['kind']}"


def until_all(stand: Stand, phase: str) -> None:
    def reached() -> bool:
        found = (stand.activation(module) for module in OPTIONAL)
        return all(each.get("status", {}).get("phase") == phase for each in found)

    stand.until(f"every module to be {phase}", reached, deadline_s=DEADLINE_S)


def decoded(stand: Stand, path: str) -> dict[str, str]:
    data = (stand.get(path) or {}).get("data") or {}
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


def assert_flux_applied_all(stand: Stand) -> None:
    for module, objects in built().items():
        assert inventory(stand, OPTIONAL[module].kustomization_name) == {
            inventory_id(obj) for obj in objects
        }, module
    missing = [identity(obj) for obj in every() if not is_there(stand, obj)]
    assert missing == []


def assert_strict(stand: Stand) -> None:
    """The server, now that it knows every kind, finds no field in any object that the kind lacks."""
    try:
        stand.cluster.kubectl(
            "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-",
            stdin=yamls.dump_all(every()),
        )  # fmt: skip
    except DevClusterError as error:
        raise AssertionError(str(error)) from error


def assert_keys_are_generated(stand: Stand) -> None:
    secrets = [obj for obj in every() if GENERATED in obj["metadata"].get("annotations", {})]
    assert len(secrets) >= 4
    for secret in secrets:
        wanted = secret["metadata"]["annotations"][GENERATED].split(",")
        values = decoded(stand, stand.cluster.rest.path_of(secret))
        assert all(len(values.get(key.strip(), "")) >= 16 for key in wanted), secret["metadata"]["name"]


def established(stand: Stand) -> set[str]:
    """The kinds that modules promise, of which the cluster has a definition."""
    promised = {name for module in OPTIONAL.values() for name in module.required_crds}
    return {name for name in promised if stand.uid(f"{DEFINITIONS}/{name}")}


def until_gone(stand: Stand, obj: Object) -> None:
    stand.until(f"{identity(obj)} to be gone", lambda: not is_there(stand, obj))


def assert_only_survivors_are_left(stand: Stand) -> None:
    lasting = {identity(obj): obj for obj in every()}
    assert lasting.keys() >= SURVIVORS
    for name in lasting.keys() - SURVIVORS:
        until_gone(stand, lasting[name])
    gone = [name for name in SURVIVORS if not is_there(stand, lasting[name])]
    assert gone == []


@pytest.mark.req("MS-015", "MS-110", "MS-116")
def test_all_modules_come_together_and_go_again(stand: Stand) -> None:
    for module in OPTIONAL:
        stand.activate(module, enabled=True)
    stand.start_operator()
    until_all(stand, "Ready")
    stand.until_appliance("Ready")
    assert_flux_applied_all(stand)
    assert_strict(stand)
    assert_keys_are_generated(stand)
    promised = established(stand)
    assert promised == {name for module in OPTIONAL.values() for name in module.required_crds}

    before = {path: stand.uid(path) for path in (LITELLM_KEY, LITELLM_DATA)}
    key = decoded(stand, LITELLM_KEY)
    for module in OPTIONAL:
        stand.activate(module, enabled=False)
    until_all(stand, "Disabled")
    names = {item["metadata"]["name"] for item in stand.cluster.rest.get(FLUX)["items"]}
    assert not names & {module.kustomization_name for module in OPTIONAL.values()}
    assert_only_survivors_are_left(stand)
    assert established(stand) == promised - GOES_WITH_ITS_CHART
    for kustomization in STATIC:
        assert {"type": "Ready", "status": "True"}.items() <= _ready(stand, kustomization).items()

    # What stayed is taken up again: the same volume, under the same key.
    stand.activate("litellm", enabled=True)
    stand.until_phase("litellm", "Ready")
    assert {path: stand.uid(path) for path in before} == before
    assert decoded(stand, LITELLM_KEY) == key
    stand.until_appliance("Ready")


def _ready(stand: Stand, kustomization: str) -> Object:
    conditions = stand.kustomization(kustomization)["status"]["conditions"]
    return next(each for each in conditions if each["type"] == "Ready")
