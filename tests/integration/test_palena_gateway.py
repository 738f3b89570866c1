"""Gateways on the real API server: from nothing to Running, through everything that happens, to the end."""

import asyncio
import json
from typing import Any

import pytest

from hack.devcluster import DevCluster
from tests.support import palena_crds
from tests.support.palena_corner import PalenaCorner, assert_honest, palena_control_plane, palena_corner

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

GATEWAYS = "palenagateways"
CLUSTER, REDIS, LITELLM = "gw-palena-pg", "gw-palena-redis", "gw-palena-litellm"
HELD = "example.com/held"


def essence(corner: PalenaCorner) -> dict[str, Any]:
    """What a gateway came to, without what differs between two equal runs."""
    found: dict[str, Any] = {}
    for plural in (GATEWAYS, "clusters", "litellminstances", "statefulsets", "networkpolicies", "services"):
        for name, obj in corner.mirror.all(corner.path(plural)).items():
            status = {
                k: v for k, v in obj.get("status", {}).items() if plural == GATEWAYS and k != "readySince"
            }
            conditions = [
                {name: each[name] for name in ("type", "status", "reason", "message")}
                for each in status.pop("conditions", ())
            ]
            spec = json.loads(json.dumps(obj["spec"]).replace(corner.namespace, "HOME"))
            for volatile in ("clusterIP", "clusterIPs", "extraEnvVars"):
                spec.pop(volatile, None)
            spec.get("template", {}).pop("metadata", None)
            labels = {k: v for k, v in obj["metadata"].get("labels", {}).items() if "uid" not in k}
            found[f"{plural}/{name}"] = [labels, spec, status, conditions]
    return dict(json.loads(json.dumps(found).replace(corner.namespace, "HOME")))


@pytest.mark.req("PA-010", "PA-021", "PA-041", "PA-048")
async def test_a_gateway_comes_up_is_changed_and_rests(corner: PalenaCorner) -> None:
    mark = corner.cluster.audit_mark()
    async with corner.operator() as running:
        await corner.gateway()
        await corner.until_phase(GATEWAYS, "gw", "Provisioning", "ClusterCreating")
        await corner.all_ready()
        await corner.gateway(litellm={"replicas": 3}, database={"managed": {"instances": 2}})
        await corner.mirror.until(
            "the change is there", lambda: corner.must("litellminstances", LITELLM)["spec"]["replicas"] == 3
        )
        assert corner.must("clusters", CLUSTER)["spec"]["instances"] == 2
        await corner.until_phase(GATEWAYS, "gw", "Running")
        await corner.quiet()
        corner.assert_sound()
        text = str(running.logs)
    assert_honest(corner.writes(mark))
    for name in (REDIS, f"{LITELLM}-keys"):
        for value in corner.must("secrets", name)["data"].values():
            assert value not in text


async def test_an_operator_that_starts_on_a_running_gateway_writes_nothing(corner: PalenaCorner) -> None:
    async with corner.operator():
        await corner.gateway()
        await corner.all_ready()
        await corner.quiet()
    mark = corner.cluster.audit_mark()
    async with corner.operator():
        await corner.quiet()
    assert corner.writes(mark) == []


async def test_killed_and_started_again_at_every_step_it_comes_to_the_same(
    palena_cluster: DevCluster,
) -> None:
    async with palena_corner(palena_cluster) as calm:
        async with calm.operator():
            await calm.gateway()
            await calm.all_ready()
            await calm.quiet()
        expected = essence(calm)

    async with palena_corner(palena_cluster) as corner:
        await corner.gateway()
        async with corner.operator() as running:
            await corner.until_there("networkpolicies", "gw-palena-default-deny")
            await running.kill()
        async with corner.operator() as running:
            await corner.database_ready()
            await running.kill()
        async with corner.operator() as running:
            await corner.redis_ready()
            await running.kill()
        passwords = corner.must("secrets", REDIS)["data"]
        async with corner.operator() as running:
            await corner.litellm_ready()
            await running.kill()
        async with corner.operator():
            await corner.until_phase(GATEWAYS, "gw", "Running")
            await corner.quiet()
        assert corner.must("secrets", REDIS)["data"] == passwords
        assert essence(corner) == expected


