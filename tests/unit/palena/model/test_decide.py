"""The decision about a model: gateway by gateway, removals last, and what is told of all of them."""

from typing import Any

import pytest

from magicstick.api.kinds import LITELLM_MODEL, PALENA_GATEWAY, PALENA_MODEL
from magicstick.palena.common.labels import SECRET_HASH
from magicstick.palena.common.phases import REQUEUE_S, Outcome
from magicstick.palena.common.secrets import SECRET
from magicstick.runtime.conditions import check_conditions
from magicstick.runtime.plan import Apply, Delete
from tests.support.palena_model_scene import KEY, NAME, ModelScene
from tests.support.palena_objects import HOME, gateway_status, litellm_status, model, secret, values
from tests.support.palena_world import body_of

pytestmark = pytest.mark.anyio

# --- what is made -----------------------------------------------------------------------------------


@pytest.mark.req("PA-056", "PA-057")
async def test_each_gateway_has_exactly_one_child_named_after_model_and_gateway() -> None:
    scene = ModelScene("a", "b", "c", gateways=("a", "b", "c"))
    await scene.settle()
    assert scene.children == {f"{NAME}-a", f"{NAME}-b", f"{NAME}-c"}
    for name in ("a", "b", "c"):
        assert scene.child(name).spec["instanceRef"] == {"name": f"{name}-palena-litellm"}
    done = len(scene.world.log)
    await scene.settle()
    assert len(scene.world.log) == done


@pytest.mark.req("PA-056")
async def test_a_gateway_that_is_named_twice_has_one_child() -> None:
    scene = ModelScene("gw", {"name": "gw", "namespace": HOME})
    await scene.settle()
    scene.synced("gw")
    await scene.settle()
    assert len(scene.model.status["gateways"]) == 1
    assert scene.phase == "Running"


@pytest.mark.req("PA-011")
async def test_nothing_but_children_and_copied_keys_is_ever_written() -> None:
    scene = ModelScene({"name": "far", "namespace": "other"}, gateways=(), provider=KEY)
    scene.gateway("far", namespace="other", allowedConsumers={"from": "All"})
    scene.world.put(SECRET, secret("provider", {"OPENAI_API_KEY": "sk-x"}))
    await scene.settle()
    assert {each.kind for each in scene.world.log} == {LITELLM_MODEL, SECRET}
    assert scene.reconciler.declaration.writes == {LITELLM_MODEL, SECRET}


async def test_everything_that_is_said_of_the_model_reaches_its_child() -> None:
    scene = ModelScene(
        modelName="team/Chat:Large",
        provider={
            **KEY,
            "apiBase": "https://api.example.com/v1",
            "apiVersion": "2024-10-21",
            "params": {"temperature": "0.2", "dropParams": True},
        },
        limits={"rpm": 0, "tpm": 2, "timeoutSeconds": 3, "streamTimeoutSeconds": 4, "maxRetries": 5},
        routing={"weight": 2, "order": 1, "tags": ["eu"]},
        info={"mode": "chat", "baseModel": "gpt-4o"},
    )
    scene.world.put(SECRET, secret("provider", {"OPENAI_API_KEY": "sk-x"}))
    await scene.settle()
    assert scene.child().spec == {
        "instanceRef": {"name": "gw-palena-litellm"},
        "modelName": "team/Chat:Large",
        "litellmParams": {
            "model": "openai/gpt-4o",
            "apiBase": "https://api.example.com/v1",
            "apiVersion": "2024-10-21",
            "apiKeySecretRef": {"name": "provider", "key": "OPENAI_API_KEY"},
            "temperature": "0.2",
            "dropParams": True,
            "rpm": 0,
            "tpm": 2,
            "timeout": 3,
            "streamTimeout": 4,
            "maxRetries": 5,
            "weight": 2,
            "order": 1,
        },
        "modelInfo": {"mode": "chat", "baseModel": "gpt-4o"},
        "tags": ["eu"],
    }


async def test_a_model_without_a_name_for_clients_is_called_like_its_object() -> None:
    scene = ModelScene(provider={"model": "openai/x", "credentialRef": {"name": "shared"}})
    await scene.settle()
    assert scene.child().spec["modelName"] == NAME
    assert scene.child().spec["litellmParams"]["credentialRef"] == {"name": "shared"}


async def test_another_name_for_clients_changes_the_child_in_place() -> None:
    scene = ModelScene()
    await scene.settle()
    uid = scene.child().metadata.uid
    scene.world.change(PALENA_MODEL, HOME, NAME, spec=model(NAME, modelName="other")["spec"])
    await scene.settle()
    assert scene.child().spec["modelName"] == "other"
    assert scene.child().metadata.uid == uid


