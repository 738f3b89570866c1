"""Whatever form a plan is written in, it says the same, and no secret."""

import base64
import json
from typing import Any

import pytest

from hack import yamls
from magicstick.api.kinds import KUSTOMIZATION, MODULE_ACTIVATION
from magicstick.kube.kinds import CONFIG_MAP, Kind, ObjectKey
from magicstick.plan.changes import ABSENT, Action, Change, FieldChange, of_given, of_note, of_notes
from magicstick.plan.given import Given
from magicstick.plan.hands import Note, Notes, Verb
from magicstick.plan.mask import MASK, masked
from magicstick.plan.rehearsal import Plan
from magicstick.plan.standing import Standing
from magicstick.plan.text import as_yaml, diff, listing, report, summary
from magicstick.plan.unknown import ASSUMED, GENERATED, UID
from tests.support.objects import WIDGET, resource, widget, widget_body

SECRET = Kind("", "v1", "Secret", "secrets")
HIDDEN = "hunter2-hunter2"
KEY = ObjectKey("flux-system", "app-a")


def change(action: Action, *fields: FieldChange, kind: Kind = KUSTOMIZATION, **content: Any) -> Change:
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": KEY.name}, **content}
    return Change(action, kind, KEY, body, fields)


def plan(*derived: Change, given: tuple[Change, ...] = (), standings: tuple[Standing, ...] = ()) -> Plan:
    return Plan(given, derived, standings)


def lines(of: Any) -> list[str]:
    return [str(line) for line in of]


def everything(of: Plan) -> str:
    """The plan in every form."""
    texts = [
        *lines(summary(of)),
        *lines(diff(of)),
        as_yaml(of),
        json.dumps(listing(of)),
        json.dumps(report(of)),
    ]
    return "\n".join(texts)


def test_a_summary_has_a_line_for_each_object_and_what_is_not_ready() -> None:
    waiting = Standing(MODULE_ACTIVATION, ObjectKey("ai-system", "a"), "Waiting", "For", "Waiting for b.")
    ready = Standing(MODULE_ACTIVATION, ObjectKey("ai-system", "b"), "Ready", "Done", "Fine.")
    made = plan(
        change(Action.CREATE),
        change(Action.UNCHANGED),
        given=(change(Action.UPDATE, FieldChange("spec.a", 1, 2)),),
        standings=(waiting, ready),
    )
    assert lines(summary(made)) == [
        "Given:",
        "~ update    Kustomization flux-system/app-a",
        "",
        "The operator:",
        "+ create    Kustomization flux-system/app-a",
        "  unchanged Kustomization flux-system/app-a",
        "",
        "Not ready then:",
        "  ModuleActivation ai-system/a: Waiting. Waiting for b",
        "",
        "1 created, 1 changed, 1 unchanged.",
    ]


def test_a_difference_shows_each_field_with_both_values() -> None:
    made = plan(
        change(
            Action.UPDATE,
            FieldChange("spec.suspend", before=True, after=False),
            FieldChange("spec.timeout", "1m", ABSENT),
            FieldChange("spec.path", "./a", "./a", "taken over"),
            FieldChange("data.text", "one\ntwo\nthree\n", "one\n2\nthree\n"),
        ),
        change(Action.DELETE),
    )
    assert lines(diff(made)) == [
        "~ update Kustomization flux-system/app-a",
        "~     spec.suspend: true -> false",
        "~     spec.timeout: 1m -> (absent)",
        "~     spec.path: ./a (taken over)",
        "~     data.text:",
        "        one",
        "-       two",
        "+       2",
        "        three",
        "",
        "- delete Kustomization flux-system/app-a",
        "",
        "1 changed, 1 deleted, 0 unchanged.",
    ]


def test_nothing_to_do_is_said_in_words() -> None:
    assert lines(diff(plan(change(Action.UNCHANGED)))) == ["Nothing would change."]


def test_yaml_is_what_kubectl_takes_and_deletions_are_comments() -> None:
    text = as_yaml(plan(change(Action.CREATE, spec={"a": (1, 2)}), change(Action.DELETE)))
    assert text.startswith("# delete Kustomization flux-system/app-a\n")
    (found,) = yamls.load_all(text)
    assert found["spec"] == {"a": [1, 2]}
    assert found["kind"] == "Kustomization"


