"""The chart of Odysseus (spec: platform §4.5)."""

import json
from typing import Any

import pytest

from tests.charts.rendering import CHARTS, MASTER_KEY, Object, env, named, one, own_key, render

IMAGES: dict[str, Object] = json.loads((CHARTS / "odysseus/files/runtime-images.json").read_text())["images"]
HELPERS = {"chroma": 8000, "searxng": 8080, "ntfy": 80}
CATALOG = "ai-appliance.io/model-catalog-consumer"


def deployment(suffix: str = "", values: Object | None = None, **fields: Any) -> Object:
    return one(render("odysseus", values, **fields), "Deployment", f"odysseus-demo{suffix}")


def pod(suffix: str = "", values: Object | None = None, **fields: Any) -> Object:
    template: Object = deployment(suffix, values, **fields)["spec"]["template"]
    return template


def container(name: str, values: Object | None = None, **fields: Any) -> Object:
    return named(pod("", values, **fields)["spec"]["containers"], name)


@pytest.mark.req("MS-214")
def test_it_is_made_of_workloads_services_claims_a_secret_and_configuration() -> None:
    found = {
        (obj["kind"], obj["metadata"]["name"].removeprefix("odysseus-demo")) for obj in render("odysseus")
    }

    assert found == {
        ("Secret", "-internal"),
        *(("PersistentVolumeClaim", f"{part}-data") for part in ("", "-chroma", "-searxng", "-ntfy")),
        ("ConfigMap", "-searxng-config"),
        ("ConfigMap", "-model-bootstrap"),
        *(("Service", part) for part in ("", "-chroma", "-searxng", "-ntfy", "-litellm")),
        *(("Deployment", part) for part in ("", "-chroma", "-searxng", "-ntfy")),
    }


@pytest.mark.req("MS-205", "MS-206")
def test_its_own_login_is_off() -> None:
    found = env(container("app"))

    assert found["AUTH_ENABLED"] == "false"
    assert found["LOCALHOST_BYPASS"] == "false"


@pytest.mark.req("MS-207")
def test_its_services_stay_inside_the_cluster() -> None:
    services = [obj for obj in render("odysseus") if obj["kind"] == "Service"]

    assert {service["spec"]["type"] for service in services} == {"ClusterIP"}
    assert not [service for service in services if "externalIPs" in service["spec"]]


def test_the_app_knows_litellm_and_its_helpers() -> None:
    found = env(container("app", {"model": "litellm/qwen"}))

    assert found == {
        "OPENAI_API_KEY": {"secretKeyRef": {"name": MASTER_KEY, "key": "LITELLM_MASTER_KEY"}},
        "OPENAI_BASE_URL": "http://litellm.ai.svc.cluster.local:4000/v1",
        "ODYSSEUS_DEFAULT_MODEL": "qwen",
        "AUTH_ENABLED": "false",
        "LOCALHOST_BYPASS": "false",
        "SEARXNG_INSTANCE": "http://odysseus-demo-searxng:8080",
        "CHROMADB_HOST": "odysseus-demo-chroma",
        "CHROMADB_PORT": "8000",
        "NTFY_BASE_URL": "http://odysseus-demo-ntfy:80",
    }


def test_the_model_is_registered_by_a_container_beside_it_that_makes_the_pod_ready() -> None:
    made = container("model-bootstrap", {"model": "qwen"})
    (script,) = [obj for obj in render("odysseus") if obj["metadata"]["name"].endswith("-model-bootstrap")]

    assert made["command"] == ["python", "/bootstrap/model-bootstrap.py"]
    assert made["readinessProbe"] == {
        "exec": {"command": ["test", "-f", "/tmp/ready"]},  # noqa: S108 - inside of the Pod
        "periodSeconds": 5,
        "failureThreshold": 12,
    }
    assert env(made) == {
        "ODYSSEUS_API_URL": "http://127.0.0.1:7000",
        "LITELLM_BASE_URL": "http://litellm.ai.svc.cluster.local:4000/v1",
        "LITELLM_API_KEY": {"secretKeyRef": {"name": MASTER_KEY, "key": "LITELLM_MASTER_KEY"}},
        "ODYSSEUS_DEFAULT_MODEL": "qwen",
    }
    assert script["data"]["model-bootstrap.py"] == (CHARTS / "odysseus/files/model-bootstrap.py").read_text()


