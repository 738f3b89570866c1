"""The life of an appliance, with Flux's own kustomize-controller and the shipped modules."""

from pathlib import Path

import pytest

from hack.dev.appliance import FLUX, OURS
from tests.e2e.stand import Stand

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

DEPLOYMENT = "/apis/apps/v1/namespaces/ai/deployments/litellm"
DATABASE = "/apis/apps/v1/namespaces/ai/statefulsets/litellm-postgresql"
DATA = "/api/v1/namespaces/ai/persistentvolumeclaims/litellm-postgresql-data"
CATALOG = "/api/v1/namespaces/ai/serviceaccounts/model-catalog"
TOLD = "/api/v1/namespaces/ai/configmaps/litellm-told"
BASIS = "infrastructure-basis"
MODULES = {"litellm": "app-litellm", "model-catalog": "app-model-catalog"}
TOLD_MANIFEST = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: litellm-told
  namespace: ai
data:
  storage: ${AI_APPLIANCE_LITELLM_POSTGRES_STORAGE:=1Gi}
"""


def installed(stand: Stand) -> tuple[str, ...]:
    """The identities of what the modules brought; all of it must be there."""
    found = tuple(stand.uid(path) for path in (DEPLOYMENT, DATABASE, DATA))
    assert all(found), stand.describe()
    return found


def have_storage_told(tree: Path) -> None:
    """Let the module show the value of its parameter: volumes do not grow on a cluster without storage."""
    folder = tree / "manifests" / "modules" / "litellm"
    (folder / "told.yaml").write_text(TOLD_MANIFEST)
    file = folder / "kustomization.yaml"
    file.write_text(file.read_text().replace("  - litellm.yaml\n", "  - litellm.yaml\n  - told.yaml\n"))


def told(stand: Stand) -> str:
    found = stand.get(TOLD)
    return str(found["data"]["storage"]) if found else ""


def break_basis(tree: Path) -> None:
    """A commit that no kustomize can build."""
    file = tree / "manifests" / "modules" / "basis" / "kustomization.yaml"
    file.write_text(file.read_text() + "  - forgotten.yaml\n")


def mend_basis(tree: Path) -> None:
    """The commit that takes it back."""
    file = tree / "manifests" / "modules" / "basis" / "kustomization.yaml"
    file.write_text(file.read_text().replace("  - forgotten.yaml\n", ""))


def retry(stand: Stand, name: str) -> None:
    """`flux reconcile`, so that nobody waits for the retry interval."""
    stand.cluster.kubectl(
        "annotate",
        "--overwrite",
        "-n",
        "flux-system",
        f"kustomization/{name}",
        "reconcile.fluxcd.io/requestedAt=now",
    )


@pytest.mark.req("MS-015", "MS-117", "MS-118", "MS-119", "MS-120")
def test_an_appliance_lives_through_changes_failures_and_crashes(stand: Stand) -> None:
    have_storage_told(stand.tree)

    # A fresh appliance gets its modules, and Flux applies their real folders.
    stand.start_operator()
    stand.until_appliance("Ready")
    for module in MODULES:
        stand.until_phase(module, "Ready")
    before = installed(stand)

    # A parameter reaches what Flux applies.
    assert told(stand) == "1Gi"
    stand.activate("litellm", parameters={"postgresStorage": "1024Mi"})
    stand.until("Flux to apply the value", lambda: told(stand) == "1024Mi")
    stand.until_phase("litellm", "Ready")

    # What everything stands on fails: the modules are suspended, and their workloads stay.
    break_basis(stand.tree)
    for module, kustomization in MODULES.items():
        stand.until_phase(module, "WaitingForModules")
        assert stand.suspended(kustomization) is True
    stand.until_appliance("Reconciling")
    assert installed(stand) == before

    # A crash meanwhile changes nothing; the successor finds things mended and resumes.
    stand.kill_operator()
    mend_basis(stand.tree)
    retry(stand, BASIS)
    stand.start_operator()
    stand.until_appliance("Ready")
    for kustomization in MODULES.values():
        assert stand.suspended(kustomization) is False
    assert installed(stand) == before

    # Switched off while the operator crashes: what was begun is finished, and the data is kept.
    stand.activate("model-catalog", enabled=False)
    stand.activate("litellm", enabled=False)
    stand.until("the removal to begin", lambda: stand.uid(f"{FLUX}/app-litellm") == "")
    stand.kill_operator()
    stand.start_operator()
    for module, kustomization in MODULES.items():
        stand.until_phase(module, "Disabled")
        assert stand.kustomization(kustomization) == {}
    for workload in (DEPLOYMENT, DATABASE):
        stand.until_gone(workload)
    assert stand.uid(DATA) == before[2]

    # Deleted, and not seeded again.
    for module in MODULES:
        stand.delete(f"{OURS}/moduleactivations/{module}")
        stand.until_gone(f"{OURS}/moduleactivations/{module}")
    stand.until_appliance("Ready")
    appliance = stand.get(f"{OURS}/appliances/local") or {}
    assert appliance["status"]["seededModules"] == sorted(MODULES)
    assert appliance["status"].get("modules", {}) == {}
