"""`magicstick get` on the real API server: what it writes, that it follows, that it only reads."""

import asyncio
import contextlib
import json
import os
import re
import secrets
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hack import yamls
from hack.devcluster import CONTROL_PLANE, DevCluster
from magicstick.api.kinds import HOST_OPERATION, MODEL_ACTIVATION, MODULE_ACTIVATION, OWN_KINDS
from magicstick.cli import main
from magicstick.cli.get import screen
from magicstick.kube.kinds import Kind
from tests.support import golden
from tests.support.crd_bases import BASES
from tests.support.own_kinds import Object, a_module, an_appliance, an_object
from tests.support.scene import Verdicts, scene
from tests.support.world import install_kinds

pytestmark = [pytest.mark.cluster, pytest.mark.anyio]

DEADLINE_S = 20.0

HARDWARE = {
    "gpu": {
        "module": "gpu",
        "vendor": "NVIDIA",
        "phase": "Ready",
        "needed": True,
        "managedBy": "magicstick",
        "detectedNodes": ["node-a", "node-b"],
        "supportedNodes": ["node-a"],
        "allocatableResources": 2,
        "operatorVersion": "v1.2.3",
        "message": "2 GPUs can be used.",
    },
    "amd-gpu": {
        "module": "amd-gpu",
        "vendor": "AMD",
        "phase": "NotRequired",
        "needed": False,
        "managedBy": "none",
        "message": "No AMD GPU was found.",
    },
}
MODULES = {
    "litellm": {"phase": "Degraded", "message": "no"},
    "gpu": {"phase": "Ready"},
    "kubeai": {"phase": "WaitingForModules"},
    "openclaw": {"phase": "Disabled"},
}
APPLIANCE = an_appliance(
    "Degraded", "Not working: litellm (Degraded)", modules=MODULES, hardwareOperators=HARDWARE
)
MODEL = an_object(
    MODEL_ACTIVATION,
    "llama",
    spec={"type": "local", "local": {"engine": "VLLM"}},
    status={"phase": "Ready", "modelRef": "kubeai/llama", "vramRequiredMi": 5120},
)
OPERATION = an_object(
    HOST_OPERATION,
    "reboot-1",
    spec=BASES["HostOperation"],
    status={"phase": "Failed", "message": "The host did not come back."},
)
OBJECTS = (
    APPLIANCE,
    a_module("litellm", "Degraded", "The Deployment is not valid:\nspec.replicas must not be negative."),
    a_module("gpu"),
    a_module("kubeai", "WaitingForModules", "Waiting for: gpu (Reconciling)"),
    MODEL,
    OPERATION,
)


@dataclass(frozen=True)
class Shown:
    """A namespace with objects that no operator looks after."""

    cluster: DevCluster
    namespace: str


