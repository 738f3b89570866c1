"""`magicstick get`: one look at a scripted server."""

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from hack import yamls
from magicstick.api.appearances import APPLIANCE_APPEARANCES
from magicstick.api.kinds import (
    APPLIANCE,
    HOST_OPERATION,
    MODEL_ACTIVATION,
    MODULE_ACTIVATION,
    PALENA_GATEWAY,
)
from tests.support.apiserver import Answer, Hang, ScriptedServer, listing, status
from tests.support.own_kinds import Object, a_module, an_appliance, an_object, path_of, serve
from tests.unit.cli.conftest import Cli

pytestmark = pytest.mark.anyio

LITELLM = a_module("litellm", "Degraded", "The Deployment is not valid.")
GPU = a_module("gpu")
HARDWARE = {
    "gpu": {"phase": "Ready", "vendor": "NVIDIA", "managedBy": "magicstick", "detectedNodes": ["n1"]},
    "amd-gpu": {"phase": "NotRequired", "vendor": "AMD", "managedBy": "none"},
}
LOCAL = an_appliance(
    "Degraded",
    "Not working: litellm (Degraded)",
    modules={"litellm": {"phase": "Degraded"}, "gpu": {"phase": "Ready"}, "x": {"phase": "Disabled"}},
    instances={"openclaw": {"phase": {"phase": "Ready"}, "b": {"phase": "Reconciling"}}},
    models={},
    hardwareOperators=HARDWARE,
)
LLAMA = an_object(MODEL_ACTIVATION, "llama", spec={"type": "local", "enabled": True, "targetNamespace": "ai"})


async def test_everything_is_a_summary_and_a_table_for_each_kind_that_has_objects(
    cli: Cli, server: ScriptedServer
) -> None:
    serve(server, LOCAL, LITELLM, GPU, LLAMA)
    done = await cli("get")
    assert (done.code, done.err) == (0, "")
    summary, *tables = done.out.split("\n\n")
    assert summary == (
        "Appliance local: Degraded, 1 of 2 modules, 1 of 2 instances ready. Not working: litellm (Degraded)"
    )
    assert [[line.split()[0] for line in table.splitlines()] for table in tables] == [
        ["NAME", "hardware/amd-gpu", "hardware/gpu"],
        ["NAME", "moduleactivation/gpu", "moduleactivation/litellm"],
        ["NAME", "modelactivation/llama"],
    ]


async def test_each_kind_is_read_once_and_nothing_else_is_asked(cli: Cli, server: ScriptedServer) -> None:
    serve(server, LOCAL, GPU)
    await cli("get")
    assert sorted((seen.method, seen.path) for seen in server.requests) == sorted(
        ("GET", path_of(appearance.kind)) for appearance in APPLIANCE_APPEARANCES
    )


async def test_without_headers_every_line_is_an_object(cli: Cli, server: ScriptedServer) -> None:
    serve(server, LOCAL, GPU)
    done = await cli("get", "--no-headers")
    assert [line.split()[0] for line in done.lines] == [
        "appliance/local",
        "hardware/amd-gpu",
        "hardware/gpu",
        "moduleactivation/gpu",
    ]


@pytest.mark.parametrize(
    ("spoken", "told"),
    [
        ({"status": {}}, "nothing is reported yet; is the operator running?"),
        (
            {"metadata": {**LOCAL["metadata"], "generation": 2}},
            (
                "Degraded, 1 of 2 modules, 1 of 2 instances ready. "
                "It was changed since; the operator has not reported on that yet."
            ),
        ),
        ({"status": {"phase": "Ready", "observedGeneration": 1, "modules": "none"}}, "Ready."),
    ],
)
async def test_the_summary_says_what_the_status_is_worth(
    cli: Cli, server: ScriptedServer, spoken: Object, told: str
) -> None:
    serve(server, {**LOCAL, **spoken})
    assert (await cli("get")).lines[0] == f"Appliance local: {told}"


