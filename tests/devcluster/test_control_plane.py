"""A control plane of our own: what it serves, what it remembers, and that it goes when it should."""

import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hack.devcluster import CONTROL_PLANE, AuditUnavailableError, Component, DevCluster, DevClusterError
from hack.devcluster.cluster import ComponentDiedError
from hack.devcluster.layout import LOOPBACK, Ports
from hack.devcluster.rest import ApiError, Object, Rest
from hack.devcluster.waiting import wait_until

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def own() -> Iterator[DevCluster]:
    """One that these tests may break, apart from the session's."""
    with DevCluster.start(CONTROL_PLANE) as cluster:
        yield cluster


def config_map(name: str, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def client(cluster: DevCluster, user_agent: str, token: str = "") -> Rest:
    return Rest(
        cluster.url, token=token or cluster.admin_token, ca_file=cluster.ca_file, user_agent=user_agent
    )


CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class TestServed:
    def test_the_pinned_version_runs(self, own: DevCluster) -> None:
        assert own.rest.get("/version")["gitVersion"] == "v1.36.3"

    @pytest.mark.parametrize(
        ("group", "kinds"),
        [
            ("admissionregistration.k8s.io/v1", {"MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"}),
            ("resource.k8s.io/v1", {"DeviceClass", "ResourceClaim", "ResourceSlice"}),
            ("events.k8s.io/v1", {"Event"}),
            ("coordination.k8s.io/v1", {"Lease"}),
        ],
    )
    def test_the_apis_that_the_operator_needs_are_served(
        self, own: DevCluster, group: str, kinds: set[str]
    ) -> None:
        assert kinds <= {each["kind"] for each in own.rest.get(f"/apis/{group}")["resources"]}

    def test_service_accounts_have_tokens_and_no_rights(self, own: DevCluster) -> None:
        own.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody"}})
        restricted = client(own, "nobody", own.service_account_token("default", "nobody"))
        with pytest.raises(ApiError, match="system:serviceaccount:default:nobody") as refused:
            restricted.get("/api/v1/nodes")
        assert refused.value.code == 403

    def test_strangers_are_unauthorised(self, own: DevCluster) -> None:
        with pytest.raises(ApiError) as refused:
            client(own, "stranger", "no-such-token").get("/api/v1/nodes")
        assert refused.value.code == 401

    def test_pods_can_be_created_although_nobody_makes_service_accounts(self, own: DevCluster) -> None:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "alone"},
            "spec": {"containers": [{"name": "c", "image": "example.com/image"}]},
        }
        assert own.apply(pod)[0]["status"]["phase"] == "Pending"

    def test_custom_kinds_can_be_used_as_soon_as_apply_returns(self, own: DevCluster) -> None:
        repository = {
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "GitRepository",
            "metadata": {"name": "a"},
            "spec": {"url": "https://example.com/a", "interval": "1m"},
        }
        applied = own.apply([repository, *own.crd_files("flux")])
        assert applied[-1]["kind"] == "GitRepository"
        assert own.rest.get(own.rest.path_of(repository))["spec"]["timeout"] == "60s", "its CRD's default"

    def test_an_unknown_kind_is_an_error_that_names_it(self, own: DevCluster) -> None:
        with pytest.raises(ApiError, match="has no Unicorn"):
            own.apply({"apiVersion": "v1", "kind": "Unicorn", "metadata": {"name": "a"}})

    def test_foreign_crds_are_known_by_group(self, own: DevCluster) -> None:
        with pytest.raises(DevClusterError, match="no CRD files for 'nobody'"):
            own.crd_files("nobody")

    @pytest.mark.parametrize(
        ("group", "api_version", "kind"),
        [
            ("helm", "helm.toolkit.fluxcd.io/v2", "HelmRelease"),
            ("gateway", "gateway.networking.k8s.io/v1", "HTTPRoute"),
            ("gateway", "gateway.networking.k8s.io/v1beta1", "ReferenceGrant"),
            ("envoy", "gateway.envoyproxy.io/v1alpha1", "SecurityPolicy"),
        ],
    )
    def test_the_server_takes_the_definitions_of_every_group(
        self, own: DevCluster, group: str, api_version: str, kind: str
    ) -> None:
        own.apply(own.crd_files(group))
        served = own.rest.get(f"/apis/{api_version}")["resources"]
        assert kind in {each["kind"] for each in served}

    def test_a_release_is_checked_by_the_schema_of_flux(self, own: DevCluster) -> None:
        own.apply(own.crd_files("helm"))
        release = {
            "apiVersion": "helm.toolkit.fluxcd.io/v2",
            "kind": "HelmRelease",
            "metadata": {"name": "a"},
            "spec": {"interval": "often"},
        }
        with pytest.raises(ApiError, match=r"spec\.interval"):
            own.apply(release)

    def test_a_node_is_ready_to_be_used_without_a_kubelet(self, own: DevCluster) -> None:
        own.add_node("bare", labels={"a": "b"}, allocatable={"nvidia.com/gpu": "2"}, ready=False)
        node = own.rest.get("/api/v1/nodes/bare")
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "2"
        assert node["metadata"]["labels"]["a"] == "b"


