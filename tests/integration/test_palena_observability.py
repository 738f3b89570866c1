"""Observabilities on the real API server: the database, the callback, and the order of the end."""

import json
from typing import Any

import pytest

from tests.support import palena_crds
from tests.support.palena_consumer_corner import (
    LITELLM,
    TRACES,
    callbacks,
    database_applied,
    hidden,
    langfuse_ready,
    serve,
    traces,
    traces_ready,
)
from tests.support.palena_corner import DEFINITIONS, PalenaCorner, assert_honest

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

LANGFUSES = "langfuseinstances.langfuse.palena.ai"
ROLES = "databaseroles.postgresql.cnpg.io"
KEYS = "obs-langfuse-apikeys"
SHOWN = ("palenaobservabilities", "langfuseinstances", "litellminstances", "databases", "databaseroles")
OURS: dict[str, list[Any]] = {
    "types": ["langfuse"],
    "envVars": [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": KEYS, "key": name}}}
        for name in ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY", "LANGFUSE_HOST")
    ],
}
THEIRS: dict[str, list[Any]] = {
    "types": ["otel"],
    "envVars": [{"name": "OTEL_ENDPOINT", "value": "http://collector.example.com"}],
}


async def running(corner: PalenaCorner, **spec: Any) -> None:
    """A gateway and an observability, both ready."""
    await corner.gateway()
    await corner.all_ready()
    await traces(corner, **spec)
    await traces_ready(corner)


async def set_callbacks(corner: PalenaCorner, block: Any) -> None:
    await corner.client.merge(f"{corner.path('litellminstances')}/{LITELLM}", {"spec": {"callbacks": block}})


@pytest.mark.req("PA-013", "PA-081", "PA-082", "PA-086", "PA-087")
async def test_an_observability_comes_up_step_by_step_and_rests(corner: PalenaCorner) -> None:
    mark = corner.cluster.audit_mark()
    async with corner.operator() as operator:
        await corner.gateway()
        await traces(corner)
        await corner.until_phase(TRACES, "obs", "Provisioning", "GatewayNotReady")
        await corner.all_ready()
        await corner.until_phase(TRACES, "obs", "Provisioning", "DatabasePending")
        assert corner.names("langfuseinstances") == set()
        await database_applied(corner)
        await corner.until_phase(TRACES, "obs", "Provisioning", "InstanceCreating")
        assert callbacks(corner) is None
        await langfuse_ready(corner)
        await corner.until_phase(TRACES, "obs", "Running")
        assert callbacks(corner) == OURS
        assert corner.names("clusters") == {"gw-palena-pg"}
        await corner.until_phase("palenagateways", "gw", "Running")
        await corner.quiet()
        corner.assert_sound()
        text = str(operator.logs)
    assert_honest(corner.writes(mark))
    secrets = hidden(corner, KEYS, "obs-langfuse-pg", "obs-langfuse-db", "obs-langfuse-redis")
    shown = text + str({plural: corner.mirror.all(corner.path(plural)) for plural in SHOWN})
    assert not [value for value in secrets if value in shown]
    mark = corner.cluster.audit_mark()
    async with corner.operator():
        await corner.quiet()
    assert corner.writes(mark) == []


async def test_e21_the_callback_survives_its_gateways_changes(corner: PalenaCorner) -> None:
    async with corner.operator():
        await running(corner)
        await corner.gateway(litellm={"replicas": 3})
        await corner.mirror.until(
            "the gateway's change is there",
            lambda: corner.must("litellminstances", LITELLM)["spec"]["replicas"] == 3,
        )
        await corner.quiet()
        assert callbacks(corner) == OURS
        managers = corner.must("litellminstances", LITELLM)["metadata"]["managedFields"]
        owning = [
            each["manager"] for each in managers if "f:callbacks" in json.dumps(each.get("fieldsV1", {}))
        ]
        assert owning == ["palena-observability"]


async def test_e22_a_callback_that_somebody_replaces_comes_back_beside_theirs(corner: PalenaCorner) -> None:
    async with corner.operator():
        await running(corner)
        await set_callbacks(corner, None)
        await set_callbacks(corner, THEIRS)  # while the operator answers the first
        both = {name: [*THEIRS[name], *OURS[name]] for name in OURS}
        await corner.mirror.until("both are there", lambda: callbacks(corner) == both)
        await corner.quiet()