def test_data_has_every_change_and_how_everything_would_stand() -> None:
    made = plan(change(Action.UPDATE, FieldChange("spec.a", ABSENT, None)))
    (found,) = report(made)["objects"]
    assert found["fields"] == [{"path": "spec.a", "after": None}]
    assert (found["action"], found["from"], found["namespace"]) == ("update", "operator", "flux-system")
    assert report(made)["changes"] is True


def test_the_values_of_secrets_are_in_no_form_of_a_plan() -> None:
    env = [{"name": "ADMIN_PASSWORD", "value": HIDDEN}, {"name": "PLAIN", "value": "shown"}]
    made = plan(
        change(Action.CREATE, kind=SECRET, data={"k": HIDDEN}, stringData={"l": HIDDEN}),
        change(Action.UPDATE, FieldChange("data.k", HIDDEN, HIDDEN + "2"), kind=SECRET),
        change(Action.UPDATE, FieldChange("data", {"k": HIDDEN}, ABSENT), kind=SECRET),
        change(Action.CREATE, spec={"apiKey": HIDDEN, "env": env, "values": {"auth": {"token": HIDDEN}}}),
        change(Action.UPDATE, FieldChange("spec.postBuild.substitute.CLIENT_SECRET", HIDDEN, HIDDEN)),
        given=(change(Action.CREATE, spec={"parameters": {"db-password": HIDDEN}}),),
    )
    text = everything(made)
    assert "hunter2" not in text
    assert MASK in text
    assert "shown" in text


def test_where_a_secret_is_may_be_shown() -> None:
    spec = {"secretName": "a", "apiKeySecretRef": {"name": "b", "key": "c"}, "tokenSecretName": "d"}
    assert masked(change(Action.CREATE, spec=spec)).body["spec"] == spec


def test_of_a_reference_to_a_secret_nothing_is_hidden() -> None:
    spec = {"secretRef": {"name": "a", "keys": {"password": "pw", "secretAccessKey": "access"}}}
    assert masked(change(Action.CREATE, spec=spec)).body["spec"] == spec
    keys = {"keys": {"password": HIDDEN}}
    assert HIDDEN not in str(masked(change(Action.CREATE, spec={"secretRef": keys})).body), "it names none"


@pytest.mark.parametrize(("mark", "word"), [(GENERATED, "(generated)"), (ASSUMED, "(assumed)")])
def test_a_made_up_value_is_told_as_such_wherever_it_stands(mark: str, word: str) -> None:
    encoded = base64.b64encode(f"redis://:{mark}@host".encode()).decode()
    secret = masked(change(Action.CREATE, kind=SECRET, data={"url": encoded, "known": "aG9zdA=="}))
    assert secret.body["data"] == {"url": word, "known": MASK}
    fields = (FieldChange("data.url", "aG9zdA==", encoded), FieldChange("data", ABSENT, {"url": encoded}))
    shown = masked(change(Action.UPDATE, *fields, kind=SECRET)).fields
    assert [(each.before, each.after) for each in shown] == [(MASK, word), (ABSENT, {"url": word})]
    spec = {"plain": f"a {mark} b", "list": [mark], "secretRef": {"name": mark}, "password": mark}
    assert masked(change(Action.CREATE, spec=spec)).body["spec"] == {
        "plain": word,
        "list": [word],
        "secretRef": {"name": word},
        "password": word,
    }


def test_a_uid_that_the_server_has_still_to_give_is_told_as_such() -> None:
    body = masked(change(Action.CREATE, spec={"owner": f"{UID}000000000007"})).body
    assert body["spec"] == {"owner": "(generated)"}


# --- what steps amount to ----------------------------------------------------------------------------


def note(verb: Verb, body: dict[str, Any], before: Any) -> Note:
    return Note(verb, WIDGET, ObjectKey("default", "w"), body, before)


def test_what_comes_and_goes_within_a_plan_is_nothing() -> None:
    assert of_note(note(Verb.DELETE, {}, None)) is None


def test_what_is_dying_is_left_alone() -> None:
    found = of_note(note(Verb.APPLY, widget_body("w", 1, spec={"a": 2}), widget("w", 1, dying=True)))
    assert found is not None
    assert not found.changes


