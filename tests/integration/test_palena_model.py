"""Models on the real API server: on several gateways, in two namespaces, through restarts and removals."""

import pytest

from tests.support.palena_corner import PalenaCorner, assert_honest

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

MODELS, CHILDREN, GATEWAYS = "palenamodels", "litellmmodels", "palenagateways"
EXTERNAL = {"mode": "external", "external": {"secretRef": {"name": "given"}}}
HELD = "litellm.palena.ai/finalizer"


@pytest.fixture
async def corner(corner: PalenaCorner) -> PalenaCorner:
    """With what gateways need that have no store of their own."""
    urls = {"DATABASE_URL": "postgres://db.example.com/x", "REDIS_URL": "redis://cache.example.com"}
    await corner.secret("given", urls)
    return corner


async def gateway(corner: PalenaCorner, name: str) -> None:
    """A gateway with nothing of its own but LiteLLM, which comes up at once."""
    await corner.gateway(name, database=EXTERNAL, redis=EXTERNAL)
    await corner.litellm_ready(name)
    await corner.until_phase(GATEWAYS, name, "Running")


@pytest.mark.req("PA-056", "PA-057", "PA-058", "PA-061", "PA-062")
async def test_a_model_follows_its_gateways_as_they_come_and_are_taken_away(corner: PalenaCorner) -> None:
    mark = corner.cluster.audit_mark()
    async with corner.operator():
        await corner.model("chat", "a", "b")
        await corner.until_phase(MODELS, "chat", "Pending", "GatewayNotFound")
        await gateway(corner, "a")
        await corner.model_synced("chat-a")
        await corner.until_phase(MODELS, "chat", "Degraded", "PartiallySynced")
        await gateway(corner, "b")
        await corner.model_synced("chat-b")
        await corner.until_phase(MODELS, "chat", "Running")
        assert corner.must(MODELS, "chat")["status"]["gatewaysSummary"] == "2/2"
        await corner.mirror.until(
            "the gateway counts it", lambda: corner.must(GATEWAYS, "a")["status"].get("modelCount") == 1
        )
        kept = corner.must(CHILDREN, "chat-b")["metadata"]["resourceVersion"]
        await corner.model("chat", "b")
        await corner.until_gone(CHILDREN, "chat-a")
        await corner.until_phase(MODELS, "chat", "Running")
        assert corner.must(CHILDREN, "chat-b")["metadata"]["resourceVersion"] == kept
        await corner.model("chat", "b", modelName="team/Chat:Large")
        await corner.mirror.until(
            "it is renamed in place",
            lambda: corner.must(CHILDREN, "chat-b")["spec"]["modelName"] == "team/Chat:Large",
        )
        await corner.quiet()
        corner.assert_sound()
    assert_honest(corner.writes(mark))


async def test_an_operator_that_starts_on_models_at_rest_writes_nothing(corner: PalenaCorner) -> None:
    async with corner.operator():
        await gateway(corner, "a")
        await corner.model("chat", "a")
        await corner.model_synced("chat-a")
        await corner.until_phase(MODELS, "chat", "Running")
        await corner.quiet()
    mark = corner.cluster.audit_mark()
    async with corner.operator():
        await corner.quiet()
    assert corner.writes(mark) == []


async def test_a_reference_that_is_removed_while_nobody_runs_is_followed_up(corner: PalenaCorner) -> None:
    async with corner.operator() as running:
        await gateway(corner, "a")
        await gateway(corner, "b")
        await corner.model("chat", "a", "b")
        await corner.until_there(CHILDREN, "chat-a")
        await corner.until_there(CHILDREN, "chat-b")
        await running.kill()
    await corner.model("chat", "b")
    async with corner.operator():
        await corner.until_gone(CHILDREN, "chat-a")
        assert corner.find(CHILDREN, "chat-b")


@pytest.mark.req("PA-060")
async def test_somebody_elses_child_is_left_alone_to_the_end(corner: PalenaCorner) -> None:
    theirs = {
        "apiVersion": "litellm.palena.ai/v1alpha1",
        "kind": "LiteLLMModel",
        "metadata": {"name": "chat-a", "namespace": corner.namespace},
        "spec": {"instanceRef": {"name": "x"}, "modelName": "theirs", "litellmParams": {"model": "x/y"}},
    }
    await corner.client.apply(f"{corner.path(CHILDREN)}/chat-a", theirs, manager="somebody")
    async with corner.operator():
        await gateway(corner, "a")
        await corner.model("chat", "a")
        await corner.until_phase(MODELS, "chat", "Error", "NameConflict")
        await corner.delete(MODELS, "chat")
        await corner.until_gone(MODELS, "chat")
    assert corner.must(CHILDREN, "chat-a")["spec"]["modelName"] == "theirs"


