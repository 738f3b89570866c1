"""Realtime models on a real API server: their objects, failures of requests, and removal (spec: realtime)."""

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from hack.devcluster import CONTROL_PLANE, DevCluster
from magicstick.api import labels
from magicstick.kube.client import Client
from magicstick.kube.config import ClusterConfig
from magicstick.runtime.conditions import find
from magicstick.why.asking import question
from magicstick.why.explainers import subject_of, tree
from magicstick.why.opening import opened
from magicstick.why.text import answer, lines
from tests.support.faultproxy import Answer, Call, Reset, When
from tests.support.freetoken_scene import DEPLOYMENTS, SERVICES
from tests.support.model_scene import CPU, ModelScene, install_kinds, make_node, model_corner, model_scene
from tests.support.operator import operator
from tests.support.oracles import told
from tests.support.realtime_scene import CONFIG_MAPS, WRITES, mirror_of, on_cpu, parts, template
from tests.support.rights import grant, grant_where_models_run, user
from tests.support.world import AGENT

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

SECRET = "words that nobody must see"
FORBIDDEN = 403


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """A control plane of our own, since the namespace of models is there once for all corners."""
    with DevCluster.start(CONTROL_PLANE) as cluster:
        install_kinds(cluster)
        yield cluster


async def host(scene: ModelScene, name: str, **allocatable: str) -> str:
    await make_node(scene, name, {"cpu": "16", "memory": "64Gi", **allocatable})
    return name


async def leave(scene: ModelScene, *names: str) -> None:
    """Delete activations, and wait until they are gone."""
    for name in names:
        await scene.delete(name)
    await scene.mirror.until("they are gone", lambda: not any(map(scene.get, names)))


def status_body(code: int) -> str:
    return json.dumps({"kind": "Status", "status": "Failure", "code": code, "message": SECRET})


def writes_of(plural: str, name: str) -> When:
    def matches(call: Call) -> bool:
        return call.mutating and f"/{plural}/{name}" in call.path

    return matches


@pytest.mark.req("MS-045", "MS-046", "MS-049", "MS-082")
async def test_a_model_is_made_of_three_objects_and_rests(cluster: DevCluster) -> None:
    async with model_scene(cluster, writes=WRITES) as scene, mirror_of(scene).running() as mirror:
        node = await host(scene, "realtime-host")
        await scene.activate("talks", local=on_cpu(node))
        status = await scene.until("talks", "Starting", "WaitingForRealtimePod")
        config, service, deployment = parts(mirror, "talks")
        assert set(scene.world.mirror.all(scene.world.activations)) == {"litellm", "model-catalog"}
        assert scene.kubeai.model("talks") is None
        text = f"{config['data']['profile.json']}\n{config['data']['bootstrap.py']}"
        noted = deployment["spec"]["template"]["metadata"]["annotations"]
        assert noted[labels.REALTIME_CONFIG_HASH] == hashlib.sha256(text.encode()).hexdigest()
        assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
        assert (status["modelRef"], status["resolvedResourceProfile"]) == (
            "vllm-omni/talks",
            "qwen3-omni-cpu",
        )

        await scene.rest()
        mark = cluster.audit_mark()
        await scene.rest()
        assert told(scene.world.operator_requests(mark)) == []
        await scene.world.delete("/api/v1/nodes", node)