@pytest.mark.req("PA-093", "PA-094")
async def test_e23_the_end_is_in_order_as_the_audit_log_shows_and_leaves_what_is_theirs(
    corner: PalenaCorner,
) -> None:
    async with corner.operator() as operator:
        await running(corner)
        await set_callbacks(corner, {name: [*THEIRS[name], *OURS[name]] for name in OURS})
        for plural, name in (("langfuseinstances", "obs-langfuse"), ("databases", "obs-langfuse")):
            await corner.hold(plural, name, "example.com/held")
        await corner.quiet()
        mark = corner.cluster.audit_mark()
        await corner.delete(TRACES, "obs")
        await corner.until_phase(TRACES, "obs", "Deleting")
        await corner.quiet()
        assert callbacks(corner) == THEIRS
        assert "deletionTimestamp" not in corner.must("databases", "obs-langfuse")["metadata"]
        await operator.kill()
    async with corner.operator():
        await corner.hold("langfuseinstances", "obs-langfuse")
        await corner.mirror.until(
            "the Database goes",
            lambda: "deletionTimestamp" in corner.must("databases", "obs-langfuse")["metadata"],
        )
        assert corner.find(TRACES, "obs") is not None
        await corner.hold("databases", "obs-langfuse")
        await corner.until_gone(TRACES, "obs")
        await corner.quiet()
    writes = [each for each in corner.writes(mark) if each.subresource != "status"]
    told = [(each.verb, each.resource) for each in writes if each.resource != "palenaobservabilities"]
    assert told == [
        ("patch", "litellminstances"),
        ("delete", "langfuseinstances"),
        ("delete", "networkpolicies"),
        ("delete", "networkpolicies"),
        ("delete", "databases"),
        ("delete", "databaseroles"),
    ]


async def test_the_seeds_shape_is_written_and_taken_out_where_it_is_served(corner: PalenaCorner) -> None:
    before = palena_crds.definition(palena_crds.INSTANCES)
    await corner.client.apply(
        f"{DEFINITIONS}/{before['metadata']['name']}", palena_crds.with_seed_callbacks()
    )
    try:
        async with corner.operator():
            await running(corner)
            keys = {
                "publicKey": "LANGFUSE_PUBLIC_KEY",
                "secretKey": "LANGFUSE_SECRET_KEY",
                "host": "LANGFUSE_HOST",
            }
            seed = {"langfuse": {"enabled": True, "secretRef": {"name": KEYS, "keys": keys}}}
            # A watch from before the definition changed shows objects without the new fields until it ends.
            await corner.mirror.until("the callback is there", lambda: callbacks(corner) == seed)
            await corner.quiet()
            await corner.delete(TRACES, "obs")
            await corner.until_gone(TRACES, "obs")
            await corner.mirror.until("the callback is out", lambda: callbacks(corner) is None)
    finally:
        await serve(corner, before, "litellminstances")


async def test_a_definition_that_goes_is_an_error_at_once_and_its_return_heals(corner: PalenaCorner) -> None:
    definition = palena_crds.definition(LANGFUSES)
    async with corner.operator():
        await running(corner)
        try:
            await palena_crds.remove(corner.cluster, LANGFUSES)
            await corner.until_phase(TRACES, "obs", "Error", "CRDMissing")
            assert callbacks(corner) == OURS
        finally:
            await serve(corner, definition, "langfuseinstances")
        await corner.until_there("langfuseinstances", "obs-langfuse")
        await langfuse_ready(corner)
        await corner.until_phase(TRACES, "obs", "Running")
        await corner.quiet()


async def test_without_role_objects_the_cluster_has_our_role_beside_theirs(corner: PalenaCorner) -> None:
    definition = palena_crds.definition(ROLES)
    await palena_crds.remove(corner.cluster, ROLES)
    theirs = {"name": "reporting", "ensure": "present"}
    try:
        async with corner.operator():
            await corner.gateway()
            await corner.all_ready()
            path = f"{corner.path('clusters')}/gw-palena-pg"
            await corner.client.merge(path, {"spec": {"managed": {"roles": [theirs]}}})
            await traces(corner)
            await traces_ready(corner)
            roles = corner.must("clusters", "gw-palena-pg")["spec"]["managed"]["roles"]
            assert [each["name"] for each in roles] == ["reporting", "langfuse"]
            await corner.quiet()
            await corner.delete(TRACES, "obs")
            await corner.until_gone(TRACES, "obs")
            roles = corner.must("clusters", "gw-palena-pg")["spec"]["managed"]["roles"]
            assert [each["name"] for each in roles] == ["reporting"]
            await corner.quiet()
    finally:
        await serve(corner, definition, "databaseroles")


async def test_killed_and_started_again_at_every_step_keys_and_passwords_stay(corner: PalenaCorner) -> None:
    await corner.gateway()
    await traces(corner)
    async with corner.operator() as operator:
        await corner.all_ready()
        for name in (KEYS, "obs-langfuse-pg"):
            await corner.until_there("secrets", name)
        await operator.kill()
    made = {name: corner.must("secrets", name)["data"] for name in (KEYS, "obs-langfuse-pg")}
    async with corner.operator() as operator:
        await database_applied(corner)
        await operator.kill()
    async with corner.operator() as operator:
        await langfuse_ready(corner)
        await operator.kill()
    async with corner.operator():
        await corner.until_phase(TRACES, "obs", "Running")
        await corner.quiet()
        corner.assert_sound()
    assert callbacks(corner) == OURS
    assert {name: corner.must("secrets", name)["data"] for name in made} == made


async def test_e24_an_observability_outlives_its_gateway_and_ends_after_it(corner: PalenaCorner) -> None:
    async with corner.operator():
        await running(corner)
        await corner.delete("palenagateways", "gw")
        await corner.until_gone("palenagateways", "gw")
        await corner.until_phase(TRACES, "obs", "Degraded", "GatewayNotFound")
        await corner.delete(TRACES, "obs")
        await corner.until_gone(TRACES, "obs")
        await corner.quiet()
