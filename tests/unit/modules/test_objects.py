"""The objects that modules generate, each against its golden file."""

from typing import Any

import pytest

from magicstick.api import labels
from magicstick.api.appliance import Source
from magicstick.modules.objects import (
    Site,
    auto_activation,
    kustomization,
    live_variables,
    resumed,
)
from tests.support import golden
from tests.support.module_objects import kustomization as live_kustomization
from tests.support.module_objects import shipped_catalog
from tests.support.objects import resource

SITE = Site()
SOURCE = Source(kind="GitRepository", name="flux-system")
STORAGE = "AI_APPLIANCE_LITELLM_POSTGRES_STORAGE"


def made(module: str, **options: Any) -> dict[str, Any]:
    options.setdefault("source", SOURCE)
    return kustomization(module, shipped_catalog().modules[module], SITE, **options)


@pytest.mark.req("MS-232", "MS-233", "MS-235", "MS-236", "MS-237")
def test_litellm_with_a_parameter() -> None:
    golden.check(
        "kustomizations/litellm",
        made("litellm", depends_on=["infrastructure-basis"], variables={STORAGE: "5Gi"}),
    )


def test_litellm_suspended() -> None:
    golden.check("kustomizations/litellm-suspended", made("litellm", suspend=True))


def test_gpu_waits_and_checks_its_definition() -> None:
    golden.check("kustomizations/gpu", made("gpu", depends_on=["infrastructure-basis", "hardware-discovery"]))


def test_a_module_that_depends_on_the_dashboard_names_the_kustomization_of_git() -> None:
    names = ["app-litellm", "app-model-catalog", "apps"]
    golden.check("kustomizations/private-mesh", made("private-mesh", depends_on=names))


def test_a_module_without_substitution_has_no_post_build() -> None:
    golden.check("kustomizations/odysseus", made("odysseus"))


def test_e13_a_parameter_without_settings_substitution_is_substituted_alone() -> None:
    golden.check("kustomizations/kubeai-with-variable", made("kubeai", variables={"EXAMPLE_STORAGE": "5Gi"}))


@pytest.mark.req("MS-240")
def test_the_source_is_the_appliances() -> None:
    source = Source(kind="GitRepository", name="magicstick-public", namespace="sources")
    golden.check("kustomizations/other-source", made("kubeopencode", source=source))


def test_a_resumed_kustomization_keeps_its_content_but_for_suspension_and_parameters() -> None:
    suspended = made("litellm", depends_on=["apps"], variables={STORAGE: "5Gi"}, suspend=True)
    golden.check("kustomizations/litellm-resumed", resumed(resource(suspended)))


def test_a_resumed_kustomization_prunes_whatever_somebody_had_set() -> None:
    live = live_kustomization(
        "app-x", module="x", spec={"suspend": True, "prune": False, "deletionPolicy": "Orphan"}
    )
    spec = resumed(live)["spec"]
    assert spec == {"prune": True, "deletionPolicy": "Delete", "suspend": False}


def test_a_resumed_kustomization_without_module_label_gets_none() -> None:
    own = resumed(live_kustomization("app-x"))["metadata"]["labels"]
    assert own == {labels.MANAGED_BY: labels.OPERATOR}


@pytest.mark.req("MS-237")
def test_only_gpu_modules_wait() -> None:
    waiting = {
        key
        for key, entry in shipped_catalog().modules.items()
        if kustomization(key, entry, SITE, source=SOURCE)["spec"]["wait"]
    }
    assert waiting == {"gpu", "amd-gpu", "intel-gpu"}


@pytest.mark.req("MS-232", "MS-233", "MS-235", "MS-236")
@pytest.mark.parametrize("module", shipped_catalog().modules)
def test_every_module_of_the_catalog_is_made_alike(module: str) -> None:
    body = made(module)
    spec = body["spec"]
    assert body["metadata"]["namespace"] == "flux-system"
    assert spec["path"].startswith("./manifests/modules/")
    assert (spec["interval"], spec["retryInterval"]) == ("10m0s", "1m0s")
    assert (spec["prune"], spec["deletionPolicy"], spec["suspend"]) == (True, "Delete", False)
    assert "annotations" not in body["metadata"]


def test_the_live_variables_are_the_parameters_alone() -> None:
    live = resource(made("litellm", variables={STORAGE: "5Gi"}))
    assert live_variables(live) == {STORAGE: "5Gi"}
    assert live_variables(live_kustomization("app-x")) == {}


def test_an_auto_made_activation() -> None:
    golden.check("activations/litellm", auto_activation("litellm", SITE))


def test_an_activation_made_for_hardware_says_so() -> None:
    golden.check("activations/gpu", auto_activation("gpu", SITE, labels.SOURCE_HARDWARE))