async def test_one_kind_has_plain_names_and_no_summary(cli: Cli, server: ScriptedServer) -> None:
    serve(server, LOCAL, LITELLM, GPU)
    done = await cli("get", "msmod")
    assert [line.split()[0] for line in done.lines] == ["NAME", "gpu", "litellm"]
    assert done.lines[2].endswith("   The Deployment is not valid.")
    assert [seen.path for seen in server.requests] == [path_of(MODULE_ACTIVATION)]


async def test_names_are_read_one_by_one(cli: Cli, server: ScriptedServer) -> None:
    serve(server, LITELLM, GPU)
    done = await cli("get", "msmod", "litellm")
    assert [line.split()[0] for line in done.lines] == ["NAME", "litellm"]
    assert [seen.path for seen in server.requests] == [path_of(MODULE_ACTIVATION, "litellm")]


async def test_what_is_not_found_is_told_beside_what_is(cli: Cli, server: ScriptedServer) -> None:
    serve(server, GPU)
    missing = status(404, "NotFound", "not found", details={"name": "none", "kind": "moduleactivations"})
    server.answer("GET", path_of(MODULE_ACTIVATION, "none"), missing)
    done = await cli("get", "msmod/none", "msmod/gpu")
    assert done.code == 1
    assert [line.split()[0] for line in done.lines] == ["NAME", "gpu"]
    assert done.err == "magicstick: moduleactivation 'none' not found in namespace ai-system\n"


async def test_an_object_of_palena_is_looked_for_at_home_and_it_is_said_how_to_look_elsewhere(
    cli: Cli, server: ScriptedServer
) -> None:
    missing = status(404, "NotFound", "not found", details={"name": "gw", "kind": "palenagateways"})
    server.answer("GET", path_of(PALENA_GATEWAY, "gw"), missing)
    server.answer("GET", path_of(PALENA_GATEWAY, "gw", namespace="team"), missing)
    told = "magicstick: palenagateway 'gw' not found in namespace"
    assert (await cli("get", "gateway/gw")).err == f"{told} ai-system; --namespace names where it is\n"
    assert (await cli("get", "gateway/gw", "-n", "team")).err == f"{told} team\n"


async def test_hardware_that_is_not_found_is_told_too(cli: Cli, server: ScriptedServer) -> None:
    serve(server, LOCAL)
    done = await cli("get", "hw", "gpu", "none")
    assert done.code == 1
    assert [line.split()[0] for line in done.lines] == ["NAME", "gpu"]
    assert done.err == "magicstick: hardware 'none' not found in namespace ai-system\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("get",), "nothing of magicstick in namespace ai-system; --all-namespaces looks everywhere"),
        (("get", "msmod"), "no moduleactivations in namespace ai-system; --all-namespaces looks everywhere"),
        (
            ("get", "hw,msmod", "-l", "a=b", "-n", "x"),
            "no hardware, no moduleactivations with the labels a=b",
        ),
    ],
)
async def test_nothing_there_is_no_failure_and_is_told(
    cli: Cli, server: ScriptedServer, words: tuple[str, ...], told: str
) -> None:
    serve(server)
    serve(server, namespace="x")
    done = await cli(*words)
    assert (done.code, done.out) == (0, "")
    assert told in done.err


async def test_labels_and_namespaces_are_the_servers_to_judge(cli: Cli, server: ScriptedServer) -> None:
    server.answer("GET", "/apis/appliance.magicstick.dev/v1alpha1/moduleactivations", listing([GPU], "1"))
    done = await cli("get", "msmod", "-A", "-l", "a in (b,c)")
    assert [line.split()[:2] for line in done.lines] == [["NAMESPACE", "NAME"], ["ai-system", "gpu"]]
    assert server.requests[0].query["labelSelector"] == "a in (b,c)"


