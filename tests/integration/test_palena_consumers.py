"""Chats and tool servers on the real API server: from nothing to Running, through changes, to the end."""

import asyncio
from typing import Any

import pytest

from hack.devcluster import DevCluster
from hack.devcluster.rest import ApiError
from magicstick.palena.common.hashes import config_hash
from tests.support import golden
from tests.support.palena_consumer_corner import (
    SERVERS,
    UIS,
    chat,
    chat_ready,
    hidden,
    key_minted,
    stores_ready,
    tools,
    tools_ready,
    workloads_ready,
)
from tests.support.palena_corner import PalenaCorner, assert_honest
from tests.support.palena_schemas import check
from tests.support.polling import until

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

GOLDEN = golden.load("palena-consumers")
STRICT_DRY_RUN = "fieldManager=palena-ui&fieldValidation=Strict&force=true&dryRun=All"
SHOWN = ("palenauis", "palenamcpservers", "configmaps", "deployments", "statefulsets")
CONFIG_HASH = "operator.palena.ai/config-hash"


FOREIGN = sorted({body["apiVersion"] for body in GOLDEN.values() if "." in body["apiVersion"]})


async def until_served(cluster: DevCluster) -> None:
    """The server tells what there is of a group a while after the first definition of it was taken."""

    async def served() -> bool:
        try:
            return all(cluster.rest.get(f"/apis/{version}")["resources"] for version in FOREIGN)
        except ApiError:
            return False

    await until(f"{', '.join(FOREIGN)} are served", served, deadline_s=60)


@pytest.fixture(scope="module")
def palena_cluster(palena_cluster: DevCluster) -> DevCluster:
    """With the namespaces of the generated objects, and ready to be asked for each of their kinds."""
    asyncio.run(until_served(palena_cluster))
    palena_cluster.apply(
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            for name in ("ai-gateway", "traces")
        ]
    )
    return palena_cluster


@pytest.mark.req("PA-103")
@pytest.mark.parametrize("name", GOLDEN)
def test_a_generated_object_is_taken_as_it_is(palena_cluster: DevCluster, name: str) -> None:
    body = GOLDEN[name]
    path = f"{palena_cluster.rest.path_of(body)}?{STRICT_DRY_RUN}"
    taken = palena_cluster.rest.request("PATCH", path, body, content_type="application/apply-patch+yaml")

    assert lacks(body.get("spec", {}), taken.get("spec", {})) == []
    assert taken.get("data", {}) == body.get("data", {})
    assert taken["metadata"]["labels"] == body["metadata"]["labels"]


def lacks(want: Any, have: Any, path: str = "spec") -> list[str]:
    """The paths whose values are not there as they were sent."""
    if isinstance(want, dict) and isinstance(have, dict):
        return [found for name in want for found in lacks(want[name], have.get(name), f"{path}.{name}")]
    if isinstance(want, list) and isinstance(have, list) and len(want) == len(have):
        return [
            found for index, each in enumerate(want) for found in lacks(each, have[index], f"{path}[{index}]")
        ]
    return [] if want == have else [path]


def template_hash(corner: PalenaCorner, name: str) -> str:
    template = corner.must("deployments", name)["spec"]["template"]
    return str(template["metadata"]["annotations"][CONFIG_HASH])


def librechat(corner: PalenaCorner) -> Any:
    return check("librechat", corner.must("configmaps", "chat-librechat-config")["data"]["librechat.yaml"])