@pytest.mark.req("MS-084")
async def test_f17_one_edit_is_one_rollout_and_a_new_operator_writes_nothing(cluster: DevCluster) -> None:
    async with model_corner(cluster) as scene, mirror_of(scene).running() as mirror:
        node = await host(scene, "edited-host")
        async with operator(scene.world, seams=scene.seams):
            await scene.activate("edited", local=on_cpu(node, local={"contextWindow": 4096}))
            await scene.until("edited", "Starting", "WaitingForRealtimePod")
            first = parts(mirror, "edited")[2]["metadata"]["generation"]
            await scene.activate("edited", local=on_cpu(node, local={"contextWindow": 2048}))
            await mirror.until(
                "the Deployment follows",
                lambda: parts(mirror, "edited")[2]["metadata"]["generation"] == first + 1,
            )
            config = parts(mirror, "edited")[0]
            assert json.loads(config["data"]["profile.json"])["stages"][0]["max_model_len"] == 2048

            await scene.activate(
                "edited", local=on_cpu(node, restartNonce="once-more", local={"contextWindow": 2048})
            )
            await mirror.until(
                "the nonce is on the template",
                lambda: (
                    template(mirror, "edited")["metadata"]["annotations"][labels.RESTART_NONCE] == "once-more"
                ),
            )
            assert parts(mirror, "edited")[0] == config
            await scene.rest()
        for _ in range(3):
            mark = cluster.audit_mark()
            async with operator(scene.world, seams=scene.seams):
                await scene.rest()
            assert told(scene.world.operator_writes(mark)) == []
        await scene.world.delete("/api/v1/nodes", node)


@pytest.mark.parametrize(
    "edit",
    [
        {"replicas": 3},
        {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
        {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "elsewhere"}}}},
    ],
    ids=["replicas", "strategy", "node"],
)
async def test_a_deployment_that_somebody_edited_is_as_it_was_again(
    cluster: DevCluster, edit: dict[str, Any]
) -> None:
    async with model_scene(cluster, writes=WRITES) as scene, mirror_of(scene).running() as mirror:
        node = await host(scene, "tampered-host")
        await scene.activate("tampered", local=on_cpu(node))
        await scene.until("tampered", "Starting", "WaitingForRealtimePod")
        before = parts(mirror, "tampered")[2]
        path = f"{DEPLOYMENTS}/{before['metadata']['name']}"
        await scene.world.client.merge(path, {"spec": edit})
        await mirror.until(
            "it is as it was",
            lambda: (
                (now := parts(mirror, "tampered")[2])["spec"] == before["spec"]
                and now["metadata"]["generation"] > before["metadata"]["generation"] + 1
            ),
        )
        await scene.until("tampered", "Starting", "WaitingForRealtimePod")
        await leave(scene, "tampered")
        await scene.world.delete("/api/v1/nodes", node)


@pytest.mark.req("MS-055")
async def test_a_model_is_switched_off_and_on_and_deleted_with_all_its_objects(cluster: DevCluster) -> None:
    async with model_scene(cluster, writes=WRITES) as scene, mirror_of(scene).running() as mirror:
        node = await host(scene, "switched-host")
        await scene.activate("switched", local=on_cpu(node))
        await scene.until("switched", "Starting", "WaitingForRealtimePod")
        await scene.activate("switched", local=on_cpu(node), enabled=False)
        await scene.until("switched", "Disabled")
        assert parts(mirror, "switched") == []
        assert (scene.get("switched") or {})["spec"]["local"]["realtime"]["gpuNode"] == node

        await scene.activate("switched", local=on_cpu(node))
        await scene.until("switched", "Starting", "WaitingForRealtimePod")
        hold = {"metadata": {"finalizers": ["example.com/hold"]}}
        await scene.world.client.merge(f"{CONFIG_MAPS}/switched-realtime", hold)
        await scene.delete("switched")
        await scene.until("switched", "Removing")
        await mirror.until("the rest is gone", lambda: len(parts(mirror, "switched")) == 1)
        await scene.rest()
        assert (scene.get("switched") or {})["metadata"]["finalizers"] == [labels.MODEL_FINALIZER]
        await scene.world.client.merge(f"{CONFIG_MAPS}/switched-realtime", {"metadata": {"finalizers": None}})
        await scene.mirror.until("it is gone", lambda: scene.get("switched") is None)
        await scene.world.delete("/api/v1/nodes", node)


