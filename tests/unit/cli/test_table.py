"""Tables: ages, cells, widths."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.api.appearances import MODULE_ACTIVATION
from magicstick.cli.get.age import DAY, HOUR, MINUTE, YEAR, age, duration
from magicstick.cli.get.items import Item, Whole, items_of
from magicstick.cli.get.phases import Attention, attention
from magicstick.cli.get.table import Layout, Style, cells, columns, cut, header, printable, value_at
from magicstick.cli.words import LISTED, Wanted
from magicstick.kube.wire import decode, decoder_of, encode
from tests.support.own_kinds import CREATED, Object, a_module, an_appliance

NOW = datetime.fromisoformat(CREATED) + timedelta(days=3, hours=4)


def item(obj: Object, wanted: Wanted | None = None) -> Item:
    whole = decode(decoder_of(Whole), encode(obj))
    return next(iter(items_of(wanted or Wanted(MODULE_ACTIVATION), whole)))


def lines(layout: Layout, *rows: tuple[str, ...]) -> list[str]:
    for row in rows:
        layout.add(row)
    return ["".join(layout.padded(row)) for row in rows]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (2 * MINUTE, "2m"),
        (2 * MINUTE + 5, "2m5s"),
        (10 * MINUTE - 1, "9m59s"),
        (10 * MINUTE + 5, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 59 * MINUTE, "3h59m"),
        (8 * HOUR + 59 * MINUTE, "8h"),
        (2 * DAY - 1, "47h"),
        (2 * DAY, "2d"),
        (2 * DAY + 5 * HOUR, "2d5h"),
        (8 * DAY + 5 * HOUR, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + 3 * DAY, "2y3d"),
        (8 * YEAR + 3 * DAY, "8y"),
    ],
)
def test_a_duration_reads_as_kubectl_writes_it(seconds: int, expected: str) -> None:
    assert duration(seconds) == expected


@given(st.integers(min_value=0, max_value=100 * YEAR))
def test_a_duration_is_one_short_word_that_tells_at_least_half_of_it(seconds: int) -> None:
    units = {"s": 1, "m": MINUTE, "h": HOUR, "d": DAY, "y": YEAR}
    text = duration(seconds)
    told, number = 0, ""
    for character in text:
        if character in units:
            told, number = told + int(number) * units[character], ""
        else:
            number += character
    assert number == ""
    assert len(text) <= 6
    assert told <= seconds <= max(told * 1.125, told + 1)


@pytest.mark.parametrize("timestamp", ["", "yesterday", "2026-13-01T00:00:00Z"])
def test_the_age_of_what_has_no_timestamp_is_unknown(timestamp: str) -> None:
    assert age(timestamp, NOW) == "<unknown>"


def test_an_age_counts_from_the_timestamp_in_utc() -> None:
    assert age(CREATED, NOW) == age(CREATED.removesuffix("Z"), NOW) == "3d4h"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".a.b", 1),
        (".a.none.c", None),
        ('.list[?(@.type=="Ready")].status', "True"),
        ('.list[?(@.type=="Other")].status', None),
        ('.a[?(@.type=="Ready")].status', None),
        ('.text[?(@.type=="Ready")]', None),
        (".list.status", None),
    ],
)
def test_a_path_leads_to_its_value_and_nowhere_in_other_shapes(path: str, expected: object) -> None:
    document = {"a": {"b": 1}, "list": [None, {"type": "Ready", "status": "True"}], "text": "x"}
    assert value_at(path, document) == expected


@pytest.mark.parametrize("path", ["a", ".a[0]", ".a[*].b", "{.a}"])
def test_a_path_that_is_not_understood_is_an_error(path: str) -> None:
    with pytest.raises(ValueError, match="not a path"):
        value_at(path, {"a": 1})


def test_every_column_of_every_kind_has_a_path_that_is_understood() -> None:
    assert all(value_at(column.path, {}) is None for each in LISTED for column in each.columns)


def test_a_plain_table_has_the_columns_of_kubectl_and_the_message() -> None:
    plain = [column.name for column in columns(MODULE_ACTIVATION, Style())]
    assert plain == ["Module", "Enabled", "Phase", "Kustomization", "Age", "Message"]
    wide = [column.name for column in columns(MODULE_ACTIVATION, Style(wide=True))]
    assert wide == ["Module", "Enabled", "Phase", "Kustomization", "Age", "Ready", "Reason", "Message"]


def test_a_line_has_a_cell_for_each_header() -> None:
    for style in (Style(), Style(wide=True), Style(namespaces=True, prefixed=True)):
        assert len(cells(item(a_module("a")), style, NOW)) == len(header(MODULE_ACTIVATION, style))


def test_cells_say_what_the_object_says() -> None:
    line = cells(item(a_module("litellm", "Degraded", "No.")), Style(), NOW)
    assert line == ("litellm", "litellm", "true", "Degraded", "app-litellm", "3d4h", "No.")


def test_the_message_of_what_is_well_is_left_to_the_wide_table() -> None:
    well = item(a_module("a", "Ready", "Applied."))
    assert cells(well, Style(), NOW)[-1] == ""
    assert cells(well, Style(wide=True), NOW)[-1] == "Applied."


def test_what_is_not_there_is_a_dash_so_that_columns_can_be_counted() -> None:
    bare = {**a_module("a"), "spec": {}, "status": {}}
    assert cells(item(bare), Style(), NOW) == ("a", "-", "-", "-", "-", "3d4h", "")


def test_a_value_with_a_space_is_one_word() -> None:
    odd = {**a_module("a"), "spec": {"module": "two words", "enabled": False}}
    assert cells(item(odd), Style(), NOW)[1:3] == ("two_words", "false")


@pytest.mark.parametrize(
    "status",
    [None, "text", 5, ["a"], {"conditions": "none"}, {"conditions": [5, {"type": 7}]}, {"phase": {}}],
)
def test_an_object_of_any_shape_makes_a_line(status: object) -> None:
    odd = a_module("a") | ({} if status is None else {"status": status if isinstance(status, dict) else {}})
    assert len(cells(item(odd), Style(wide=True), NOW)) == len(header(MODULE_ACTIVATION, Style(wide=True)))


def test_hardware_stands_in_the_appliance_in_the_order_of_names() -> None:
    operators = {
        "intel-gpu": {"phase": "NotRequired"},
        "gpu": {"phase": "Ready", "vendor": "NVIDIA", "detectedNodes": ["n1", "n2"]},
    }
    whole = decode(decoder_of(Whole), encode(an_appliance(hardwareOperators=operators)))
    hardware = list(items_of(Wanted(LISTED[1]), whole))
    assert [each.name for each in hardware] == ["gpu", "intel-gpu"]
    assert cells(hardware[0], Style(), NOW) == ("gpu", "NVIDIA", "Ready", "-", "n1,n2", "-", "")


@pytest.mark.parametrize("operators", [None, [], {"gpu": None}, {"gpu": "text"}])
def test_hardware_of_any_shape_makes_lines(operators: object) -> None:
    whole = decode(decoder_of(Whole), encode(an_appliance(hardwareOperators=operators)))
    for each in items_of(Wanted(LISTED[1]), whole):
        assert cells(each, Style(), NOW)[0] == "gpu"


@given(st.text())
def test_nothing_that_a_terminal_acts_upon_is_written(text: str) -> None:
    assert printable(text).isprintable()


def test_line_breaks_become_spaces_and_escapes_can_be_read() -> None:
    assert printable("a\n  b\tc") == "a b c"
    assert printable("\x1b[31mred") == r"\x1b[31mred"


def test_columns_are_as_wide_as_their_widest_cell_and_lines_end_without_spaces() -> None:
    assert lines(Layout(Style()), ("NAME", "B", "MESSAGE"), ("a", "longer", "x"), ("a", "b", "")) == [
        "NAME   B        MESSAGE",
        "a      longer   x",
        "a      b",
    ]


def test_a_message_is_cut_to_the_width_and_never_shorter_than_can_be_read() -> None:
    long = "0123456789" * 4
    assert lines(Layout(Style(width=30)), ("name", long)) == ["name   0123456789012345678901…"]
    assert lines(Layout(Style(width=8)), ("name", long)) == ["name   012345678901234…"]
    assert lines(Layout(Style()), ("name", long)) == [f"name   {long}"]


@given(st.text(), st.integers(min_value=1, max_value=40))
def test_a_cut_text_fits_and_says_that_it_was_cut(text: str, limit: int) -> None:
    short = cut(text, limit)
    assert len(short) <= limit
    assert short == text or short.endswith("…")


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        ("Degraded", Attention.FAILED),
        ("Conflict", Attention.FAILED),
        ("Error", Attention.FAILED),
        ("WaitingForModules", Attention.UNDER_WAY),
        ("", Attention.UNDER_WAY),
        ("Ready", Attention.WELL),
        ("Running", Attention.WELL),
        ("Disabled", Attention.AT_REST),
    ],
)
def test_a_phase_asks_for_attention_by_what_it_means(phase: str, expected: Attention) -> None:
    assert attention(phase) is expected
