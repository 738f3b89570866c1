"""The life of a gateway and all that is around it, told three times: in calm, and with an operator that dies.

In one telling it is killed at its first write after each step, in another it is dead when the step happens.
What each step ends in must be the same every time. The API server, its controllers, the scheduler and the
operator are real; kubelets, CloudNativePG and the operators of LiteLLM and Langfuse are played.
"""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from hack.dev.appliance import DEFINITIONS
from hack.devcluster import Component, DevCluster
from hack.devcluster.actors.definitions import PALENA_CRDS
from hack.devcluster.audit import AuditMark, AuditRecord
from hack.devcluster.components import WITH_CONTROLLERS
from tests.e2e.palena_stand import OPERATOR, SPACE, PalenaStand, State
from tests.e2e.stand import steadily
from tests.e2e.test_models_restarts import until_stirred

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

GATEWAYS, MODELS, CHATS = "palenagateways", "palenamodels", "palenauis"
TOOLS, TRACES = "palenamcpservers", "palenaobservabilities"
CLUSTERS: Final = f"{DEFINITIONS}/clusters.postgresql.cnpg.io"
LITELLM: Final = "gw-palena-litellm"
STEP_S: Final = 120.0

Phases = Mapping[tuple[str, str], str]


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happens, and the phases that are reported then; "" of what is gone."""

    what: str
    happens: Callable[[], None]
    phases: Phases


@dataclass(frozen=True, slots=True)
class End:
    """What a step ended in.

    Attributes:
        state: all objects, without what differs between equal lives.
        rolled: what is made anew since the step before, because a Secret has another content.
    """

    state: State
    rolled: frozenset[str]


class Story:
    """The steps, and what they come to."""

    def __init__(self, stand: PalenaStand) -> None:
        self.stand = stand
        self._hashes: dict[str, str] = {}
        self._rotations = itertools.count(1)

    def steps(self) -> tuple[Step, ...]:
        """The story. What a step does not mention stays as it was reported before."""
        return (
            Step("gateway up", lambda: self._make("PalenaGateway", "gw"), {(GATEWAYS, "gw"): "Running"}),
            Step("model added", self._add_model, {(MODELS, "large"): "Running"}),
            Step("second gateway", self._add_second_gateway, {(GATEWAYS, "gw2"): "Running"}),
            Step("reference removed", lambda: self._model_on("gw"), {}),
            Step("chat with tools", self._add_chat, {(TOOLS, "web"): "Running", (CHATS, "chat"): "Running"}),
            Step("observed", self._observe, {(TRACES, "obs"): "Running"}),
            Step("Secrets rotated", self._rotate, {}),
            Step("not observed", lambda: self.stand.remove(TRACES, "obs"), {(TRACES, "obs"): ""}),
            Step("CloudNativePG gone", lambda: self.stand.delete(CLUSTERS), WITHOUT_CLUSTERS),
            Step("CloudNativePG back", self._bring_back, WITH_CLUSTERS),
            Step("gateway deleted", lambda: self.stand.remove(GATEWAYS, "gw"), WITHOUT_GATEWAY),
            Step("all deleted", self._end, dict.fromkeys(EVERYTHING, "")),
        )

    # -- what happens ---------------------------------------------------------------------------------

    def _make(self, kind: str, name: str, **spec: Any) -> None:
        metadata = {"name": name}
        body = {"apiVersion": "palena.ai/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
        self.stand.apply(body)

    def _secret(self, name: str, **values: str) -> None:
        metadata = {"name": name}
        self.stand.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values})

    def _add_model(self) -> None:
        self._secret("provider-keys", key=f"CHANGEME-{next(self._rotations)}")
        self._model_on("gw")

    def _model_on(self, *gateways: str) -> None:
        provider = {"model": "openai/gpt-4o", "apiKeySecretRef": {"name": "provider-keys", "key": "key"}}
        refs = [{"name": each} for each in gateways]
        self._make("PalenaModel", "large", gatewayRefs=refs, provider=provider)

    def _add_second_gateway(self) -> None:
        self._make("PalenaGateway", "gw2")
        self._model_on("gw", "gw2")

    def _add_chat(self) -> None:
        self._make("PalenaMCPServer", "web")
        self._make(
            "PalenaUI",
            "chat",
            gatewayRef={"name": "gw"},
            mcpServerRefs=[{"name": "web"}],
            host="chat.example.com",
            ingress={"enabled": True},
            deletionPolicy="Delete",
        )

    def _observe(self) -> None:
        self._secret("s3-keys", access="CHANGEME", secret="CHANGEME")
        credentials = {
            "secretRef": {"name": "s3-keys", "keys": {"accessKeyId": "access", "secretAccessKey": "secret"}}
        }
        self._make(
            "PalenaObservability",
            "obs",
            gatewayRef={"name": "gw"},
            deletionPolicy="Delete",
            blobStorage={"provider": "s3", "s3": {"bucket": "traces", "credentials": credentials}},
        )

    def _rotate(self) -> None:
        """The provider's key, and two passwords that were generated."""
        turn = next(self._rotations)
        self._secret("provider-keys", key=f"CHANGEME-{turn}")
        self.stand.merge("secrets", "gw-palena-redis", {"stringData": {"password": f"rotated{turn}"}})
        body = {"stringData": {"JWT_SECRET": f"{turn:064x}"}}
        self.stand.merge("secrets", "chat-librechat-secrets", body)

    def _bring_back(self) -> None:
        self.stand.cluster.apply(PALENA_CRDS / "postgresql.cnpg.io_clusters.yaml")

    def _end(self) -> None:
        for plural, name in EVERYTHING:
            if name != "gw":
                self.stand.remove(plural, name)
        for name in ("provider-keys", "s3-keys"):
            self.stand.remove("secrets", name)

    # -- what is ------------------------------------------------------------------------------------

    def arrived(self, step: Step) -> bool:
        """Whether everything is in the phase that the step ends in."""
        return all(self.stand.phase(*key) == phase for key, phase in step.phases.items()) and all(
            self.stand.find(*key) is None for key, phase in step.phases.items() if not phase
        )

    def end_of(self, step: Step, holds: Callable[[End], bool]) -> End:
        """What a step ends in, once that does not change for a while and `holds`."""

        def reached() -> End | None:
            arrived, end = self.arrived(step), self._present()
            return end if holds(end) and arrived and not self.stand.orphans() else None

        (end,) = self.stand.until(f"the end of: {step.what}", steadily(reached), deadline_s=STEP_S)
        self._hashes = self.stand.secret_hashes()
        return end

    def _present(self) -> End:
        now, before = self.stand.secret_hashes(), self._hashes
        rolled = frozenset(name for name, each in now.items() if before.get(name, each) != each)
        return End(self.stand.state(), rolled)

    def same_end(self, step: Step, expected: End) -> None:
        """Wait for what this step ended in before."""
        found: list[End] = []

        def equal(end: End) -> bool:
            found[:] = [end]
            return end == expected

        try:
            self.end_of(step, equal)
        except AssertionError as error:
            (end,) = found
            rolled = f"rolled: expected {sorted(expected.rolled)}, found {sorted(end.rolled)}"
            raise AssertionError(f"{error}\n{_differences(expected.state, end.state)}\n{rolled}") from error