@pytest.mark.req("MS-046", "MS-049")
async def test_a_model_that_changes_its_runtime_leaves_nothing_of_the_old_one(cluster: DevCluster) -> None:
    async with model_scene(cluster, writes=WRITES) as scene, mirror_of(scene).running() as mirror:
        node = await host(scene, "changing-host")
        await scene.activate("changes", local=CPU)
        await scene.until("changes", "Starting", "WaitingForCpuProfile")
        await scene.kubeai.take()
        await scene.kubeai.until_model("changes")

        await scene.activate("changes", local=on_cpu(node))
        await scene.until("changes", "Starting", "WaitingForRealtimePod")
        assert scene.kubeai.model("changes") is None
        assert len(parts(mirror, "changes")) == 3

        await scene.world.client.merge(
            f"{scene.path}/changes", {"spec": {"local": {"realtime": None, "engine": "VLLM"}}}
        )
        await scene.kubeai.until_model("changes")
        assert parts(mirror, "changes") == []
        await scene.world.delete("/api/v1/nodes", node)


@pytest.mark.req("MS-051", "MS-058", "MS-075")
async def test_e30_what_is_wrong_or_waits_writes_nothing_and_disturbs_nobody(cluster: DevCluster) -> None:
    async with model_scene(cluster, writes=WRITES) as scene, mirror_of(scene).running() as mirror:
        node = await host(scene, "strict-host")
        await scene.world.activate("gpu")
        await scene.activate("wrong", local=on_cpu(node, systemMemoryMi=999999))
        gpu = {"computeTarget": "nvidia-gpu", "realtime": {"profile": "qwen3-omni", "gpuNode": node}}
        await scene.activate("waits", local={**on_cpu(node), **gpu})
        await scene.activate("good", local=on_cpu(node))
        status = await scene.until("wrong", "Degraded", "InvalidModelSpec")
        assert "spec.local.realtime.systemMemoryMi" in status["message"]
        assert (status["modelRef"], status["catalogId"]) == ("vllm-omni/wrong", "")
        status = await scene.until("waits", "WaitingForGPU", "WaitingForGPU")
        assert "no allocatable GPU resource" in status["message"]
        await scene.until("good", "Starting", "WaitingForRealtimePod")
        assert parts(mirror, "wrong") == parts(mirror, "waits") == []

        await host(scene, node, **{"nvidia.com/gpu": "1"})
        await scene.until("waits", "Starting", "WaitingForRealtimePod")
        made = parts(mirror, "good")
        await scene.host_operation("clean-up", "Preparing")
        await scene.until("good", "Starting", "ModelCacheMaintenance")
        await scene.activate("late", local=on_cpu(node))
        await scene.until("late", "Starting", "ModelCacheMaintenance")
        await scene.activate("good", local=on_cpu(node, restartNonce="again"))
        await scene.until("good", "Starting", "ModelCacheMaintenance")
        await scene.rest()
        assert (parts(mirror, "good"), parts(mirror, "late")) == (made, [])
        await scene.host_operation("clean-up", "Succeeded")
        await scene.until("late", "Starting", "WaitingForRealtimePod")
        await scene.world.delete("/api/v1/nodes", node)


CODES: list[tuple[int, str, str]] = [
    (403, "Degraded", "RealtimePermissionDenied"),
    (422, "Degraded", "RealtimeApiRejected"),
    (500, "Starting", "RealtimeApiUnavailable"),
    (503, "Starting", "RealtimeApiUnavailable"),
    (429, "Starting", "RealtimeApiUnavailable"),
]


@pytest.mark.req("MS-074", "MS-075", "MS-076", "MS-077")
@pytest.mark.parametrize(("code", "phase", "reason"), CODES)
@pytest.mark.parametrize("plural", ["configmaps", "services", "deployments"])
async def test_e24_e25_a_failed_write_is_told_holds_up_what_follows_and_heals_by_itself(
    cluster: DevCluster, plural: str, code: int, phase: str, reason: str
) -> None:
    order = ["configmaps", "services", "deployments"]
    async with model_corner(cluster) as scene, mirror_of(scene).running() as mirror:
        node = await host(scene, "fault-host")
        body = status_body(code)
        async with operator(scene.world, seams=scene.seams) as running:
            # The server says 500 without a reason where an apply can never succeed.
            body = json.dumps({**json.loads(body), "reason": "InternalError"}) if code == 500 else body
            answer = Answer(
                code, body, content_type="application/json", retry_after=0.1 if code == 429 else None
            )
            with running.proxy.fault(answer, when=writes_of(plural, "fails-realtime")):
                await scene.activate("fails", local=on_cpu(node))
                await scene.activate("works", local=on_cpu(node))
                status = await scene.until("fails", phase, reason)
                await scene.until("works", "Starting", "WaitingForRealtimePod")
                assert f"HTTP {code}" in status["message"]
                assert SECRET not in str(status)
                assert len(parts(mirror, "fails")) == order.index(plural)
            await scene.activate("fails", local=on_cpu(node, restartNonce="healed"))
            await scene.until("fails", "Starting", "WaitingForRealtimePod")
            assert len(parts(mirror, "fails")) == 3
            await leave(scene, "fails", "works")
        await scene.world.delete("/api/v1/nodes", node)


