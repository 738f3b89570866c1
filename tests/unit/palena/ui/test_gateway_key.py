"""The key with which a chat asks its gateway (spec: palena §6.2)."""

import pytest

from magicstick.api.kinds import LITELLM_VIRTUAL_KEY
from magicstick.palena.common.kinds import (
    DEPLOYMENT,
)
from magicstick.palena.common.phases import Outcome
from magicstick.palena.common.secrets import SECRET
from tests.support.palena_chat import SECRET_HASH, annotation, environment, reference
from tests.support.palena_consumers import UiScene
from tests.support.palena_objects import GATEWAY, HOME, secret, values

pytestmark = pytest.mark.anyio


async def test_the_gateway_mints_a_key_of_its_own_and_the_chat_waits_for_it() -> None:
    scene = UiScene(gatewayKey={"maxBudget": "10", "budgetDuration": "30d", "rpmLimit": 5})
    plan = await scene.settle()
    key = scene.must(LITELLM_VIRTUAL_KEY, "chat-librechat")

    assert key.spec == {
        "instanceRef": {"name": "gw-palena-litellm"},
        "keyAlias": f"palena-ui-{HOME}-chat",
        "keySecretName": "chat-librechat-gateway-key",
        "maxBudget": "10",
        "budgetDuration": "30d",
        "rpmLimit": 5,
    }
    assert (scene.phase, plan.outcome) == ("Provisioning", Outcome.NOT_READY)
    assert scene.condition("ConfigGenerated") == ("False", "WaitingForGatewayKey")
    assert "chat-librechat" not in scene.world.names(DEPLOYMENT)
    await scene.running()
    assert environment(scene)["LITELLM_API_KEY"] == reference("chat-librechat-gateway-key", "api-key")


async def test_a_key_of_a_gateway_elsewhere_is_copied_and_kept_in_sync() -> None:
    scene = UiScene(namespace="elsewhere", gatewayRef={"name": GATEWAY, "namespace": HOME})
    await scene.settle()
    key = scene.must(LITELLM_VIRTUAL_KEY, "chat-librechat", HOME)
    assert key.metadata.owner_references == ()
    assert key.metadata.annotations["palena.ai/owner"] == "PalenaUI/elsewhere/chat"
    scene.mint("sk-one")
    await scene.settle()
    assert values(scene.must(SECRET, "chat-librechat-gateway-key")) == {"api-key": "sk-one"}
    before = annotation(scene, SECRET_HASH)

    scene.mint("sk-two")
    await scene.settle()
    assert values(scene.must(SECRET, "chat-librechat-gateway-key")) == {"api-key": "sk-two"}
    assert annotation(scene, SECRET_HASH) != before


async def test_without_virtual_keys_there_is_no_other_way_of_its_own_accord() -> None:
    scene = UiScene()
    scene.world.absent(LITELLM_VIRTUAL_KEY)
    plan = await scene.settle()

    assert (scene.phase, plan.outcome) == ("Error", Outcome.MISSING)
    assert scene.condition("ConfigGenerated") == ("False", "CRDMissing")
    assert "chat-librechat" not in scene.world.names(DEPLOYMENT)


async def test_the_master_key_is_used_only_beside_the_gateway() -> None:
    scene = UiScene(gatewayKey={"mode": "masterKey"})
    scene.world.put(SECRET, secret("gw-palena-litellm-keys", {"master-key": "sk-x"}))
    await scene.running()
    assert environment(scene)["LITELLM_API_KEY"] == reference("gw-palena-litellm-keys", "master-key")
    assert scene.phase == "Running"

    other = UiScene(
        namespace="elsewhere",
        gatewayRef={"name": GATEWAY, "namespace": HOME},
        gatewayKey={"mode": "masterKey"},
    )
    await other.settle()
    assert other.condition("ConfigGenerated") == ("False", "RefNotPermitted")
    assert other.phase == "Error"


@pytest.mark.parametrize(
    ("given", "reason"),
    [(None, "SecretNotFound"), ({"other": "x"}, "SecretKeyMissing"), ({"key": "sk\n"}, "SecretInvalid")],
)
async def test_a_key_of_the_users_own_is_checked(given: dict[str, str] | None, reason: str) -> None:
    scene = UiScene(gatewayKey={"mode": "secret", "secretRef": {"name": "own", "key": "key"}})
    if given is not None:
        scene.world.put(SECRET, secret("own", given))
    plan = await scene.settle()
    assert scene.condition("ConfigGenerated") == ("False", reason)
    assert (scene.phase, plan.outcome) == ("Error", Outcome.FAILED)

    scene.world.put(SECRET, secret("own", {"key": "sk-mine"}))
    await scene.running()
    assert environment(scene)["LITELLM_API_KEY"] == reference("own", "key")
    assert scene.phase == "Running"


async def test_another_mode_takes_the_virtual_key_away() -> None:
    scene = UiScene()
    await scene.running()
    scene.world.put(SECRET, secret("own", {"key": "sk-mine"}))
    scene.change(gatewayKey={"mode": "secret", "secretRef": {"name": "own", "key": "key"}})
    await scene.settle()

    assert scene.world.names(LITELLM_VIRTUAL_KEY) == set()


async def test_another_gateway_mints_another_key_and_the_old_one_goes() -> None:
    scene = UiScene(namespace="elsewhere", gatewayRef={"name": GATEWAY, "namespace": HOME})
    await scene.settle()
    scene.gateway(namespace="third", allowedConsumers={"from": "All"})
    scene.change(gatewayRef={"name": GATEWAY, "namespace": "third"})
    await scene.settle()

    assert scene.world.names(LITELLM_VIRTUAL_KEY, HOME) == set()
    assert scene.world.names(LITELLM_VIRTUAL_KEY, "third") == {"chat-librechat"}


async def test_a_virtual_key_of_somebody_else_is_not_taken_over() -> None:
    scene = UiScene()
    foreign = {"metadata": {"name": "chat-librechat", "namespace": HOME}, "spec": {"keyAlias": "mine"}}
    scene.world.put(LITELLM_VIRTUAL_KEY, foreign)
    await scene.settle()

    assert scene.must(LITELLM_VIRTUAL_KEY, "chat-librechat").spec == {"keyAlias": "mine"}
    assert scene.condition("ConfigGenerated") == ("False", "NameConflict")