@pytest.mark.req("PA-016", "PA-017", "PA-018")
async def test_the_end_is_in_order_as_the_audit_log_shows(corner: PalenaCorner) -> None:
    async with corner.operator() as running:
        await corner.gateway()
        await corner.all_ready()
        await corner.hold("litellminstances", LITELLM, HELD)
        await corner.hold("clusters", CLUSTER, HELD)
        mark = corner.cluster.audit_mark()
        await corner.delete(GATEWAYS, "gw")
        await corner.until_phase(GATEWAYS, "gw", "Deleting")
        await corner.quiet()
        assert {REDIS} <= corner.names("statefulsets")
        assert "deletionTimestamp" not in corner.must("clusters", CLUSTER)["metadata"]
        await running.kill()
    async with corner.operator():
        await corner.hold("litellminstances", LITELLM)
        await corner.until_gone("statefulsets", REDIS)
        await corner.until_gone("secrets", REDIS)
        await corner.mirror.until(
            "the Cluster goes", lambda: "deletionTimestamp" in corner.must("clusters", CLUSTER)["metadata"]
        )
        assert corner.find(GATEWAYS, "gw") is not None
        await corner.hold("clusters", CLUSTER)
        await corner.until_gone(GATEWAYS, "gw")
        await corner.quiet()
    writes = corner.writes(mark)
    deletes = [each.resource for each in writes if each.verb == "delete"]
    assert deletes == ["litellminstances", "statefulsets", "services", "services", "secrets", "clusters"]
    created = [each for each in writes if each.code == 201]
    assert not created, "a dying gateway makes nothing"


async def test_what_is_retained_is_let_go_and_taken_over_by_a_successor(corner: PalenaCorner) -> None:
    async with corner.operator():
        await corner.gateway(deletionPolicy="Retain")
        await corner.all_ready()
        keys, password = (corner.must("secrets", name)["data"] for name in (f"{LITELLM}-keys", REDIS))
        uid = corner.must("clusters", CLUSTER)["metadata"]["uid"]
        await corner.delete(GATEWAYS, "gw")
        await corner.until_gone(GATEWAYS, "gw")
        walls = {f"gw-palena-{each}" for each in ("default-deny", "cnpg-internal")}
        kept = [("clusters", CLUSTER), ("secrets", REDIS), ("secrets", f"{LITELLM}-keys")]
        kept += [("networkpolicies", each) for each in walls]
        for plural, name in kept:
            metadata = corner.must(plural, name)["metadata"]
            assert not metadata.get("ownerReferences")
            assert metadata["labels"]["palena.ai/retained"] == "true"
        await corner.collect_garbage()
        assert corner.names("networkpolicies") == walls, "the database runs on, as closed as it was"
        await corner.gateway(deletionPolicy="Retain")
        await corner.all_ready()
        assert corner.must("clusters", CLUSTER)["metadata"]["uid"] == uid
        assert corner.must("clusters", CLUSTER)["metadata"]["ownerReferences"]
        assert corner.must("secrets", f"{LITELLM}-keys")["data"] == keys
        assert corner.must("secrets", REDIS)["data"] == password
        for plural, name in kept:
            assert "palena.ai/retained" not in corner.must(plural, name)["metadata"]["labels"]
        await corner.quiet()