async def test_a_selector_that_is_none_is_misuse_in_the_servers_words(
    cli: Cli, server: ScriptedServer
) -> None:
    server.answer("GET", path_of(MODULE_ACTIVATION), status(400, "BadRequest", "unable to parse: found ''"))
    done = await cli("get", "msmod", "-l", "a in")
    assert done.code == 2
    assert done.err == "magicstick: --selector is 'a in': unable to parse: found ''\n"


async def test_the_namespace_may_come_from_the_environment(
    cli: Cli, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(server, GPU, namespace="elsewhere")
    monkeypatch.setenv("APPLIANCE_NAMESPACE", "elsewhere")
    assert (await cli("get", "msmod", "--no-headers")).lines != []
    monkeypatch.setenv("APPLIANCE_NAMESPACE", "")
    await cli("get", "msmod")
    assert server.requests[-1].path == path_of(MODULE_ACTIVATION)


# -- order ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "expected"),
    [("name", ["a", "b", "c", "d"]), ("age", ["b", "a", "c", "d"]), ("phase", ["d", "c", "a", "b"])],
)
async def test_lines_are_sorted_as_asked(
    cli: Cli, server: ScriptedServer, order: str, expected: list[str]
) -> None:
    young = {"creationTimestamp": "2026-01-02T00:00:00Z"}
    serve(
        server,
        a_module("d", "Degraded"),
        a_module("b", "Ready", metadata=young),
        a_module("c", "WaitingForModules"),
        a_module("a", "Ready"),
    )
    done = await cli("get", "msmod", "--no-headers", "--sort-by", order)
    assert [line.split()[0] for line in done.lines] == expected


# -- data ----------------------------------------------------------------------------------------

RICH = a_module(
    "rich",
    metadata={
        "labels": {"a": "b"},
        "annotations": {"text": "ä\n✓"},
        "finalizers": ["x/y"],
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1", "blockOwnerDeletion": False}
        ],
        "generateName": "ri",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 0,
    },
)
MANAGED = [{"manager": "x", "operation": "Apply", "fieldsV1": {"f:spec": {}}}]


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yamls.load)])
async def test_one_object_is_written_whole_but_for_its_managed_fields(
    cli: Cli, server: ScriptedServer, form: str, read: Any
) -> None:
    serve(server, {**RICH, "metadata": {**RICH["metadata"], "managedFields": MANAGED}})
    done = await cli("get", "msmod", "rich", "-o", form)
    assert read(done.out) == RICH


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yamls.load)])
async def test_several_objects_are_a_list_in_the_order_of_kinds_and_names(
    cli: Cli, server: ScriptedServer, form: str, read: Any
) -> None:
    serve(server, LLAMA, LITELLM, GPU, LOCAL)
    done = await cli("get", "-o", form)
    assert read(done.out) == {
        "apiVersion": "v1",
        "kind": "List",
        "metadata": {"resourceVersion": ""},
        "items": [LOCAL, GPU, LITELLM, LLAMA],
    }


@pytest.mark.parametrize("words", [("msmod",), ("msmod", "a", "b")])
async def test_a_list_of_few_or_none_is_a_list_all_the_same(
    cli: Cli, server: ScriptedServer, words: tuple[str, ...]
) -> None:
    serve(server)
    for name in ("a", "b"):
        gone = status(404, "NotFound", "gone", details={"name": name})
        server.answer("GET", path_of(MODULE_ACTIVATION, name), gone)
    assert (await cli("get", *words, "-o", "json")).json["items"] == []


async def test_one_object_that_is_not_there_writes_no_data(cli: Cli, server: ScriptedServer) -> None:
    server.answer(
        "GET", path_of(MODULE_ACTIVATION, "a"), status(404, "NotFound", "gone", details={"name": "a"})
    )
    done = await cli("get", "msmod", "a", "-o", "json")
    assert (done.code, done.out) == (1, "")


async def test_names_are_what_kubectl_takes(cli: Cli, server: ScriptedServer) -> None:
    serve(server, LOCAL, GPU)
    assert (await cli("get", "-o", "name")).lines == [
        "appliance.appliance.magicstick.dev/local",
        "moduleactivation.appliance.magicstick.dev/gpu",
    ]
    assert (await cli("get", "hw", "-o", "name")).lines == ["hardware/amd-gpu", "hardware/gpu"]


