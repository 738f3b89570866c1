"""What each verb sends, and what it makes of a successful answer."""

import asyncio
from typing import Any

import pytest

from magicstick.kube.client import Client
from magicstick.kube.errors import Conflict, Gone, Invalid, NotFound, Unreadable
from magicstick.kube.kinds import CONFIG_MAP, NODE, POD, Kind, ObjectKey
from magicstick.kube.objects import MetadataOnly, ObjectMeta
from tests.support.apiserver import Answer, Hang, ScriptedServer, Seen, listing, status

pytestmark = pytest.mark.anyio

WIDGET = Kind("example.com", "v1alpha1", "Widget", "widgets")
WIDGETS = "/apis/example.com/v1alpha1/namespaces/here/widgets"
KEY = ObjectKey("here", "a")
BODY: dict[str, Any] = {
    "apiVersion": "example.com/v1alpha1",
    "kind": "Widget",
    "metadata": {"name": "a", "namespace": "here"},
    "spec": {"größe": "groß"},
}
STORED = {**BODY, "metadata": {**BODY["metadata"], "uid": "u-1", "resourceVersion": "41", "generation": 3}}
STRICT = {"fieldManager": "magicstick", "fieldValidation": "Strict"}


def only(server: ScriptedServer) -> Seen:
    (request,) = server.requests
    return request


async def test_get_reads_one_object_with_our_name_and_token(server: ScriptedServer, client: Client) -> None:
    server.answer("GET", f"{WIDGETS}/a", Answer(200, STORED))
    found = await client.get(WIDGET, KEY)
    assert (found.metadata.key, found.metadata.uid, found.metadata.resource_version) == (KEY, "u-1", "41")
    assert found.spec == {"größe": "groß"}
    headers = only(server).headers
    assert headers["User-Agent"] == "magicstick/test"
    assert headers["Authorization"] == "Bearer sesame"
    assert headers["Accept"] == "application/json"


async def test_get_decodes_only_what_the_view_names(server: ScriptedServer, client: Client) -> None:
    server.answer("GET", "/api/v1/nodes/n", Answer(200, {"metadata": {"name": "n"}, "spec": 7}))
    assert await client.get(NODE, ObjectKey("", "n"), view=MetadataOnly) == MetadataOnly(ObjectMeta(name="n"))


@pytest.mark.parametrize("body", [b"<html>log in</html>", b'{"metadata": {"name": ', b"", b'{"metadata": 7}'])
async def test_an_answer_that_is_no_object_is_unreadable_and_not_absent(
    server: ScriptedServer, client: Client, body: bytes
) -> None:
    server.answer("GET", f"{WIDGETS}/a", Answer(200, body))
    with pytest.raises(Unreadable) as caught:
        await client.get(WIDGET, KEY)
    assert not isinstance(caught.value, NotFound)


async def test_an_unreadable_answer_is_told_without_its_values(
    server: ScriptedServer, client: Client
) -> None:
    secret = {"metadata": {"name": "a"}, "data": {"password": ["hunter2"]}}
    server.answer("GET", f"{WIDGETS}/a", Answer(200, secret))
    with pytest.raises(Unreadable, match=r"\$\.data") as caught:
        await client.get(WIDGET, KEY)
    assert "hunter2" not in str(caught.value)


async def test_create_posts_to_the_collection_strictly(server: ScriptedServer, client: Client) -> None:
    server.answer("POST", WIDGETS, Answer(201, STORED))
    assert (await client.create(WIDGET, BODY)).metadata.generation == 3
    request = only(server)
    assert request.query == STRICT
    assert request.headers["Content-Type"] == "application/json"
    assert request.json == BODY


@pytest.mark.parametrize(("subresource", "path"), [(None, f"{WIDGETS}/a"), ("status", f"{WIDGETS}/a/status")])
async def test_apply_is_server_side_forced_and_strict(
    server: ScriptedServer, client: Client, subresource: str | None, path: str
) -> None:
    server.answer("PATCH", path, Answer(200, STORED))
    assert (await client.apply(WIDGET, BODY, subresource=subresource)).metadata.uid == "u-1"
    request = only(server)
    assert request.headers["Content-Type"] == "application/apply-patch+yaml"
    assert request.query == {**STRICT, "force": "true"}
    assert request.json == BODY


async def test_apply_without_force_leaves_conflicts_to_the_server(
    server: ScriptedServer, client: Client
) -> None:
    server.answer("PATCH", f"{WIDGETS}/a", Answer(200, STORED))
    await client.apply(WIDGET, BODY, force=False)
    assert "force" not in only(server).query


async def test_patches_have_their_content_types(server: ScriptedServer, client: Client) -> None:
    server.answer("PATCH", f"{WIDGETS}/a", Answer(200, STORED))
    operations = [{"op": "test", "path": "/metadata/resourceVersion", "value": "41"}]
    await client.merge_patch(WIDGET, KEY, {"spec": {"x": None}})
    await client.json_patch(WIDGET, KEY, operations)
    merge, json = server.requests
    assert (merge.headers["Content-Type"], merge.json) == (
        "application/merge-patch+json",
        {"spec": {"x": None}},
    )
    assert (json.headers["Content-Type"], json.json) == ("application/json-patch+json", operations)
    assert merge.query == json.query == STRICT