async def test_a_deletion_that_orphans_leaves_everything_without_an_owner(corner: PalenaCorner) -> None:
    async with corner.operator():
        await corner.gateway()
        await corner.all_ready()
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan"}
        await corner.client.send("DELETE", f"{corner.path(GATEWAYS)}/gw", options)
        await corner.mirror.until(
            "it is let go", lambda: corner.must(GATEWAYS, "gw")["metadata"]["finalizers"] == ["orphan"]
        )
        for plural, name in (("clusters", CLUSTER), ("litellminstances", LITELLM), ("statefulsets", REDIS)):
            metadata = corner.must(plural, name)["metadata"]
            assert not metadata.get("ownerReferences")
            assert metadata["labels"]["palena.ai/retained"] == "true"
        await corner.quiet()
        await corner.hold(GATEWAYS, "gw")  # as the garbage collector does, which took the references as well


async def test_a_volume_grows_where_its_class_allows_it(corner: PalenaCorner) -> None:
    volume, name = f"data-{REDIS}-0", f"grows-{corner.namespace}"
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "example.com/none",
        "allowVolumeExpansion": True,
    }
    await corner.client.apply(f"/apis/storage.k8s.io/v1/storageclasses/{name}", storage_class)
    async with corner.operator():
        storage = {"size": "1Gi", "storageClassName": name}
        await corner.gateway(redis={"managed": {"storage": storage}})
        await corner.all_ready()
        await make_volume(corner, volume)
        await corner.report("persistentvolumeclaims", volume, {"phase": "Bound"})
        await corner.gateway(redis={"managed": {"storage": {**storage, "size": "2048Mi"}}})
        await corner.mirror.until("it is to grow", lambda: requested(corner, volume) in ("2Gi", "2048Mi"))
        await corner.until_phase(GATEWAYS, "gw", "Running")
        await corner.gateway(redis={"managed": {"storage": {**storage, "size": "512Mi"}}})
        await corner.quiet()
        assert requested(corner, volume) == "2Gi"
        assert corner.phase(GATEWAYS, "gw") == "Running"


def requested(corner: PalenaCorner, volume: str) -> str:
    return str(corner.must("persistentvolumeclaims", volume)["spec"]["resources"]["requests"]["storage"])


async def make_volume(corner: PalenaCorner, volume: str) -> None:
    """As the StatefulSet's controller makes it."""
    template = corner.must("statefulsets", REDIS)["spec"]["volumeClaimTemplates"][0]
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": volume,
            "namespace": corner.namespace,
            "labels": template["metadata"]["labels"],
        },
        "spec": template["spec"],
    }
    await corner.client.apply(f"{corner.path('persistentvolumeclaims')}/{volume}", body)
    await corner.until_there("persistentvolumeclaims", volume)


async def test_f19_a_lost_secret_is_told_and_heals_when_it_is_put_back(corner: PalenaCorner) -> None:
    volume = f"data-{REDIS}-0"
    async with corner.operator():
        await corner.gateway()
        await corner.all_ready()
        await make_volume(corner, volume)
        lost = corner.must("secrets", REDIS)
        before = corner.must("statefulsets", REDIS)["metadata"]["generation"]
        await corner.delete("secrets", REDIS)
        await corner.until_phase(GATEWAYS, "gw", "Degraded", "SecretLost")
        await corner.quiet()
        assert corner.find("secrets", REDIS) is None
        assert corner.must("statefulsets", REDIS)["metadata"]["generation"] == before
        restored = {
            **lost,
            "metadata": {name: lost["metadata"][name] for name in ("name", "namespace", "labels")},
        }
        await corner.client.create(corner.path("secrets"), restored)
        await corner.until_phase(GATEWAYS, "gw", "Running")
        assert corner.must("secrets", REDIS)["data"] == lost["data"]