async def test_an_object_nested_beyond_reason_is_shown_all_the_same(cli: Cli, server: ScriptedServer) -> None:
    deep: Any = "bottom"
    for _ in range(900):
        deep = {"a": deep}
    text = json.dumps({**GPU, "spec": {"module": "gpu", "parameters": deep}})
    server.answer("GET", path_of(MODULE_ACTIVATION, "gpu"), Answer(200, text))
    for form in ("json", "yaml", "table"):
        assert (await cli("get", "msmod", "gpu", "-o", form)).code == 0


# -- what goes wrong -----------------------------------------------------------------------------


async def test_a_cluster_without_our_kinds_is_told_with_the_command_that_helps(
    cli: Cli, server: ScriptedServer
) -> None:
    done = await cli("get")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "magicstick: the cluster does not know magicstick's kinds; "
        "install the definitions with 'magicstick crds | kubectl apply --server-side -f -'\n"
    )


async def test_a_kind_that_is_absent_hides_no_other_and_is_a_failure_where_it_was_asked_for(
    cli: Cli, server: ScriptedServer
) -> None:
    serve(server, LOCAL, GPU)
    server.unscript("GET", path_of(HOST_OPERATION))
    told = "magicstick: the cluster does not know hostoperations.appliance.magicstick.dev; install"
    everything = await cli("get")
    assert everything.code == 0
    assert "moduleactivation/gpu" in everything.out
    assert everything.err.startswith(told)
    asked = await cli("get", "mshostop")
    assert asked.code == 1
    assert asked.err.startswith(told)
    assert (await cli("get", "mshostop/a")).code == 1


async def test_a_kind_that_is_forbidden_hides_no_other_and_ends_with_its_own_code(
    cli: Cli, server: ScriptedServer
) -> None:
    serve(server, LOCAL, GPU)
    words = 'modelactivations is forbidden: User "me" cannot list resource "modelactivations"'
    server.answer("GET", path_of(MODEL_ACTIVATION), status(403, "Forbidden", words))
    done = await cli("get")
    assert done.code == 4
    assert "moduleactivation/gpu" in done.out
    assert done.err == f"magicstick: {words}; ask an administrator of the cluster for this right\n"


async def test_credentials_that_are_refused_are_told_with_where_they_came_from(
    cli: Cli, server: ScriptedServer, kubeconfig: Path
) -> None:
    server.answer("GET", path_of(MODULE_ACTIVATION), status(401, "Unauthorized", "Unauthorized"))
    done = await cli("get", "msmod")
    assert (done.code, done.out) == (3, "")
    assert done.err == (
        f"magicstick: {server.url} does not accept the credentials of kubeconfig {kubeconfig}; log in again\n"
    )


async def test_a_server_that_is_not_there_is_told_with_its_address(cli: Cli, server: ScriptedServer) -> None:
    await server.stop()
    done = await cli("get")
    assert (done.code, done.out) == (3, "")
    assert done.err == (
        f"magicstick: cannot reach {server.url}: Connection refused; "
        "check that the cluster runs, or choose another one with --context\n"
    )


async def test_a_server_that_does_not_answer_is_left_after_the_timeout(
    cli: Cli, server: ScriptedServer
) -> None:
    serve(server, GPU)
    server.answer("GET", path_of(APPLIANCE), Hang())
    async with asyncio.timeout(10):
        done = await cli("get", "--timeout", "0.3")
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith(
        f"magicstick: {server.url} gave no answer within 0.3 s; wait longer with --timeout"
    )


async def test_a_server_that_has_too_much_to_do_is_told(cli: Cli, server: ScriptedServer) -> None:
    server.answer("GET", path_of(MODULE_ACTIVATION), status(429, "TooManyRequests", "later"))
    done = await cli("get", "msmod")
    assert done.code == 3
    assert done.err == f"magicstick: {server.url} has too much to do (later); try again in a moment\n"


