"""Which changes wake which MCP server (spec: palena §9)."""

import pytest

from magicstick.api.kinds import PALENA_MCP_SERVER
from magicstick.kube.kinds import CONFIG_MAP, Kind, ObjectKey
from magicstick.palena.common.kinds import DEPLOYMENT, NETWORK_POLICY, SERVICE
from magicstick.palena.common.secrets import SECRET
from tests.support.palena_consumers import McpScene, mcp_server
from tests.support.palena_objects import HOME

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (DEPLOYMENT, "websearch"),
        (DEPLOYMENT, "websearch-chromium"),
        (SERVICE, "websearch-flashrank"),
        (CONFIG_MAP, "websearch-config"),
        (CONFIG_MAP, "websearch-searxng-config"),
        (SECRET, "websearch-searxng"),
        (NETWORK_POLICY, "websearch-searxng"),
    ],
)
async def test_a_change_or_the_end_of_what_a_server_has_wakes_that_server_alone(
    kind: Kind, name: str
) -> None:
    scene = McpScene()
    await scene.running()
    scene.world.put(PALENA_MCP_SERVER, mcp_server("other"))
    live = scene.must(kind, name)
    edges = [edge for edge in scene.reconciler.declaration.edges if edge.kind == kind]

    for old, new in ((live, live), (live, None)):
        assert {key for edge in edges for key in edge.wakes(old, new)} == {ObjectKey(HOME, "websearch")}
