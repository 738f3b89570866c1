"""The Git source keeps to the contract of Flux's source-controller."""

import http.client
import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.devcluster.actors.artifact import Artifact, files_of, fingerprint, pack
from hack.devcluster.actors.git_source import ArtifactServer, Delivery, artifact_path, status_of
from hack.devcluster.rest import Object

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"
URL = "http://127.0.0.1:1"
ARTIFACT = Artifact(b"packed", "sha256:abc")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, content in {"manifests/a.yaml": "a", "charts/c/Chart.yaml": "c", "README.md": "r"}.items():
        file = tmp_path / "tree" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return tmp_path / "tree"


def members(artifact: Artifact) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(artifact.data), mode="r:gz") as archive:
        contents = {member.name: archive.extractfile(member) for member in archive}
        return {name: file.read() for name, file in contents.items() if file is not None}


class TestArtifact:
    def test_it_holds_the_files_by_their_path_below_the_folder(self, tree: Path) -> None:
        assert members(pack(tree)) == {
            "README.md": b"r",
            "charts/c/Chart.yaml": b"c",
            "manifests/a.yaml": b"a",
        }

    def test_it_can_be_restricted_to_some_folders(self, tree: Path) -> None:
        assert set(members(pack(tree, ("manifests", "absent")))) == {"manifests/a.yaml"}

    def test_the_same_content_has_the_same_digest(self, tree: Path) -> None:
        before = pack(tree)
        os.utime(tree / "manifests" / "a.yaml", (1, 1))
        assert pack(tree) == before

    def test_another_content_name_or_mode_has_another_digest(self, tree: Path) -> None:
        digests = [pack(tree).digest]
        (tree / "manifests" / "a.yaml").write_text("b")
        digests.append(pack(tree).digest)
        (tree / "manifests" / "a.yaml").rename(tree / "manifests" / "b.yaml")
        digests.append(pack(tree).digest)
        (tree / "manifests" / "b.yaml").chmod(0o755)
        digests.append(pack(tree).digest)
        assert len(set(digests)) == 4

    def test_git_data_caches_and_links_are_left_out(self, tree: Path) -> None:
        for name in (".git/HEAD", "manifests/__pycache__/x.pyc"):
            (tree / name).parent.mkdir()
            (tree / name).write_text("")
        (tree / "link").symlink_to(tree / "README.md")
        assert {str(path.relative_to(tree)) for path in files_of(tree)} == {
            "README.md",
            "charts/c/Chart.yaml",
            "manifests/a.yaml",
        }

    def test_a_changed_file_changes_the_fingerprint(self, tree: Path) -> None:
        before = fingerprint(tree)
        assert fingerprint(tree) == before
        (tree / "manifests" / "a.yaml").write_text("longer")
        assert fingerprint(tree) != before

    def test_a_missing_folder_is_an_error(self, tree: Path) -> None:
        with pytest.raises(FileNotFoundError, match="no folder"):
            pack(tree / "absent")


def repository(status: Object | None = None, generation: int = 3) -> Object:
    return {
        "metadata": {
            "name": "main",
            "namespace": "flux-system",
            "generation": generation,
            "annotations": {},
        },
        "spec": {"url": "https://example.com/repository", "ref": {"branch": "main"}},
        "status": status or {},
    }


def conditions(status: Object) -> dict[str, tuple[str, str, int]]:
    return {
        each["type"]: (each["status"], each["reason"], each["observedGeneration"])
        for each in status["conditions"]
    }


class TestStatus:
    def test_a_delivered_artifact_is_described_and_ready(self) -> None:
        status = status_of(repository(), Delivery(ARTIFACT), URL, NOW)
        path = "gitrepository/flux-system/main/abc.tar.gz"
        assert status["artifact"] == {
            "url": f"{URL}/{path}",
            "path": path,
            "digest": "sha256:abc",
            "revision": "main@sha256:abc",
            "size": 6,
            "lastUpdateTime": NOW,
        }
        assert status["observedGeneration"] == 3
        assert conditions(status) == {
            "Ready": ("True", "Succeeded", 3),
            "ArtifactInStorage": ("True", "Succeeded", 3),
        }

    def test_without_change_nothing_changes_but_the_clock(self) -> None:
        first = status_of(repository(), Delivery(ARTIFACT), URL, NOW)
        assert status_of(repository(first), Delivery(ARTIFACT), URL, LATER) == first

    def test_a_new_revision_has_a_new_time_but_the_condition_does_not_move(self) -> None:
        first = status_of(repository(), Delivery(ARTIFACT), URL, NOW)
        second = status_of(repository(first), Delivery(Artifact(b"new", "sha256:def")), URL, LATER)
        assert second["artifact"]["revision"] == "main@sha256:def"
        assert second["artifact"]["lastUpdateTime"] == LATER
        assert {each["lastTransitionTime"] for each in second["conditions"]} == {NOW}

    def test_a_new_generation_is_observed(self) -> None:
        first = status_of(repository(), Delivery(ARTIFACT), URL, NOW)
        second = status_of(repository(first, generation=4), Delivery(ARTIFACT), URL, LATER)
        assert second["observedGeneration"] == 4
        assert second["artifact"] == first["artifact"]

    def test_a_failure_is_reported_and_the_artifact_stays(self) -> None:
        first = status_of(repository(), Delivery(ARTIFACT), URL, NOW)
        second = status_of(repository(first), Delivery(None, "remote hung up"), URL, LATER)
        assert conditions(second) == {"Ready": ("False", "GitOperationFailed", 3)}
        assert second["conditions"][0]["message"] == "remote hung up"
        assert second["conditions"][0]["lastTransitionTime"] == LATER
        assert second["artifact"] == first["artifact"]

    def test_a_first_failure_has_no_artifact(self) -> None:
        assert "artifact" not in status_of(repository(), Delivery(None, "no"), URL, NOW)

    def test_a_requested_reconciliation_is_answered(self) -> None:
        asked = repository()
        asked["metadata"]["annotations"]["reconcile.fluxcd.io/requestedAt"] = "token-1"
        assert status_of(asked, Delivery(ARTIFACT), URL, NOW)["lastHandledReconcileAt"] == "token-1"

    def test_the_default_branch_is_that_of_flux(self) -> None:
        plain = repository()
        del plain["spec"]["ref"]
        assert status_of(plain, Delivery(ARTIFACT), URL, NOW)["artifact"]["revision"] == "master@sha256:abc"


class TestServer:
    @pytest.fixture
    def server(self) -> Iterator[ArtifactServer]:
        server = ArtifactServer()
        yield server
        server.close()

    def test_it_serves_artifacts_where_the_status_says(self, server: ArtifactServer) -> None:
        server.artifacts[artifact_path(repository(), ARTIFACT)] = ARTIFACT.data
        artifact = status_of(repository(), Delivery(ARTIFACT), server.url, NOW)["artifact"]
        assert artifact["url"] == f"{server.url}/{artifact['path']}"
        assert fetch(server, artifact["path"]) == (200, b"packed")

    def test_it_says_when_it_is_ready(self, server: ArtifactServer) -> None:
        assert fetch(server, "readyz") == (200, b"ok")

    def test_what_it_does_not_have_is_not_found(self, server: ArtifactServer) -> None:
        assert fetch(server, "gitrepository/a/b/c.tar.gz") == (404, b"")


def fetch(server: ArtifactServer, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=5)
    connection.request("GET", f"/{path}")
    answer = connection.getresponse()
    try:
        return answer.status, answer.read()
    finally:
        connection.close()