async def test_a_server_that_fails_is_told_in_its_words(cli: Cli, server: ScriptedServer) -> None:
    server.answer("GET", path_of(MODULE_ACTIVATION), status(503, "ServiceUnavailable", "etcd is away"))
    done = await cli("get", "msmod")
    assert done.code == 3
    assert f"cannot reach {server.url}: etcd is away; " in done.err


async def test_an_answer_that_cannot_be_read_is_told_without_its_content(
    cli: Cli, server: ScriptedServer
) -> None:
    serve(server, GPU)
    server.answer(
        "GET", path_of(MODEL_ACTIVATION), Answer(200, '{"metadata": {}, "items": [{"metadata": "s3cret"}]}')
    )
    done = await cli("get")
    assert done.code == 1
    assert "moduleactivation/gpu" in done.out
    assert done.err.startswith("magicstick: the answer cannot be read")
    assert "s3cret" not in done.err


async def test_a_context_that_is_not_there_is_told_with_those_that_are(cli: Cli) -> None:
    done = await cli("get", "--context", "there")
    assert done.code == 3
    assert done.err.endswith("there is no context 'there'; choose one of here with --context\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("pods",), "there is no kind 'pods'"),
        (("msmod", "a", "-A"), "--all-namespaces and names exclude each other"),
        (("msmod", "a", "-l", "a=b"), "--selector and names exclude each other"),
        (("msmod", "-l", "\udcff=1"), "--selector '\\udcff=1': only characters that can be printed"),
        (("hw", "-o", "json"), "'magicstick get appliance -o json' has it under status.hardwareOperators"),
        (("--output-watch-events",), "--output-watch-events needs --watch and -o json or yaml"),
        (("-n", "a/b"), "--namespace 'a/b': lower-case letters, digits and '-', at most 63 characters"),
        (("msmod", "%2e"), "no object can be called '%2e': lower-case letters"),
        (("msmod/" + "a" * 254,), "at most 253 characters"),
        (("-o", "xml"), "'xml' is not one of table, wide, json, yaml, name"),
        (("--sort-by", "size"), "'size' is not one of name, age, phase"),
        (("--timeout", "soon"), "'soon' is not a number of 0.1 or more"),
        (("--timeout", "0"), "'0' is not a number of 0.1 or more"),
        (("--timeout", "nan"), "'nan' is not a number of 0.1 or more"),
    ],
)
async def test_misuse_is_told_in_one_line_and_asks_nothing(
    cli: Cli, server: ScriptedServer, words: tuple[str, ...], told: str
) -> None:
    done = await cli("get", *words)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert done.err.count("\n") == 1
    assert server.requests == []


async def test_the_token_is_sent_and_never_written(cli: Cli, server: ScriptedServer) -> None:
    server.answer("GET", path_of(MODULE_ACTIVATION), status(401, "Unauthorized", "Unauthorized"))
    done = await cli("get", "msmod")
    assert server.requests[0].headers["Authorization"] == "Bearer sesame"
    assert "sesame" not in done.out + done.err


async def test_troubles_stand_in_one_order_whoever_answers_first(cli: Cli, server: ScriptedServer) -> None:
    late = asyncio.Event()
    denied = status(403, "Forbidden", "appliances: no")
    server.answer("GET", path_of(APPLIANCE), dataclasses.replace(denied, after=late))
    server.answer("GET", path_of(MODULE_ACTIVATION), status(403, "Forbidden", "modules: no"))
    asked = asyncio.create_task(cli("get", "msmod,msapp"))
    await server.arrived("GET", path_of(MODULE_ACTIVATION))
    await server.arrived("GET", path_of(APPLIANCE))
    late.set()
    assert [line.split()[1] for line in (await asked).err.splitlines()] == ["appliances:", "modules:"]