class TestAudit:
    def test_requests_are_found_by_user_agent_as_soon_as_they_are_answered(self, own: DevCluster) -> None:
        mark = own.audit_mark()
        mine, other = client(own, "mine/1.0"), client(own, "other/1.0")
        for number in range(20):
            mine.apply(config_map(f"audited-{number}", number=str(number)))
            other.get(f"{CONFIG_MAPS}/audited-{number}")
        records = list(own.audit("mine/", since=mark))
        writes = [record for record in records if record.is_write]
        assert [record.name for record in writes] == [f"audited-{number}" for number in range(20)]
        assert {(record.user, record.verb, record.resource, record.code) for record in writes} == {
            ("admin", "patch", "configmaps", 201)
        }
        assert writes[7].request_object is not None
        assert writes[7].request_object["data"] == {"number": "7"}
        assert {record.verb for record in own.audit("other/", since=mark)} == {"get"}

    def test_refused_requests_are_recorded_with_their_code(self, own: DevCluster) -> None:
        mark = own.audit_mark()
        with pytest.raises(ApiError):
            client(own, "refused").get(f"{CONFIG_MAPS}/absent")
        assert [record.code for record in own.audit("refused", since=mark)] == [404]

    def test_secret_values_and_tokens_never_enter_the_log(self, own: DevCluster) -> None:
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "hidden"},
            "stringData": {"key": "c2VjcmV0LXZhbHVl-plain"},
        }
        own.apply(secret)
        own.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "tokened"}})
        token = own.service_account_token("default", "tokened")
        log = (own.directory / "audit.jsonl").read_text()
        assert '"name":"hidden"' in log
        assert not [word for word in ("secret-value", "c2VjcmV0LXZhbHVl", token) if word in log]

    def test_a_watch_is_recorded_once_while_it_runs(self, own: DevCluster) -> None:
        mark = own.audit_mark()
        watcher = client(own, "watcher")
        version = watcher.get(CONFIG_MAPS)["metadata"]["resourceVersion"]
        events = watcher.watch(f"{CONFIG_MAPS}?resourceVersion={version}", timeout_s=1)
        own.apply(config_map("watched"))
        assert next(events)[1]["metadata"]["name"] == "watched"
        verbs = [record.verb for record in own.audit("watcher", since=mark)]
        assert verbs == ["list", "watch"]
        assert list(events) == []
        assert [record.verb for record in own.audit("watcher", since=mark)] == ["list", "watch"]

    def test_times_are_those_of_the_request(self, own: DevCluster) -> None:
        before = datetime.now(UTC)
        client(own, "timed").apply(config_map("timed"))
        writes = [record for record in own.audit("timed", since=before) if record.is_write]
        assert len(writes) == 1
        assert before <= writes[0].received <= writes[0].answered <= datetime.now(UTC)


class TestRestart:
    def test_a_killed_api_server_comes_back_with_data_and_credentials(self, own: DevCluster) -> None:
        own.apply(config_map("survivor", a="b"))
        mark = own.audit_mark()
        client(own, "before").get(f"{CONFIG_MAPS}/survivor")
        own.kill_apiserver()
        with pytest.raises(ApiError):
            own.rest.get("/version")
        assert not own.alive()[Component.API_SERVER]
        own.start_apiserver()
        assert own.rest.get(f"{CONFIG_MAPS}/survivor")["data"] == {"a": "b"}
        assert len(list(own.audit("before", since=mark))) == 1, "nothing is lost by the kill"

    def test_a_running_component_is_not_started_twice(self, own: DevCluster) -> None:
        with pytest.raises(DevClusterError, match="kube-apiserver is running"):
            own.start_apiserver()

    def test_a_component_that_was_not_started_cannot_be_stopped(self, own: DevCluster) -> None:
        with pytest.raises(DevClusterError, match="kwok was not started"):
            own.stop_component("kwok")

    def test_a_component_that_was_not_asked_for_can_be_added(self, own: DevCluster) -> None:
        own.start_component(Component.KWOK)
        try:
            assert own.add_node("added")["metadata"]["name"] == "added"
        finally:
            own.stop_component(Component.KWOK)

    def test_other_components_can_be_stopped_and_started(self, own: DevCluster) -> None:
        own.stop_component(Component.ETCD)
        own.start_component(Component.ETCD)
        own.wait_ready()
        assert own.apply(config_map("after-etcd"))

    def test_a_dead_etcd_is_said_at_once(self, own: DevCluster) -> None:
        own.kill_component(Component.ETCD)
        try:
            with pytest.raises(ComponentDiedError, match=r"etcd ended with code .*; the end of .*etcd\.log"):
                own.wait_ready()
        finally:
            own.start_component(Component.ETCD)
            own.wait_ready()