@pytest.fixture(scope="module")
def shown(control_plane: DevCluster) -> Shown:
    install_kinds(control_plane)
    namespace = f"get-{secrets.token_hex(3)}"
    create(control_plane, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for obj in OBJECTS:
        body = {**obj, "metadata": {"name": obj["metadata"]["name"], "namespace": namespace}}
        create(control_plane, body)
        if "status" in obj:
            control_plane.rest.apply(
                {name: body[name] for name in ("apiVersion", "kind", "metadata", "status")},
                subresource="status",
            )
    return Shown(control_plane, namespace)


def create(cluster: DevCluster, obj: Object) -> None:
    cluster.rest.apply({name: value for name, value in obj.items() if name != "status"})


@pytest.fixture
def much_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ages that are the same in every run."""
    later = datetime.now(UTC) + timedelta(days=400, hours=12)
    monkeypatch.setattr(screen, "_now", lambda: later)


def get(shown: Shown, *words: str) -> int:
    """The exit code of a command line in this process."""
    where = ("-n", shown.namespace, "--kubeconfig", str(shown.cluster.kubeconfig))
    with pytest.raises(SystemExit) as ended:
        main(["get", *words, *where])
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("everything", ()),
        ("everything-wide", ("-o", "wide")),
        ("everything-names", ("-o", "name")),
        ("modules-by-phase", ("msmod", "--sort-by", "phase")),
        ("modules-bare", ("moduleactivations", "--no-headers")),
        ("one-module", ("moduleactivation/litellm",)),
        ("hardware-wide", ("hw", "-o", "wide")),
    ],
)
def test_tables_are_as_reviewed(
    shown: Shown, much_later: None, capsys: pytest.CaptureFixture[str], name: str, words: tuple[str, ...]
) -> None:
    assert get(shown, *words) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    golden.check_text(f"get/{name}", captured.out)


def test_the_columns_are_those_that_the_server_itself_shows(
    shown: Shown, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in OWN_KINDS:
        names = [name.upper() for name in served_columns(shown, kind)]
        capsys.readouterr()
        get(shown, kind.plural, "-o", "wide")
        out = capsys.readouterr().out
        if out:
            assert re.split(r"\s{2,}", out.splitlines()[0]) == names


def served_columns(shown: Shown, kind: Kind) -> list[str]:
    """The columns that kubectl gets."""
    request = urllib.request.Request(  # noqa: S310 # the address is the test cluster's
        shown.cluster.url + kind.path(shown.namespace),
        headers={
            "Authorization": f"Bearer {shown.cluster.admin_token}",
            "Accept": "application/json;as=Table;v=v1;g=meta.k8s.io",
        },
    )
    trust = ssl.create_default_context(cafile=str(shown.cluster.ca_file))
    with urllib.request.urlopen(request, context=trust, timeout=DEADLINE_S) as answer:  # noqa: S310 # see above
        return [each["name"] for each in json.load(answer)["columnDefinitions"]]


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yamls.load)])
def test_data_read_back_is_what_the_server_has(
    shown: Shown, capsys: pytest.CaptureFixture[str], form: str, read: Any
) -> None:
    assert get(shown, "-o", form) == 0
    written = read(capsys.readouterr().out)
    assert written["kind"] == "List"
    served = [
        item for kind in OWN_KINDS for item in shown.cluster.rest.get(kind.path(shown.namespace))["items"]
    ]
    for item in served:
        del item["metadata"]["managedFields"]
    assert len(written["items"]) == len(OBJECTS)
    assert written["items"] == served


def test_what_is_not_there_is_told_by_the_real_server_too(
    shown: Shown, capsys: pytest.CaptureFixture[str]
) -> None:
    assert get(shown, "msmod", "none") == 1
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == (
        "",
        f"magicstick: moduleactivation 'none' not found in namespace {shown.namespace}\n",
    )


def test_a_selector_selects_and_one_that_is_none_is_misuse(
    shown: Shown, capsys: pytest.CaptureFixture[str]
) -> None:
    assert get(shown, "msmod", "-l", "a=b") == 0
    assert capsys.readouterr().out == ""
    assert get(shown, "msmod", "-l", "!a", "--no-headers") == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert get(shown, "msmod", "-l", "a in") == 2
    assert capsys.readouterr().err.startswith("magicstick: --selector is 'a in': unable to parse")


def test_a_server_without_our_kinds_is_told_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    with DevCluster.start(CONTROL_PLANE) as bare:
        assert get(Shown(bare, "ai-system")) == 1
        assert "install the definitions with 'magicstick crds | kubectl apply" in capsys.readouterr().err
        assert get(Shown(bare, "ai-system"), "msmod/a") == 1
        assert "does not know moduleactivations.appliance.magicstick.dev" in capsys.readouterr().err


def test_somebody_without_rights_is_told_which_are_missing(
    shown: Shown, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    account = {"name": "nobody", "namespace": shown.namespace}
    create(shown.cluster, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    token = shown.cluster.service_account_token(shown.namespace, "nobody")
    config = yamls.load(shown.cluster.kubeconfig.read_text())
    for user in config["users"]:
        user["user"] = {"token": token}
    file = tmp_path / "kubeconfig"
    file.write_text(yamls.dump(config))
    with pytest.raises(SystemExit) as ended:
        main(["get", "msmod", "-n", shown.namespace, "--kubeconfig", str(file)])
    assert ended.value.code == 4
    error = capsys.readouterr().err
    assert f'cannot list resource "{MODULE_ACTIVATION.plural}"' in error
    assert error.endswith("ask an administrator of the cluster for this right\n")
    assert token not in error


# -- watching --------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def watching(
    cluster: DevCluster, namespace: str, *words: str
) -> AsyncIterator["asyncio.subprocess.Process"]:
    """`magicstick get --watch` in this namespace, until the block ends."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "magicstick", "get", *words, "--watch", "-n", namespace),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line_with(process: "asyncio.subprocess.Process", *words: str) -> str:
    """The next line that has all of these words."""
    assert process.stdout is not None
    async with asyncio.timeout(DEADLINE_S):
        while line := (await process.stdout.readline()).decode():
            if set(words) <= set(line.split()):
                return line
    raise AssertionError(f"it ended before {words}")


async def test_a_watch_follows_a_module_through_its_life(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world:
        flux = Verdicts(world)
        async with watching(control_plane, world.namespace, "msmod") as process:
            await world.activate("alpha")
            await line_with(process, "alpha", "true", "Ready")
            await flux.fail("app-alpha")
            assert "the Deployment is not valid" in await line_with(process, "alpha", "Degraded")
            await flux.recover("app-alpha")
            await line_with(process, "alpha", "Ready")
            await world.delete(world.activations, "alpha")
            await line_with(process, "alpha", "Deleted")
            process.send_signal(2)
            assert process.stderr is not None
            assert await asyncio.wait_for(process.wait(), DEADLINE_S) == 130
            assert (await process.stderr.read()).decode() in {
                "",
                f"magicstick: no moduleactivations in namespace {world.namespace}\n",
            }


async def test_a_watch_of_data_is_one_object_a_line(control_plane: DevCluster) -> None:
    async with (
        scene(control_plane) as world,
        watching(control_plane, world.namespace, "msmod", "-o", "json") as process,
    ):
        await world.activate("alpha")
        assert process.stdout is not None
        phase = ""
        async with asyncio.timeout(DEADLINE_S):
            while phase != "Ready":
                read: Mapping[str, Any] = json.loads(await process.stdout.readline())
                assert read["metadata"]["name"] == "alpha"
                phase = read.get("status", {}).get("phase", "")


# -- the audit log ---------------------------------------------------------------------------------


@pytest.fixture
def only_reads(control_plane: DevCluster) -> Iterator[None]:
    """What the command asks within a test is in the audit log, and reads."""
    mark = control_plane.audit_mark()
    yield
    asked = list(control_plane.audit("magicstick-cli/", mark))
    assert asked
    assert {record.verb for record in asked} <= {"get", "list", "watch"}, [record.uri for record in asked]
    assert {record.group for record in asked} == {"appliance.magicstick.dev"}


async def test_it_reads_our_kinds_and_writes_nothing(shown: Shown, only_reads: None) -> None:
    for words in ((), ("msmod", "litellm"), ("-o", "json"), ("hw",), ("-l", "a=b")):
        await asyncio.to_thread(get, shown, *words)
    async with watching(shown.cluster, shown.namespace) as process:
        await line_with(process, "moduleactivation/litellm")
