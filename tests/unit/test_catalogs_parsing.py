"""The catalogs beside that of modules: what each takes, and that a bad entry costs only itself."""

import json
from typing import Any

import pytest

from magicstick.catalogs.applications import ApplicationCatalog
from magicstick.catalogs.compute_targets import FORBIDDEN_PROFILE_KEYS, ComputeTargetCatalog
from magicstick.catalogs.entries import CatalogError
from magicstick.catalogs.gpu_compatibility import GpuCompatibilityCatalog
from magicstick.catalogs.presets import PresetCatalog

APPLICATION = {"chartPath": "charts/one", "route": {"port": 80}}
TARGET = {"kind": "cpu", "architectures": ["amd64"], "engines": ["VLLM"]}
ENGINE = {"urlScheme": "hf://"}
REALTIME = {"computeTargets": ["cpu"], "gpuCounts": [1]}
VARIANT = {"id": "vllm-cpu", "engine": "VLLM", "computeTarget": "cpu"}
ARTIFACT = {"id": "bf16", "precision": "bf16", "url": "hf://a/b", "bits": 16, "format": "safetensors"}
PROFILE = {
    "id": "one",
    "version": "1",
    "vendor": "amd",
    "architectures": ["amd64"],
    "pciDevices": ["1002:1586"],
    "expectedArchitecture": "gfx1151",
}


def applications(**entries: Any) -> ApplicationCatalog:
    return ApplicationCatalog.parse(json.dumps({"applications": entries}))


def targets(engines: dict[str, Any] | None = None, **entries: Any) -> ComputeTargetCatalog:
    return ComputeTargetCatalog.parse(json.dumps({"engines": engines, "targets": entries}))


def presets(**entries: Any) -> PresetCatalog:
    return PresetCatalog.parse(json.dumps({"presets": entries}))


def gpus(*profiles: Any, **diagnostics: Any) -> GpuCompatibilityCatalog:
    return GpuCompatibilityCatalog.parse(json.dumps({"profiles": profiles, "diagnostics": diagnostics}))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"chartPath": ""}, "chartPath: must match"),
        ({"chartPath": None}, "chartPath: is required"),
        ({"route": None}, "route: is required"),
        ({"route": {}}, "route.port: is required"),
        ({"route": {"port": 0}}, "route.port: must be at least 1"),
        ({"route": {"port": True}}, "route.port: must be a whole number"),
        ({"route": {"port": "80"}}, "route.port: must be a whole number"),
        ({"route": {"port": 80, "requestTimeout": "30s"}}, "route.requestTimeout: must be '0s'"),
        (
            {"route": {"port": 80, "serviceName": "other"}},
            "route.serviceName: must be 'instance' or 'shortName'",
        ),
    ],
)
def test_an_application_that_cannot_be_routed_is_disabled_and_its_field_named(
    fields: dict[str, Any], problem: str
) -> None:
    catalog = applications(good=APPLICATION, bad={**APPLICATION, **fields})

    assert set(catalog.applications) == {"good"}
    assert catalog.invalid["bad"].startswith(problem)


def test_an_application_is_served_by_the_service_of_its_instance_unless_it_says_otherwise() -> None:
    route = applications(one=APPLICATION).applications["one"].route

    assert (route.service_name, route.request_timeout, route.strip_cookies) == ("instance", None, False)


@pytest.mark.parametrize(
    "text", ["{}", '{"targets": []}', '{"targets": null}', "[]", '{"targets": {}, "engines": 1}']
)
def test_targets_must_be_an_object(text: str) -> None:
    with pytest.raises(CatalogError):
        ComputeTargetCatalog.parse(text)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"kind": "tpu"}, "kind: must be 'cpu' or 'gpu'"),
        ({"engines": None}, "engines: is required"),
        ({"defaultResourceProfile": "no-count"}, "defaultResourceProfile: must match"),
        ({"defaultResourceProfile": ":1"}, "defaultResourceProfile: must match"),
        ({"engineProfiles": {"VLLM": {}}}, "engineProfiles.VLLM.defaultResourceProfile: is required"),
    ],
)
def test_a_malformed_target_is_disabled_and_its_field_named(fields: dict[str, Any], problem: str) -> None:
    catalog = targets(good=TARGET, bad={**TARGET, **fields})

    assert set(catalog.targets) == {"good"}
    assert catalog.invalid["targets.bad"].startswith(problem)


@pytest.mark.parametrize(
    "policy",
    [
        {"requestMillicores": 0},
        {"requestMillicores": True},
        {"requestMillicores": 1.5},
        {"requestMillicores": 1000, "limitMillicores": 500},
        {"requestMillicores": 1000, "limitMillicores": -1},
    ],
)
def test_an_engine_with_an_impossible_cpu_default_is_disabled(policy: dict[str, Any]) -> None:
    catalog = targets({"Good": ENGINE, "Bad": {**ENGINE, "cpuDefaults": {"cpu": policy}}})

    assert set(catalog.engines) == {"Good"}
    assert catalog.invalid["engines.Bad"].startswith("cpuDefaults.cpu")


@pytest.mark.parametrize("limit", [0, 1000, 2000])
def test_a_cpu_limit_is_none_or_covers_the_request(limit: int) -> None:
    policy = {"requestMillicores": 1000, "limitMillicores": limit}

    assert targets({"One": {**ENGINE, "cpuDefaults": {"gpu": policy}}}).invalid == {}


def test_an_engine_whose_expressions_cannot_be_read_is_disabled() -> None:
    capabilities = {
        "version": "1",
        "supportedVendors": ["nvidia"],
        "supportedArchitectures": ["amd64"],
        "minimumNvidiaDriverMajor": 580,
        "requiredCudaMajor": 13,
        "supportedComputeCapabilities": ["8.6"],
        "modelIdMatchers": ["^fine$", "(unclosed"],
    }

    catalog = targets({"Bad": {**ENGINE, "capabilities": capabilities}})

    assert catalog.invalid["engines.Bad"].startswith("capabilities.modelIdMatchers[1]: ")
    assert "must be regular expressions" in catalog.invalid["engines.Bad"]