EVERYTHING: Final = ((CHATS, "chat"), (TOOLS, "web"), (MODELS, "large"), (GATEWAYS, "gw2"), (GATEWAYS, "gw"))
WITHOUT_CLUSTERS: Final[Phases] = {
    (GATEWAYS, "gw"): "Error",
    (GATEWAYS, "gw2"): "Error",
    (MODELS, "large"): "Degraded",
    (CHATS, "chat"): "Degraded",
    (TOOLS, "web"): "Running",
}
WITH_CLUSTERS: Final[Phases] = dict.fromkeys(WITHOUT_CLUSTERS, "Running")
WITHOUT_GATEWAY: Final[Phases] = {
    (GATEWAYS, "gw"): "",
    (GATEWAYS, "gw2"): "Running",
    (MODELS, "large"): "Degraded",
    (CHATS, "chat"): "Degraded",
    (TOOLS, "web"): "Running",
}


def _differences(expected: State, found: State) -> str:
    nothing: Mapping[str, Any] = {}
    return "\n".join(
        f"{name}:\n  expected {json.dumps(expected.get(name, nothing), sort_keys=True)}\n"
        f"  found    {json.dumps(found.get(name, nothing), sort_keys=True)}"
        for name in sorted(expected.keys() | found.keys())
        if expected.get(name) != found.get(name)
    )


def in_calm(stand: PalenaStand, step: Step) -> None:
    """Nothing else happens."""
    mark = stand.cluster.audit_mark()
    step.happens()
    until_stirred(stand, mark)


def killed_at_its_first_write(stand: PalenaStand, step: Step) -> None:
    """The operator has begun to do what the step asks for."""
    mark = stand.cluster.audit_mark()
    step.happens()
    until_stirred(stand, mark)
    stand.kill_operator()
    stand.start_operator()


def dead_when_it_happens(stand: PalenaStand, step: Step) -> None:
    """The operator finds what has happened."""
    stand.kill_operator()
    step.happens()
    stand.start_operator()


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[PalenaStand]:
    """Palena alone, with its operator running and nothing made yet."""
    with DevCluster.start((*WITH_CONTROLLERS, Component.ACTORS)) as cluster:
        cluster.add_node("node-0")
        stand = PalenaStand(cluster, tmp_path)
        stand.install()
        stand.start_operator()
        try:
            yield stand
        finally:
            stand.stop_operator()


