"""A cluster that lives as long as its object, or as the process that made it."""

import atexit
import os
import ssl
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from hack.devcluster import audit, envoy
from hack.devcluster.access import ClusterAccess, exists
from hack.devcluster.audit import AuditMark, AuditRecord
from hack.devcluster.build import Builder
from hack.devcluster.components import (
    AUDIT_POLICY,
    COMMANDS,
    CONTROL_PLANE,
    FLUX_NAMESPACE,
    REPOSITORY,
    Component,
    Context,
    programs_of,
)
from hack.devcluster.errors import DeadlineError, DevClusterError
from hack.devcluster.layout import ADMIN, LOOPBACK, Layout, Ports
from hack.devcluster.process import ManagedProcess, tail
from hack.devcluster.rest import ApiError, Rest
from hack.devcluster.state import Ownership, State
from hack.devcluster.waiting import wait_until

READY_TIMEOUT_S = 90.0  # a start takes about 3 s; a machine busy with builds needs patience
PORT_ATTEMPTS = 3
FLUX_NAMESPACE_OBJECT = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": FLUX_NAMESPACE}}
NEEDS_SOURCES = (Component.KUSTOMIZE_CONTROLLER, Component.ACTORS)
STOP_ORDER = tuple(reversed(Component))
Log = Callable[[str], None]


class ComponentDiedError(DevClusterError):
    """A component ended while it was waited for."""

    def __init__(self, name: str, code: int | None, log: Path) -> None:
        super().__init__(f"{name} ended with code {code}; the end of {log}:\n{tail(log)}")
        self.port_taken = "address already in use" in tail(log)


def to_stderr(message: str) -> None:
    """The default way to say what is going on."""
    print(message, file=sys.stderr)


def uses_existing_cluster() -> bool:
    """Whether the environment asks for the current kubeconfig's cluster (USE_EXISTING_CLUSTER=1)."""
    return os.environ.get("USE_EXISTING_CLUSTER", "").lower() in {"1", "true"}