@pytest.mark.req("MS-077", "MS-078")
async def test_an_outage_is_told_only_where_a_write_was_needed_and_heals_without_anybody(
    cluster: DevCluster,
) -> None:
    """Decision 19: a runtime that needs no write keeps its state."""
    async with model_corner(cluster) as scene, mirror_of(scene).running() as mirror:
        node = await host(scene, "outage-host")
        async with operator(scene.world, seams=scene.seams) as running:
            await scene.activate("settled", local=on_cpu(node))
            await scene.until("settled", "Starting", "WaitingForRealtimePod")

            def writes_a_runtime(call: Call) -> bool:
                return call.mutating and "-realtime" in call.path

            with running.proxy.fault(Reset(), when=writes_a_runtime):
                await scene.activate("new", local=on_cpu(node))
                status = await scene.until("new", "Starting", "RealtimeApiUnavailable")
                assert "no answer" in status["message"]
                assert scene.reason("settled") == "WaitingForRealtimePod"
            await scene.until("new", "Starting", "WaitingForRealtimePod")
            assert len(parts(mirror, "new")) == 3
            await leave(scene, "settled", "new")
        await scene.world.delete("/api/v1/nodes", node)


async def test_a_removal_that_is_denied_is_told_and_goes_on_when_it_may(cluster: DevCluster) -> None:
    async with model_corner(cluster) as scene, mirror_of(scene).running() as mirror:
        node = await host(scene, "denied-host")
        async with operator(scene.world, seams=scene.seams) as running:
            await scene.activate("stays", local=on_cpu(node))
            await scene.until("stays", "Starting", "WaitingForRealtimePod")
            denied = Answer(403, status_body(403), content_type="application/json")
            with running.proxy.fault(denied, when=writes_of("services", "stays-realtime")):
                await scene.activate("stays", local=on_cpu(node), enabled=False)
                await scene.until("stays", "Degraded", "RealtimePermissionDenied")
                assert len(parts(mirror, "stays")) == 2
            await scene.world.client.merge(f"{scene.path}/stays", {"metadata": {"labels": {"again": "true"}}})
            await scene.until("stays", "Disabled")
        await scene.world.delete("/api/v1/nodes", node)


async def test_an_object_of_the_name_that_is_somebody_elses_is_left_alone(cluster: DevCluster) -> None:
    async with model_scene(cluster, writes=WRITES) as scene, mirror_of(scene).running() as mirror:
        node = await host(scene, "taken-host")
        foreign = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "taken-realtime"},
            "data": {"a": "b"},
        }
        await scene.world.client.apply(f"{CONFIG_MAPS}/taken-realtime", foreign, manager="somebody")
        await scene.activate("taken", local=on_cpu(node))
        await scene.until("taken", "Degraded", "NameConflict")
        await leave(scene, "taken")
        assert (mirror.get(CONFIG_MAPS, "taken-realtime") or {})["data"] == {"a": "b"}
        assert mirror.get(SERVICES, "taken-realtime") is None
        await scene.world.delete(CONFIG_MAPS, "taken-realtime")
        await scene.world.delete("/api/v1/nodes", node)