async def test_a_gateway_elsewhere_is_used_with_its_permission_and_a_copy_of_the_key(
    corner: PalenaCorner,
) -> None:
    provider = {"model": "openai/gpt-4o", "apiKeySecretRef": {"name": "provider", "key": "KEY"}}
    far = {"name": "far", "namespace": corner.other}
    await corner.secret("provider", {"KEY": "sk-old", "OTHER": "private"})
    async with corner.operator():
        await corner.model("chat", far, provider=provider)
        await corner.gateway("far", namespace=corner.other)
        status = {"litellmInstanceRef": {"name": "far-palena-litellm"}}
        await corner.until_phase(MODELS, "chat", "Error", "RefNotPermitted")
        await corner.gateway("far", namespace=corner.other, allowedConsumers={"from": "All"})
        await corner.until_phase(MODELS, "chat", "Provisioning", "GatewayNotReady")
        # The gateway's own controller takes this back, after the model has seen it.
        await corner.report(GATEWAYS, "far", status, corner.other)
        child = await corner.until_there(CHILDREN, "chat-far", corner.other)
        copy = await corner.until_there("secrets", "chat-far-credentials", corner.other)
        assert child["spec"]["litellmParams"]["apiKeySecretRef"] == {
            "name": "chat-far-credentials",
            "key": "KEY",
        }
        assert list(copy["data"]) == ["KEY"]
        assert not child["metadata"].get("ownerReferences")
        await corner.delete(MODELS, "chat")
        await corner.until_gone(MODELS, "chat")
        await corner.until_gone(CHILDREN, "chat-far", corner.other)
        await corner.until_gone("secrets", "chat-far-credentials", corner.other)


async def test_a_gateway_that_goes_takes_its_children_and_the_model_waits(corner: PalenaCorner) -> None:
    async with corner.operator():
        await gateway(corner, "a")
        await corner.model("chat", "a")
        await corner.model_synced("chat-a")
        await corner.until_phase(MODELS, "chat", "Running")
        await corner.delete(GATEWAYS, "a")
        await corner.until_gone(GATEWAYS, "a")
        await corner.until_gone(CHILDREN, "chat-a")
        await corner.until_phase(MODELS, "chat", "Degraded", "GatewayNotFound")
        await corner.collect_garbage()
        await gateway(corner, "a")
        await corner.model_synced("chat-a")
        await corner.until_phase(MODELS, "chat", "Running")
        await corner.quiet()


async def test_the_end_waits_for_children_that_their_operator_holds(corner: PalenaCorner) -> None:
    async with corner.operator() as running:
        await gateway(corner, "a")
        await corner.model("chat", "a")
        await corner.until_there(CHILDREN, "chat-a")
        await corner.hold(CHILDREN, "chat-a", HELD)
        await corner.delete(MODELS, "chat")
        await corner.until_phase(MODELS, "chat", "Deleting")
        await running.kill()
    async with corner.operator():
        await corner.quiet()
        assert corner.find(MODELS, "chat") is not None
        await corner.hold(CHILDREN, "chat-a")
        await corner.until_gone(MODELS, "chat")


async def test_what_the_server_refuses_on_one_gateway_is_told_there_and_stops_no_other(
    corner: PalenaCorner,
) -> None:
    async with corner.operator():
        await gateway(corner, "a")
        await corner.secret(
            "given", {"DATABASE_URL": "postgres://db.example.com/x", "REDIS_URL": "redis://x"}
        )
        await gateway(corner, "b")
        # A type that the schema of the LiteLLM operator refuses: the field itself is known.
        provider = {"model": "openai/x", "params": {"seed": "no number"}}
        await corner.model("chat", "a", "b", provider=provider)
        await corner.until_phase(MODELS, "chat", "Error", "ApplyRejected")
        assert "seed" in corner.must(MODELS, "chat")["status"]["message"]
        await corner.model("chat", "a", "b", provider={"model": "openai/x", "params": {"seed": 7}})
        await corner.model_synced("chat-a")
        await corner.model_synced("chat-b")
        await corner.until_phase(MODELS, "chat", "Running")


async def test_a_model_of_the_appliance_is_served_through_a_gateway(corner: PalenaCorner) -> None:
    """Both halves meet here alone, and this one only reads."""
    place = f"/apis/appliance.magicstick.dev/v1alpha1/namespaces/{corner.other}/modelactivations/local"
    activation = {
        "apiVersion": "appliance.magicstick.dev/v1alpha1",
        "kind": "ModelActivation",
        "metadata": {"name": "local", "namespace": corner.other},
        "spec": {"type": "local", "local": {"preset": "small", "engine": "OLlama", "computeTarget": "cpu"}},
    }
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "It serves.",
        "lastTransitionTime": "2026-05-01T12:00:00Z",
    }
    async with corner.operator():
        await gateway(corner, "a")
        reference = {"name": "local", "namespace": corner.other}
        await corner.client.apply(
            f"{corner.path(MODELS)}/bridged",
            {
                "apiVersion": "palena.ai/v1alpha1",
                "kind": "PalenaModel",
                "metadata": {"name": "bridged", "namespace": corner.namespace},
                "spec": {"gatewayRefs": [{"name": "a"}], "modelActivationRef": reference},
            },
        )
        await corner.until_phase(MODELS, "bridged", "Provisioning", "ModelActivationNotReady")
        await corner.client.apply(place, activation)
        await corner.client.merge(f"{place}/status", {"status": {"engine": "OLlama", "conditions": [ready]}})
        child = await corner.until_there(CHILDREN, "bridged-a")
        assert child["spec"]["litellmParams"] == {
            "model": "openai/local",
            "apiBase": "http://kubeai.ai.svc.cluster.local/openai/v1",
        }
        waits = {**ready, "status": "False", "reason": "Starting"}
        await corner.client.merge(f"{place}/status", {"status": {"conditions": [waits]}})
        await corner.until_phase(MODELS, "bridged", "Provisioning", "ModelActivationNotReady")
        await corner.quiet()
        assert corner.must(CHILDREN, "bridged-a")["metadata"]["uid"] == child["metadata"]["uid"]