class DevCluster(ClusterAccess):
    """A control plane on loopback, and what else was asked for.

    Guarantees: everything it starts ends with it, also when this process is killed; nothing of it is
    outside of its directory; all listeners are on loopback. Assumes that its methods are called by one
    thread at a time; they block, so asynchronous code calls the slow ones in a thread.

    Without a controller manager nobody collects garbage, empties namespaces or makes service accounts
    (their admission is off then, so that Pods can be created).

    Attributes:
        url, kubeconfig, rest: see ClusterAccess.
        ca_file: verifies the API server.
        admin_token: bearer token of a member of system:masters.
        directory: holds logs, data and credentials.
    """

    def __init__(self, context: Context, log: Log, builder: Builder, *, keep: bool) -> None:
        """Use `start`."""
        layout = context.layout
        tokens = layout.create()
        layout.write_kubeconfigs(context.url, tokens)
        self.ca_file = layout.ca_file
        self.admin_token = tokens[ADMIN]
        self.directory = layout.directory
        self.components = context.components
        self._context = context
        self._keep = keep
        self._log = log
        self._processes: dict[Component, ManagedProcess] = {}
        self._ownership: Ownership | None = None
        self._started = datetime.now(UTC)
        self._ready = False
        rest = Rest(context.url, token=self.admin_token, ca_file=layout.ca_file, user_agent="devcluster")
        super().__init__(context.url, layout.kubeconfig(), rest, builder)

    @classmethod
    def start(
        cls,
        components: tuple[Component, ...] = CONTROL_PLANE,
        *,
        directory: Path | None = None,
        keep: bool = False,
        source: Path = REPOSITORY,
        audit_policy: Path = AUDIT_POLICY,
        log: Log = to_stderr,
        builder: Builder | None = None,
    ) -> "DevCluster":
        """Builds what is missing, starts the components and waits until they are ready.

        With USE_EXISTING_CLUSTER=1 in the environment nothing is started, and the result is bound to the
        current kubeconfig instead.

        Args:
            components: CONTROL_PLANE, WITH_CONTROLLERS, FULL, WITH_ACTORS, or any other selection; the
                control plane is always in it.
            directory: where the cluster keeps its data. One that was kept goes on where it ended.
                A temporary one by default.
            keep: do not remove the directory at the end.
            source: the folder that every GitRepository of a FULL cluster delivers.
            audit_policy: what the audit log holds; the default has the bodies of writes, which costs the
                API server some time.
            log: told what is going on.
            builder: where binaries come from.

        Raises:
            BuildError: a program is missing and cannot be built.
            DevClusterError: a component did not get ready; the message has the end of its log.
        """
        builder = builder or Builder()
        if uses_existing_cluster():
            from hack.devcluster.existing import ExistingCluster  # noqa: PLC0415 - it builds on this class

            return ExistingCluster(log, builder)
        components = tuple(each for each in Component if each in {*CONTROL_PLANE, *components})
        binaries = builder.ensure(programs_of(components))
        directory = directory or Path(tempfile.mkdtemp(prefix="magicstick-devcluster-"))
        layout = Layout(directory.absolute())
        ownership = Ownership(layout.directory)
        ownership.clear_leftovers()
        for attempt in range(1, PORT_ATTEMPTS + 1):
            context = Context(layout, Ports.choose(), components, binaries, source, audit_policy)
            cluster = cls(context, log, builder, keep=keep)
            try:
                cluster._launch(ownership)
            except ComponentDiedError as died:
                if not died.port_taken or attempt == PORT_ATTEMPTS:
                    cluster.stop()
                    raise
                log("another process took one of the ports; trying others")
                cluster._retreat()
                continue
            except BaseException:
                cluster.stop()
                raise
            return cluster
        raise AssertionError("unreachable: the last attempt returns or raises")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends all components and removes the directory unless it is to be kept. Twice is fine."""
        if self._ownership is None:
            return
        ownership = self._ownership
        self._retreat()
        ownership.end(keep=self._keep)

    # --- components ---------------------------------------------------------------------------------

    def start_component(self, name: Component | str) -> None:
        """Starts a component that was stopped, killed or not asked for, and waits until it is ready."""
        component = Component(name)
        self._context.binaries.update(self.builder.ensure(programs_of((component,))))
        self._prepare(component)
        self._spawn(component)
        self._wait(component)

    def stop_component(self, name: Component | str) -> None:
        """SIGTERM; returns when it has ended."""
        self._running(name).stop()
        self._publish()

    def kill_component(self, name: Component | str) -> None:
        """SIGKILL; returns when it is gone."""
        self._running(name).kill()
        self._publish()

    def kill_apiserver(self) -> None:
        """As a crash would: open connections break in the middle."""
        self.kill_component(Component.API_SERVER)

    def start_apiserver(self) -> None:
        """Starts it again on the same port, with the same data and credentials, and waits for it."""
        self.start_component(Component.API_SERVER)

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Returns once the API server says that it is ready.

        Raises:
            DevClusterError: it does not within the time, or has ended.
        """
        self._wait(Component.API_SERVER, timeout_s)

    def alive(self) -> dict[Component, bool]:
        """Which components run."""
        return {component: process.alive for component, process in self._processes.items()}

    def component_log(self, name: Component | str) -> Path:
        """The log file of a component."""
        return self._context.layout.log(Component(name).value)

    @property
    def litellm_url(self) -> str:
        """Where LiteLLM's management API is played, in a cluster with actors."""
        return f"http://{LOOPBACK}:{self._context.ports.litellm}"

    # --- audit --------------------------------------------------------------------------------------

    def audit(
        self, user_agent: str | None = None, since: AuditMark | datetime | None = None
    ) -> Iterator[AuditRecord]:
        """What was asked of the API server, oldest first; complete up to the last answer given.

        Args:
            user_agent: only requests whose user agent starts with it.
            since: only those after a mark (`audit_mark`), or received at or after a time.

        Raises:
            AuditUnavailableError: on an existing cluster.
        """
        return audit.read(self._context.layout.audit_log, user_agent, since)

    def audit_mark(self) -> AuditMark:
        """The present end of the audit log, for `audit(since=...)`."""
        return audit.mark(self._context.layout.audit_log)

    # --- starting -----------------------------------------------------------------------------------

    def _launch(self, ownership: Ownership) -> None:
        self._ownership = ownership
        atexit.register(self.stop)
        for component in CONTROL_PLANE:
            self._spawn(component)
        self.wait_ready()
        others = [each for each in self.components if each not in CONTROL_PLANE]
        for component in others:
            self._prepare(component)
        for component in others:
            self._spawn(component)
        for component in others:
            self._wait(component)
        self._ready = True
        self._publish()

    def _prepare(self, component: Component) -> None:
        """Applies the objects that a component needs before it starts."""
        if component is Component.KWOK:
            self.apply(self._context.binaries["kwok"].parent / "manifests")
        if component is Component.GIT_SOURCE:
            self.apply([*self.crd_files("flux"), FLUX_NAMESPACE_OBJECT])
        if component is Component.ACTORS:
            self.apply(self.crd_files("helm"))
        if component is Component.ENVOY_GATEWAY:
            self.apply([*self.crd_files("gateway"), *self.crd_files("envoy"), envoy.NAMESPACE])
            envoy.prepare(self._context, self.rest)
        if component in NEEDS_SOURCES and Component.GIT_SOURCE not in self.components:
            self._prepare(Component.GIT_SOURCE)

    def _spawn(self, component: Component) -> None:
        process = self._processes.get(component)
        if process is not None and process.alive:
            raise DevClusterError(f"{component} is running")
        command = COMMANDS[component](self._context)
        log = self._context.layout.log(component)
        self._processes[component] = ManagedProcess(component, command.argv, log, command.env)
        self._publish()

    def _wait(self, component: Component, timeout_s: float = READY_TIMEOUT_S) -> None:
        health = COMMANDS[component](self._context).health
        # A cluster whose etcd died never gets ready: better say so at once than after the deadline.
        watched = {component, Component.ETCD}

        def ready() -> bool:
            for each in watched:
                process = self._processes[each]
                if not process.alive:
                    raise ComponentDiedError(each, process.exit_code, process.log)
            return _answers(health) if health else self._is_ready(component)

        try:
            wait_until(ready, f"{component} to be ready", timeout_s)
        except DeadlineError as late:
            log = self.component_log(component)
            raise DeadlineError(f"{late}; the end of {log}:\n{tail(log)}") from None

    def _is_ready(self, component: Component) -> bool:
        if component is Component.API_SERVER:
            return self.ca_file.exists() and _readable(self.rest)
        # The controller manager has no health port here; it is at work once it has made this.
        return exists(self.rest, "/api/v1/namespaces/default/serviceaccounts/default")

    def _running(self, name: Component | str) -> ManagedProcess:
        process = self._processes.get(Component(name))
        if process is None:
            raise DevClusterError(f"{name} was not started")
        return process

    def _retreat(self) -> None:
        """Ends the processes, those that talk to the API server first, and leaves the directory alone."""
        for component in STOP_ORDER:
            if component in self._processes:
                self._processes.pop(component).stop()
        self._ownership = None
        atexit.unregister(self.stop)

    def _publish(self) -> None:
        """Tells other processes (`status`, `logs`, `env`) how things are."""
        State(
            pid=os.getpid(),
            url=self.url,
            kubeconfig=str(self.kubeconfig),
            directory=str(self.directory),
            started=self._started.isoformat(timespec="seconds"),
            components={name.value: each.pid for name, each in self._processes.items() if each.alive},
            ready=self._ready,
        ).write()


def _readable(rest: Rest) -> bool:
    try:
        rest.get("/readyz")
    except (ApiError, ssl.SSLError):
        return False
    return True


def _answers(url: str) -> bool:
    """200 from a health endpoint on loopback, whose certificate is its own."""
    try:
        context = ssl._create_unverified_context() if url.startswith("https:") else None  # noqa: S323, SLF001 - loopback
        with urllib.request.urlopen(url, timeout=2, context=context):  # noqa: S310 - a URL of ours
            return True
    except (urllib.error.URLError, OSError):
        return False
