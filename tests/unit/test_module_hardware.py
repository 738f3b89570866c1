"""What finds hardware, and what the vendors' modules install (spec: platform §2.2, §2.8 to §2.10; gpu §2.1, §14.1)."""

import json
from typing import Any, Final

import pytest

from tests.support.manifests import MANIFESTS, Object, objects, one
from tests.support.shipped import MODULES

VENDORS: Final = ("gpu", "amd-gpu", "intel-gpu")


def values(module: str, release: str) -> Object:
    spec: Object = one(MANIFESTS / "modules" / module, "HelmRelease", release)["spec"]
    loaded: Object = spec["values"]
    return loaded


NFD: Final = values("hardware-discovery", "node-feature-discovery")
NVIDIA: Final = values("gpu", "gpu-operator")
AMD: Final = values("amd-gpu", "amd-gpu-operator")
INTEL_OPERATOR: Final = values("intel-gpu", "intel-device-plugins-operator")
INTEL_PLUGIN: Final = values("intel-gpu", "intel-gpu-device-plugin")


@pytest.mark.req("MS-027")
def test_hardware_is_looked_at_every_minute() -> None:
    assert NFD["worker"]["config"]["core"]["sleepInterval"] == "60s"


@pytest.mark.req("MS-028")
def test_display_controllers_give_a_label_for_each_vendor_which_detection_uses() -> None:
    pci = NFD["worker"]["config"]["sources"]["pci"]

    assert pci == {"deviceClassWhitelist": ["03"], "deviceLabelFields": ["vendor"]}
    hardware = {key: MODULES.modules[key].hardware for key in VENDORS}
    assert {key: each.detection_label for key, each in hardware.items() if each} == {
        "gpu": "feature.node.kubernetes.io/pci-10de.present",
        "amd-gpu": "feature.node.kubernetes.io/pci-1002.present",
        "intel-gpu": "feature.node.kubernetes.io/pci-8086.present",
    }


@pytest.mark.req("MS-029")
def test_the_platform_is_labelled_beside_the_devices() -> None:
    core = NFD["worker"]["config"]["core"]

    assert (core["labelSources"], core["featureSources"]) == (["all"], ["all"])


@pytest.mark.req("MS-030")
def test_there_is_one_node_feature_discovery_for_all_vendors() -> None:
    assert NVIDIA["nfd"] == {"enabled": False}
    assert AMD["node-feature-discovery"] == {"enabled": False}
    charts = [
        (module, obj["spec"]["chart"]["spec"]["chart"])
        for module in MODULES.modules
        for _, obj in objects(MANIFESTS / "modules" / module)
        if obj["kind"] == "HelmRelease"
    ]
    assert [module for module, chart in charts if "feature-discovery" in chart] == ["hardware-discovery"]


@pytest.mark.parametrize("key", VENDORS)
def test_the_release_has_the_version_that_the_catalog_reports(key: str) -> None:
    hardware = MODULES.modules[key].hardware
    versions = {
        obj["spec"]["chart"]["spec"]["version"]
        for _, obj in objects(MANIFESTS / "modules" / key)
        if obj["kind"] == "HelmRelease"
    }

    assert hardware
    assert versions == {hardware.operator_version}


def test_nvidias_operator_brings_driver_and_device_plugin() -> None:
    assert {key: NVIDIA[key] for key in NVIDIA if key != "toolkit"} == {
        "nfd": {"enabled": False},
        "driver": {"version": "595.91.07", "kernelModuleType": "auto"},
        "clusterPolicy": {"deployCR": True},
        "gpuCluster": {"deployCR": False},
        "cdi": {"enabled": True, "nriPluginEnabled": False},
        "devicePlugin": {"config": {"name": "time-slicing-config", "default": "magicstick-exclusive"}},
    }


def test_the_toolkit_leaves_the_runtime_of_the_host_alone() -> None:
    assert NVIDIA["toolkit"]["env"] == [
        {"name": name, "value": value}
        for name, value in {
            "CONTAINERD_CONFIG": "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
            "CONTAINERD_SOCKET": "/run/k3s/containerd/containerd.sock",
            "RUNTIME_CONFIG_SOURCE": "file=/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
            "RUNTIME_DROP_IN_CONFIG": "/var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d/99-nvidia.toml",
            "RUNTIME_RESTART_MODE": "none",
            "NVIDIA_RUNTIME_SET_AS_DEFAULT": "false",
        }.items()
    ]


TIME_SLICING: Final = one(MANIFESTS / "modules/gpu", "ConfigMap", "time-slicing-config", "gpu-operator")


