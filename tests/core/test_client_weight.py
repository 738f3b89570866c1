"""What the client costs before its first request: the operator starts quickly and fits a small Pod."""

import json
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

pytestmark = pytest.mark.alone

PROGRAM = """
import asyncio, json, pathlib, sys, tempfile, time
import magicstick.kube.client
from magicstick.kube.config import ClusterConfig

KUBECONFIG = '''
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "http://api.example.com"}}]
users: [{name: a, user: {token: t}}]
current-context: a
'''

async def load():
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(KUBECONFIG)
        file.flush()
        return await (await ClusterConfig.load(pathlib.Path(file.name))).authorization()

assert asyncio.run(load()) == "Bearer t"
status = pathlib.Path("/proc/self/status")
rss_kib = [int(line.split()[1]) for line in status.read_text().splitlines() if "VmRSS" in line] \
    if status.exists() else [0]
print(json.dumps({"modules": list(sys.modules), "cpu_s": time.process_time(), "rss_mib": rss_kib[0] / 1024}))
"""


@cache
def weights() -> list[dict[str, Any]]:
    """Of a few processes that loaded a kubeconfig each."""
    command = (sys.executable, "-W", "error", "-c", PROGRAM)
    runs = [subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(3)]
    return [json.loads(run.stdout) for run in runs]


def test_the_generated_models_are_never_imported() -> None:
    modules = weights()[0]["modules"]
    assert "kubernetes_asyncio.config.kube_config" in modules
    assert [name for name in modules if name.startswith("kubernetes_asyncio.client.models.")] == []
    assert [name for name in modules if name.startswith("kubernetes_asyncio.client.api.")] == []


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
def test_the_client_is_small() -> None:
    assert min(weight["rss_mib"] for weight in weights()) <= 45


def test_the_client_loads_quickly() -> None:
    """Processor time of the best run, interpreter included, so that a busy machine changes nothing."""
    assert min(weight["cpu_s"] for weight in weights()) <= 0.4


def test_the_library_that_was_imported_the_ordinary_way_is_left_alone() -> None:
    program = """
import kubernetes_asyncio.client as before
from magicstick.kube import library
assert library.enter() is before.Configuration
import kubernetes_asyncio.client as after
assert after is before and after.V1Pod
"""
    subprocess.run((sys.executable, "-c", program), check=True)
