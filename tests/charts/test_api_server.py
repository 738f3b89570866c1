"""Every object that a chart renders passes the API server, told to be strict (spec: platform §5)."""

from collections.abc import Iterator

import pytest

from hack import yamls
from hack.devcluster import CONTROL_PLANE, DevCluster, DevClusterError
from tests.charts import foreign
from tests.charts.rendering import APPS, Object, one, own_key, render
from tests.charts.test_golden import FULL

pytestmark = pytest.mark.cluster

NAMESPACES = ("ai", "team-a")
LONGEST = "n" * 53
BUILT_IN = {
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "Deployment",
    "NetworkPolicy",
    "PersistentVolumeClaim",
    "Secret",
    "Service",
}
WITH_BUILT_IN = ("hermes", "paperclip", "odysseus")


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """A control plane of our own with the foreign kinds that are at hand."""
    with DevCluster.start(CONTROL_PLANE) as cluster:
        cluster.apply([made for kind in foreign.FILES if (made := foreign.definition(kind)) is not None])
        cluster.apply(
            [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES]
        )
        yield cluster


def dry_run(cluster: DevCluster, objects: list[Object]) -> None:
    """Server-side and strict; raises DevClusterError with the server's words when an object is refused."""
    cluster.kubectl(
        "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-",
        stdin=yamls.dump_all(objects),
    )  # fmt: skip


def variants(app: str) -> list[Object]:
    """What an instance of `app` may be made of: as little as can be, all there is, and the longest name."""
    key = own_key("x")
    return [
        *render(app),
        *render(app, FULL[app], namespace="team-a", litellmKey=key),
        *render(app, {"model": "yes"}, name=LONGEST, litellmKey=key),
    ]


def of_kind(app: str, kind: tuple[str, str]) -> list[Object]:
    return [obj for obj in variants(app) if (obj["apiVersion"], obj["kind"]) == kind]


@pytest.mark.parametrize("app", WITH_BUILT_IN)
def test_objects_of_kubernetes_own_kinds_are_taken(cluster: DevCluster, app: str) -> None:
    dry_run(cluster, [obj for obj in variants(app) if obj["kind"] in BUILT_IN])


@pytest.mark.parametrize(
    ("app", "kind"),
    [
        ("paperclip", ("paperclip.inc/v1alpha1", "Instance")),
        ("kubeopencode", ("kubeopencode.io/v1alpha1", "Agent")),
        ("kubeopencode", ("kubeopencode.io/v1alpha1", "AgentTemplate")),
        ("openclaw", ("openclaw.rocks/v1alpha1", "OpenClawInstance")),
        ("hermes", ("hermes.agent/v1", "HermesInstance")),
    ],
    ids=lambda value: value if isinstance(value, str) else value[1],
)
def test_resources_of_an_operator_are_taken_by_its_schema(
    cluster: DevCluster, app: str, kind: tuple[str, str]
) -> None:
    if foreign.file(kind) is None:
        pytest.skip(f"{foreign.VARIABLE} names no folder with {foreign.FILES[kind]}")
    objects = of_kind(app, kind)

    dry_run(cluster, objects)
    for obj in objects:  # and the schema would have noticed
        with pytest.raises(DevClusterError, match="unknownField"):
            dry_run(cluster, [{**obj, "spec": {**obj["spec"], "unknownField": "x"}}])


def test_every_kind_is_checked_by_one_of_the_two() -> None:
    rendered = {(obj["apiVersion"], obj["kind"]) for app in APPS for obj in variants(app)}

    assert {kind for kind in rendered if kind[1] not in BUILT_IN} == set(foreign.FILES)


@pytest.mark.parametrize("app", WITH_BUILT_IN)
def test_what_is_rendered_wrongly_would_be_refused(cluster: DevCluster, app: str) -> None:
    policy_or_pod = next(obj for obj in render(app) if obj["kind"] in {"NetworkPolicy", "Deployment"})

    with pytest.raises(DevClusterError, match="misspelt"):
        dry_run(cluster, [{**policy_or_pod, "spec": {**policy_or_pod["spec"], "misspelt": 1}}])


def test_an_upgrade_changes_no_field_that_the_server_holds_to_be_fixed(cluster: DevCluster) -> None:
    before, after = (
        render("odysseus", {"model": model, "image": {"tag": tag}}, litellmKey=key)
        for model, tag, key in (("a", "v1", None), ("b", "v2", own_key("x")))
    )
    cluster.apply(before)

    (deployment,) = [
        obj
        for obj in cluster.apply(after)
        if obj["metadata"]["name"] == "odysseus-demo" and obj["kind"] == "Deployment"
    ]
    containers = deployment["spec"]["template"]["spec"]["containers"]
    assert {each["image"].rsplit(":")[-1] for each in containers} == {"v2"}


def test_an_upgrade_keeps_the_password_that_was_generated(cluster: DevCluster) -> None:
    secret = one(render("odysseus", namespace="team-a"), "Secret")
    (made,) = cluster.apply([secret])
    generated = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": made["metadata"]["name"], "namespace": "team-a"},
    }
    cluster.rest.apply({**generated, "data": {"password": "Zm9v"}}, field_manager="secret-generator")

    (kept,) = cluster.apply([secret])
    assert kept["data"] == {"password": "Zm9v"}
