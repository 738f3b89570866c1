"""Plans for an empty cluster: what the operator would make of the catalogs that ship."""

import json
from typing import Any

import pytest

from magicstick.kube.cache import Caches
from magicstick.kube.config import ClusterConfig
from magicstick.manager import Manager
from magicstick.plan.assumptions import Assumed
from magicstick.plan.changes import Action, Change
from magicstick.plan.documents import InputError
from magicstick.plan.operator import Operator
from magicstick.plan.rehearsal import Plan
from magicstick.plan.sources import Once
from magicstick.runtime.settings import Settings
from tests.support.gpu_objects import NVIDIA, node_body
from tests.support.module_objects import shipped_catalog
from tests.unit.plan.conftest import FixedClock, Planned, body_of

pytestmark = pytest.mark.anyio

CPU_MODEL = body_of(
    "ModelActivation",
    "demo",
    spec={"type": "local", "local": {"computeTarget": "cpu", "engine": "VLLM", "url": "hf://example/model"}},
)
SOURCE = {"kind": "GitRepository", "name": "flux-system"}
NODE = body_of(
    "Node",
    "node-a",
    api_version="v1",
    status={
        "allocatable": {"cpu": "32", "memory": "128Gi"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
)


def module(name: str, **spec: Any) -> dict[str, Any]:
    return body_of("ModuleActivation", name, spec={"module": name, **spec})


def created(plan: Plan) -> dict[str, Change]:
    """What the operator would create, by `Kind/name`."""
    return {
        f"{each.kind.kind}/{each.key.name}": each for each in plan.derived if each.action is Action.CREATE
    }


def standing(plan: Plan, name: str) -> tuple[str, str]:
    """Phase and message of an object."""
    found = next(each for each in plan.standings if each.key.name == name)
    return found.phase, found.message


async def test_the_plan_knows_every_reconciler_of_the_operator() -> None:
    settings = Settings.load(leader_election=False)
    manager = Manager(settings, ClusterConfig.plain("http://127.0.0.1:9"))
    operator = Operator.over(Caches(Once(lambda _: True)), settings, FixedClock())
    theirs = {each.name: each.declaration for each in manager.controllers}
    assert operator.reconcilers.keys() == theirs.keys()
    for name, each in operator.reconcilers.items():
        assert each.declaration.scope == theirs[name].scope
        assert [edge.scope for edge in each.declaration.edges] == [edge.scope for edge in theirs[name].edges]
        assert each.declaration.writes == theirs[name].writes


async def test_a_module_brings_what_it_requires_and_all_become_ready(planned: Planned) -> None:
    plan = await planned(module("model-catalog"))
    assert created(plan).keys() == {
        "ModuleActivation/litellm",
        "Kustomization/app-litellm",
        "Kustomization/app-model-catalog",
    }
    assert {each.phase for each in plan.standings} == {"Ready"}
    kustomization = created(plan)["Kustomization/app-model-catalog"].body
    assert {"name": "app-litellm"} in kustomization["spec"]["dependsOn"]
    assert kustomization["spec"]["suspend"] is False


async def test_without_assumptions_a_module_waits_for_what_it_requires(planned: Planned) -> None:
    plan = await planned(module("litellm"), assume=())
    assert created(plan) == {}
    assert standing(plan, "litellm") == (
        "WaitingForModules",
        "Waiting for modules: basis (basis is not installed)",
    )


async def test_what_is_assumed_is_no_change_and_brings_what_it_requires(planned: Planned) -> None:
    plan = await planned(module("model-catalog"), assume=("litellm",))
    assert created(plan).keys() == {"Kustomization/app-model-catalog"}
    assert standing(plan, "model-catalog")[0] == "Reconciling"


async def test_a_module_that_is_off_is_not_installed_whatever_is_assumed(planned: Planned) -> None:
    plan = await planned(module("litellm", enabled=False))
    assert created(plan) == {}
    assert standing(plan, "litellm")[0] == "Disabled"


async def test_an_unknown_parameter_is_told_as_the_operator_tells_it(planned: Planned) -> None:
    plan = await planned(module("no-such-module"))
    phase, message = standing(plan, "no-such-module")
    assert (phase, created(plan)) == ("Degraded", {})
    assert "no-such-module" in message


async def test_an_appliance_seeds_its_modules(planned: Planned) -> None:
    modules = {"litellm": {"enabled": True}, "basis": {"enabled": True}, "kubeai": {"enabled": False}}
    plan = await planned(body_of("Appliance", "local", spec={"source": SOURCE, "modules": modules}))
    assert created(plan).keys() == {"ModuleActivation/litellm", "Kustomization/app-litellm"}
    assert standing(plan, "local")[0] == "Ready"


async def test_the_source_of_the_appliance_is_that_of_its_modules(planned: Planned) -> None:
    source = {"kind": "GitRepository", "name": "other", "namespace": "flux-system"}
    plan = await planned(body_of("Appliance", "local", spec={"source": source}), module("litellm"))
    assert created(plan)["Kustomization/app-litellm"].body["spec"]["sourceRef"] == source


async def test_hardware_that_is_given_requests_its_module(planned: Planned) -> None:
    plan = await planned(body_of("Appliance", "local", spec={"source": SOURCE}), node_body("node-a", NVIDIA))
    assert "ModuleActivation/gpu" in created(plan)
    assert "Kustomization/platform-gpu" in created(plan)


async def test_a_model_comes_with_its_modules_its_profile_and_its_object(planned: Planned) -> None:
    plan = await planned(CPU_MODEL, NODE)
    model = created(plan)["Model/demo"].body
    store = next(each for each in plan.derived if each.key.name == "magicstick-offloading-profiles")
    profiles = json.loads(store.body["data"]["values.json"])["resourceProfiles"]
    assert model["spec"]["url"] == "hf://example/model"
    assert model["spec"]["resourceProfile"] == f"{next(iter(profiles))}:1"
    assert standing(plan, "demo")[0] == "WaitingForPod"


async def test_a_model_waits_where_nothing_is_assumed(planned: Planned) -> None:
    plan = await planned(CPU_MODEL, NODE, assume=())
    assert "Model/demo" not in created(plan)
    assert standing(plan, "demo")[0] == "WaitingForModules"


async def test_the_same_question_has_the_same_answer(planned: Planned) -> None:
    first, second = await planned(CPU_MODEL, NODE), await planned(CPU_MODEL, NODE)
    assert (first.derived, first.standings) == (second.derived, second.standings)


async def test_an_assumption_that_is_no_module_is_named_with_those_there_are(planned: Planned) -> None:
    with pytest.raises(InputError, match=r"'litelm' is no module; allowed are all, none, .*litellm"):
        await planned(module("litellm"), assume=("litelm",))


def test_an_assumed_module_comes_with_all_that_it_requires() -> None:
    assumed = Assumed.of(["model-catalog"], shipped_catalog())
    assert assumed.named == ("model-catalog",)
    assert {"model-catalog", "litellm", "basis"} <= assumed.modules
    assert Assumed.of(["none"], shipped_catalog()) == Assumed()
