"""Which changes wake which chat, and that nothing else does (spec: palena §9)."""

from typing import Any

import pytest

from magicstick.api.kinds import (
    LITELLM_VIRTUAL_KEY,
    PALENA_GATEWAY,
    PALENA_MCP_SERVER,
    PALENA_MODEL,
    PALENA_UI,
)
from magicstick.kube.kinds import CONFIG_MAP, Kind, ObjectKey
from magicstick.kube.objects import View
from magicstick.palena.common.kinds import (
    DEPLOYMENT,
    INGRESS,
    PERSISTENT_VOLUME_CLAIM,
    SERVICE,
    STATEFUL_SET,
)
from magicstick.palena.common.secrets import SECRET
from magicstick.runtime.reconciler import meaning_changed
from tests.support.palena_consumers import UiScene, ui
from tests.support.palena_objects import GATEWAY, HOME, model, secret

pytestmark = pytest.mark.anyio

OURS = ObjectKey(HOME, "chat")
OTHER = ObjectKey(HOME, "other")


def woken(scene: UiScene, kind: Kind, old: View | None, new: View | None) -> set[ObjectKey]:
    return {
        key
        for edge in scene.reconciler.declaration.edges
        if edge.kind == kind and edge.name is None and edge.changed(old, new)
        for key in edge.wakes(old, new)
    }


async def with_a_neighbour(**spec: Any) -> UiScene:
    """A running chat, and another on another gateway."""
    scene = UiScene(host="chat.example.com", ingress={"enabled": True}, **spec)
    await scene.running()
    scene.world.put(PALENA_UI, ui("other", gatewayRef={"name": "another"}))
    return scene


@pytest.mark.req("PA-074", "PA-075", "PA-076", "PA-077", "PA-078")
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (DEPLOYMENT, "chat-librechat"),
        (DEPLOYMENT, "chat-meilisearch"),
        (STATEFUL_SET, "chat-mongodb"),
        (SERVICE, "chat-librechat"),
        (SERVICE, "chat-mongodb"),
        (SERVICE, "chat-meilisearch"),
        (CONFIG_MAP, "chat-librechat-config"),
        (INGRESS, "chat-librechat"),
        (PERSISTENT_VOLUME_CLAIM, "chat-librechat-data"),
        (PERSISTENT_VOLUME_CLAIM, "chat-meilisearch"),
        (PERSISTENT_VOLUME_CLAIM, "data-chat-mongodb-0"),
        (SECRET, "chat-librechat-secrets"),
        (SECRET, "chat-librechat-gateway-key"),
        (LITELLM_VIRTUAL_KEY, "chat-librechat"),
    ],
)
async def test_a_change_or_the_end_of_what_a_chat_has_wakes_that_chat_alone(kind: Kind, name: str) -> None:
    scene = await with_a_neighbour()
    live = scene.must(kind, name)

    assert woken(scene, kind, live, live) == {OURS}
    assert woken(scene, kind, live, None) == {OURS}


@pytest.mark.req("PA-079")
async def test_what_a_chat_sees_of_its_gateway_wakes_it_and_nothing_else_does() -> None:
    scene = await with_a_neighbour()
    ready = scene.must(PALENA_GATEWAY, GATEWAY)
    scene.gateway(ready="False", allowedConsumers={"from": "All"})
    unready = scene.must(PALENA_GATEWAY, GATEWAY)
    told = scene.world.change(PALENA_GATEWAY, HOME, GATEWAY, status={**unready.status, "modelCount": 7})

    assert woken(scene, PALENA_GATEWAY, ready, unready) == {OURS}
    assert woken(scene, PALENA_GATEWAY, ready, None) == {OURS}
    assert woken(scene, PALENA_GATEWAY, unready, told) == set()


@pytest.mark.req("PA-080")
async def test_a_referenced_mcp_server_wakes_the_chat_also_before_it_exists() -> None:
    scene = await with_a_neighbour(mcpServerRefs=[{"name": "websearch"}])
    scene.server()
    old = scene.must(PALENA_MCP_SERVER, "websearch")
    status = {"conditions": [{"type": "Ready", "status": "True", "reason": "x", "message": "x"}]}
    ready = scene.world.change(PALENA_MCP_SERVER, HOME, "websearch", status=status)
    told = scene.world.change(PALENA_MCP_SERVER, HOME, "websearch", status={**status, "replicas": 3})
    scene.server("unknown")

    assert woken(scene, PALENA_MCP_SERVER, None, old) == {OURS}
    assert woken(scene, PALENA_MCP_SERVER, old, ready) == {OURS}
    assert woken(scene, PALENA_MCP_SERVER, ready, None) == {OURS}
    assert woken(scene, PALENA_MCP_SERVER, ready, told) == set()
    assert woken(scene, PALENA_MCP_SERVER, None, scene.must(PALENA_MCP_SERVER, "unknown")) == set()


async def test_models_wake_the_chats_on_the_gateways_that_they_name_or_named() -> None:
    scene = await with_a_neighbour()
    old = scene.world.put(PALENA_MODEL, model("a", GATEWAY))
    new = scene.world.change(PALENA_MODEL, HOME, "a", spec={"gatewayRefs": [{"name": "another"}]})

    assert woken(scene, PALENA_MODEL, None, old) == {OURS}
    assert woken(scene, PALENA_MODEL, old, new) == {OURS, OTHER}
    assert (
        woken(scene, PALENA_MODEL, new, scene.world.change(PALENA_MODEL, HOME, "a", status={"x": 1})) == set()
    )


async def test_a_secret_wakes_the_chats_that_name_it() -> None:
    own = {"name": "X", "valueFrom": {"secretKeyRef": {"name": "own", "key": "x"}}}
    scene = await with_a_neighbour(extraEnv=[own], gatewayKey={"mode": "masterKey"})
    master = secret("gw-palena-litellm-keys", {"master-key": "sk-x"})

    for body, keys in (
        (secret("own", {"x": "y"}), {OURS}),
        (master, {OURS}),
        (secret("own", {"x": "y"}, namespace="elsewhere"), set()),
        (secret("unknown", {"x": "y"}), set()),
    ):
        assert woken(scene, SECRET, None, scene.world.put(SECRET, body)) == keys


@pytest.mark.req("PA-073")
async def test_a_chat_itself_wakes_with_its_meaning_and_not_with_its_status() -> None:
    scene = UiScene()
    before = scene.live
    scene.change(endpointName="Other")
    changed = scene.live
    scene.world.change(PALENA_UI, HOME, "chat", status={"phase": "Running"})

    assert scene.reconciler.declaration.primary == PALENA_UI
    assert meaning_changed(before, changed)
    assert not meaning_changed(changed, scene.live)
