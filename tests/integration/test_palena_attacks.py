"""What users, other controllers and accidents do to Palena on the real API server."""

import asyncio
from collections import Counter

import pytest

from tests.support.palena_consumer_corner import UIS, chat, chat_ready
from tests.support.palena_corner import PalenaCorner

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

GATEWAYS = "palenagateways"
CLUSTER, REDIS, LITELLM = "gw-palena-pg", "gw-palena-redis", "gw-palena-litellm"


async def test_each_generated_secret_is_written_once(corner: PalenaCorner) -> None:
    mark = corner.cluster.audit_mark()
    async with corner.operator():
        await corner.gateway()
        await corner.all_ready()
        await corner.quiet()
    secrets = Counter(each.name for each in corner.writes(mark) if each.resource == "secrets")
    assert sum(secrets.values()) == 2, secrets


async def test_where_some_namespaces_are_watched_one_controller_works_on_an_object(
    corner: PalenaCorner,
) -> None:
    watched = f"{corner.other},{corner.namespace}"
    async with corner.operator(palena_watch_namespaces=watched):
        await corner.gateway()
        await corner.all_ready()
        await chat(corner)
        await chat_ready(corner)
        await corner.quiet()
        mark = corner.cluster.audit_mark()
        models = [f"m{number}" for number in range(8)]
        await asyncio.gather(*(corner.model(each, "gw", provider={"model": "openai/x"}) for each in models))
        await corner.mirror.until(
            "all have their child", lambda: len(corner.names("litellmmodels")) == len(models)
        )
        await corner.quiet()
        writes = corner.writes(mark)
    children = Counter(each.name for each in writes if each.resource == "litellmmodels")
    assert set(children.values()) == {1}
    texts = [
        each.response_object["data"]
        for each in writes
        if each.resource == "configmaps" and each.response_object
    ]
    assert len(texts) == len({str(each) for each in texts}), "each configuration is written once"
    assert corner.find(UIS, "chat")