async def test_replace_puts_the_object(server: ScriptedServer, client: Client) -> None:
    server.answer("PUT", f"{WIDGETS}/a", Answer(200, STORED))
    await client.replace(WIDGET, BODY)
    assert (only(server).json, only(server).query) == (BODY, STRICT)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({}, None),
        ({"uid": "u-1"}, {"uid": "u-1"}),
        ({"uid": "u-1", "resource_version": "41"}, {"uid": "u-1", "resourceVersion": "41"}),
    ],
)
async def test_delete_sends_its_preconditions(
    server: ScriptedServer, client: Client, given: dict[str, str], sent: dict[str, str] | None
) -> None:
    server.answer("DELETE", f"{WIDGETS}/a", Answer(200, {"kind": "Status", "status": "Success"}))
    assert await client.delete(WIDGET, KEY, **given) is None
    options = only(server).json
    assert options.get("preconditions") == sent
    assert options["propagationPolicy"] == "Background"


async def test_delete_gives_the_object_that_its_finalizers_hold(
    server: ScriptedServer, client: Client
) -> None:
    dying = {**STORED, "metadata": {**STORED["metadata"], "deletionTimestamp": "2024-01-01T00:00:00Z"}}
    server.answer("DELETE", f"{WIDGETS}/a", Answer(200, dying))
    held = await client.delete(WIDGET, KEY, propagation="Foreground")
    assert held is not None
    assert held.metadata.dying
    assert only(server).json["propagationPolicy"] == "Foreground"


async def test_delete_with_a_precondition_that_does_not_hold_is_a_conflict(
    server: ScriptedServer, client: Client
) -> None:
    server.answer("DELETE", f"{WIDGETS}/a", status(409, "Conflict", "the UID in the precondition …"))
    with pytest.raises(Conflict):
        await client.delete(WIDGET, KEY, uid="u-0")


async def test_pages_follow_the_continue_token_to_the_end(server: ScriptedServer, client: Client) -> None:
    def page(request: Seen) -> Answer:
        number = int(request.query.get("continue", "0/+").split("/")[0])
        items = [{"metadata": {"name": f"p{number}"}}]
        return listing(items, "77", f"{number + 1}/+" if number < 2 else "")

    server.answer("GET", "/api/v1/pods", page)
    pages = [
        page
        async for page in client.pages(
            POD,
            view=MetadataOnly,
            page_size=1,
            label_selector="a=b,c in (d,e)",
            field_selector="spec.nodeName=n",
            resource_version="0",
        )
    ]
    assert [pod.metadata.name for page in pages for pod in page.items] == ["p0", "p1", "p2"]
    assert {page.resource_version for page in pages} == {"77"}
    first, second, third = (request.query for request in server.requests)
    selectors = {"labelSelector": "a=b,c in (d,e)", "fieldSelector": "spec.nodeName=n", "limit": "1"}
    assert first == {**selectors, "resourceVersion": "0"}
    assert second == {**selectors, "continue": "1/+"}  # the server refuses a version beside it
    assert third == {**selectors, "continue": "2/+"}


async def test_a_list_that_fails_on_a_later_page_ends_with_the_error(
    server: ScriptedServer, client: Client
) -> None:
    expired = status(410, "Expired", "The provided continue parameter is too old")
    server.answer("GET", "/api/v1/pods", listing([{"metadata": {"name": "a"}}], "7", "more"), expired)
    names = []
    with pytest.raises(Gone, match="too old"):  # noqa: PT012 # the loop is what raises
        async for page in client.pages(POD, view=MetadataOnly):
            names += [pod.metadata.name for pod in page.items]
    assert names == ["a"]


async def test_a_namespace_limits_the_list(server: ScriptedServer, client: Client) -> None:
    server.answer("GET", "/api/v1/namespaces/here/configmaps", listing([], "7"))
    pages = [page async for page in client.pages(CONFIG_MAP, namespace="here")]
    assert [page.items for page in pages] == [[]]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../../nodes/n", "a%2fb", "a%"])
async def test_a_name_that_no_object_can_have_leads_nowhere(
    server: ScriptedServer, client: Client, name: str
) -> None:
    body = {"metadata": {"name": name, "namespace": "here"}}
    for attempt in (
        client.get(WIDGET, ObjectKey("here", name)),
        client.get(WIDGET, ObjectKey(name, "a")),
        client.apply(WIDGET, body),
        client.replace(WIDGET, body),
        client.merge_patch(WIDGET, ObjectKey("here", name), {}),
        client.json_patch(WIDGET, ObjectKey("here", name), []),
        client.delete(WIDGET, ObjectKey("here", name)),
    ):
        with pytest.raises(Invalid, match="not sent"):
            await attempt
    assert server.requests == []


@pytest.mark.parametrize("name", ["a?watch=1", "a b", "größe", "a#b", "system:node:a"])
async def test_a_strange_name_stays_one_part_of_the_path(
    server: ScriptedServer, client: Client, name: str
) -> None:
    server.answer("GET", f"{WIDGETS}/{name}", Answer(200, STORED))
    await client.get(WIDGET, ObjectKey("here", name))
    assert (only(server).path, only(server).query) == (f"{WIDGETS}/{name}", {})


async def test_a_client_has_no_limit_of_connections(server: ScriptedServer, client: Client) -> None:
    server.answer("GET", "/api/v1/nodes/n", Hang())
    waiting = [asyncio.create_task(client.get(NODE, ObjectKey("", "n"))) for _ in range(150)]
    await server.arrived("GET", "/api/v1/nodes/n", 150)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    server.answer("GET", "/api/v1/nodes/n", Answer(200, {"metadata": {"name": "n"}}))
    assert (await client.get(NODE, ObjectKey("", "n"))).metadata.name == "n"
