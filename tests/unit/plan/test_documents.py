"""Whatever a person hands over is read as Kubernetes would read it, or refused with its place."""

from pathlib import Path

import pytest

from magicstick.plan.documents import InputError, read

TWO = "kind: A\nmetadata: {name: a}\n---\n---\nkind: B\nmetadata: {name: b}\n"


def refused(*names: str, stdin: str = "") -> tuple[str, ...]:
    with pytest.raises(InputError) as caught:
        read(names, lambda: stdin)
    return caught.value.problems


def test_documents_of_a_file_are_counted_and_empty_ones_left_out(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(TWO)
    found = read([str(file)], str)
    assert [(each.origin, each.body["kind"]) for each in found] == [
        (f"{file}, document 1", "A"),
        (f"{file}, document 3", "B"),
    ]


def test_a_folder_gives_its_files_by_name_and_nothing_below(tmp_path: Path) -> None:
    (tmp_path / "b.yml").write_text("kind: B")
    (tmp_path / "a.json").write_text('{"kind": "A"}')
    (tmp_path / "note.txt").write_text("kind: [")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "c.yaml").write_text("kind: C")
    assert [each.body["kind"] for each in read([str(tmp_path)], str)] == ["A", "B"]


def test_a_dash_is_standard_input_and_read_once() -> None:
    texts = iter(["kind: A"])
    found = read(["-", "-"], lambda: next(texts))
    assert [(each.origin, each.body) for each in found] == [("standard input", {"kind": "A"})]


def test_lists_are_taken_apart() -> None:
    found = read(["-"], lambda: "kind: List\nitems:\n- kind: A\n- kind: B\n")
    assert [each.origin for each in found] == ["standard input, item 1", "standard input, item 2"]


def test_a_date_is_text_as_for_kubernetes() -> None:
    (found,) = read(["-"], lambda: "kind: A\nspec: {since: 2026-01-01, at: 2026-01-01T00:00:00Z, up: true}")
    assert found.body["spec"]["since"] == "2026-01-01"
    assert found.body["spec"]["at"] == "2026-01-01T00:00:00Z"


def test_bad_yaml_is_told_with_file_document_and_line(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("kind: A\n---\nspec: [1, 2\n")
    (problem,) = refused(str(file))
    assert problem.startswith(f"{file}, document 2, line ")


def test_every_bad_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "text.yaml").write_text("just a word")
    problems = refused(
        str(tmp_path / "none.yaml"),
        str(tmp_path / "empty"),
        str(tmp_path / "bytes.yaml"),
        str(tmp_path / "text.yaml"),
    )
    assert [problem.split(": ", 1)[1] for problem in problems] == [
        "No such file or directory",
        "the folder holds no file that ends with .json, .yaml, .yml",
        "is no text in UTF-8",
        "must be an object with apiVersion, kind and metadata",
    ]


@pytest.mark.parametrize(
    "text", ["{a: " * 3000, "!!python/object/apply:os.system [x]", "a: *nowhere", "\x00"]
)
def test_hostile_text_is_refused_and_never_run(text: str) -> None:
    (problem,) = refused("-", stdin=text)
    assert problem.startswith("standard input, document 1")


def test_names_that_json_does_not_know_are_named() -> None:
    assert refused("-", stdin="kind: A\nspec: {1: a, items: [{true: b}]}") == (
        "standard input: spec has a field 1: names must be text, in quotes",
        "standard input: spec.items[0] has a field True: names must be text, in quotes",
    )


@pytest.mark.parametrize("text", ["", "---\n---\n", "# nothing", "kind: List\nitems: []"])
def test_input_without_an_object_is_refused_since_it_would_look_like_a_plan_without_changes(
    text: str,
) -> None:
    assert refused("-", stdin=text) == ("standard input: there is no object in it",)


def test_an_empty_file_beside_others_is_let_pass(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# later")
    (tmp_path / "two.yaml").write_text(TWO)
    assert len(read([str(tmp_path)], str)) == 2


@pytest.mark.parametrize(
    "text", ["a: !!int x", "a: !!bool x", "a: !!timestamp x", "a: !!float x", f"a: {'9' * 5000}"]
)
def test_a_value_that_is_not_what_its_form_promises_is_no_yaml(text: str) -> None:
    assert refused("-", stdin=f"kind: A\n---\n{text}\n") == ("standard input, document 2: is no YAML",)


def test_aliases_that_stand_for_billions_of_values_are_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    (problem,) = refused("-", stdin="\n".join(lines))
    assert problem == ("standard input: holds more than 1000000 values, those that aliases repeat included")


@pytest.mark.parametrize("text", ["spec: &s {local: *s}", "spec: &s [*s]", f"spec: {'[' * 200}{']' * 200}"])
def test_an_object_without_end_is_refused(text: str) -> None:
    (problem,) = refused("-", stdin=f"kind: A\n{text}\n")
    assert problem == "standard input: is nested deeper than 100 levels, or refers to itself"


def test_aliases_of_a_usual_size_stand_for_what_they_name() -> None:
    (found,) = read(["-"], lambda: "kind: A\nfirst: &f {a: [1]}\nsecond: *f\n")
    assert found.body["second"] == {"a": [1]}
