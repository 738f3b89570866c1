"""What is shipped in the catalogs of modules and applications: the rows of the specification."""

import pytest

from hack import yamls
from tests.support.shipped import APPLICATIONS, GPUS, MODULES, PRESETS, ROOT, TARGETS, shipped

# key, group, order, mode or policy, Kustomization, requires, default, uninstall, flags (w: wait, s: substitution)
MODULE_ROWS = """
basis              core       10 static            platform-basis         -                                yes keep-data
hardware-discovery core       15 static            hardware-discovery     basis                            yes keep-data
dashboard          core       20 static            app-dashboard          basis                            yes remove    s
gpu                operators  30 hardware-detected platform-gpu           basis,hardware-discovery         no  keep-data w
amd-gpu            operators  31 hardware-detected platform-amd-gpu       basis,hardware-discovery         no  keep-data w
intel-gpu          operators  32 hardware-detected platform-intel-gpu     basis,hardware-discovery         no  keep-data w
kubeai             runtime    40 local-model       platform-kubeai        basis                            no  keep-data
freetoken          runtime    45 local-model       platform-freetoken     basis                            no  keep-data
litellm            runtime    50 -                 app-litellm            basis                            yes keep-data s
model-catalog      runtime    60 -                 app-model-catalog      litellm                          yes keep-data s
private-mesh       runtime    65 -                 app-private-mesh       litellm,model-catalog,dashboard  no  keep-data s
anything-llm       apps       70 -                 app-anything-llm       litellm,model-catalog            no  keep-data s
openclaw-operator  operators  80 -                 operator-openclaw      basis                            no  keep-data
hermes-operator    operators  90 -                 operator-hermes        basis                            no  keep-data
paperclip-operator operators 100 -                 operator-paperclip     basis                            no  keep-data
agent-sandbox      operators 105 -                 platform-agent-sandbox basis                            no  keep-data
kubeopencode       apps      110 -                 app-kubeopencode       litellm,model-catalog            no  keep-data s
odysseus           apps      115 -                 app-odysseus           basis,litellm,model-catalog      no  keep-data
"""

REQUIRED_CRDS = {
    "hardware-discovery": ["nodefeatures.nfd.k8s-sigs.io"],
    "gpu": ["clusterpolicies.nvidia.com"],
    "amd-gpu": ["deviceconfigs.amd.com"],
    "intel-gpu": ["gpudeviceplugins.deviceplugin.intel.com"],
    "kubeai": ["models.kubeai.org"],
    "openclaw-operator": ["openclawinstances.openclaw.rocks"],
    "hermes-operator": ["hermesinstances.hermes.agent"],
    "paperclip-operator": ["instances.paperclip.inc"],
    "agent-sandbox": ["sandboxes.agents.x-k8s.io"],
    "kubeopencode": [
        f"{plural}.kubeopencode.io"
        for plural in ("agenttemplates", "agents", "tasks", "crontasks", "registries", "kubeopencodeconfigs")
    ],
}


def test_nothing_shipped_is_disabled() -> None:
    assert [catalog.invalid for catalog in (MODULES, APPLICATIONS, TARGETS, PRESETS, GPUS)] == [{}] * 5


@pytest.mark.parametrize(
    "row", [row.split() for row in MODULE_ROWS.strip().splitlines()], ids=lambda row: row[0]
)
def test_a_module_is_as_specified(row: list[str]) -> None:
    key, group, order, mode, kustomization, requires, default, uninstall, *flags = row
    module = MODULES.modules[key]

    assert (module.group, module.order) == (group, int(order))
    assert module.static == (mode == "static")
    assert (module.activation_policy or "-") == ("-" if mode == "static" else mode)
    assert (module.path, module.kustomization_name) == (f"manifests/modules/{key}", kustomization)
    assert ",".join(module.requires) == requires.replace("-", "", requires == "-")
    assert (module.default, module.uninstall_policy) == (default == "yes", uninstall)
    assert module.wait_for_ready == ("w" in flags)
    assert module.post_build_substitution == ("s" in flags)
    assert list(module.required_crds) == REQUIRED_CRDS.get(key, [])