async def test_a_field_that_this_litellm_operator_lacks_is_not_sent_and_told() -> None:
    scene = ModelScene(provider={"model": "openai/x", "params": {"unheardOf": "1"}})
    plan = await scene.settle()
    assert "unheardOf" not in scene.child().spec["litellmParams"]
    assert [each.reason for each in plan.notices] == ["UnknownFieldIgnored"]
    assert "spec.litellmParams.unheardOf" in plan.notices[0].message


# --- removals ---------------------------------------------------------------------------------------


@pytest.mark.req("PA-058", "PA-061")
async def test_a_reference_that_is_removed_takes_its_child_along_and_no_other() -> None:
    scene = ModelScene("a", "b", gateways=("a", "b"))
    await scene.settle()
    scene.synced("a", "b")
    await scene.settle()
    before = scene.child("b").metadata.resource_version
    scene.refer("b")
    await scene.settle()
    assert scene.children == {f"{NAME}-b"}
    assert scene.child("b").metadata.resource_version == before
    assert (scene.phase, scene.model.status["gatewaysSummary"]) == ("Running", "1/1")


@pytest.mark.req("PA-059")
async def test_removals_come_after_all_gateways_were_seen_to_also_when_one_fails() -> None:
    scene = ModelScene("a", "b", gateways=("a", "b", "c"))
    await scene.settle()
    scene.refer("b", "c", "missing")
    plan = await scene.plan()
    kinds = [type(each) for each in plan.steps]
    assert kinds == [Apply, Apply, Delete]
    assert plan.independent, "one step that fails stops no other"


@pytest.mark.req("PA-060")
async def test_a_child_that_is_somebody_elses_is_neither_taken_nor_deleted() -> None:
    scene = ModelScene("a", "b", gateways=("a", "b"))
    theirs = {"metadata": {"name": f"{NAME}-a", "namespace": HOME}, "spec": {"modelName": "theirs"}}
    scene.world.put(LITELLM_MODEL, {**theirs, "status": litellm_status()})
    await scene.settle()
    scene.synced("b")
    plan = await scene.settle()
    assert scene.entry("a")["reason"] == "NameConflict"
    assert (scene.phase, scene.condition("Synced")) == ("Degraded", ("False", "PartiallySynced"))
    assert REQUEUE_S[plan.outcome] == 15.0
    scene.refer("b")
    await scene.settle()
    assert scene.child("a").spec == {"modelName": "theirs"}
    scene.world.dying(PALENA_MODEL, HOME, NAME)
    await scene.settle()
    assert scene.children == {f"{NAME}-a"}


async def test_two_models_whose_names_meet_do_not_take_the_child_from_each_other() -> None:
    scene = ModelScene("c", gateways=("c",))
    other = scene.world.put(PALENA_MODEL, model("chat", "large-c"))
    scene.gateway("large-c")
    await scene.settle()
    await scene.world.settle(scene.reconciler, HOME, "chat")
    child = scene.world.must(LITELLM_MODEL, HOME, "chat-large-c")
    assert child.metadata.labels["palena.ai/owner-uid"] == scene.model.metadata.uid
    told = scene.world.must(PALENA_MODEL, HOME, "chat")
    assert told.metadata.uid == other.metadata.uid
    assert told.status["gateways"][0]["reason"] == "NameConflict"


# --- gateways ---------------------------------------------------------------------------------------


async def test_a_gateway_that_does_not_exist_is_waited_for() -> None:
    scene = ModelScene(gateways=())
    plan = await scene.settle()
    assert (scene.phase, scene.condition("Synced")) == ("Pending", ("False", "GatewayNotFound"))
    assert REQUEUE_S[plan.outcome] == 30.0
    assert not scene.children


async def test_a_gateway_that_is_gone_takes_the_child_along_and_degrades_the_model() -> None:
    scene = ModelScene()
    await scene.settle()
    scene.synced("gw")
    await scene.settle()
    assert scene.phase == "Running"
    scene.world.remove(PALENA_GATEWAY, HOME, "gw")
    plan = await scene.settle()
    assert (scene.phase, scene.condition("Synced")) == ("Degraded", ("False", "GatewayNotFound"))
    assert REQUEUE_S[plan.outcome] == 30.0
    assert not scene.children


