"""A stand-in for Flux's source-controller: every GitRepository delivers a local folder.

Nothing is cloned. The folder is packed as tar.gz and served on loopback, and the object's status says so,
following the contract of source.toolkit.fluxcd.io/v1 that Flux's other controllers rely on:

* `status.artifact` {url, path, digest, revision, size, lastUpdateTime}; a new revision whenever the content
  of the folder changed, the same one otherwise;
* conditions `Ready` and `ArtifactInStorage`, `observedGeneration` in the status and in each condition;
* `spec.suspend` freezes the status; `reconcile.fluxcd.io/requestedAt` is answered in
  `status.lastHandledReconcileAt`;
* the finalizer `finalizers.fluxcd.io` is added, and removed on deletion.

What it does not do: `spec.ignore`, `spec.include`, `spec.verify`, `spec.url` and `spec.secretRef` are not
looked at; of `spec.ref` only the branch is, as a part of the revision.

Annotations on the GitRepository direct it:

* `devcluster.magicstick.dev/folder`: an absolute path to deliver in place of the default (`manifests/` and
  `charts/` of the source);
* `devcluster.magicstick.dev/fail`: a message; Ready becomes False with it, a previous artifact stays;
* `devcluster.magicstick.dev/delay`: seconds between a change and the status that reports it.
"""

import argparse
import http.server
import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import TypeAlias

from hack.devcluster.actors.artifact import Artifact, Fingerprint, fingerprint, pack
from hack.devcluster.layout import LOOPBACK
from hack.devcluster.rest import ApiError, Object, Rest

COLLECTION = "/apis/source.toolkit.fluxcd.io/v1/gitrepositories"
FINALIZER = "finalizers.fluxcd.io"
FIELD_MANAGER = "source-controller"
DIRECTIONS = "devcluster.magicstick.dev"
REQUESTED_AT = "reconcile.fluxcd.io/requestedAt"
DEFAULT_FOLDERS = ("manifests", "charts")
POLL_S = 0.5
RETRY_S = 0.2
WATCH_S = 300.0

Key: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a GitRepository delivers: an artifact, or a reason why not."""

    artifact: Artifact | None
    error: str = ""


def status_of(repository: Object, delivery: Delivery, base_url: str, now: str) -> Object:
    """The whole status that a GitRepository should have.

    Times are kept from the present status where nothing changed, so that an unchanged repository has
    an unchanged status.

    Args:
        repository: the live object.
        delivery: what it delivers now.
        base_url: of the artifact server.
        now: RFC 3339.
    """
    meta, old = repository["metadata"], repository.get("status", {})
    status: Object = {"observedGeneration": meta["generation"]}
    if requested := meta.get("annotations", {}).get(REQUESTED_AT):
        status["lastHandledReconcileAt"] = requested
    if delivery.artifact is not None:
        status["artifact"] = _artifact(repository, delivery.artifact, base_url, now)
    elif "artifact" in old:
        status["artifact"] = old["artifact"]
    if delivery.error:
        verdicts = [("Ready", "False", "GitOperationFailed", delivery.error)]
    else:
        message = f"stored artifact for revision '{status['artifact']['revision']}'"
        verdicts = [(type_, "True", "Succeeded", message) for type_ in ("Ready", "ArtifactInStorage")]
    before = {each["type"]: each for each in old.get("conditions", [])}
    status["conditions"] = [
        _condition(*verdict, meta["generation"], before.get(verdict[0]), now) for verdict in verdicts
    ]
    return status


def _artifact(repository: Object, artifact: Artifact, base_url: str, now: str) -> Object:
    branch = repository["spec"].get("ref", {}).get("branch", "master")
    path = artifact_path(repository, artifact)
    described: Object = {
        "url": f"{base_url}/{path}",
        "path": path,
        "digest": artifact.digest,
        "revision": f"{branch}@{artifact.digest}",
        "size": len(artifact.data),
    }
    old = repository.get("status", {}).get("artifact", {})
    unchanged = all(old.get(name) == value for name, value in described.items())
    return {**described, "lastUpdateTime": old["lastUpdateTime"] if unchanged else now}


def artifact_path(repository: Object, artifact: Artifact) -> str:
    """Where an artifact is served, as source-controller lays its storage out."""
    meta = repository["metadata"]
    return f"gitrepository/{meta['namespace']}/{meta['name']}/{artifact.hash}.tar.gz"


def _condition(
    type_: str, status: str, reason: str, message: str, generation: int, before: Object | None, now: str
) -> Object:
    same = before is not None and before["status"] == status
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": before["lastTransitionTime"] if before is not None and same else now,
    }


class ArtifactServer:
    """Serves artifacts by path on loopback, and `/readyz`."""

    def __init__(self, port: int = 0) -> None:
        """Listens; port 0 chooses one."""
        self.artifacts: dict[str, bytes] = {}
        artifacts = self.artifacts

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = b"ok" if self.path == "/readyz" else artifacts.get(self.path.removeprefix("/"))
                self.send_response(HTTPStatus.NOT_FOUND if body is None else HTTPStatus.OK)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                """The log is for what goes wrong."""

        self._server = http.server.ThreadingHTTPServer((LOOPBACK, port), Handler)
        self._server.daemon_threads = True
        self.url = f"http://{LOOPBACK}:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stops listening."""
        self._server.shutdown()
        self._server.server_close()