def test_the_catalog_has_the_modules_of_the_specification_in_its_order() -> None:
    assert list(MODULES.modules) == [row.split()[0] for row in MODULE_ROWS.strip().splitlines()]
    assert {key: (group.display_name, group.order) for key, group in MODULES.groups.items()} == {
        "core": ("Core", 10),
        "runtime": ("AI Runtime", 20),
        "apps": ("Apps", 30),
        "operators": ("Operators", 40),
        "other": ("Other", 1000),
    }


@pytest.mark.parametrize(
    ("key", "aliases"),
    [
        ("gpu", ["nvidia-gpu", "nvidia-gpu-operator"]),
        ("amd-gpu", ["amd-gpu-operator"]),
        ("intel-gpu", ["intel-gpu-operator"]),
        ("model-catalog", ["modelCatalog"]),
        ("anything-llm", ["anythingllm", "anythingLlm"]),
        ("openclaw-operator", ["openclawOperator"]),
        ("hermes-operator", ["hermesOperator"]),
        ("paperclip-operator", ["paperclipOperator"]),
    ],
)
def test_modules_have_the_names_that_users_know(key: str, aliases: list[str]) -> None:
    assert list(MODULES.modules[key].aliases) == aliases
    assert {MODULES.canonical(alias) for alias in aliases} == {key}


@pytest.mark.parametrize(
    ("key", "capability", "vendor", "detection", "supported", "architectures", "kubernetes", "resources", "version", "driver"),
    [
        ("gpu", "compute.gpu.nvidia", "nvidia", "feature.node.kubernetes.io/pci-10de.present", "feature.node.kubernetes.io/pci-10de.present", ("amd64", "arm64"), "1.33.0", ("nvidia.com/gpu",), "v26.7.0", "operator-managed"),
        ("amd-gpu", "compute.gpu.amd", "amd", "feature.node.kubernetes.io/pci-1002.present", "feature.node.kubernetes.io/amd-gpu", ("amd64",), "1.29.0", ("amd.com/gpu",), "v1.5.1", "host-driver"),
        ("intel-gpu", "compute.gpu.intel", "intel", "feature.node.kubernetes.io/pci-8086.present", "intel.feature.node.kubernetes.io/gpu", ("amd64",), "1.29.0", ("gpu.intel.com/i915", "gpu.intel.com/xe"), "0.36.0", "kernel-driver"),
    ],
)  # fmt: skip
def test_a_vendor_module_knows_its_hardware(
    key: str, capability: str, vendor: str, detection: str, supported: str, architectures: tuple[str, ...],
    kubernetes: str, resources: tuple[str, ...], version: str, driver: str,
) -> None:  # fmt: skip
    module = MODULES.modules[key]
    hardware = module.hardware

    assert module.provides_capabilities == (capability,)
    assert hardware is not None
    assert (hardware.vendor, hardware.detection_label, hardware.supported_label) == (
        vendor,
        detection,
        supported,
    )
    assert (hardware.architectures, hardware.minimum_kubernetes) == (architectures, kubernetes)
    assert (hardware.resource_names, hardware.operator_version) == (resources, version)
    assert hardware.driver_mode == driver


def test_parameters_reach_the_variables_of_the_manifests() -> None:
    substitutions = {
        f"{key}.{parameter.name}": parameter.substitution
        for key, module in MODULES.modules.items()
        for parameter in module.parameters
    }

    assert substitutions == {
        "litellm.postgresStorage": "AI_APPLIANCE_LITELLM_POSTGRES_STORAGE",
        "anything-llm.storage": "AI_APPLIANCE_ANYTHING_LLM_STORAGE",
        "anything-llm.qdrantStorage": "AI_APPLIANCE_QDRANT_STORAGE",
        "amd-gpu.compatibilityProfile": None,
        "amd-gpu.allowExperimental": None,
        "amd-gpu.validationRequest": None,
    }
    assert {
        key: module.credentials.provider for key, module in MODULES.modules.items() if module.credentials
    } == {"litellm": "litellm"}


