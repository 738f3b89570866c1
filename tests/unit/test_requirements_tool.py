"""The tool that tells which requirements no test carries."""

from pathlib import Path

import pytest

from hack.requirements import (
    Mark,
    Requirement,
    broken_promises,
    main,
    marks_in,
    open_by_area,
    read_marks,
    read_table,
)

ROWS = {
    "MS-001": Requirement("MS-001", "one", "core"),
    "MS-002": Requirement("MS-002", "two", "core"),
    "PA-001": Requirement("PA-001", "three", "palena"),
}


def test_every_row_of_the_table_is_read() -> None:
    rows = read_table()
    text = (Path(__file__).parents[2] / "docs" / "requirements.md").read_text()
    assert len(rows) == sum(line.startswith(("| MS-", "| PA-")) for line in text.splitlines())
    assert rows["MS-233"].area == "modules"
    assert rows["MS-233"].text == "Generated Kustomizations have the interval `10m0s`."


def test_marks_are_found_on_functions_and_in_module_marks() -> None:
    source = (
        "import pytest\npytestmark = pytest.mark.req('MS-001')\n"
        "@pytest.mark.req('MS-002', 'PA-001')\ndef test_x(): ...\n"
    )
    assert [mark.id for mark in marks_in(source, "x.py")] == ["MS-001", "MS-002", "PA-001"]


def test_a_mark_that_is_no_literal_is_refused() -> None:
    with pytest.raises(ValueError, match=r"x\.py:1: req"):
        list(marks_in("pytest.mark.req(NAME)", "x.py"))


def test_rows_without_a_mark_are_open_and_closed_areas_are_listed_empty() -> None:
    areas = open_by_area(ROWS, [Mark("MS-001", "a"), Mark("PA-001", "b")])
    assert {area: [row.id for row in rows] for area, rows in areas.items()} == {
        "core": ["MS-002"],
        "palena": [],
    }


def test_a_row_that_stands_twice_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "table.md"
    row = "| MS-001 | text | passage | spec | core |\n"
    table.write_text(row + row)
    with pytest.raises(ValueError, match="MS-001 stands twice"):
        read_table(table)


def test_no_test_of_this_repository_carries_an_unknown_id() -> None:
    assert [mark for mark in read_marks() if mark.id not in read_table()] == []


def test_an_unknown_area_is_refused_with_the_list_of_areas(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--closed", "nonsense"])
    assert "no such area: nonsense" in capsys.readouterr().err


def test_an_open_row_in_a_closed_area_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hack.requirements.read_marks", tuple)
    assert main(["--closed", "palena-ui"]) == 1
    assert "area palena-ui must be closed, open: PA-" in capsys.readouterr().err


def test_an_exception_lets_its_row_alone_be_open() -> None:
    areas = open_by_area(ROWS, [])
    assert list(broken_promises(areas, ["core"], ["MS-001"])) == ["area core must be closed, open: MS-002"]
    assert list(broken_promises(areas, ["core"], ["MS-001", "MS-002"])) == []


def test_an_exception_ends_when_its_row_is_carried_or_its_area_is_not_closed() -> None:
    areas = open_by_area(ROWS, [Mark("MS-001", "a")])
    told = "no open row of a closed area, and so no exception: MS-001, PA-001"
    assert list(broken_promises(areas, ["core"], ["MS-001", "MS-002", "PA-001"])) == [told]


def test_a_needless_exception_fails_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--closed", "modules", "--except", "MS-001"]) == 1
    assert "no exception: MS-001" in capsys.readouterr().err