async def test_a_gateway_without_an_instance_is_waited_for_and_one_that_loses_it_keeps_the_child() -> None:
    scene = ModelScene(gateways=())
    scene.gateway("gw", status=gateway_status(instance=False))
    plan = await scene.settle()
    assert (scene.phase, scene.condition("Synced")) == ("Provisioning", ("False", "GatewayNotReady"))
    assert REQUEUE_S[plan.outcome] == 15.0
    scene.gateway("gw")
    await scene.settle()
    assert scene.children == {f"{NAME}-gw"}
    scene.gateway("gw", status=gateway_status(instance=False))
    await scene.settle()
    assert scene.children == {f"{NAME}-gw"}


async def test_a_gateway_that_is_not_ready_gets_its_child_and_keeps_the_model_from_being_ready() -> None:
    scene = ModelScene(gateways=())
    scene.gateway("gw", status=gateway_status(ready="False"))
    await scene.settle()
    scene.synced("gw")
    plan = await scene.settle()
    assert scene.condition("Synced") == ("True", "AllGatewaysSynced")
    assert scene.condition("Ready") == ("False", "GatewayNotReady")
    assert (scene.phase, plan.outcome) == ("Provisioning", Outcome.NOT_READY)
    scene.gateway("gw")
    await scene.settle()
    assert (scene.phase, scene.condition("Ready")) == ("Running", ("True", "ModelReady"))


@pytest.mark.parametrize(
    ("allowed", "permitted"),
    [
        (None, False),
        ({"from": "Same"}, False),
        ({"from": "All"}, True),
        ({"from": "List", "namespaces": [HOME]}, True),
        ({"from": "List", "namespaces": ["another"]}, False),
        ("broken", False),
    ],
)
async def test_a_gateway_elsewhere_says_who_may_use_it(allowed: Any, *, permitted: bool) -> None:
    scene = ModelScene({"name": "far", "namespace": "other"}, gateways=())
    scene.gateway("far", namespace="other", **({"allowedConsumers": allowed} if allowed else {}))
    plan = await scene.settle()
    assert bool(scene.children) is permitted
    if permitted:
        child = scene.child("far", "other")
        assert not child.metadata.owner_references, "it would be taken for an orphan"
        assert child.metadata.annotations["palena.ai/owner"] == f"PalenaModel/{HOME}/{NAME}"
    else:
        assert (scene.phase, scene.condition("Synced")) == ("Error", ("False", "RefNotPermitted"))
        assert plan.outcome == Outcome.FAILED


async def test_a_permission_that_cannot_be_read_any_more_takes_nothing_along() -> None:
    scene = ModelScene({"name": "far", "namespace": "other"}, gateways=())
    scene.gateway("far", namespace="other", allowedConsumers={"from": "All"})
    await scene.settle()
    scene.gateway("far", namespace="other", allowedConsumers={"from": "Selector"})
    await scene.settle()
    assert scene.children
    assert scene.condition("Synced") == ("False", "RefNotPermitted")


async def test_a_permission_that_is_withdrawn_takes_the_child_along() -> None:
    scene = ModelScene({"name": "far", "namespace": "other"}, gateways=())
    scene.gateway("far", namespace="other", allowedConsumers={"from": "All"})
    await scene.settle()
    scene.gateway("far", namespace="other")
    await scene.settle()
    assert not scene.children


# --- the provider's key -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "SecretNotFound"),
        ({"X": "y"}, "SecretKeyMissing"),
        ({"OPENAI_API_KEY": "swordfish\n"}, "SecretInvalid"),
    ],
)
async def test_the_key_must_be_there_and_usable(content: dict[str, str] | None, reason: str) -> None:
    scene = ModelScene(provider=KEY)
    if content is not None:
        scene.world.put(SECRET, secret("provider", content))
    plan = await scene.settle()
    assert scene.condition("Synced") == ("False", reason)
    assert (scene.phase, plan.outcome) == ("Error", Outcome.FAILED)
    assert not scene.children
    assert "swordfish" not in str(plan.status)


async def test_a_key_that_is_lost_later_leaves_the_child() -> None:
    scene = ModelScene(provider=KEY)
    scene.world.put(SECRET, secret("provider", {"OPENAI_API_KEY": "sk-x"}))
    await scene.settle()
    before = scene.child().spec
    scene.world.remove(SECRET, HOME, "provider")
    await scene.settle()
    assert scene.child().spec == before