def test_everything_a_module_requires_is_in_the_catalog_and_nothing_goes_in_circles() -> None:
    for key in MODULES.modules:
        assert set(MODULES.requires(key)) <= set(MODULES.modules), key
        assert MODULES.cycle_of(key) == ()


@pytest.mark.parametrize(
    ("app", "service", "port", "cookies", "modules", "crds"),
    [
        ("openclaw", "instance", 18789, False, ["openclaw-operator"], ["openclawinstances.openclaw.rocks"]),
        ("hermes", "instance", 9119, True, ["hermes-operator"], ["hermesinstances.hermes.agent"]),
        ("paperclip", "instance", 3100, False, ["paperclip-operator", "agent-sandbox"], ["instances.paperclip.inc", "sandboxes.agents.x-k8s.io"]),
        ("kubeopencode", "shortName", 4096, False, ["kubeopencode"], ["agenttemplates.kubeopencode.io", "agents.kubeopencode.io"]),
        ("odysseus", "instance", 7000, False, ["odysseus"], []),
    ],
)  # fmt: skip
def test_an_application_is_as_specified(
    app: str, service: str, port: int, cookies: bool, modules: list[str], crds: list[str],  # noqa: FBT001 - a case
) -> None:  # fmt: skip
    application = APPLICATIONS.applications[app]

    assert application.chart_path == f"charts/{app}"
    assert (application.route.service_name, application.route.port) == (service, port)
    assert (application.route.request_timeout, application.route.strip_cookies) == ("0s", cookies)
    assert list(application.required_modules) == [*modules, "litellm", "model-catalog"]
    assert list(application.required_crds) == crds
    assert set(application.required_modules) <= set(MODULES.modules)


def test_the_applications_are_those_of_the_specification() -> None:
    assert list(APPLICATIONS.applications) == ["openclaw", "hermes", "paperclip", "kubeopencode", "odysseus"]


@pytest.mark.req("MS-101")
@pytest.mark.parametrize(
    ("component", "name", "key"),
    [
        ("module-catalog", "magicstick-module-catalog", "modules.json"),
        ("app-catalog", "magicstick-app-catalog", "applications.json"),
        ("compute-target-catalog", "magicstick-compute-target-catalog", "targets.json"),
        ("model-presets", "magicstick-model-presets", "presets.json"),
        ("gpu-compatibility-catalog", "magicstick-gpu-compatibility-catalog", "profiles.json"),
    ],
)
def test_a_catalog_is_in_the_config_map_that_its_readers_know(component: str, name: str, key: str) -> None:
    config_map = shipped(component)

    assert (config_map["metadata"]["namespace"], config_map["metadata"]["name"]) == ("ai-system", name)
    assert config_map["metadata"]["labels"] == {
        "app.kubernetes.io/name": "magicstick-operator",
        "app.kubernetes.io/component": component,
    }
    assert list(config_map["data"]) == [key]


def test_every_module_folder_is_in_the_catalog() -> None:
    folders = {path.parent.name for path in (ROOT / "manifests/modules").glob("*/kustomization.yaml")}

    assert folders <= set(MODULES.modules)
    assert {"basis", "hardware-discovery", "dashboard", "litellm", "model-catalog"} <= folders


def test_the_modules_of_a_fresh_appliance_are_all_installed_from_here() -> None:
    appliance = yamls.load((ROOT / "manifests/appliance.yaml").read_text())
    for key in appliance["spec"]["modules"]:
        assert (ROOT / MODULES.modules[key].path / "kustomization.yaml").is_file(), key