@pytest.mark.req("PA-012", "PA-072", "PA-073", "PA-080")
async def test_a_chat_with_tools_comes_up_follows_its_surroundings_and_rests(corner: PalenaCorner) -> None:
    mark = corner.cluster.audit_mark()
    async with corner.operator() as running:
        await corner.gateway()
        await chat(corner, mcpServerRefs=[{"name": "websearch"}])
        await corner.all_ready()
        await chat_ready_but_tools(corner)
        await tools(corner)
        await corner.mirror.until(
            "the tools are registered",
            lambda: (
                "mcpServers" in librechat(corner)
                and template_hash(corner, "chat-librechat") == stored_hash(corner)
            ),
        )
        await tools_ready(corner)
        await workloads_ready(corner, "chat-librechat")
        await corner.until_phase(UIS, "chat", "Running")
        await corner.model("model-a")
        await corner.mirror.until(
            "the model is offered",
            lambda: librechat(corner)["endpoints"]["custom"][0]["models"]["default"] == ["model-a"],
        )
        await chat(corner, mcpServerRefs=[{"name": "websearch"}], endpointName="Other")
        await corner.mirror.until(
            "the change is rolled out",
            lambda: (
                librechat(corner)["endpoints"]["custom"][0]["name"] == "Other"
                and template_hash(corner, "chat-librechat") == stored_hash(corner)
            ),
        )
        await workloads_ready(corner, "chat-librechat")
        await corner.until_phase(UIS, "chat", "Running")
        await corner.quiet()
        corner.assert_sound()
        text = str(running.logs)
    assert_honest(corner.writes(mark))
    secrets = hidden(corner, "chat-librechat-secrets", "chat-librechat-gateway-key", "websearch-searxng")
    shown = text + str({plural: corner.mirror.all(corner.path(plural)) for plural in SHOWN})
    assert not [value for value in secrets if value in shown]


async def chat_ready_but_tools(corner: PalenaCorner) -> None:
    await stores_ready(corner)
    await key_minted(corner)
    await workloads_ready(corner, "chat-librechat")
    await corner.until_phase(UIS, "chat", "Degraded", "MCPServerNotFound")


def stored_hash(corner: PalenaCorner) -> str:
    return config_hash(corner.must("configmaps", "chat-librechat-config")["data"]["librechat.yaml"])


@pytest.mark.req("PA-074", "PA-075", "PA-076", "PA-077")
async def test_what_is_taken_away_or_edited_comes_back_and_what_others_add_stays(
    corner: PalenaCorner,
) -> None:
    async with corner.operator():
        await corner.gateway()
        await chat(corner, host="chat.example.com", ingress={"enabled": True})
        await corner.all_ready()
        await chat_ready(corner)
        before = template_hash(corner, "chat-librechat")
        for plural, name in (
            ("services", "chat-librechat"),
            ("configmaps", "chat-librechat-config"),
            ("ingresses", "chat-librechat"),
            ("statefulsets", "chat-mongodb"),
            ("deployments", "chat-librechat"),
        ):
            uid = corner.must(plural, name)["metadata"]["uid"]
            await corner.delete(plural, name)
            await corner.mirror.until(
                f"{plural}/{name} is another one",
                lambda plural=plural, name=name, uid=uid: (
                    (corner.find(plural, name) or {"metadata": {"uid": uid}})[  # type: ignore[misc] # bound to this turn of the loop
                        "metadata"
                    ]["uid"]
                    != uid
                ),
            )
        assert template_hash(corner, "chat-librechat") == before
        path = f"{corner.path('deployments')}/chat-librechat"
        await corner.client.merge(
            path, {"metadata": {"annotations": {"example.com/theirs": "x"}}, "spec": {"replicas": 7}}
        )
        await corner.mirror.until(
            "the edit is reverted and the note stays", lambda: edited(corner) == (1, "x")
        )


def edited(corner: PalenaCorner) -> tuple[int, str]:
    """What the deployment has of the fields that somebody edited: ours, and theirs."""
    live = corner.must("deployments", "chat-librechat")
    return live["spec"]["replicas"], live["metadata"].get("annotations", {}).get("example.com/theirs", "")


