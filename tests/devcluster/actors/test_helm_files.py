"""What the Helm actor hands to helm, and what it passes on of helm's words; without a cluster."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from hack.devcluster.actors.artifact import pack
from hack.devcluster.actors.helm_charts import ChartStore, fetched
from hack.devcluster.actors.helm_program import LONGEST, HelmError, HelmProgram, shortened
from hack.devcluster.actors.helm_values import Values
from hack.devcluster.actors.releases import NotYetError

SECRET = 'a "quoted"\nsecret of two lines'


@pytest.mark.parametrize(
    "said",
    [
        f"bad: {SECRET}",
        f"bad: {json.dumps(SECRET)}",
        f"bad: {base64.b64encode(SECRET.encode()).decode()}",
        "bad: secret of two lines",
    ],
)
def test_nothing_of_a_secret_is_shown_however_it_is_written(said: str) -> None:
    hidden = Values({}, frozenset({SECRET, *SECRET.splitlines()})).hide(said)
    assert hidden.startswith("bad: ")
    assert "secret" not in hidden
    assert "***" in hidden


def test_a_short_secret_is_hidden_where_it_stands_alone() -> None:
    values = Values({}, frozenset({"12"}))
    assert values.hide("the pin 12 of port 4120") == "the pin *** of port 4120"


def test_only_the_error_is_passed_on_and_not_too_much_of_it() -> None:
    assert shortened("level=WARN old\nError: chart is bad\n") == "chart is bad"
    assert shortened("") == "helm gave no reason"
    long = shortened("Error: " + "x" * 5000)
    assert len(long) == LONGEST
    assert long.endswith("…")


async def program(tmp_path: Path, script: str) -> HelmProgram:
    binary = tmp_path / "helm"
    binary.write_text(f"#!/bin/sh\n{script}\n")
    binary.chmod(0o755)
    return HelmProgram(binary, tmp_path / "kubeconfig", tmp_path / "kept")


@pytest.mark.anyio
async def test_values_are_in_a_file_that_only_we_may_read_and_that_goes(tmp_path: Path) -> None:
    helm = await program(tmp_path, 'stat -c "Error: %a" "$4" >&2; cat "$4" >&2; exit 1')
    with pytest.raises(HelmError, match=r'600\n{"key": "value"}'):
        await helm.run("upgrade", "x", timeout_s=5, values={"key": "value"})
    assert not list((tmp_path / "kept").glob("*.json"))


@pytest.mark.anyio
async def test_a_helm_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hack.devcluster.actors.helm_program.GRACE_S", 0.1)
    helm = await program(tmp_path, "exec sleep 100")
    with pytest.raises(HelmError, match="did not end within"):
        await helm.run("upgrade", timeout_s=0.1)


def source(folder: Path, **artifact: object) -> dict[str, Any]:
    packed = pack(folder)
    described = {"url": "http://git/x", "digest": packed.digest, "revision": f"main@{packed.digest}"}
    ready = {"type": "Ready", "status": "True"}
    return {
        "metadata": {"name": "git", "namespace": "n"},
        "status": {"conditions": [ready], "artifact": {**described, **artifact}},
    }


def release(chart: str = "./chart", strategy: str = "Revision") -> dict[str, Any]:
    spec = {"chart": {"spec": {"chart": chart, "reconcileStrategy": strategy}}}
    return {"metadata": {"name": "a", "namespace": "n"}, "spec": spec}


def written(folder: Path, described: str = "{apiVersion: v2, name: c, version: 1.0.0}") -> Path:
    (folder / "chart").mkdir(parents=True, exist_ok=True)
    (folder / "chart" / "Chart.yaml").write_text(described)
    return folder


@pytest.mark.anyio
async def test_a_chart_has_the_revision_in_its_version_and_is_fetched_once(tmp_path: Path) -> None:
    git, fetches = written(tmp_path / "git"), list[str]()

    def fetch(url: str) -> bytes:
        fetches.append(url)
        return pack(git).data

    store = ChartStore(tmp_path / "kept", fetch)
    first, second = [await store.get(release(), source(git)) for _ in range(2)]
    assert first == second
    assert first.identity.version == f"1.0.0+{pack(git).hash[:12]}"
    assert first.identity.version in (first.folder / "Chart.yaml").read_text()
    assert fetches == ["http://git/x"]
    plain = await store.get(release(strategy="ChartVersion"), source(git))
    assert plain.identity.version == "1.0.0"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("content", "reason", "words"),
    [
        (b"not what was promised", "ArtifactFailed", "digest"),
        (None, "SourceNotReady", "no chart can be read"),
    ],
)
async def test_what_is_no_chart_is_not_taken(
    tmp_path: Path, content: bytes | None, reason: str, words: str
) -> None:
    git = written(tmp_path / "git", "- no map")
    store = ChartStore(tmp_path / "kept", lambda _: content or pack(git).data)
    with pytest.raises(NotYetError, match=words) as refused:
        await store.get(release(), source(git))
    assert refused.value.reason == reason


@pytest.mark.anyio
async def test_a_source_that_is_not_ready_delivers_nothing(tmp_path: Path) -> None:
    git = written(tmp_path / "git")
    stale = source(git)
    stale["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    store = ChartStore(tmp_path / "kept", lambda _: pack(git).data)
    for each in (stale, {"metadata": stale["metadata"]}):
        with pytest.raises(NotYetError, match="not ready"):
            await store.get(release(), each)


def test_only_the_clusters_own_source_is_asked() -> None:
    with pytest.raises(ValueError, match="no address of a source here"):
        fetched("file:///etc/hosts")
