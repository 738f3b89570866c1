"""Generated Secrets are made once and kept; Secrets of users are checked; nothing is given away (fault F19)."""

import base64
import itertools
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.api.kinds import PALENA_GATEWAY
from magicstick.kube.objects import Resource
from magicstick.palena.common.owners import Owner, metadata
from magicstick.palena.common.secrets import (
    NAME_CONFLICT,
    SECRET,
    SECRET_INVALID,
    SECRET_KEY_MISSING,
    SECRET_LOST,
    SECRET_NOT_FOUND,
    Fresh,
    SecretRecipe,
    SystemEntropy,
    copy_of,
    draw,
    ensure,
    read_key,
    values_of,
)
from magicstick.runtime.plan import Apply, Create
from tests.support.runtime import resource

OWNER = Owner(PALENA_GATEWAY, "ai", "gw", "uid-gw")
RECIPE = SecretRecipe(
    "gw-palena-redis",
    "redis",
    {"password": lambda entropy: entropy.alphanumeric(32), "salt": lambda entropy: entropy.hex(64)},
    lambda values: {"url": f"redis://:{values['password']}@host:6379/0"},
    vital=frozenset({"password"}),
)
VOLUME = "PersistentVolumeClaim data-gw-palena-redis-0"


class Counted:
    """An entropy that never gives the same twice."""

    def __init__(self) -> None:
        self.numbers = itertools.count(1)

    def alphanumeric(self, length: int) -> str:
        return str(next(self.numbers)).rjust(length, "A")

    def hex(self, length: int) -> str:
        return str(next(self.numbers)).rjust(length, "0")

    def uuid(self) -> str:
        return str(next(self.numbers))


def stored(values: Mapping[str, str], owner: Owner = OWNER, **raw: str) -> Resource:
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return resource({"metadata": metadata(owner, RECIPE.name, "redis"), "data": {**data, **raw}})


def written(state: Any) -> dict[str, str]:
    (step,) = state.steps
    return values_of(resource(step.body))


def test_a_secret_that_is_not_there_is_created_and_never_applied_over_another() -> None:
    state = ensure(RECIPE, OWNER, None, draw(RECIPE, None, Counted()))
    (step,) = state.steps
    assert isinstance(step, Create)
    assert (step.kind, step.body["type"]) == (SECRET, "Opaque")
    values = written(state)
    assert values.keys() == {"password", "salt", "url"}
    assert values["password"] in values["url"]
    assert not state.complete, "what is not in the cluster yet is not used"


@given(
    st.dictionaries(
        st.sampled_from(["password", "salt", "url", "more"]), st.text(min_size=1).map(str.strip).filter(bool)
    )
)
def test_no_value_that_is_there_is_ever_replaced(values: dict[str, str]) -> None:
    live = stored(values)
    state = ensure(RECIPE, OWNER, live, draw(RECIPE, live, Counted()))
    for step in state.steps:
        assert isinstance(step, Apply)
        after = values_of(resource(dict(step.body)))
        for key in RECIPE.generated.keys() & values.keys():
            assert after[key] == values[key]


def test_keys_that_are_missing_are_added_and_derived_ones_kept_current() -> None:
    live = stored({"password": "kept", "url": "old"})
    values = written(ensure(RECIPE, OWNER, live, draw(RECIPE, live, Counted())))
    assert values["password"] == "kept"
    assert values["url"] == "redis://:kept@host:6379/0"
    assert len(values["salt"]) == 64


def test_a_complete_secret_draws_nothing_and_asks_for_nothing_new() -> None:
    live = stored({"password": "p", "salt": "s", "url": "redis://:p@host:6379/0"})
    assert draw(RECIPE, live, Counted()) == Fresh()
    state = ensure(RECIPE, OWNER, live, Fresh())
    assert (state.steps, dict(state.values)) == ((), values_of(live))


@pytest.mark.parametrize("lost", ["labels", "ownerReferences"])
def test_a_secret_that_does_not_say_whose_it_is_any_more_is_told_again(lost: str) -> None:
    described = metadata(OWNER, RECIPE.name, "redis")
    kept = described["labels"] if lost == "ownerReferences" else {}
    meta = {**described, "labels": kept, **({lost: []} if lost == "ownerReferences" else {})}
    values = {"password": "p", "salt": "s", "url": "redis://:p@host:6379/0"}
    live = resource({"metadata": meta, "data": stored(values).data})
    (step,) = ensure(RECIPE, OWNER, live, Fresh()).steps
    assert isinstance(step, Apply)
    assert step.body["metadata"] == described


def test_a_secret_that_is_gone_while_its_data_lives_is_not_made_anew() -> None:
    state = ensure(RECIPE, OWNER, None, draw(RECIPE, None, Counted()), data_lives=VOLUME)
    assert (state.steps, state.problem) == ((), SECRET_LOST)
    for word in ("ai/gw-palena-redis", VOLUME, "password", "backup"):
        assert word in state.message


def test_a_vital_key_that_is_gone_while_its_data_lives_is_lost_and_another_is_not() -> None:
    without_password = stored({"salt": "s"})
    lost = ensure(
        RECIPE, OWNER, without_password, draw(RECIPE, without_password, Counted()), data_lives=VOLUME
    )
    assert lost.problem == SECRET_LOST
    without_salt = stored({"password": "p"})
    added = ensure(RECIPE, OWNER, without_salt, draw(RECIPE, without_salt, Counted()), data_lives=VOLUME)
    assert (added.problem, written(added)["password"]) == ("", "p")


