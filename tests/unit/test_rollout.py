"""Applies of Deployments in which somebody else has left what the server refuses beside them."""

from typing import Any

import pytest

from magicstick.kube.kinds import Kind
from magicstick.kube.objects import FullObjectMeta, Resource
from magicstick.runtime.plan import Apply, Patch
from magicstick.runtime.rollout import RECREATE, rolled

DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
LEFT = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}


def body(strategy: Any) -> dict[str, Any]:
    return {"metadata": {"name": "chat", "namespace": "ns"}, "spec": {"strategy": strategy}}


def live(strategy: Any) -> Resource:
    return Resource(
        metadata=FullObjectMeta(name="chat", namespace="ns", uid="u-1"), spec={"strategy": strategy}
    )


def test_settings_of_a_rolling_update_go_before_the_apply_that_they_would_have_refused() -> None:
    wanted = body({**RECREATE})
    patch, apply = rolled(DEPLOYMENT, wanted, live(LEFT))
    assert isinstance(patch, Patch)
    assert (patch.uid, patch.body) == (
        "u-1",
        {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}},
    )
    assert apply == Apply(DEPLOYMENT, wanted)


@pytest.mark.parametrize(
    ("wanted", "present"),
    [
        (RECREATE, None),
        (RECREATE, RECREATE),
        (RECREATE, "odd"),
        (LEFT, LEFT),
        (None, LEFT),
    ],
)
def test_everything_else_is_one_apply(wanted: Any, present: Any) -> None:
    assert rolled(DEPLOYMENT, body(wanted), live(present)) == (Apply(DEPLOYMENT, body(wanted)),)


def test_what_is_not_there_yet_is_one_apply() -> None:
    assert rolled(DEPLOYMENT, body({**RECREATE}), None) == (Apply(DEPLOYMENT, body({**RECREATE})),)