@pytest.mark.parametrize(
    ("plural", "name", "reason"),
    [("statefulsets", REDIS, "NameConflict"), ("networkpolicies", "gw-palena-default-deny", "NameConflict")],
)
async def test_somebody_elses_object_that_is_not_even_watched_is_left_alone(
    corner: PalenaCorner, plural: str, name: str, reason: str
) -> None:
    selector = {"matchLabels": {"app": "theirs"}}
    spec: dict[str, Any] = {"podSelector": selector, "policyTypes": ["Ingress"]}
    if plural == "statefulsets":
        container = {"name": "theirs", "image": "example.com/theirs"}
        template = {"metadata": {"labels": {"app": "theirs"}}, "spec": {"containers": [container]}}
        spec = {"serviceName": "theirs", "selector": selector, "template": template}
    api = "apps/v1" if plural == "statefulsets" else "networking.k8s.io/v1"
    kind = "StatefulSet" if plural == "statefulsets" else "NetworkPolicy"
    body = {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name, "namespace": corner.namespace},
        "spec": spec,
    }
    await corner.client.apply(f"{corner.path(plural)}/{name}", body, manager="somebody")
    async with corner.operator():
        await corner.gateway()
        await corner.until_phase(GATEWAYS, "gw", "Error", reason)
        labels = corner.must(plural, name)["metadata"].get("labels", {})
        assert "palena.ai/owner-uid" not in labels
        assert (corner.must(plural, name)["spec"].get("podSelector") or selector) == selector
        await corner.delete(plural, name)
        # Nobody watches what is not ours, so the next look is the one that the back-off allows.
        await corner.gateway(litellm={"replicas": 2})
        await corner.until_there(plural, name)
        await corner.all_ready()


async def test_fields_that_we_set_are_put_back_and_others_kept(corner: PalenaCorner) -> None:
    async with corner.operator():
        await corner.gateway()
        await corner.all_ready()
        place = f"{corner.path('clusters')}/{CLUSTER}"
        edit = {"metadata": {"annotations": {"example.com/note": "kept"}}, "spec": {"instances": 7}}
        await corner.client.merge(place, edit)

        def put_back() -> bool:
            live = corner.must("clusters", CLUSTER)
            noted = live["metadata"].get("annotations", {}).get("example.com/note") == "kept"
            return bool(noted and live["spec"]["instances"] == 1)

        await corner.mirror.until("one is put back and the other kept", put_back)
        before = corner.must("statefulsets", REDIS)["metadata"]["generation"]
        stamp = {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "2026-05-01T12:00:00Z"}}}
        edit = {"spec": {"template": stamp, "replicas": 0}}
        await corner.client.merge(f"{corner.path('statefulsets')}/{REDIS}", edit)

        def edited_and_put_back() -> bool:
            live = corner.must("statefulsets", REDIS)
            return bool(live["metadata"]["generation"] >= before + 2 and live["spec"]["replicas"] == 1)

        await corner.mirror.until("Redis is put back", edited_and_put_back)
        template = corner.must("statefulsets", REDIS)["spec"]["template"]["metadata"]["annotations"]
        assert template.keys() == {"operator.palena.ai/secret-hash", "kubectl.kubernetes.io/restartedAt"}
        await corner.quiet()


async def test_what_another_manager_says_on_cluster_and_instance_survives(corner: PalenaCorner) -> None:
    role = {"name": "langfuse", "login": True}
    async with corner.operator():
        await corner.gateway()
        await corner.all_ready()
        for plural, name, fields in (
            ("clusters", CLUSTER, {"managed": {"roles": [role]}}),
            ("litellminstances", LITELLM, {"callbacks": {"types": ["langfuse"]}}),
        ):
            live = corner.must(plural, name)
            part = {
                "apiVersion": live["apiVersion"],
                "kind": live["kind"],
                "metadata": {"name": name, "namespace": corner.namespace, "uid": live["metadata"]["uid"]},
                "spec": fields,
            }
            place = f"{corner.path(plural)}/{name}"
            await corner.client.apply(place, part, manager="palena-observability")
        await corner.gateway(litellm={"replicas": 2}, database={"managed": {"instances": 2}})
        await corner.mirror.until(
            "both are changed",
            lambda: (
                corner.must("litellminstances", LITELLM)["spec"]["replicas"] == 2
                and corner.must("clusters", CLUSTER)["spec"]["instances"] == 2
            ),
        )
        assert corner.must("litellminstances", LITELLM)["spec"]["callbacks"] == {"types": ["langfuse"]}
        roles = corner.must("clusters", CLUSTER)["spec"]["managed"]["roles"]
        assert [each["name"] for each in roles] == ["langfuse"]
        await corner.quiet()