def test_a_secret_that_is_put_back_heals_and_one_whose_data_is_gone_is_made_anew() -> None:
    back = stored({"password": "p", "salt": "s", "url": "redis://:p@host:6379/0"})
    assert ensure(RECIPE, OWNER, back, Fresh(), data_lives=VOLUME).complete
    assert ensure(RECIPE, OWNER, None, draw(RECIPE, None, Counted())).steps


def test_what_the_instructions_say_heals() -> None:
    lost = ensure(RECIPE, OWNER, None, draw(RECIPE, None, Counted()), data_lives=VOLUME)
    marks = dict(re.findall(r"(\S+/\S+?)=([\w-]+)", lost.message))
    assert marks
    body = {"metadata": {"name": RECIPE.name, "namespace": "ai", "labels": marks}}
    back = resource({**body, "data": stored({"password": "p", "salt": "s"}).data})
    state = ensure(RECIPE, OWNER, back, Fresh(), data_lives=VOLUME)
    assert not state.problem
    assert isinstance(state.steps[0], Apply)


@pytest.mark.parametrize("value", ["p\n", " p", "p "])
def test_a_generated_value_that_was_put_back_with_blanks_is_not_used(value: str) -> None:
    live = stored({"password": value, "salt": "s"})
    state = ensure(RECIPE, OWNER, live, draw(RECIPE, live, Counted()), data_lives=VOLUME)
    assert (state.problem, state.steps, dict(state.values)) == (SECRET_INVALID, (), {})
    assert "password" in state.message
    assert repr(value) not in state.message


def test_a_secret_of_somebody_elses_is_neither_read_nor_written() -> None:
    other = stored({"password": "theirs"}, Owner(PALENA_GATEWAY, "ai", "gw", "uid-other"))
    state = ensure(RECIPE, OWNER, other, draw(RECIPE, other, Counted()))
    assert (state.steps, state.problem, dict(state.values)) == ((), NAME_CONFLICT, {})


def test_nothing_that_can_be_printed_gives_a_value_away() -> None:
    live = stored({"password": "swordfish", "salt": "s", "url": "redis://:swordfish@host:6379/0"})
    fresh = Fresh({"password": "swordfish"})
    state = ensure(RECIPE, OWNER, live, fresh)
    value = read_key(live, "ai", "gw-palena-redis", "password")
    assert state.complete
    assert value.value == "swordfish"
    for each in (state, fresh, value):
        assert "swordfish" not in f"{each!r} {each}"


@pytest.mark.parametrize(
    ("raw", "reason", "said"),
    [
        ("", SECRET_INVALID, "is empty"),
        ("  ", SECRET_INVALID, "is empty"),
        ("postgres://swordfish\n", SECRET_INVALID, "newline"),
        (" postgres://swordfish", SECRET_INVALID, "blanks"),
        ("mysql://swordfish", SECRET_INVALID, "does not begin with postgres:// or postgresql://"),
        ("postgres://swordfish", "", ""),
    ],
)
def test_a_value_of_a_user_is_checked_and_not_quoted(raw: str, reason: str, said: str) -> None:
    found = read_key(stored({"k": raw}), "ai", "db", "k", schemes=("postgres://", "postgresql://"))
    assert (found.reason, found.valid) == (reason, not reason)
    assert said in found.message
    assert "swordfish" not in found.message
    if reason:
        assert found.verdict("DatabaseReady").reason == reason


def test_a_secret_or_key_that_is_missing_is_named() -> None:
    missing = read_key(None, "ai", "db", "k")
    assert missing.reason == SECRET_NOT_FOUND
    assert missing.message == "the Secret ai/db does not exist, or is a service account's token", (
        "none is read"
    )
    absent = read_key(stored({}), "ai", "db", "k")
    assert (absent.reason, absent.message) == (SECRET_KEY_MISSING, "the Secret ai/db has no key k")
    binary = stored({}, k=base64.b64encode(b"\xff\xfe").decode())
    assert read_key(binary, "ai", "db", "k").reason == SECRET_INVALID
    with pytest.raises(ValueError, match="nothing is wrong"):
        read_key(stored({"k": "v"}), "ai", "db", "k").verdict("Ready")


def test_a_copy_elsewhere_holds_the_values_and_names_its_owner() -> None:
    copied = resource(copy_of(OWNER, "keys", "langfuse", "other", {"a": "1"}))
    assert values_of(copied) == {"a": "1"}
    assert copied.metadata.namespace == "other"
    assert copied.metadata.owner_references == ()
    assert "PalenaGateway/ai/gw" in copied.metadata.annotations.values()


def test_the_systems_entropy_has_the_alphabet_and_the_length_that_are_asked_for() -> None:
    entropy = SystemEntropy()
    assert re.fullmatch(r"[A-Za-z0-9]{32}", entropy.alphanumeric(32))
    assert re.fullmatch(r"[0-9a-f]{64}", entropy.hex(64))
    assert re.fullmatch(
        r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", entropy.uuid()
    )
    assert entropy.alphanumeric(32) != entropy.alphanumeric(32)