@pytest.mark.parametrize(
    ("fields", "resources"),
    [
        ({"resourceName": "amd.com/gpu"}, ("amd.com/gpu",)),
        ({"resourceNames": ["a/b", "c/d"]}, ("a/b", "c/d")),
        ({"resourceNames": []}, ()),
        ({}, ()),
    ],
)
def test_a_realtime_profile_may_name_one_resource_or_several(
    fields: dict[str, Any], resources: tuple[str, ...]
) -> None:
    catalog = targets({"VLLM": {**ENGINE, "realtimeProfiles": {"one": {**REALTIME, **fields}}}})

    profile = catalog.engines["VLLM"].realtime_profiles["one"]
    assert profile.resources == resources
    assert profile.backend == "cuda"


@pytest.mark.parametrize("key", FORBIDDEN_PROFILE_KEYS)
def test_a_realtime_profile_that_judges_models_costs_only_itself(key: str) -> None:
    profiles = {"good": REALTIME, "bad": {**REALTIME, key: "x"}}

    catalog = targets({"VLLM": {**ENGINE, "realtimeProfiles": profiles}})

    assert set(catalog.engines["VLLM"].realtime_profiles) == {"good"}
    assert key in catalog.invalid["engines.VLLM.realtimeProfiles.bad"]


@pytest.mark.parametrize("text", ["{}", '{"presets": null}', '{"presets": {}}'])
def test_no_presets_are_an_empty_catalog(text: str) -> None:
    assert PresetCatalog.parse(text) == PresetCatalog()


@pytest.mark.parametrize("text", ["[]", "", '{"presets": []}'])
def test_presets_that_are_no_object_are_malformed(text: str) -> None:
    with pytest.raises(CatalogError):
        PresetCatalog.parse(text)


def test_an_older_flat_preset_is_its_one_variant_on_nvidia() -> None:
    flat = {"title": "Old", "url": "hf://a/b", "vram": "5Gi", "contextWindow": 4096, "args": ["--one"]}

    preset = presets(old=flat).presets["old"]

    (variant,) = preset.variants
    assert (preset.title, preset.type) == ("Old", "chat")
    assert (variant.engine, variant.compute_target, variant.artifacts) == ("VLLM", "nvidia-gpu", ())
    assert (variant.url, variant.vram, variant.context_window, variant.args) == (
        "hf://a/b",
        "5Gi",
        4096,
        ("--one",),
    )


def test_settings_of_a_preset_hold_for_each_variant_that_has_none_of_its_own() -> None:
    variants = [VARIANT, {**VARIANT, "id": "other", "contextWindow": 8192}]

    preset = presets(one={"contextWindow": 4096, "variants": variants}).presets["one"]

    assert [variant.context_window for variant in preset.variants] == [4096, 8192]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"type": "picture"}, "type: must be 'chat' or 'embedding'"),
        ({"variants": "all"}, "variants: must be a list"),
        ({"variants": ["one"]}, "variants[0]: must be an object"),
        ({"variants": [{**VARIANT, "vram": "much"}]}, "variants[0].vram: must match"),
        ({"variants": [{**VARIANT, "contextWindow": 0}]}, "variants[0].contextWindow: must be at least 1"),
        ({"variants": [{**VARIANT, "artifacts": [ARTIFACT, ARTIFACT]}]}, "variants[0]: "),
        (
            {"variants": [{**VARIANT, "artifacts": [{**ARTIFACT, "id": ""}]}]},
            "variants[0].artifacts[0].id: must have",
        ),
        ({"variants": [{**VARIANT, "defaultArtifact": "other", "artifacts": [ARTIFACT]}]}, "variants[0]: "),
    ],
)
def test_a_malformed_preset_is_disabled_and_its_field_named(fields: dict[str, Any], problem: str) -> None:
    catalog = presets(good={"variants": [VARIANT]}, bad={"variants": [VARIANT], **fields})

    assert set(catalog.presets) == {"good"}
    assert catalog.invalid["bad"].startswith(problem)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"id": ""}, "id: must have"),
        ({"vendor": "other"}, "vendor: must be 'amd'"),
        ({"pciDevices": ["1002:158G"]}, "pciDevices[0]: must match"),
        ({"pciDevices": ["1002:ABCD"]}, "pciDevices[0]: must match"),
        ({"version": 1}, "version: must be text"),
        ({"engines": {"VLLM": {"image": "a"}}}, "engines.VLLM.testModel: is required"),
    ],
)
def test_a_malformed_gpu_profile_is_disabled_and_its_field_named(
    fields: dict[str, Any], problem: str
) -> None:
    catalog = gpus(PROFILE, {**PROFILE, "id": "two", **fields})

    assert set(catalog.profiles) == {"one"}
    assert catalog.invalid["profiles[1]"].startswith(problem)


def test_of_two_gpu_profiles_with_one_id_the_first_counts() -> None:
    catalog = gpus(PROFILE, {**PROFILE, "version": "2"}, nvidia={"engines": {}}, bad=5)

    assert catalog.profiles["one"].version == "1"
    assert catalog.invalid == {
        "profiles[1]": "id: must not be one, which another profile has",
        "diagnostics.bad": "entry: must be an object",
    }


def test_gpu_profiles_that_are_no_list_are_malformed() -> None:
    with pytest.raises(CatalogError, match="has no list `profiles`"):
        GpuCompatibilityCatalog.parse('{"profiles": {}}')