def test_the_device_plugins_configurations_are_named_and_complete() -> None:
    assert set(TIME_SLICING["data"]) == {
        "any",
        "magicstick-exclusive",
        *(f"magicstick-shared-{slots}" for slots in range(2, 17)),
    }
    assert NVIDIA["devicePlugin"]["config"]["name"] == TIME_SLICING["metadata"]["name"]
    assert NVIDIA["devicePlugin"]["config"]["default"] in TIME_SLICING["data"]


@pytest.mark.parametrize("key", TIME_SLICING["data"])
def test_a_configuration_of_the_device_plugin_is_as_specified(key: str) -> None:
    content: dict[str, Any] = json.loads(TIME_SLICING["data"][key])
    expected: dict[str, Any] = {"version": "v1", "flags": {"migStrategy": "none"}}
    if key != "magicstick-exclusive":
        slots = 2 if key == "any" else int(key.rpartition("-")[2])
        expected["sharing"] = {
            "timeSlicing": {
                "renameByDefault": False,
                "failRequestsGreaterThanOne": True,
                "resources": [{"name": "nvidia.com/gpu", "replicas": slots}],
            }
        }

    assert content == expected


@pytest.mark.req("MS-259")
def test_amds_chart_makes_no_device_config_and_our_operator_may_keep_the_one() -> None:
    assert AMD["crds"] == {"defaultCR": {"install": False, "upgrade": False}}
    assert [obj["kind"] for _, obj in objects(MANIFESTS / "modules/amd-gpu")].count("DeviceConfig") == 0
    role = one(MANIFESTS / "modules/amd-gpu", "Role", "magicstick-gpu-compatibility", "amd-gpu-operator")
    assert [
        (each["apiGroups"], each["resources"], each.get("resourceNames"), set(each["verbs"]))
        for each in role["rules"]
    ] == [
        (["amd.com"], ["deviceconfigs"], None, {"create"}),
        (["amd.com"], ["deviceconfigs"], ["default"], {"get", "patch", "delete"}),
    ]
    binding = one(MANIFESTS / "modules/amd-gpu", "RoleBinding", "magicstick-gpu-compatibility")
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "magicstick-operator", "namespace": "ai-system"}
    ]


def test_amds_operator_has_neither_driver_nor_remediation_nor_a_device_class() -> None:
    assert AMD == {
        "crds": {"defaultCR": {"install": False, "upgrade": False}},
        "node-feature-discovery": {"enabled": False},
        "installdefaultNFDRule": True,
        "kmm": {"enabled": False, "watch": False},
        "remediation": {"enabled": False, "installCRDs": False},
        "draDriver": {"deviceClass": {"create": False}},
        "controllerManager": {"manager": {"imagePullPolicy": "IfNotPresent"}},
        "deviceConfig": {
            "spec": {
                "selector": {"appliance.magicstick.dev/amd-gpu-eligible": "true"},
                "driver": {"enable": False, "blacklist": False},
                "devicePlugin": {"enableDevicePlugin": True, "enableNodeLabeller": True},
                "metricsExporter": {"enable": False},
                "testRunner": {"enable": False},
                "configManager": {"enable": False},
                "draDriver": {"enable": False},
            }
        },
    }


@pytest.mark.req("MS-038")
def test_intels_plugin_runs_only_where_intels_own_rule_says_so() -> None:
    hardware = MODULES.modules["intel-gpu"].hardware

    assert hardware
    assert {"nodeFeatureRule": True, "nodeSelector": {hardware.supported_label: "true"}} == INTEL_PLUGIN


@pytest.mark.req("MS-039")
def test_intels_module_is_the_operator_with_gpus_and_the_plugin_and_nothing_else() -> None:
    assert INTEL_OPERATOR == {"manager": {"devices": {"gpu": True}}}
    assert sorted(obj["kind"] for _, obj in objects(MANIFESTS / "modules/intel-gpu")) == [
        "HelmRelease",
        "HelmRelease",
        "HelmRepository",
        "Namespace",
    ]


@pytest.mark.req("MS-032")
@pytest.mark.req("MS-037")
def test_what_the_vendors_operators_own_our_operator_has_no_right_to_write() -> None:
    rules = [
        rule
        for folder in ("rbac", *(f"modules/{key}" for key in VENDORS))
        for _, obj in objects(MANIFESTS / folder)
        if obj["kind"] in {"Role", "ClusterRole"}
        for rule in obj["rules"]
    ]
    owned = {"nvidia.com", "deviceplugin.intel.com"}

    assert rules
    for rule in rules:
        if owned & set(rule["apiGroups"]):
            assert set(rule["verbs"]) <= {"get", "list", "watch"}
        assert "nodes/status" not in rule["resources"]  # where resources are published
        assert "daemonsets" not in rule["resources"]  # what drivers and plugins are