def test_without_a_model_everything_renders_and_the_container_is_told_so() -> None:
    assert env(container("model-bootstrap"))["ODYSSEUS_DEFAULT_MODEL"] == "CHANGEME_MODEL"


@pytest.mark.parametrize(("component", "port"), HELPERS.items())
def test_a_helper_is_reached_by_its_service(component: str, port: int) -> None:
    service = one(render("odysseus"), "Service", f"odysseus-demo-{component}")["spec"]
    template = pod(f"-{component}")
    (port_of_service,) = service["ports"]

    assert service["selector"].items() <= template["metadata"]["labels"].items()
    assert port_of_service == {"name": "http", "port": port, "targetPort": "http"}
    assert named(template["spec"]["containers"][0]["ports"], "http")["containerPort"] >= 1024
    assert template["spec"]["containers"][0]["readinessProbe"] == {"tcpSocket": {"port": "http"}}


def test_the_app_and_litellm_are_reached_by_their_services() -> None:
    objects = render("odysseus")
    app = one(objects, "Service", "odysseus-demo")["spec"]
    litellm = one(objects, "Service", "odysseus-demo-litellm")["spec"]

    assert app["selector"].items() <= pod()["metadata"]["labels"].items()
    assert app["ports"] == [{"name": "http", "port": 7000, "targetPort": "http"}]
    assert litellm["selector"] == {"app": "litellm"}
    assert litellm["ports"] == [{"name": "http", "port": 8000, "targetPort": 4000}]


def test_no_service_selects_the_pod_of_another_component() -> None:
    objects = render("odysseus")
    selectors = [obj["spec"]["selector"] for obj in objects if obj["kind"] == "Service"]
    pods = [obj["spec"]["template"]["metadata"]["labels"] for obj in objects if obj["kind"] == "Deployment"]

    chosen = [sum(selector.items() <= labels.items() for labels in pods) for selector in selectors]

    assert sorted(chosen) == [0, 1, 1, 1, 1]  # LiteLLM's Pod is none of ours


@pytest.mark.parametrize("suffix", ["", "-chroma", "-searxng", "-ntfy"])
def test_what_a_deployment_selects_and_claims_depends_on_nothing_that_can_change(suffix: str) -> None:
    values = {
        "model": "other",
        "image": {"tag": "v2"},
        "storage": {"size": "50Gi"},
        "chroma": {"storage": {"size": "9Gi"}},
    }
    before, after = deployment(suffix), deployment(suffix, values, litellmKey=own_key("x"))

    assert before["spec"]["selector"] == after["spec"]["selector"]
    assert before["spec"]["strategy"] == {"type": "Recreate"}
    assert before["spec"]["replicas"] == 1
    assert claims(before) == claims(after) == {f"odysseus-demo{suffix}-data"}


@pytest.mark.parametrize(
    ("path", "claim", "default"),
    [
        ((), "data", "20Gi"),
        (("chroma",), "chroma-data", "5Gi"),
        (("searxng",), "searxng-data", "1Gi"),
        (("ntfy",), "ntfy-data", "1Gi"),
    ],
)
def test_each_part_has_a_claim_of_its_size(path: tuple[str, ...], claim: str, default: str) -> None:
    storage: Object = {"storage": {"size": "7Gi"}}
    values = {path[0]: storage} if path else storage
    sizes = [
        one(render("odysseus", given), "PersistentVolumeClaim", f"odysseus-demo-{claim}")["spec"]
        for given in ({}, values)
    ]

    assert [size["resources"]["requests"]["storage"] for size in sizes] == [default, "7Gi"]
    assert sizes[0]["accessModes"] == ["ReadWriteOnce"]