@pytest.mark.req("PA-005", "PA-007", "PA-016", "PA-017", "PA-018", "PA-058", "PA-093", "PA-094")
def test_a_gateway_and_its_consumers_come_to_the_same_whenever_the_operator_dies(stand: PalenaStand) -> None:
    story = Story(stand)
    calm: dict[str, End] = {}
    for step in story.steps():
        mark = stand.cluster.audit_mark()
        in_calm(stand, step)
        calm[step.what] = story.end_of(step, lambda _: True)
        assert_in_order(stand, step, mark)
    assert_told_as_meant(calm)
    for dies in (killed_at_its_first_write, dead_when_it_happens):
        for step in story.steps():
            mark = stand.cluster.audit_mark()
            dies(stand, step)
            story.same_end(step, calm[step.what])
            assert_in_order(stand, step, mark)


def assert_told_as_meant(calm: Mapping[str, End]) -> None:
    """What the states are that are compared."""

    def there(name: str) -> set[str]:
        return {what for what, end in calm.items() if name in end.state}

    assert there("litellmmodels/large-gw2") == {"second gateway"}
    assert there("langfuseinstances/obs-langfuse") == {"observed", "Secrets rotated"}
    assert there(f"litellminstances/{LITELLM}") == calm.keys() - {"gateway deleted", "all deleted"}
    assert there("clusters/gw-palena-pg") == there(f"litellminstances/{LITELLM}") - {"CloudNativePG gone"}
    observed = {
        what
        for what in there(f"litellminstances/{LITELLM}")
        if "callbacks" in calm[what].state[f"litellminstances/{LITELLM}"]["spec"]
    }
    assert observed == {"observed", "Secrets rotated"}
    assert not calm["all deleted"].state
    assert {what: end.rolled for what, end in calm.items() if end.rolled} == {
        "Secrets rotated": {
            "statefulsets/gw-palena-redis",
            f"litellminstances/{LITELLM}",
            "langfuseinstances/obs-langfuse",
            "deployments/chat-librechat",
            "litellmmodels/large-gw",
        },
        # Another Cluster has another password.
        "CloudNativePG back": {f"litellminstances/{LITELLM}", "litellminstances/gw2-palena-litellm"},
    }


def assert_in_order(stand: PalenaStand, step: Step, mark: AuditMark) -> None:
    """What the audit log says of the order in which things went."""
    log = [each for each in stand.cluster.audit(since=mark) if each.namespace == SPACE and each.is_write]
    if step.what == "gateway deleted":
        litellm = _moment(log, "delete", "litellminstances", LITELLM)
        litellm_gone = _released(log, "litellminstances", LITELLM)
        redis = _moment(log, "delete", "statefulsets", "gw-palena-redis")
        database = _moment(log, "delete", "clusters", "gw-palena-pg")
        let_go = _released(log, GATEWAYS, "gw")
        assert litellm < litellm_gone < redis < database < let_go
        assert not [each for each in _ours(log) if each.verb != "delete" and _made(each, "gw-palena")]
    if step.what == "not observed":
        callback = next(
            each.answered for each in _ours(log) if each.name == LITELLM and each.verb in {"patch", "update"}
        )
        langfuse = _moment(log, "delete", "langfuseinstances", "obs-langfuse")
        database = _moment(log, "delete", "databases", "obs-langfuse")
        role = _moment(log, "delete", "databaseroles", "obs-langfuse")
        assert callback < langfuse < database < role < _released(log, TRACES, "obs")


def _ours(log: list[AuditRecord]) -> list[AuditRecord]:
    return [each for each in log if each.user == OPERATOR and each.code < 300]


def _made(record: AuditRecord, prefix: str) -> bool:
    """Whether a write made or changed something of a gateway that is going."""
    return record.name.startswith(prefix)


def _moment(log: list[AuditRecord], verb: str, resource: str, name: str) -> Any:
    """When the operator first asked for this, and was answered."""
    return next(
        each.answered
        for each in _ours(log)
        if (each.verb, each.resource, each.name) == (verb, resource, name)
    )


def _released(log: list[AuditRecord], resource: str, name: str) -> Any:
    """When the last finalizer came off an object, whoever held it."""
    return next(
        each.answered
        for each in reversed(log)
        if (each.verb, each.resource, each.name, each.subresource) == ("patch", resource, name, "")
        and each.code < 300
        and not _finalizers(each.response_object)
    )


def _finalizers(obj: Mapping[str, Any] | None) -> list[str]:
    return list((obj or {}).get("metadata", {}).get("finalizers", ()))