class GitSource:
    """Keeps the status of all GitRepositories true to the folders they deliver."""

    def __init__(self, rest: Rest, server: ArtifactServer, source: Path) -> None:
        self._rest = rest
        self._server = server
        self._source = source
        self._repositories: dict[Key, Object] = {}
        self._packed: dict[Path, tuple[Fingerprint, Artifact]] = {}
        self._due: dict[Key, float] = {}
        self._changes: queue.Queue[tuple[str, Object]] = queue.Queue()

    def run(self) -> None:
        """Works until the process ends."""
        threading.Thread(target=self._watch, daemon=True).start()
        while True:
            try:
                self._take(*self._changes.get(timeout=POLL_S))
            except queue.Empty:
                self._look_at_all()
            self._do_what_is_due()

    def _watch(self) -> None:
        while True:
            try:
                listed = self._rest.get(COLLECTION)
                self._changes.put(("LISTED", listed))
                version = listed["metadata"]["resourceVersion"]
                for change in self._rest.watch(f"{COLLECTION}?resourceVersion={version}", timeout_s=WATCH_S):
                    if change[0] == "ERROR":
                        break
                    self._changes.put(change)
            except ApiError as error:
                print(f"watching GitRepositories: {error}", flush=True)
                time.sleep(RETRY_S)

    def _take(self, type_: str, obj: Object) -> None:
        if type_ == "LISTED":
            gone = set(self._repositories) - {_key(each) for each in obj["items"]}
            for key in gone:
                del self._repositories[key]
            for each in obj["items"]:
                self._take("MODIFIED", {**each, "apiVersion": obj["apiVersion"], "kind": "GitRepository"})
        elif type_ == "DELETED":
            self._repositories.pop(_key(obj), None)
        else:
            self._repositories[_key(obj)] = obj
            self._schedule(_key(obj))

    def _look_at_all(self) -> None:
        for key in self._repositories:
            self._schedule(key)

    def _schedule(self, key: Key) -> None:
        delay_s = float(_direction(self._repositories[key], "delay") or 0)
        self._due.setdefault(key, time.monotonic() + delay_s)

    def _do_what_is_due(self) -> None:
        now = time.monotonic()
        for key in [key for key, due in self._due.items() if due <= now]:
            del self._due[key]
            repository = self._repositories.get(key)
            if repository is None:
                continue
            try:
                self._reconcile(repository)
            except ApiError as error:
                # Whatever it was, the next look at all of them tries again.
                print(f"GitRepository {'/'.join(key)}: {error}", flush=True)

    def _reconcile(self, repository: Object) -> None:
        meta = repository["metadata"]
        finalizers = meta.get("finalizers", [])
        if "deletionTimestamp" in meta:
            if FINALIZER in finalizers:
                self._set_finalizers(repository, [each for each in finalizers if each != FINALIZER])
            return
        if FINALIZER not in finalizers:
            self._set_finalizers(repository, [*finalizers, FINALIZER])
            return  # its event brings us back
        if repository["spec"].get("suspend"):
            return
        delivery = self._deliver(repository)
        if delivery.artifact is not None:
            path = artifact_path(repository, delivery.artifact)
            self._server.artifacts[path] = delivery.artifact.data
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = status_of(repository, delivery, self._server.url, now)
        if status != repository.get("status"):
            self._write_status(repository, status)

    def _write_status(self, repository: Object, status: Object) -> None:
        body = {
            "apiVersion": repository["apiVersion"],
            "kind": repository["kind"],
            "metadata": {name: repository["metadata"][name] for name in ("name", "namespace", "uid")},
            "status": status,
        }
        self._take("MODIFIED", self._rest.apply(body, subresource="status", field_manager=FIELD_MANAGER))

    def _set_finalizers(self, repository: Object, finalizers: list[str]) -> None:
        """With the resourceVersion, so that nobody else's finalizer is lost."""
        version = repository["metadata"]["resourceVersion"]
        patch = {"metadata": {"finalizers": finalizers, "resourceVersion": version}}
        path = self._rest.path_of(repository)
        self._rest.request("PATCH", path, patch, "application/merge-patch+json")

    def _deliver(self, repository: Object) -> Delivery:
        if error := _direction(repository, "fail"):
            return Delivery(None, error)
        own = _direction(repository, "folder")
        try:
            return Delivery(self._pack(Path(own)) if own else self._pack(self._source, DEFAULT_FOLDERS))
        except OSError as unreadable:
            return Delivery(None, str(unreadable))

    def _pack(self, folder: Path, only: tuple[str, ...] = ()) -> Artifact:
        now = fingerprint(folder, only)
        before, artifact = self._packed.get(folder, (None, None))
        if artifact is None or before != now:
            artifact = pack(folder, only)
            self._packed[folder] = (now, artifact)
        return artifact


def _key(repository: Object) -> Key:
    meta: Mapping[str, str] = repository["metadata"]
    return meta["namespace"], meta["name"]


def _direction(repository: Object, name: str) -> str:
    return str(repository["metadata"].get("annotations", {}).get(f"{DIRECTIONS}/{name}", ""))


def main() -> None:
    """Runs until it is stopped."""
    parser = argparse.ArgumentParser(description="Play Flux's source-controller for GitRepositories.")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True, help="serve artifacts there, on loopback")
    parser.add_argument("--source", type=Path, required=True, help="folder to deliver")
    arguments = parser.parse_args()
    rest = Rest.of_kubeconfig(arguments.kubeconfig, user_agent=FIELD_MANAGER)
    GitSource(rest, ArtifactServer(arguments.port), arguments.source.resolve()).run()


if __name__ == "__main__":
    main()