def test_its_secret_is_generated_where_it_is_missing_and_never_written() -> None:
    secret = one(render("odysseus"), "Secret")

    assert secret["data"] == {}
    assert "stringData" not in secret
    assert secret["metadata"]["annotations"] == {
        "secret-generator.v1.mittwald.de/autogenerate": "password",
        "secret-generator.v1.mittwald.de/encoding": "hex",
    }
    (searxng,) = pod("-searxng")["spec"]["containers"]
    assert env(searxng)["SEARXNG_SECRET"] == {
        "secretKeyRef": {"name": secret["metadata"]["name"], "key": "password"}
    }


@pytest.mark.parametrize("part", ["odysseus", *HELPERS])
def test_images_are_those_of_the_lock_file(part: str) -> None:
    suffix = "" if part == "odysseus" else f"-{part}"
    lock = IMAGES[part]
    pinned = (
        f"{lock['repository']}@{lock['digest']}"
        if "digest" in lock
        else f"{lock['repository']}:{lock['tag']}"
    )

    assert {each["image"] for each in pod(suffix)["spec"]["containers"]} == {pinned}
    assert not pinned.endswith(":latest")


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({"tag": "v2"}, f"{IMAGES['odysseus']['repository']}:v2"),
        ({"repository": "registry.example.com/o"}, f"registry.example.com/o@{IMAGES['odysseus']['digest']}"),
        ({"tag": "v2", "digest": "sha256:00"}, f"{IMAGES['odysseus']['repository']}@sha256:00"),
        ({"repository": "", "tag": ""}, f"{IMAGES['odysseus']['repository']}@{IMAGES['odysseus']['digest']}"),
    ],
)
def test_a_users_tag_replaces_the_digest(image: Object, expected: str) -> None:
    containers = pod("", {"image": image})["spec"]["containers"]

    assert [each["image"] for each in containers] == [expected, expected]


def test_only_the_app_restarts_with_the_catalog_and_lives_without_one() -> None:
    (catalog,) = [volume for volume in pod()["spec"]["volumes"] if volume["name"] == "catalog"]

    assert catalog["configMap"] == {"name": "ai-model-catalog", "optional": True}
    assert pod()["metadata"]["annotations"][CATALOG] == "true"
    assert not [part for part in HELPERS if CATALOG in pod(f"-{part}")["metadata"].get("annotations", {})]


@pytest.mark.parametrize("suffix", ["", "-searxng"])
def test_changed_configuration_would_roll_the_pod(suffix: str) -> None:
    assert len(pod(suffix)["metadata"]["annotations"]["checksum/config"]) == 64


def test_a_rotated_key_rolls_only_the_app() -> None:
    before, after = (render("odysseus", litellmKey=own_key("x", revision)) for revision in ("r1", "r2"))

    changed = [old["metadata"]["name"] for old, new in zip(before, after, strict=True) if old != new]
    assert changed == ["odysseus-demo"]


@pytest.mark.parametrize("suffix", ["", "-chroma", "-searxng", "-ntfy"])
def test_containers_have_no_more_rights_than_they_need(suffix: str) -> None:
    spec = pod(suffix)["spec"]

    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    for each in spec["containers"]:
        context = each["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"]["drop"] == ["ALL"]
        assert set(each["resources"]) == {"requests", "limits"}
        if each["name"] != "app":  # whose image must start as root
            assert context["runAsNonRoot"] is True
            assert context["readOnlyRootFilesystem"] is True
            assert "add" not in context["capabilities"]
            assert "/tmp" in {mount["mountPath"] for mount in each["volumeMounts"]}  # noqa: S108 - in the Pod
        assert {context.get("seccompProfile", spec["securityContext"].get("seccompProfile"))["type"]} == {
            "RuntimeDefault"
        }


def test_what_is_mounted_is_there() -> None:
    for suffix in ("", "-chroma", "-searxng", "-ntfy"):
        spec = pod(suffix)["spec"]
        volumes = {volume["name"] for volume in spec["volumes"]}
        assert {mount["name"] for each in spec["containers"] for mount in each["volumeMounts"]} == volumes


def claims(obj: Object) -> set[str]:
    volumes = obj["spec"]["template"]["spec"]["volumes"]
    return {
        volume["persistentVolumeClaim"]["claimName"]
        for volume in volumes
        if "persistentVolumeClaim" in volume
    }
