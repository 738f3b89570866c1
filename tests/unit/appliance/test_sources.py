"""The lines of an Appliance's status: what each object's own status makes of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.api.appliance import ApplianceStatus
from magicstick.api.kinds import APP_INSTANCE, MODEL_ACTIVATION
from magicstick.appliance.entries import ENTRY_MESSAGE_LIMIT, InstanceEntry, ModelEntry
from magicstick.appliance.sources import instance_entry, model_entry, reported_instances, reported_models
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, NODE, Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.runtime.conditions import find
from tests.support.gpu_objects import NVIDIA, card, host, node
from tests.support.manifests import MANIFESTS, one
from tests.support.module_objects import HOME, activation, appliance, body, shipped_catalog
from tests.support.module_world import World
from tests.support.objects import resource

GPU = {"nvidia.com/gpu": "1"}
RUNNING = {
    "observedGeneration": 1,
    "phase": "Ready",
    "namespace": "flux-system",
    "kind": "HelmRelease",
    "name": "team",
    "url": "https://team.example.com",
    "localURL": "https://team.example.local",
    "publicURL": "https://team.example.com",
    "message": "It runs.",
}
SERVED = {
    "observedGeneration": 1,
    "phase": "Ready",
    "modelRef": "kubeai/qwen",
    "catalogId": "qwen",
    "vramRequiredMi": 8192,
    "computeTarget": "nvidia-gpu",
    "engine": "VLLM",
    "resolvedResourceProfile": "magicstick-nvidia-gpu:1",
    "message": "It answers.",
    "memoryUsage": {"free": 1},
}


def instance(
    name: str = "team", *, status: Any = None, application: Any = "hermes", **options: Any
) -> Resource:
    return made(
        APP_INSTANCE, name, {"application": application, **options.pop("spec", {})}, status, **options
    )


def model(name: str = "qwen", *, status: Any = None, **options: Any) -> Resource:
    return made(MODEL_ACTIVATION, name, options.pop("spec", {}), status, **options)


def made(kind: Kind, name: str, spec: Any, status: Any, **options: Any) -> Resource:
    return resource({**body(kind, HOME, name, **options), "spec": spec, "status": status or {}})


# --- one object ------------------------------------------------------------------------------------


@pytest.mark.req("MS-019")
def test_an_instance_is_told_of_as_its_status_does() -> None:
    assert instance_entry(instance(status=RUNNING)).fields() == {
        key: value for key, value in RUNNING.items() if key != "observedGeneration"
    }


@pytest.mark.req("MS-019")
def test_a_model_is_told_of_as_its_status_does() -> None:
    told = {key: value for key, value in SERVED.items() if key not in {"observedGeneration", "memoryUsage"}}
    assert model_entry(model(status=SERVED)).fields() == told


@pytest.mark.parametrize("status", [{}, {**RUNNING, "observedGeneration": 0}, {**RUNNING, "phase": ""}])
def test_an_instance_without_a_status_for_its_generation_is_on_its_way(status: Any) -> None:
    told = instance_entry(instance(status=status))
    assert (told.phase, told.message) == ("Reconciling", "The instance is new or has changed.")
    assert (told.url, told.local_url, told.public_url) == ("", "", "")


@pytest.mark.parametrize("status", [{}, {**SERVED, "observedGeneration": 0}, {**SERVED, "phase": None}])
def test_a_model_without_a_status_for_its_generation_is_on_its_way(status: Any) -> None:
    told = model_entry(model(status=status))
    assert (told.phase, told.message) == ("Reconciling", "The model is new or has changed.")


@pytest.mark.parametrize("memory", [-1, True, "8192", 1.5, None])
def test_memory_that_is_no_size_is_left_out(memory: Any) -> None:
    told = model_entry(model(status={**SERVED, "vramRequiredMi": memory}))
    assert "vramRequiredMi" not in told.fields()


def test_long_texts_are_cut() -> None:
    long = "x" * 10_000
    told = instance_entry(instance(status={**RUNNING, "url": long, "message": long})).fields()
    assert {len(told["url"]), len(told["message"])} == {ENTRY_MESSAGE_LIMIT}
    assert (
        len(model_entry(model(status={**SERVED, "engine": long})).fields()["engine"]) == ENTRY_MESSAGE_LIMIT
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=8), each, max_size=3),
    max_leaves=8,
)
odd = st.dictionaries(st.sampled_from([*RUNNING, *SERVED]), json_values)


@given(odd, odd)
def test_a_status_of_any_form_makes_an_entry_that_the_schema_takes(
    one: dict[str, Any], two: dict[str, Any]
) -> None:
    told = instance_entry(instance(status=one, application=one.get("kind")))
    ApplianceStatus.model_validate({"instances": {"x": {told.name: told.fields()}}})
    ApplianceStatus.model_validate({"models": {"x": model_entry(model(status=two)).fields()}})


def test_what_was_reported_reads_back_as_it_was_but_for_the_message() -> None:
    one = instance_entry(instance(status=RUNNING))
    two = model_entry(model(status=SERVED))
    status = {"instances": {"hermes": {"team": one.fields()}}, "models": {"qwen": two.fields()}}
    assert reported_instances(status, "It runs.") == (one,)
    assert reported_models(status, "It answers.") == (two,)


@pytest.mark.parametrize("garbage", [None, 7, [], {"hermes": 7}, {"hermes": {"team": []}}])
def test_a_report_of_any_form_is_survived(garbage: Any) -> None:
    assert reported_instances({"instances": garbage}, "") == ()
    assert reported_models({"models": {"qwen": garbage} if isinstance(garbage, list) else garbage}, "") in (
        (),
        (ModelEntry("hermes", "", "", {}),),
    )
    assert all(isinstance(each, InstanceEntry) for each in reported_instances({"instances": garbage}, ""))


# --- all of them -----------------------------------------------------------------------------------

pytestmark = pytest.mark.anyio


@pytest.mark.req("MS-019")
async def test_instances_and_models_stand_in_the_status_as_soon_as_they_are_there() -> None:
    there = World(
        shipped_catalog(), appliance(), instance(status=RUNNING), model(status=SERVED), model("new")
    )
    await there.look_at_appliance()
    status = there.local().status
    assert status["instances"]["hermes"]["team"]["url"] == "https://team.example.com"
    assert {name: fields["phase"] for name, fields in status["models"].items()} == {
        "new": "Reconciling",
        "qwen": "Ready",
    }
    assert status["phase"] == "Reconciling"


@pytest.mark.req("MS-019")
async def test_entries_go_with_their_objects() -> None:
    one, two = instance(status=RUNNING), model(status=SERVED)
    there = World(shipped_catalog(), appliance(), one, two)
    await there.look_at_appliance()
    there.drop(one)
    there.drop(two)
    await there.look_at_appliance()
    assert not {"instances", "models"} & there.local().status.keys()
    assert there.local().status["phase"] == "Ready"


async def test_objects_of_another_appliance_have_no_entry() -> None:
    theirs = {"applianceRef": {"name": "other"}}
    there = World(shipped_catalog(), appliance(), instance(spec=theirs), model(spec=theirs))
    await there.look_at_appliance()
    assert not {"instances", "models"} & there.local().status.keys()


@pytest.mark.parametrize("kind", [APP_INSTANCE, MODEL_ACTIVATION])
@pytest.mark.parametrize("unread", [InformerState.ABSENT, InformerState.FAILING, InformerState.SYNCING])
async def test_a_kind_that_cannot_be_read_is_not_empty(kind: Kind, unread: InformerState) -> None:
    there = World(shipped_catalog(), appliance(), instance(status=RUNNING), model(status=SERVED))
    await there.look_at_appliance()
    there.reads.enter(kind, unread)
    await there.look_at_appliance()
    status = there.local().status
    told = status["instances"]["hermes"]["team"] if kind == APP_INSTANCE else status["models"]["qwen"]
    assert (told["phase"], status["phase"]) == ("Ready", "Ready")
    assert told["message"].startswith(f"{kind.kind}s cannot be read now.")
    there.writes.clear()
    await there.look_at_appliance()
    assert there.writes == []


@pytest.mark.req("MS-321", "MS-177")
async def test_hardware_is_always_told_of_and_follows_what_is_there() -> None:
    there = World(shipped_catalog(), appliance())
    await there.look_at_appliance()
    told = there.local().status["hardwareOperators"]
    assert {name: entry["phase"] for name, entry in told.items()} == dict.fromkeys(
        ("gpu", "amd-gpu", "intel-gpu"), "NotRequired"
    )
    there.put_node(node("n1", NVIDIA, allocatable=GPU, evidence=host("n1", card("10de"))))
    await there.look_at_hardware()
    there.clock.passed_s += 3
    await there.look_at_hardware()
    await there.look_at_appliance()
    told = there.local().status["hardwareOperators"]["gpu"]
    assert (told["phase"], told["needed"], len(told["devices"])) == ("Installing", True, 1)
    assert there.local().status["phase"] == "Reconciling"
    ApplianceStatus.model_validate({"hardwareOperators": there.local().status["hardwareOperators"]})


@pytest.mark.req("MS-329", "MS-177")
async def test_hardware_that_a_user_switched_off_degrades_the_appliance() -> None:
    off = activation("gpu", enabled=False, status={"observedGeneration": 1, "phase": "Disabled"})
    there = World(shipped_catalog(), appliance(), off)
    there.put_node(node("n1", NVIDIA))
    await there.look_at_appliance()
    there.clock.passed_s += 3
    await there.look_at_appliance()
    ready = find(there.local().status["conditions"], "Ready") or {}
    assert (ready["reason"], ready["message"]) == ("Degraded", "Not working: gpu (Disabled)")


async def test_f18_a_flap_changes_nothing_in_the_status() -> None:
    ready = activation("gpu", status={"observedGeneration": 1, "phase": "Ready"})
    there = World(shipped_catalog(), appliance(), ready)
    there.put_node(node("n1", NVIDIA, allocatable=GPU))
    await there.look_at_appliance()
    there.clock.passed_s += 3
    await there.look_at_appliance()
    assert there.local().status["phase"] == "Ready"
    there.writes.clear()
    for turn in range(60):
        there.put_node(node("n1", *([NVIDIA] if turn % 2 else []), allocatable=GPU))
        await there.look_at_appliance()
        there.clock.passed_s += 1
    assert there.writes == []


@pytest.mark.parametrize("kind", [NODE, CUSTOM_RESOURCE_DEFINITION])
async def test_what_hardware_depends_on_holds_it_and_nothing_else(kind: Kind) -> None:
    there = World(shipped_catalog(), appliance(), model(status=SERVED))
    there.put_node(node("n1", NVIDIA))
    await there.look_at_appliance()
    there.clock.passed_s += 3
    await there.look_at_appliance()
    before = there.local().status["hardwareOperators"]["gpu"]
    there.reads.enter(kind, InformerState.FAILING)
    there.drop(model())
    await there.look_at_appliance()
    after = there.local().status["hardwareOperators"]["gpu"]
    assert {**after, "message": ""} == {**before, "message": ""}
    assert "cannot be read now" in after["message"]
    assert "models" not in there.local().status


# --- what wakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (None, instance(), True),
        (instance(), None, True),
        (instance(status=RUNNING), instance(status={**RUNNING, "message": "other"}), True),
        (instance(status=RUNNING), instance(status=RUNNING, generation=2), True),
        (instance(status=RUNNING), instance(status={**RUNNING, "conditions": [{}]}), False),
        (model(status=SERVED), model(status={**SERVED, "phase": "Degraded"}), True),
        (model(status=SERVED), model(status={**SERVED, "memoryUsage": {"free": 2}}), False),
        (model(status=SERVED), model(status=SERVED, finalizers=["x"]), False),
    ],
)
def test_only_what_looks_different_wakes(*, old: Resource | None, new: Resource | None, wakes: bool) -> None:
    there = World(shipped_catalog())
    kind = (old or new or instance()).kind
    (edge,) = (each for each in there.appliance.declaration.edges if each.kind.kind == kind)
    assert edge.changed(old, new) is wakes
    assert list(edge.wakes(old, new)) == [ObjectKey(HOME, "local")]


@pytest.mark.parametrize("kind", [APP_INSTANCE, MODEL_ACTIVATION, NODE, CUSTOM_RESOURCE_DEFINITION])
def test_a_kind_that_can_be_read_again_wakes(kind: Kind) -> None:
    there, woken = World(shipped_catalog()), list[ObjectKey]()
    there.appliance.follow(woken.extend)
    there.reads.enter(kind, InformerState.SYNCED)
    assert woken == [ObjectKey(HOME, "local")]


# --- the Appliance that is installed ---------------------------------------------------------------


@pytest.mark.req("MS-218", "MS-219", "MS-220")
def test_the_installed_appliance_is_a_workstation_without_gpu_and_local_models() -> None:
    installed = one(MANIFESTS, "Appliance", "local")
    assert installed["spec"]["profile"] == "ai-workstation"
    assert installed["spec"]["modules"] == {
        name: {"enabled": True} for name in ("basis", "dashboard", "litellm", "model-catalog")
    }
