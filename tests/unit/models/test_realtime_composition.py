"""Who makes what realtime models are made of (spec: realtime §1)."""

from typing import Any

import pytest

from magicstick.api import labels
from magicstick.api.kinds import MODEL_ACTIVATION
from magicstick.kube.cache import Caches
from magicstick.kube.kinds import CONFIG_MAP
from magicstick.models.kinds import DEPLOYMENT, SERVICE
from magicstick.plan.operator import Operator
from magicstick.runtime.clock import SystemClock
from magicstick.runtime.settings import Settings
from tests.support.manifests import MANIFESTS, objects


@pytest.fixture
def operator() -> Operator:
    """All reconcilers there are, over caches that nobody fills."""
    nowhere: Any = None
    return Operator.over(Caches(nowhere), Settings.load(), SystemClock())


@pytest.mark.req("MS-056")
def test_the_reconciler_of_models_makes_all_three_objects_and_no_kind_of_ours_is_for_them(
    operator: Operator,
) -> None:
    made = {CONFIG_MAP, SERVICE, DEPLOYMENT}
    ours = [each for each in operator.declarations if each.primary.group == MODEL_ACTIVATION.group]
    makers = [each.primary for each in ours if made <= each.writes]
    assert makers == [MODEL_ACTIVATION]
    kinds = {obj["spec"]["names"]["kind"].lower() for _, obj in objects(MANIFESTS / "crds")}
    assert "modelactivation" in kinds
    assert not {each for each in kinds if "realtime" in each or "omni" in each}


def test_it_follows_only_the_config_maps_that_are_its_own(operator: Operator) -> None:
    (models,) = (each for each in operator.declarations if each.primary == MODEL_ACTIVATION)
    listed = [each for each in models.edges if each.kind == CONFIG_MAP and each.name is None]
    assert [each.label_selector for each in listed] == [
        f"{labels.MANAGED_BY}={labels.OPERATOR},{labels.RUNTIME_BACKEND}=vllm-omni"
    ]