def by(manager: str, verb: Verb, before: Any = None, **content: Any) -> Note:
    return Note(verb, WIDGET, ObjectKey("default", "w"), widget_body("w", 1, **content), before, manager)


def managed_by(manager: str, field: str) -> dict[str, Any]:
    """That a manager applied a field of the spec."""
    return {"manager": manager, "operation": "Apply", "fieldsV1": {"f:spec": {f"f:{field}": {}}}}


def test_what_several_managers_do_to_one_object_is_one_change() -> None:
    made = by("maker", Verb.APPLY, spec={"size": 1, "roles": []})
    part = by("other", Verb.PART, spec={"roles": ["r"], "deep": {"x": 1}})
    found = of_notes([made, part])
    assert found is not None
    assert (found.action, found.fields) == (Action.CREATE, ())
    assert found.body["spec"] == {"size": 1, "roles": ["r"], "deep": {"x": 1}}


def test_of_an_object_that_is_there_each_manager_changes_fields_of_its_own() -> None:
    managed = [managed_by("maker", "size"), managed_by("other", "x")]
    before = widget("w", 1, spec={"size": 1, "x": 1}, managed_fields=managed)
    notes = [by("maker", Verb.APPLY, before, spec={"size": 2}), by("other", Verb.PART, before, spec={"x": 3})]
    found = of_notes(notes)
    assert found is not None
    assert [(each.path, each.after) for each in found.fields] == [("spec.size", 2), ("spec.x", 3)]
    assert of_notes([]) is None


def test_a_part_that_is_given_up_is_a_field_that_goes() -> None:
    before = widget("w", 1, spec={"x": 3, "y": 4}, managed_fields=[managed_by("other", "x")])
    found = of_notes([by("other", Verb.PART, before, spec={"y": 5})])
    assert found is not None
    assert {each.path: each.after for each in found.fields} == {"spec.y": 5, "spec.x": ABSENT}


def test_a_deletion_ends_what_was_noted_and_is_ended_by_what_follows() -> None:
    notes, place = Notes(), (WIDGET, ObjectKey("default", "w"))
    for each in (by("a", Verb.APPLY), by("b", Verb.PART), note(Verb.DELETE, {}, None)):
        notes.add(each)
    assert [each.verb for each in notes[place]] == [Verb.DELETE]
    notes.add(by("b", Verb.APPLY))
    assert [(each.verb, each.manager) for each in notes[place]] == [(Verb.APPLY, "b")]
    assert list(notes) == [place]
    notes.clear()
    assert list(notes) == []
    assert notes[place] == ()


def test_an_owner_that_only_changes_hands_keeps_its_reference() -> None:
    owner = {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u", "blockOwnerDeletion": True}
    body = widget_body("w", 1)
    body["metadata"]["ownerReferences"] = [owner]
    before = resource(body)
    found = of_note(Note(Verb.APPLY, WIDGET, ObjectKey("default", "w"), body, before, "someone"))
    assert found is not None
    assert {each.path: each.note for each in found.fields}["metadata.ownerReferences"] == "taken over"


def test_a_patch_shows_what_it_sets_and_nothing_that_is_so_already() -> None:
    before = widget("w", 1, data={"a": "1", "b": "2"}, annotations={"x": "y"})
    patch = {"metadata": {"annotations": {"x": "y"}}, "data": {"a": "9", "b": "2", "c": None}}
    found = of_note(note(Verb.PATCH, patch, before))
    assert found is not None
    assert [(each.path, each.before, each.after) for each in found.fields] == [("data.a", "1", "9")]
    assert found.body["metadata"]["name"] == "w"


def test_of_a_given_object_every_field_of_its_spec_counts_and_its_labels_only_as_given() -> None:
    before = widget("w", 1, spec={"a": 1, "gone": 2, "deep": {"x": 1}}, labels={"theirs": "1", "ours": "1"})
    body = widget_body("w", 1, spec={"a": 1, "deep": {"x": 2}, "new": [1]}, labels={"ours": "2"})
    given = Given(CONFIG_MAP, ObjectKey("default", "w"), body, "file")
    assert {each.path: (each.before, each.after) for each in of_given(given, before).fields} == {
        "metadata.labels.ours": ("1", "2"),
        "spec.deep.x": (1, 2),
        "spec.gone": (2, ABSENT),
        "spec.new": (ABSENT, [1]),
    }