@pytest.mark.req("MS-072")
async def test_the_operators_own_rights_suffice_and_only_where_models_run(cluster: DevCluster) -> None:
    mark = cluster.audit_mark()
    async with model_corner(cluster) as scene, mirror_of(scene).running() as mirror:
        node = await host(scene, "granted-host")
        token = await grant(scene.world)
        await grant_where_models_run(scene.world)
        async with operator(scene.world, token=token, seams=scene.seams):
            await scene.activate("granted", local=on_cpu(node))
            await scene.until("granted", "Starting", "WaitingForRealtimePod")
            await leave(scene, "granted")
            assert parts(mirror, "granted") == []
            asked = [each for each in cluster.audit(AGENT, mark) if each.user == user(scene.world)]
            denied = [
                each for each in asked if each.code == FORBIDDEN and each.namespace != "identity-system"
            ]
            assert told(denied) == []
            assert {
                each.verb for each in asked if each.resource == "configmaps" and each.namespace == "ai"
            } >= {
                "patch",
                "delete",
            }

            await scene.activate("elsewhere", targetNamespace=scene.world.namespace, local=on_cpu(node))
            status = await scene.until("elsewhere", "Degraded", "RealtimePermissionDenied")
            assert scene.world.namespace in status["message"]
            assert (find(status["conditions"], "Stalled") or {})["status"] == "True"
            await leave(scene, "elsewhere")
        await scene.world.delete("/api/v1/nodes", node)


async def test_why_leads_from_a_realtime_model_to_what_it_waits_for(cluster: DevCluster) -> None:
    async with model_scene(cluster, writes=WRITES) as scene:
        node = await host(scene, "asked-host")
        gpu = {"computeTarget": "nvidia-gpu", "realtime": {"profile": "qwen3-omni", "gpuNode": node}}
        await scene.activate("asked", local={**on_cpu(node), **gpu})
        await scene.until("asked", "WaitingForModules")
        assert "Module/gpu has no activation" in await why(scene, "model/asked")
        await scene.activate("wrong", local=on_cpu(node, systemMemoryMi=999999))
        await scene.until("wrong", "Degraded")
        assert "spec.local.realtime.systemMemoryMi must be at most" in await why(scene, "model/wrong")
        await scene.world.delete("/api/v1/nodes", node)


async def why(scene: ModelScene, *words: str) -> str:
    """What `magicstick why` says."""
    world = scene.world
    config = ClusterConfig.plain(
        world.cluster.url, token=world.cluster.admin_token, ca_file=world.cluster.ca_file
    )
    flags = {name.lower(): value for name, value in world.environment.items()}
    now = datetime(2026, 1, 1, tzinfo=UTC)
    async with (
        Client(config, user_agent="why-test", field_manager="why-test") as client,
        opened(client, flags, timeout_s=10.0, clock=lambda: now) as sight,
    ):
        explanation, nodes = tree(subject_of(question(*words), sight), sight)
        return "\n".join(map(str, lines(answer(explanation, nodes, every=True))))


@pytest.mark.req("MS-051")
@pytest.mark.parametrize(
    "block",
    [
        {},
        {"profile": "qwen3-omni"},
        {"profile": "", "gpuNode": "n"},
        {"profile": "p", "gpuNode": "n", "gpuCount": True},
        {"profile": "p", "gpuNode": "n", "gpuCount": 3},
        {"profile": "p", "gpuNode": "n", "systemMemoryMi": "16Gi"},
        {"profile": "p", "gpuNode": "n", "gpuMemoryFraction": True},
        {"profile": "p", "gpuNode": "n", "gpuMemoryFraction": 1.01},
        {"profile": "p", "gpuNode": "n", "thinkerCpuOffloadGiB": 1.5},
        {"profile": "p", "gpuNode": "n", "runtimeImage": 7},
    ],
)
def test_the_server_itself_refuses_what_has_the_wrong_shape(cluster: DevCluster, block: Any) -> None:
    body = {
        "apiVersion": "appliance.magicstick.dev/v1alpha1",
        "kind": "ModelActivation",
        "metadata": {"name": "shape", "namespace": "default"},
        "spec": {"type": "local", "local": {"url": "hf://example/omni", "realtime": block}},
    }
    with pytest.raises(Exception, match=r"spec\.local\.realtime"):
        cluster.rest.request("POST", f"{cluster.rest.path_of(body).rpartition('/')[0]}?dryRun=All", body)