def start_owner(directory: Path) -> subprocess.Popen[str]:
    """Another process with a cluster, which says `up` and waits."""
    script = """
        import signal, sys
        from pathlib import Path
        from hack.devcluster import DevCluster
        cluster = DevCluster.start(directory=Path(sys.argv[1]), log=lambda _: None)
        print("up", flush=True)
        signal.pause()
    """
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(directory)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


def test_no_process_survives_the_crash_of_its_owner(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    with start_owner(directory) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "up\n"
        ports = [
            int(argument.rsplit(":", 1)[1].split()[0])
            for argument in (directory / "kubeconfig").read_text().splitlines()
            if "server:" in argument
        ]
        assert ports
        assert all(listening(port) for port in ports)
        owner.send_signal(signal.SIGKILL)
    wait_until(lambda: not processes_of(directory), "all processes to be gone", DEADLINE_S)
    # A process that is being torn down has no name any more, but may have its sockets for a moment.
    wait_until(lambda: not any(map(listening, ports)), "all ports to be free", DEADLINE_S)


def processes_of(directory: Path) -> list[str]:
    """Command lines that name the directory."""
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if f"{directory}/" in line]


def test_the_leftovers_of_a_crash_do_not_disturb_the_next_start(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    with start_owner(directory) as owner:
        assert owner.stdout is not None
        owner.stdout.readline()
        owner.kill()
    with DevCluster.start(directory=directory) as cluster:
        assert cluster.rest.get("/readyz") == {"text": "ok"}
    assert not directory.exists()


def test_a_kept_cluster_goes_on_where_it_ended(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    with DevCluster.start(directory=directory, keep=True) as first:
        first.apply(config_map("kept", a="b"))
        token = first.admin_token
    assert not processes_of(directory)
    with DevCluster.start(directory=directory) as second:
        assert second.admin_token == token
        assert second.rest.get(f"{CONFIG_MAPS}/kept")["data"] == {"a": "b"}
    assert not directory.exists()


def test_a_port_taken_in_the_meantime_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    choose = Ports.choose
    said: list[str] = []
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(
            Ports,
            "choose",
            lambda: Ports(*[port] * len(Ports.__dataclass_fields__)) if not said else choose(),
        )
        with DevCluster.start(log=said.append) as cluster:
            assert cluster.rest.get("/readyz") == {"text": "ok"}
    assert said == ["another process took one of the ports; trying others"]


def test_a_component_that_cannot_start_is_reported_with_its_log(tmp_path: Path) -> None:
    policy = tmp_path / "nowhere" / "audit-policy.yaml"
    with pytest.raises(ComponentDiedError, match=r"audit-policy\.yaml: no such file"):
        DevCluster.start(directory=tmp_path / "cluster", audit_policy=policy)
    assert not (tmp_path / "cluster").exists()


class TestExistingCluster:
    @pytest.fixture
    def existing(self, own: DevCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[DevCluster]:
        monkeypatch.setenv("USE_EXISTING_CLUSTER", "1")
        monkeypatch.setenv("KUBECONFIG", str(own.kubeconfig))
        with DevCluster.start(CONTROL_PLANE, log=lambda _: None) as cluster:
            yield cluster

    def test_it_is_the_cluster_of_the_current_kubeconfig(self, own: DevCluster, existing: DevCluster) -> None:
        existing.apply(config_map("through-the-proxy", a="b"))
        assert own.rest.get(f"{CONFIG_MAPS}/through-the-proxy")["data"] == {"a": "b"}
        assert existing.kubeconfig == own.kubeconfig
        existing.wait_ready()

    def test_its_audit_log_is_not_ours(self, existing: DevCluster) -> None:
        with pytest.raises(AuditUnavailableError):
            existing.audit("magicstick")
        with pytest.raises(AuditUnavailableError):
            existing.audit_mark()

    def test_its_components_are_not_ours(self, existing: DevCluster) -> None:
        for forbidden in (existing.kill_apiserver, existing.start_apiserver):
            with pytest.raises(DevClusterError, match="belongs to an existing cluster"):
                forbidden()
        assert existing.alive() == {}

    def test_one_kubeconfig_is_taken_and_it_must_exist(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("USE_EXISTING_CLUSTER", "1")
        monkeypatch.setenv("KUBECONFIG", "/nowhere/a:/nowhere/b")
        with pytest.raises(DevClusterError, match="names several files"):
            DevCluster.start()
        monkeypatch.setenv("KUBECONFIG", "/nowhere/a")
        with pytest.raises(DevClusterError, match="proxy did not start with /nowhere/a"):
            DevCluster.start()

    def test_stopping_leaves_the_cluster_alone(self, own: DevCluster, existing: DevCluster) -> None:
        existing.stop()
        with pytest.raises(ApiError):
            existing.rest.get("/version")
        assert own.rest.get("/readyz") == {"text": "ok"}


def test_a_cluster_can_be_used_from_several_threads(own: DevCluster) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            own.apply(config_map(f"thread-{number}"))
        except BaseException as failure:  # noqa: BLE001 - told to the test
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert not failures
