"""Which Pods may be asked, and where: the model's own and no others (spec: models §10.3)."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from magicstick.api import labels
from magicstick.models.asking import question_of
from magicstick.models.endpoints import Endpoint, direct_endpoints, kubeai_endpoints
from magicstick.models.freetoken_health import FreeTokenQuestion
from magicstick.models.ollama import OllamaQuestion, source_of
from magicstick.models.places import freetoken_name
from magicstick.models.pods import PodView
from tests.support.model_objects import (
    MODEL_UID,
    descriptor,
    freetoken,
    kubeai,
    live_deployment,
    live_model,
    live_service,
    observation,
    ollama,
    pod,
)


def with_metadata(found: PodView, **changes: Any) -> PodView:
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, **changes))


def serving(
    name: str = "model-demo-1", *, ip: str = "192.0.2.7", port: str | None = None, **more: Any
) -> PodView:
    """A Ready Pod of the Model."""
    found = pod(name, **{"ready": True, "podIP": ip, **more})
    return found if port is None else with_metadata(found, annotations={"model-pod-port": port})


def urls(*pods: PodView) -> list[str]:
    return [each.url("/api/tags") for each in kubeai_endpoints(pods, live_model())]


def test_a_pod_is_asked_at_its_address_and_the_usual_port() -> None:
    assert urls(serving()) == ["http://192.0.2.7:8000/api/tags"]


def test_e30_an_address_of_the_newer_protocol_stands_in_brackets() -> None:
    assert urls(serving(ip="2001:db8::7")) == ["http://[2001:db8::7]:8000/api/tags"]


@pytest.mark.parametrize(
    ("text", "port"),
    [
        ("11434", 11434),
        ("1", 1),
        ("65535", 65535),
        ("65536", 8000),
        ("0", 8000),
        ("-1", 8000),
        ("", 8000),
        ("٣", 8000),
        ("8000/x", 8000),
        ("1e3", 8000),
        ("9" * 40, 8000),
        ("@example.com", 8000),
    ],
)
def test_the_port_is_the_one_that_kubeai_names_where_it_is_one(text: str, port: int) -> None:
    assert urls(serving(port=text)) == [f"http://192.0.2.7:{port}/api/tags"]


@pytest.mark.parametrize(
    "foreign",
    [
        serving(owner=None),
        serving(owner="uid-of-an-earlier-model"),
        serving(owner_changes={"controller": False}),
        serving(owner_changes={"kind": "ReplicaSet", "apiVersion": "apps/v1"}),
        serving(owner_changes={"apiVersion": "example.com/v1"}),
        serving(owner_changes={"name": "other"}),
        serving(dying=True),
        serving(ready=False),
    ],
)
def test_a_pod_that_is_not_the_models_own_or_not_ready_is_never_asked(foreign: PodView) -> None:
    assert urls(foreign) == []


@pytest.mark.parametrize(
    "address",
    [
        "",
        "example.com",
        "192.0.2.7:80",
        "192.0.2.7/x",
        "user@192.0.2.7",
        "169.254.169.254",
        "fe80::1",
        "224.0.0.1",
        "0.0.0.0",  # noqa: S104 - nobody listens here
        "::",
        "0192.0.2.7",
        "2130706433",
        "fe80::1%eth0",
        "::ffff:169.254.169.254",
    ],
)
def test_what_no_pod_can_have_as_its_address_is_not_asked(address: str) -> None:
    assert urls(serving(ip=address)) == []


def test_the_same_pods_are_the_same_endpoints_in_whatever_order_they_come() -> None:
    one, two = serving("model-demo-1", ip="192.0.2.9"), serving("model-demo-2", ip="192.0.2.8")
    assert kubeai_endpoints((one, two), live_model()) == kubeai_endpoints((two, one), live_model())
    assert len(urls(one, two)) == 2


# --- direct runtimes -------------------------------------------------------------------------------


def direct_pod(**more: Any) -> PodView:
    """A Pod of the ReplicaSet of the Deployment of the FreeToken model."""
    name = f"{freetoken_name('demo')}-abc"
    owner: Mapping[str, Any] = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name}
    changes = {**owner, **more.pop("owner_changes", {})}
    found = pod(**{"owner": "uid-replicas", "owner_changes": changes, "podIP": "192.0.2.7", **more})
    return with_metadata(found, labels={labels.MODEL: "demo", "pod-template-hash": "abc"})


def test_a_direct_pod_is_asked_even_before_it_is_ready() -> None:
    """One that cannot become Ready may say why."""
    found = direct_endpoints((direct_pod(),), live_deployment(), 1919)
    assert [each.url("/health") for each in found] == ["http://192.0.2.7:1919/health"]


@pytest.mark.parametrize(
    "foreign",
    [
        direct_pod(owner=None),
        direct_pod(owner_changes={"name": "other-abc"}),
        direct_pod(owner_changes={"controller": False}),
        direct_pod(owner_changes={"kind": "Job", "apiVersion": "batch/v1"}),
        with_metadata(direct_pod(), labels={labels.MODEL: "demo", "pod-template-hash": "other"}),
        with_metadata(direct_pod(), labels={"pod-template-hash": "abc"}),
        direct_pod(dying=True),
        direct_pod(phase="Failed"),
    ],
)
def test_a_pod_of_another_controller_is_never_asked(foreign: PodView) -> None:
    assert direct_endpoints((foreign,), live_deployment(), 1919) == ()


# --- what is asked -----------------------------------------------------------------------------------


def test_an_ollama_model_is_asked_for_its_name_and_its_source() -> None:
    o = observation(None, live_model(), resolved=ollama(), pods=(serving(),))
    question = question_of(o, ollama())
    endpoint = Endpoint("uid-model-demo-1", "192.0.2.7", 8000)
    assert question == OllamaQuestion("qwen:1b", "demo", measured=False, endpoints=(endpoint,))


@pytest.mark.parametrize(("offloading", "measured"), [(None, False), (True, True), (False, True)])
def test_memory_is_measured_where_the_model_speaks_of_offloading(
    *, offloading: bool | None, measured: bool
) -> None:
    model = ollama(cpu_offloading=offloading)
    question = question_of(observation(None, live_model(), resolved=model, pods=(serving(),)), model)
    assert isinstance(question, OllamaQuestion)
    assert question.measured is measured


@pytest.mark.parametrize(
    ("url", "source"),
    [
        ("ollama://qwen:1b", "qwen:1b"),
        ("ollama:///a/b:c/", "a/b:c"),
        ("ollama://hub.example.com/m", "hub.example.com/m"),
    ],
)
def test_the_source_is_the_url_without_scheme_and_outer_slashes(url: str, source: str) -> None:
    assert source_of(url) == source


def test_nothing_is_asked_of_other_engines_and_of_what_is_not_there() -> None:
    pods = (serving(),)
    assert question_of(observation(None, live_model(), pods=pods), kubeai()) is None
    assert question_of(observation(None, resolved=ollama(), pods=pods), ollama()) is None
    going = observation(None, live_model(dying=True), resolved=ollama(), pods=pods)
    assert question_of(going, ollama()) is None
    foreign = observation(None, live_model(serves=None), resolved=ollama(), pods=pods)
    assert question_of(foreign, ollama()) is None


def test_a_pod_of_an_earlier_model_of_the_name_is_not_asked() -> None:
    earlier = serving(owner=MODEL_UID)
    o = observation(None, live_model(uid="uid-of-the-next"), resolved=ollama(), pods=(earlier,))
    question = question_of(o, ollama())
    assert question is not None
    assert question.endpoints == ()


def test_freetoken_is_asked_where_its_description_says() -> None:
    described = descriptor(healthPath="/v1/healthz", port="2020", version="0.1.4")
    runtimes = (live_service(), live_deployment())
    o = observation(None, *runtimes, resolved=freetoken(), descriptor=described, pods=(direct_pod(),))
    endpoint = Endpoint("uid-model-demo-1", "192.0.2.7", 2020)
    assert question_of(o, freetoken()) == FreeTokenQuestion("/v1/healthz", "0.1.4", (endpoint,))
    for changes in ({"descriptor": None}, {"descriptor": descriptor(port="x")}):
        without = observation(None, *runtimes, resolved=freetoken(), **changes)
        assert question_of(without, freetoken()) is None
    assert question_of(observation(None, resolved=freetoken(), descriptor=described), freetoken()) is None
