"""What is made for instances is taken by the real API server as it is, each field of it known to it."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from hack.devcluster import CONTROL_PLANE, DevCluster
from magicstick.apps.tenant_objects import COMPANY, EGRESS, LIMITS, MANAGED_BY, PLUGIN, QUOTA
from tests.support import golden
from tests.support.instance_scene import install_kinds, instance_corner
from tests.support.mirror import Mirror
from tests.support.operator import operator

pytestmark = pytest.mark.cluster

GOLDEN = {
    f"{folder}/{name}": body for folder in ("apps", "tenants") for name, body in golden.load(folder).items()
}
STRICT_DRY_RUN = "fieldManager=magicstick-operator&fieldValidation=Strict&force=true&dryRun=All"


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """A control plane of our own with the definitions of Flux and ours."""
    with DevCluster.start(CONTROL_PLANE) as cluster:
        install_kinds(cluster)
        for name in ("ai-system", "paperclip-demo-acme"):
            cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        yield cluster


def subset(want: Any, have: Any) -> bool:
    """Whether the server kept all that is wanted; it may add defaults, and writes quantities its own way."""
    if isinstance(want, Mapping):
        return all(name in have and subset(value, have[name]) for name, value in want.items())
    if isinstance(want, list):
        return len(want) == len(have) and all(map(subset, want, have))
    return bool(want == have or milli(want) == milli(have))


def milli(value: Any) -> Any:
    """Thousandths of a CPU; anything else as it is."""
    text = str(value)
    if text.isdecimal():
        return int(text) * 1000
    return int(text[:-1]) if text.endswith("m") and text[:-1].isdecimal() else value


@pytest.mark.req("MS-211", "MS-234")
@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_object_is_taken_as_it_is(cluster: DevCluster, name: str) -> None:
    body = GOLDEN[name]
    path = f"{cluster.rest.path_of(body)}?{STRICT_DRY_RUN}"
    taken = cluster.rest.request("PATCH", path, body, content_type="application/apply-patch+yaml")
    assert subset(body["spec"], taken["spec"])
    assert taken["metadata"]["labels"] == body["metadata"]["labels"]


@pytest.mark.anyio
async def test_a_namespace_of_paperclip_is_bound_to_its_instance_and_let_go_with_it(
    cluster: DevCluster,
) -> None:
    async with instance_corner(cluster) as scene:
        owner = scene.world.namespace.removesuffix("-system")
        space = f"{owner}-acme"
        policies = f"/apis/networking.k8s.io/v1/namespaces/{space}/networkpolicies"
        quotas, limits = (f"/api/v1/namespaces/{space}/{each}" for each in ("resourcequotas", "limitranges"))
        mirror = Mirror(scene.world.client, policies, quotas, limits)
        marks = {MANAGED_BY: PLUGIN, COMPANY: "acme"}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space, "labels": marks}}
        await scene.world.client.apply(f"{scene.namespaces}/{space}", body)
        async with mirror.running(), operator(scene.world, **scene.settings):  # type: ignore[arg-type] # settings alone
            await scene.make(owner, "paperclip", values={"agentExecution": {"maxConcurrentAgents": 3}})
            await mirror.until("it is bound", lambda: mirror.get(limits, LIMITS))
            assert (mirror.get(quotas, QUOTA) or {})["spec"]["hard"]["pods"] == "3"
            assert mirror.get(policies, EGRESS) is not None

            mark = cluster.audit_mark()
            await asyncio.sleep(1.5)  # that nothing happens can only be seen by looking for a while
            assert not [each for each in cluster.audit("magicstick", mark) if each.namespace == space]

            await scene.make(owner, "paperclip", enabled=False)
            await mirror.until("the way out is closed", lambda: mirror.get(policies, EGRESS) is None)
            assert mirror.get(quotas, QUOTA) is not None