async def test_f19_a_rotated_key_reaches_the_child_and_its_copy_and_nothing_else_of_the_secret_does() -> None:
    scene = ModelScene("gw", {"name": "far", "namespace": "other"}, provider=KEY)
    scene.gateway("far", namespace="other", allowedConsumers={"from": "All"})
    scene.world.put(SECRET, secret("provider", {"OPENAI_API_KEY": "sk-old", "OTHER": "private"}))
    await scene.settle()
    copy = f"{NAME}-far-credentials"
    near, far = scene.child(), scene.child("far", "other")
    assert near.spec["litellmParams"]["apiKeySecretRef"]["name"] == "provider"
    assert far.spec["litellmParams"]["apiKeySecretRef"] == {"name": copy, "key": "OPENAI_API_KEY"}
    assert values(scene.world.must(SECRET, "other", copy)) == {"OPENAI_API_KEY": "sk-old"}
    scene.world.put(SECRET, secret("provider", {"OPENAI_API_KEY": "sk-new", "OTHER": "private"}))
    await scene.settle()
    assert values(scene.world.must(SECRET, "other", copy)) == {"OPENAI_API_KEY": "sk-new"}
    for before, after in ((near, scene.child()), (far, scene.child("far", "other"))):
        assert before.metadata.annotations[SECRET_HASH] != after.metadata.annotations[SECRET_HASH]
        assert before.spec == after.spec
    scene.refer("gw")
    await scene.settle()
    assert copy not in scene.world.names(SECRET)


# --- what the operator of LiteLLM says --------------------------------------------------------------


@pytest.mark.req("PA-107")
async def test_a_model_that_every_gateway_took_is_ready() -> None:
    scene = ModelScene("a", "b", gateways=("a", "b"))
    await scene.settle()
    assert scene.condition("Synced") == ("False", "Syncing")
    assert scene.phase == "Provisioning"
    scene.synced("a", "b")
    plan = await scene.settle()
    assert (scene.phase, plan.outcome) == ("Running", Outcome.HEALTHY)
    assert scene.condition("Synced") == ("True", "AllGatewaysSynced")
    assert scene.condition("Ready") == ("True", "ModelReady")
    assert [each["type"] for each in scene.model.status["conditions"]] == ["Synced", "Ready"]
    assert not check_conditions(body_of(scene.model))
    assert (scene.model.status["syncedCount"], scene.model.status["totalCount"]) == (2, 2)
    assert scene.entry("a") == {
        "name": "a",
        "namespace": HOME,
        "litellmModelRef": f"{NAME}-a",
        "synced": True,
        "ready": True,
        "modelId": "id-1",
        "health": "healthy",
        "reason": "Synced",
        "message": "Gateway a serves the model.",
    }


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("SyncFailed", "SyncFailed"),
        ("EnterpriseLicenseRequired", "EnterpriseLicenseRequired"),
        ("InstanceNotReady", "GatewayNotReady"),
        ("SomethingNew", "Syncing"),
    ],
)
async def test_the_condition_counts_and_not_the_sticky_flag(reason: str, told: str) -> None:
    scene = ModelScene()
    await scene.settle()
    scene.synced("gw", synced="False", reason=reason)
    plan = await scene.settle()
    assert scene.child().status["synced"] is True
    assert scene.condition("Synced") == ("False", told)
    assert REQUEUE_S[plan.outcome] == 15.0, "it is looked at again"
    assert "as its operator says" in scene.model.status["message"]


async def test_an_unhealthy_model_is_synced_but_not_ready() -> None:
    scene = ModelScene("a", "b", gateways=("a", "b"))
    await scene.settle()
    scene.synced("a")
    scene.synced("b", health="unhealthy")
    await scene.settle()
    assert scene.condition("Synced") == ("True", "AllGatewaysSynced")
    assert scene.condition("Ready") == ("False", "Unhealthy")
    assert (scene.entry("a")["ready"], scene.entry("b")["ready"]) == (True, False)
    scene.synced("b", health="unknown")
    await scene.settle()
    assert scene.phase == "Running"


@pytest.mark.parametrize("failing", ["missing", "syncing", "failed"])
async def test_one_of_three_that_fails_degrades_the_model_and_stops_no_other(failing: str) -> None:
    gateways = ("a", "b") if failing == "missing" else ("a", "b", "c")
    scene = ModelScene("a", "b", "c", gateways=gateways)
    await scene.settle()
    scene.synced("a", "b")
    if failing == "failed":
        scene.synced("c", synced="False", reason="SyncFailed")
    plan = await scene.settle()
    assert (scene.phase, scene.condition("Synced")) == ("Degraded", ("False", "PartiallySynced"))
    assert REQUEUE_S[plan.outcome] == 15.0
    assert scene.model.status["gatewaysSummary"] == "2/3"
