"""What is sent to LiteLLM: who owns what, what is held, and that a plan leaves nothing to do."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.model_catalog.desired import KeyReference, Sources, Unreadable
from magicstick.model_catalog.inventory import Deployment, UnreadableInventoryError, deployments
from magicstick.model_catalog.plan import SyncPlan, Verb, plan
from magicstick.runtime.logs import Secret
from tests.support.catalog_objects import (
    KUBEAI_BASE,
    MASTER_KEY,
    activation,
    applied,
    deployment,
    external,
    freetoken,
    managed,
    model,
    replan,
)
from tests.support.effort import examples

DEMO = Sources(models=(model(),))
NOTHING = Sources()


def settled(sources: Sources, *before: Deployment) -> tuple[Deployment, ...]:
    """What LiteLLM has after one pass."""
    return applied(before, replan(sources, before))


def sent(todo: SyncPlan) -> list[tuple[str, str]]:
    """(what, id) in order."""
    return [
        *(("delete", each.id) for each in todo.withdrawals),
        *((str(each.verb), each.id) for each in todo.updates),
        *((str(each.verb), each.id) for each in todo.creations),
    ]


def entries(*models: Any) -> str:
    return json.dumps({"models": models})


# -- the ordinary way ----------------------------------------------------------------------------------


def test_a_route_that_is_not_there_is_created_whole() -> None:
    (put,) = replan(DEMO, ()).creations
    body: Any = put.body

    assert put.verb is Verb.CREATE
    assert body["model_name"] == "demo"
    assert body["litellm_params"] == {
        "model": "openai/demo",
        "api_base": KUBEAI_BASE,
        "api_key": "none",
        "order": 0,
    }
    assert body["model_info"]["id"] == "ai-appliance-kubeai-demo"
    assert len(body["model_info"]["magicstick_fingerprint"]) == 64


def test_a_route_that_is_there_is_left_alone() -> None:
    todo = replan(DEMO, settled(DEMO))
    assert todo.empty
    assert [each.name for each in todo.current] == ["demo"]


@pytest.mark.req("MS-364")
def test_a_route_that_nobody_wants_is_withdrawn_by_its_id() -> None:
    todo = replan(NOTHING, settled(DEMO))
    assert sent(todo) == [("delete", "ai-appliance-kubeai-demo")]


@pytest.mark.req("MS-365")
def test_a_route_that_was_withdrawn_is_created_again() -> None:
    withdrawn = settled(NOTHING, *settled(DEMO))
    assert sent(replan(DEMO, withdrawn)) == [("create", "ai-appliance-kubeai-demo")]


def test_withdrawals_come_before_updates_and_creations_last() -> None:
    before = settled(Sources(models=(model("gone"), model("changed"))))
    after = Sources(models=(model("new"), model("changed", args=("--max-model-len=1",))))
    assert sent(replan(after, before)) == [
        ("delete", "ai-appliance-kubeai-gone"),
        ("update", "ai-appliance-kubeai-changed"),
        ("create", "ai-appliance-kubeai-new"),
    ]


@pytest.mark.parametrize(
    "changed",
    [
        model(args=("--max-model-len=4096",)),
        model(engine="OLlama"),
        model(features=("TextEmbedding",)),
        model(annotations={"ai-appliance.io/max-output-tokens": "1"}),
    ],
)
def test_only_the_route_that_differs_is_updated(changed: Any) -> None:
    before = settled(Sources(models=(model(), model("other"))))
    todo = replan(Sources(models=(changed, model("other"))), before)
    assert sent(todo) == [("update", "ai-appliance-kubeai-demo")]


def test_a_field_that_goes_needs_the_route_to_be_made_anew_since_litellm_merges() -> None:
    before = settled(Sources(models=(model(args=("--max-model-len=4096",)),)))
    todo = replan(DEMO, before)

    assert sent(todo) == [("replace", "ai-appliance-kubeai-demo")]
    (after,) = applied(before, todo)
    assert "max_input_tokens" not in after.info
    assert replan(DEMO, (after,)).empty


@pytest.mark.parametrize("field", ["model", "api_base"])
def test_a_target_that_was_changed_by_hand_is_set_again(field: str) -> None:
    (before,) = settled(DEMO)
    by_hand = Deployment(before.name, {**before.params, field: "http://elsewhere.example.com"}, before.info)
    todo = replan(DEMO, (by_hand,))

    assert sent(todo) == [("update", "ai-appliance-kubeai-demo")]
    assert replan(DEMO, applied((by_hand,), todo)).empty


def test_a_mark_that_was_taken_away_by_hand_is_set_again() -> None:
    (before,) = settled(DEMO)
    by_hand = Deployment(before.name, before.params, {**before.info, "ai_appliance_managed": False})
    assert sent(replan(DEMO, (by_hand,))) == [("update", "ai-appliance-kubeai-demo")]


def test_a_key_that_was_rotated_updates_the_route_though_litellm_shows_none() -> None:
    content = entries({"name": "cloud", "model": "m", "apiKeySecretRef": {"name": "keys", "key": "one"}})

    def with_key(value: str) -> Sources:
        return Sources(external=content, keys={KeyReference("keys", "one"): Secret(value)})

    before = settled(with_key("old"))
    assert replan(with_key("old"), before).empty
    (put,) = replan(with_key("new"), before).updates
    body: Any = put.body
    assert body["litellm_params"]["api_key"] == "new"


def test_what_is_planned_can_be_shown_without_showing_a_key() -> None:
    content = entries({"name": "cloud", "model": "m", "apiKey": "sk-provider"})
    todo = replan(Sources(external=content), ())
    assert "sk-provider" not in repr(todo)
    assert MASTER_KEY.get_secret_value() not in repr(todo)


def test_two_names_of_one_slug_get_two_ids() -> None:
    sources = Sources(
        external=entries({"name": "My Model", "model": "m"}, {"name": "my-model", "model": "m"})
    )
    after = settled(sources)

    assert len({each.id for each in after}) == 2
    assert replan(sources, after).empty


# -- ownership -----------------------------------------------------------------------------------------


@pytest.mark.req("MS-023")
@pytest.mark.req("MS-024")
@pytest.mark.parametrize("owner", ["node-1", "", False, 0, {"id": "x"}])
@pytest.mark.parametrize("mark", [True, "true", None])
def test_the_meshs_deployments_are_never_touched_whatever_else_they_say(owner: object, mark: object) -> None:
    theirs = [
        managed("demo", "mesh-demo", magicstick_mesh_owner=owner, ai_appliance_managed=mark),
        managed("gone", "mesh-gone", magicstick_mesh_owner=owner, ai_appliance_managed=mark),
    ]
    todo = replan(DEMO, tuple(theirs))
    assert sent(todo) == [("create", "ai-appliance-kubeai-demo")]


@pytest.mark.req("MS-023")
def test_without_the_owner_mark_an_entry_is_not_the_meshs() -> None:
    assert sent(replan(NOTHING, (managed("mesh/node/demo", "m", magicstick_mesh_owner=None),))) == [
        ("delete", "m")
    ]


def test_a_mesh_deployment_on_our_id_is_not_overwritten() -> None:
    theirs = managed("other", "ai-appliance-kubeai-demo", magicstick_mesh_owner="node-1")
    (put,) = replan(DEMO, (theirs,)).creations
    assert put.id.startswith("ai-appliance-kubeai-demo-")


@pytest.mark.parametrize("mark", [True, "true", "True", " true "])
def test_what_is_marked_as_managed_is_ours(mark: object) -> None:
    assert sent(replan(NOTHING, (managed("old", "x", ai_appliance_managed=mark),))) == [("delete", "x")]


@pytest.mark.parametrize("mark", [False, "false", None, 1, "yes", ["true"]])
@pytest.mark.parametrize("stored", [True, False])
def test_what_is_not_marked_is_never_deleted(mark: object, *, stored: bool) -> None:
    foreign = deployment("foreign", "x", ai_appliance_managed=mark, db_model=stored)
    assert replan(NOTHING, (foreign,)).empty


def test_a_foreign_route_of_the_same_name_is_adopted_when_it_is_stored_in_the_database() -> None:
    foreign = deployment("demo", "made-by-hand", custom="kept")
    todo = replan(DEMO, (foreign,))

    assert sent(todo) == [("update", "made-by-hand")]
    (after,) = applied((foreign,), todo)
    assert (after.managed, after.info["custom"]) == (True, "kept")
    assert replan(DEMO, (after,)).empty


def test_a_foreign_route_of_litellms_configuration_gets_ours_beside_it_and_this_is_told() -> None:
    foreign = deployment("demo", "configured", db_model=False)
    todo = replan(DEMO, (foreign,))

    assert sent(todo) == [("create", "ai-appliance-kubeai-demo")]
    assert [each.subject for each in todo.problems] == ["route 'demo'"]
    after = applied((foreign,), todo)
    assert foreign in after
    assert replan(DEMO, after).problems == ()


def test_of_several_of_one_name_ours_is_kept_then_the_lowest_id_and_our_others_go() -> None:
    existing = (
        deployment("demo", "a-foreign"),
        managed("demo", "c-ours"),
        managed("demo", "b-ours"),
    )
    assert sent(replan(DEMO, existing)) == [("delete", "c-ours"), ("update", "b-ours")]


def test_an_entry_of_ours_without_an_id_is_told_and_not_deleted() -> None:
    todo = replan(NOTHING, (managed("old"),))
    assert todo.empty
    assert [str(each) for each in todo.problems] == ["route 'old': has no id in LiteLLM and stays"]


def test_a_name_that_moves_to_another_source_keeps_its_id_and_becomes_that_source() -> None:
    before = settled(Sources(models=(model("same"),)))
    after = Sources(models=(model("same"),), external=entries({"name": "same", "model": "m"}))
    todo = replan(after, before)

    assert sent(todo) == [("replace", "ai-appliance-kubeai-same")]
    (now,) = applied(before, todo)
    assert now.source == "external"


def test_another_master_key_sends_every_route_once() -> None:
    before = settled(DEMO)
    from magicstick.model_catalog.desired import desired_routes

    todo = plan(desired_routes(DEMO, KUBEAI_BASE), before, Secret("another"))
    assert sent(todo) == [("update", "ai-appliance-kubeai-demo")]


# -- what cannot be read takes nothing away --------------------------------------------------------------

FULL = Sources(
    models=(model("free"), model("bound", owner="bound")),
    activations=(activation("bound"), external("act"), freetoken("direct")),
    external=entries({"name": "listed", "model": "m"}),
)


def after_losing(**lost: Any) -> list[tuple[str, str]]:
    """What is sent when everything is gone but what cannot be read."""
    before = settled(FULL)
    return sent(replan(Sources(**lost), before))


def test_no_kubeai_route_is_withdrawn_while_models_cannot_be_read() -> None:
    assert after_losing(models=Unreadable("500")) == [
        ("delete", "ai-appliance-external-act"),
        ("delete", "ai-appliance-external-listed"),
        ("delete", "ai-appliance-freetoken-direct"),
    ]


def test_no_route_of_an_activation_is_withdrawn_while_activations_cannot_be_read() -> None:
    before = settled(FULL)
    lost = Sources(models=(model("bound", owner="bound"),), activations=Unreadable("403"))
    assert sent(replan(lost, before)) == [
        ("delete", "ai-appliance-external-listed"),
        ("delete", "ai-appliance-kubeai-free"),
    ]


def test_no_route_of_the_config_map_is_withdrawn_while_it_cannot_be_read() -> None:
    assert after_losing(external="{ no json") == [
        ("delete", "ai-appliance-external-act"),
        ("delete", "ai-appliance-freetoken-direct"),
        ("delete", "ai-appliance-kubeai-bound"),
        ("delete", "ai-appliance-kubeai-free"),
    ]


def test_a_model_that_is_gone_is_withdrawn_also_while_activations_cannot_be_read() -> None:
    before = settled(FULL)
    todo = replan(Sources(activations=Unreadable("403"), external=FULL.external), before)
    assert ("delete", "ai-appliance-kubeai-bound") in sent(todo)


def test_external_routes_of_an_earlier_version_count_as_of_the_source_that_cannot_be_read() -> None:
    old = (managed("listed", "1", "external"), managed("act", "2", "external"))
    disabled = external("act", enabled=False)
    assert sent(replan(Sources(activations=(disabled,), external="{"), old)) == [("delete", "2")]


def keyed(key: Secret | Unreadable, model_: str = "m") -> Sources:
    entry = {"name": "cloud", "model": model_, "apiKeySecretRef": {"name": "keys", "key": "one"}}
    return Sources(external=entries(entry), keys={KeyReference("keys", "one"): key})


def test_a_route_whose_key_is_missing_stays_exactly_as_it_is() -> None:
    before = settled(keyed(Secret("k")))
    todo = replan(keyed(Unreadable("gone"), "another"), before)
    assert todo.empty
    assert todo.held == {"cloud"}


def test_a_route_that_never_was_is_not_created_without_its_key() -> None:
    assert replan(keyed(Unreadable("gone")), ()).empty


def test_a_local_route_is_not_taken_over_by_an_external_model_without_its_key() -> None:
    local = (model("cloud"),)
    before = settled(Sources(models=local))
    missing = keyed(Unreadable("gone"))
    assert replan(Sources(models=local, external=missing.external, keys=missing.keys), before).empty


# -- the inventory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [None, [], {}, {"data": None}, {"data": {}}, {"models": []}, "html", 7])
def test_an_answer_that_is_no_list_of_models_never_looks_like_an_empty_one(answer: object) -> None:
    with pytest.raises(UnreadableInventoryError):
        deployments(answer)


def test_entries_that_say_nothing_are_left_out() -> None:
    listed = [None, 7, {}, {"model_name": 3}, {"model_name": ""}, {"model_name": "x", "model_info": None}]
    (only,) = deployments({"data": listed})
    assert (only.name, only.id, only.managed) == ("x", "", False)


# -- properties ------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["demo", "Demo", "de mo", "de-mo", "cloud", "x/y", "x-y"])
KINDS = st.sampled_from(["kubeai", "external", "vllm-omni"])


@st.composite
def existing(draw: st.DrawFn) -> tuple[Deployment, ...]:
    found = []
    for number in range(draw(st.integers(0, 5))):
        id_ = draw(st.sampled_from([f"id-{number}", f"ai-appliance-kubeai-demo-{number}", f"z{number}", ""]))
        info: dict[str, Any] = draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "ai_appliance_managed": st.sampled_from([True, "true", False]),
                    "ai_appliance_source": KINDS,
                    "magicstick_mesh_owner": st.just("node"),
                    "magicstick_origin": st.sampled_from(["model", "activation", "configmap"]),
                    "db_model": st.booleans(),
                },
            )
        )
        found.append(deployment(draw(NAMES), id_ or None, **{"db_model": True, **info}))
    taken = draw(st.booleans())
    return (
        (*found, managed("cloud", "ai-appliance-kubeai-demo", magicstick_mesh_owner="n"))
        if taken
        else tuple(found)
    )


@st.composite
def sources(draw: st.DrawFn) -> Sources:
    names = st.lists(NAMES, unique=True, max_size=4)
    models = tuple(
        model(name, owner=draw(st.sampled_from([None, name])), ready=draw(st.integers(0, 1)))
        for name in draw(names)
    )
    makers = st.sampled_from([activation, external, freetoken])
    activations = tuple(draw(makers)(name) for name in draw(names))
    content = entries(*({"name": name, "model": "m"} for name in draw(names)))
    unreadable: Any = Unreadable("no")
    return Sources(
        draw(st.sampled_from([models, unreadable])),
        draw(st.sampled_from([activations, unreadable])),
        draw(st.sampled_from([content, "{", unreadable])),
    )


@given(sources(), existing())
@examples(150)
def test_applied_a_plan_leaves_nothing_to_do(wanted: Sources, before: tuple[Deployment, ...]) -> None:
    assert replan(wanted, applied(before, replan(wanted, before))).empty


@pytest.mark.req("MS-024")
@given(sources(), existing())
@examples(150)
def test_what_is_not_ours_survives_every_plan(wanted: Sources, before: tuple[Deployment, ...]) -> None:
    after = applied(before, replan(wanted, before))
    for each in before:
        if each.mesh_owned or not (each.managed or each.stored):
            assert each in after
        if not each.managed and each.id:
            assert each.id in {one.id for one in after}


@given(sources(), existing())
@examples(100)
def test_no_two_calls_of_a_plan_are_about_one_id(wanted: Sources, before: tuple[Deployment, ...]) -> None:
    ids = [id_ for _, id_ in sent(replan(wanted, before))]
    assert len(ids) == len(set(ids))