async def test_an_operator_that_starts_on_running_consumers_writes_nothing(corner: PalenaCorner) -> None:
    async with corner.operator():
        await corner.gateway()
        await tools(corner)
        await chat(
            corner, mcpServerRefs=[{"name": "websearch"}], host="chat.example.com", ingress={"enabled": True}
        )
        await corner.all_ready()
        await tools_ready(corner)
        await chat_ready(corner)
        await corner.quiet()
    mark = corner.cluster.audit_mark()
    async with corner.operator():
        await corner.quiet()
    assert corner.writes(mark) == []


async def test_killed_and_started_again_at_every_step_secrets_stay_and_the_end_is_the_same(
    corner: PalenaCorner,
) -> None:
    await corner.gateway()
    await chat(corner)
    async with corner.operator() as running:
        await corner.until_there("secrets", "chat-librechat-secrets")
        await running.kill()
    made = corner.must("secrets", "chat-librechat-secrets")["data"]
    async with corner.operator() as running:
        await corner.all_ready()
        await running.kill()
    async with corner.operator() as running:
        await stores_ready(corner)
        await key_minted(corner)
        await running.kill()
    async with corner.operator():
        await workloads_ready(corner, "chat-librechat")
        await corner.until_phase(UIS, "chat", "Running")
        await corner.quiet()
        corner.assert_sound()
    assert corner.must("secrets", "chat-librechat-secrets")["data"] == made


async def test_the_end_of_a_chat_takes_its_key_and_leaves_its_secret(corner: PalenaCorner) -> None:
    async with corner.operator():
        await corner.gateway()
        await chat(corner)
        await corner.all_ready()
        await chat_ready(corner)
        await corner.hold("litellmvirtualkeys", "chat-librechat", "example.com/held")
        await corner.delete(UIS, "chat")
        await corner.until_phase(UIS, "chat", "Deleting")
        await corner.quiet()
        assert corner.find(UIS, "chat") is not None
        await corner.hold("litellmvirtualkeys", "chat-librechat")
        await corner.until_gone(UIS, "chat")
        await corner.until_gone("litellmvirtualkeys", "chat-librechat")
        kept = corner.must("secrets", "chat-librechat-secrets")["metadata"]
        assert not kept.get("ownerReferences")
        assert kept["labels"]["palena.ai/retained"] == "true"


@pytest.mark.req("PA-014", "PA-095", "PA-096")
async def test_tools_come_up_without_any_gateway_and_lose_a_sidecar_that_is_switched_off(
    corner: PalenaCorner,
) -> None:
    mark = corner.cluster.audit_mark()
    async with corner.operator():
        await tools(corner)
        await corner.until_phase(SERVERS, "websearch", "Provisioning", "WaitingForSearXNG")
        await tools_ready(corner)
        before = template_hash(corner, "websearch")
        await tools(corner, sidecars={"presidio": {"enabled": False}})
        for part in ("analyzer", "anonymizer"):
            for plural in ("deployments", "services", "networkpolicies"):
                await corner.until_gone(plural, f"websearch-presidio-{part}")
        await corner.mirror.until(
            "the server has the new configuration", lambda: template_hash(corner, "websearch") != before
        )
        await workloads_ready(corner, "websearch")
        await corner.until_phase(SERVERS, "websearch", "Running")
        await corner.quiet()
        await corner.delete(SERVERS, "websearch")
        await corner.until_gone(SERVERS, "websearch")
        await corner.quiet()
        corner.assert_sound()
    assert_honest(corner.writes(mark))


async def test_somebody_elses_object_that_is_not_even_watched_is_left_alone(corner: PalenaCorner) -> None:
    spec = {"selector": {"app": "theirs"}, "ports": [{"port": 80}]}
    metadata = {"name": "websearch-chromium", "namespace": corner.namespace}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    await corner.client.apply(f"{corner.path('services')}/websearch-chromium", body, manager="them")
    async with corner.operator():
        await tools(corner)
        await corner.until_phase(SERVERS, "websearch", "Error", "NameConflict")
    assert corner.must("services", "websearch-chromium")["spec"]["selector"] == {"app": "theirs"}