async def test_in_a_namespace_that_is_being_deleted_it_waits_without_a_storm(corner: PalenaCorner) -> None:
    async with corner.operator():
        await corner.gateway()
        await corner.all_ready()
        await corner.client.send("DELETE", f"/api/v1/namespaces/{corner.namespace}")
        await corner.delete("services", REDIS)
        await corner.until_phase(GATEWAYS, "gw", "Degraded", "NamespaceTerminating")
        mark = corner.cluster.audit_mark()
        await asyncio.sleep(2)  # that it does not try again and again can only be seen by looking for a while
        assert len(corner.writes(mark)) <= 2
        await corner.delete(GATEWAYS, "gw")
        await corner.until_gone(GATEWAYS, "gw")


async def test_external_parts_follow_their_secrets(corner: PalenaCorner) -> None:
    external = {"mode": "external", "external": {"secretRef": {"name": "db"}}}
    async with corner.operator():
        await corner.gateway(database=external)
        await corner.until_phase(GATEWAYS, "gw", "Error", "SecretNotFound")
        await corner.secret("db", {"DATABASE_URL": "mysql://x"})
        await corner.until_phase(GATEWAYS, "gw", "Error", "SecretInvalid")
        await corner.secret("db", {"DATABASE_URL": "postgres://a:swordfish@db.example.com/x"})
        await corner.redis_ready()
        await corner.litellm_ready()
        await corner.until_phase(GATEWAYS, "gw", "Running")
        before = corner.must("litellminstances", LITELLM)["metadata"]["generation"]
        await corner.secret("db", {"DATABASE_URL": "postgres://a:other@db.example.com/x"})
        await corner.mirror.until(
            "LiteLLM restarts",
            lambda: corner.must("litellminstances", LITELLM)["metadata"]["generation"] > before,
        )
        assert "swordfish" not in json.dumps(corner.must(GATEWAYS, "gw"))
        await corner.quiet()


@pytest.mark.req("PA-019", "PA-021", "PA-022")
async def test_cloudnativepg_is_waited_for_and_its_absence_changes_nothing_that_is_there() -> None:
    with palena_control_plane() as cluster:
        definition = palena_crds.definition(palena_crds.CLUSTERS)
        await palena_crds.remove(cluster, palena_crds.CLUSTERS)
        async with palena_corner(cluster) as corner, corner.operator():
            await corner.gateway()
            await corner.until_phase(GATEWAYS, "gw", "Error", "CRDMissing")
            assert not corner.names("networkpolicies") | corner.names("statefulsets")
            await asyncio.to_thread(cluster.apply, definition)
            await corner.all_ready()
            kept = corner.must("litellminstances", LITELLM)["metadata"]["resourceVersion"]
            mark = cluster.audit_mark()
            await palena_crds.remove(cluster, palena_crds.CLUSTERS)
            await corner.until_phase(GATEWAYS, "gw", "Error", "CRDMissing")
            await corner.quiet()
            assert corner.must("litellminstances", LITELLM)["metadata"]["resourceVersion"] == kept
            assert {each.resource for each in corner.writes(mark)} == {GATEWAYS}
            await asyncio.to_thread(cluster.apply, definition)
            await corner.all_ready()
            await palena_crds.remove(cluster, palena_crds.CLUSTERS)
            await corner.until_phase(GATEWAYS, "gw", "Error", "CRDMissing")
            await corner.delete(GATEWAYS, "gw")
            await corner.until_gone(GATEWAYS, "gw")
