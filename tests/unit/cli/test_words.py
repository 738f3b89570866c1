"""What the words of a command line ask for."""

import pytest

from magicstick.api.appearances import (
    APPEARANCES,
    APPLIANCE,
    MODEL_ACTIVATION,
    MODULE_ACTIVATION,
    PALENA_APPEARANCES,
    Appearance,
)
from magicstick.api.kinds import HOME_NAMESPACE
from magicstick.cli.errors import MISUSED, CommandError
from magicstick.cli.words import HARDWARE, KNOWN, LISTED, kind_called, names_of, usual_namespace, wanted

Asked = list[tuple[Appearance, tuple[str, ...]]]


def asked(*words: str) -> Asked:
    return [(each.appearance, each.names) for each in wanted(words)]


@pytest.mark.parametrize("appearance", KNOWN, ids=lambda each: each.kind.kind)
def test_a_kind_is_found_by_each_of_its_names_in_any_case(appearance: Appearance) -> None:
    for name in (*names_of(appearance), appearance.kind.kind):
        assert kind_called(name) is appearance
        assert kind_called(name.upper()) is appearance


def test_no_name_stands_for_two_kinds() -> None:
    names = [name for appearance in KNOWN for name in names_of(appearance)]
    assert len(names) == len(set(names))


def test_every_kind_can_be_asked_for() -> None:
    assert set(APPEARANCES) < set(KNOWN)
    assert not set(LISTED) & set(PALENA_APPEARANCES)


def test_palena_has_a_word_for_all_its_kinds_and_places_everywhere() -> None:
    assert asked("palena") == [(each, ()) for each in PALENA_APPEARANCES]
    assert usual_namespace(wanted(["gateways"])) == ""
    assert usual_namespace(wanted(["gateway", "gw"])) == HOME_NAMESPACE
    assert usual_namespace(wanted(["gateways,modules"])) == HOME_NAMESPACE
    assert usual_namespace(wanted([])) == HOME_NAMESPACE


@pytest.mark.parametrize("words", [(), ("all",), ("magicstick",), ("ALL",)])
def test_no_word_and_the_category_ask_for_everything(words: tuple[str, ...]) -> None:
    assert asked(*words) == [(each, ()) for each in LISTED]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("msmod",), [(MODULE_ACTIVATION, ())]),
        (("modules",), [(MODULE_ACTIVATION, ())]),
        (("Module/a", "model/b"), [(MODULE_ACTIVATION, ("a",)), (MODEL_ACTIVATION, ("b",))]),
        (("msmod", "a", "b", "a"), [(MODULE_ACTIVATION, ("a", "b"))]),
        (("msmod,msmodel",), [(MODULE_ACTIVATION, ()), (MODEL_ACTIVATION, ())]),
        (("msmod,moduleactivations",), [(MODULE_ACTIVATION, ())]),
        (
            ("msmod/a", "msmodel/b", "moduleactivation/c"),
            [(MODULE_ACTIVATION, ("a", "c")), (MODEL_ACTIVATION, ("b",))],
        ),
        (("moduleactivation.appliance.magicstick.dev/a",), [(MODULE_ACTIVATION, ("a",))]),
        (("moduleactivations.v1alpha1.appliance.magicstick.dev",), [(MODULE_ACTIVATION, ())]),
        (("hw/gpu", "appliance/local"), [(HARDWARE, ("gpu",)), (APPLIANCE, ("local",))]),
    ],
)
def test_the_forms_of_kubectl_are_understood(words: tuple[str, ...], expected: Asked) -> None:
    assert asked(*words) == expected


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("secrets",),
            (
                "there is no kind 'secrets'; kinds are appliances, hardware, modules, instances, models, operations, "
                "gateways, palenamodels, chat, observability, mcp"
            ),
        ),
        (("moduleactivatoin",), "did you mean 'moduleactivation'?"),
        (("msmod,",), "there is no kind ''"),
        (("msmod,msmodel", "a"), "names need one kind"),
        (("msmod/a", "b"), "'b' is no KIND/NAME"),
        (("msmod/",), "'msmod/' is no KIND/NAME"),
        (("/a",), "there is no kind ''"),
        (("msmod/a/b",), "'msmod/a/b' is no KIND/NAME"),
    ],
)
def test_other_words_are_refused_with_what_is_allowed(words: tuple[str, ...], told: str) -> None:
    with pytest.raises(CommandError) as refused:
        wanted(words)
    assert refused.value.code == MISUSED
    assert told in str(refused.value)


def test_hardware_is_read_from_the_appliance() -> None:
    (hardware,) = wanted(["hardware"])
    assert hardware.source == APPLIANCE.kind
