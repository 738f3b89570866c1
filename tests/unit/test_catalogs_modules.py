"""What the module catalog answers, and that a bad entry costs only itself."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.catalogs.entries import CatalogError
from magicstick.catalogs.modules import BUILT_IN_ALIASES, RESERVED_KUSTOMIZATIONS, Group, ModuleCatalog

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


def entry(name: str, **fields: Any) -> dict[str, Any]:
    return {"path": f"manifests/modules/{name}", "kustomizationName": f"app-{name}", **fields}


def catalog(*names: str, **entries: Any) -> ModuleCatalog:
    """A catalog of plain modules, and of `entries`, whose `_` stands for `-`."""
    modules = {name: entry(name) for name in names}
    modules |= {key.replace("_", "-"): value for key, value in entries.items()}
    return ModuleCatalog.parse(json.dumps({"modules": modules}))


def test_an_entry_that_says_only_what_it_must_has_the_defaults_of_the_api() -> None:
    module = catalog("one").modules["one"]

    assert not module.static
    assert (module.group, module.order, module.default) == ("other", None, False)
    assert (module.aliases, module.requires, module.required_crds, module.parameters) == ((), (), (), ())
    assert (module.wait_for_ready, module.post_build_substitution) == (False, False)
    assert module.activation_policy is None


@pytest.mark.parametrize(
    ("value", "aliases"), [("one", ("one",)), ([" one ", "", "  "], ("one",)), (None, ()), ([], ())]
)
def test_aliases_may_be_a_single_text_and_blanks_are_dropped(value: object, aliases: tuple[str, ...]) -> None:
    assert catalog(a=entry("a", aliases=value)).modules["a"].aliases == aliases


@pytest.mark.parametrize(("mode", "static"), [("static", True), ("moduleactivation", False), ("new", False)])
def test_an_unknown_activation_mode_is_the_usual_one(mode: str, static: bool) -> None:  # noqa: FBT001 - a case
    assert catalog(a=entry("a", activationMode=mode)).modules["a"].static is static


def hardware(**fields: Any) -> dict[str, Any]:
    """The `hardware` block of a vendor's module."""
    labels = dict.fromkeys(("detectionLabel", "supportedLabel"), "example.com/card.present")
    return {"vendor": "acme", **labels, **fields}


@pytest.mark.parametrize("version", ["1.29.0", "v1.29", "1.29.0-alpha.1+build", ""])
def test_a_vendors_entry_names_labels_resources_and_a_version(version: str) -> None:
    block = hardware(resourceNames=["acme.example.com/Card_1.x"], minimumKubernetes=version)
    assert catalog(good=entry("good", hardware=block)).invalid == {}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"path": None}, "path: is required"),
        ({"path": "./manifests"}, "path: must match"),
        ({"path": "/manifests"}, "path: must match"),
        ({"path": "manifests/../secrets"}, "path: must match"),
        ({"path": ""}, "path: must match"),
        ({"kustomizationName": None}, "kustomizationName: is required"),
        ({"kustomizationName": "Upper"}, "kustomizationName: must match"),
        ({"kustomizationName": "a" * 64}, "kustomizationName: must have a length of at most 63"),
        ({"requires": "basis"}, "requires: must be a list"),
        ({"requires": [1]}, "requires[0]: must be text"),
        ({"requiredCrds": ["things"]}, "requiredCrds[0]: must match"),
        ({"waitForReady": "true"}, "waitForReady: must be true or false"),
        ({"activationPolicy": "hardware"}, "activationPolicy: must be 'hardware-detected' or 'local-model'"),
        ({"parameters": [{"name": "a", "substitution": "A-B"}]}, "parameters[0].substitution: must match"),
        ({"parameters": [{"label": "a"}]}, "parameters[0].name: is required"),
        ({"hardware": hardware(detectionLabel="not a label")}, "hardware.detectionLabel: must match"),
        ({"hardware": hardware(supportedLabel="a/b/c")}, "hardware.supportedLabel: must match"),
        ({"hardware": hardware(resourceNames=["a b"])}, "hardware.resourceNames[0]: must match"),
        ({"hardware": hardware(minimumKubernetes="new")}, "hardware.minimumKubernetes: must match"),
    ],
)
def test_a_malformed_entry_is_disabled_and_its_field_named(fields: dict[str, Any], problem: str) -> None:
    parsed = catalog("good", bad=entry("bad", **fields))

    assert set(parsed.modules) == {"good"}
    assert list(parsed.invalid) == ["bad"]
    assert parsed.invalid["bad"].startswith(problem)


@pytest.mark.parametrize("bad", [None, 5, "text", [], True])
def test_an_entry_that_is_no_object_is_disabled(bad: object) -> None:
    assert catalog("good", bad=bad).invalid == {"bad": "entry: must be an object"}


def test_a_key_that_cannot_be_an_objects_name_is_disabled() -> None:
    assert catalog("Not A Name").invalid["Not A Name"].startswith("key: must be a DNS label")


@pytest.mark.parametrize("name", sorted(RESERVED_KUSTOMIZATIONS))
def test_no_generated_kustomization_takes_a_name_of_the_static_graph(name: str) -> None:
    parsed = catalog(thief=entry("thief", kustomizationName=name))

    assert parsed.modules == {}
    assert parsed.invalid["thief"].startswith(f"kustomizationName: must not be {name}")


def test_of_two_entries_with_one_kustomization_the_first_keeps_it() -> None:
    parsed = catalog("first", second=entry("second", kustomizationName="app-first"))

    assert set(parsed.modules) == {"first"}
    assert parsed.invalid == {
        "second": "kustomizationName: must not be app-first, which module first has",
    }


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '"text"', "{}", '{"modules": []}', '{"modules": null}']
)
def test_a_document_without_modules_is_no_catalog(text: str) -> None:
    with pytest.raises(CatalogError):
        ModuleCatalog.parse(text)


def test_a_document_too_deep_to_read_is_no_catalog() -> None:
    with pytest.raises(CatalogError):
        ModuleCatalog.parse('{"modules":' + "[" * 100_000)


@given(JSON)
def test_whatever_stands_in_an_entry_harms_no_other(value: object) -> None:
    parsed = catalog("good", bad=value)

    assert "good" in parsed.modules
    assert ("bad" in parsed.modules) != ("bad" in parsed.invalid)


@given(st.dictionaries(st.text(max_size=6), JSON, max_size=4))
def test_every_answer_is_total_over_any_catalog(modules: dict[str, object]) -> None:
    parsed = ModuleCatalog.parse(json.dumps({"modules": modules, "groups": {"core": modules}}))

    for key in (*modules, "unknown"):
        assert parsed.canonical(parsed.canonical(key)) == parsed.canonical(key)
        assert isinstance(parsed.requires(key), tuple)
        assert isinstance(parsed.dependants(key), tuple)
        assert isinstance(parsed.cycle_of(key), tuple)
        assert (parsed.flux_name(key) is None) == (key not in parsed.modules)


@pytest.mark.req("MS-102")
@pytest.mark.parametrize(("alias", "key"), BUILT_IN_ALIASES.items())
def test_older_names_are_known_whatever_the_catalog_says(alias: str, key: str) -> None:
    assert catalog(key).canonical(alias) == key
    assert catalog("other").canonical(alias) == key


@pytest.mark.req("MS-102")
@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("gpu", "gpu"),
        ("  gpu\n", "gpu"),
        ("GPU", "gpu"),
        ("cards", "gpu"),
        ("CARDS", "gpu"),
        ("Model-Catalog", "model-catalog"),
        ("modelcatalog", "model-catalog"),
        ("unknown", "unknown"),
        (" Unknown ", "Unknown"),
        ("", ""),
    ],
)
def test_a_name_means_a_module_by_key_or_alias_in_any_letter_case(name: str, key: str) -> None:
    parsed = catalog(
        gpu=entry("gpu", aliases=["cards"]), model_catalog=entry("model-catalog", aliases=["modelCatalog"])
    )

    assert parsed.canonical(name) == key


def test_an_exact_match_wins_over_one_in_another_letter_case() -> None:
    parsed = catalog(a=entry("a", aliases=["Name"]), b=entry("b", aliases=["name"]))

    assert (parsed.canonical("name"), parsed.canonical("Name"), parsed.canonical("NAME")) == ("b", "a", "a")


def test_a_key_wins_over_an_alias_and_an_earlier_entry_over_a_later_one() -> None:
    parsed = catalog(
        a=entry("a", aliases=["b", "shared"]), b=entry("b", aliases=["shared"]), c=entry("c", aliases=["A"])
    )

    assert parsed.canonical("b") == "b"
    assert parsed.canonical("B") == "b"
    assert parsed.canonical("shared") == "a"
    assert parsed.canonical("A") == "c"  # an exact alias is nearer than a key in another letter case


def test_an_alias_in_the_catalog_wins_over_the_built_in_one() -> None:
    assert catalog("gpu", other=entry("other", aliases=["nvidia-gpu"])).canonical("nvidia-gpu") == "other"


def test_a_name_means_the_same_module_while_its_entry_is_broken() -> None:
    parsed = catalog("good", bad={"aliases": ["nickname"], "path": 5})

    assert parsed.canonical("nickname") == "bad"
    assert parsed.canonical("BAD") == "bad"
    assert "bad" in parsed.invalid


@pytest.mark.req("MS-102")
def test_requirements_are_canonical_and_unknown_ones_stay() -> None:
    parsed = catalog(
        "basis", gpu=entry("gpu", aliases=["cards"]), a=entry("a", requires=["Cards", "gone", "basis", "gpu"])
    )

    assert parsed.requires("a") == ("gpu", "gone", "basis")
    assert parsed.dependants("gpu") == ("a",)
    assert parsed.dependants("gone") == ("a",)
    assert parsed.requires("unknown") == ()
    assert parsed.dependants("unknown") == ()


def test_dependants_are_sorted() -> None:
    parsed = catalog("basis", z=entry("z", requires=["basis"]), a=entry("a", requires=["basis"]))

    assert parsed.dependants("basis") == ("a", "z")


def test_every_member_of_a_cycle_is_told_all_of_it_and_nobody_else_is() -> None:
    parsed = catalog(
        "basis",
        a=entry("a", requires=["basis", "b"]),
        b=entry("b", requires=["C"]),
        c=entry("c", requires=["a"]),
        outside=entry("outside", requires=["a"]),
        itself=entry("itself", requires=["itself"]),
    )

    assert [parsed.cycle_of(key) for key in "abc"] == [("a", "b", "c")] * 3
    assert parsed.cycle_of("itself") == ("itself",)
    assert parsed.cycle_of("outside") == ()
    assert parsed.cycle_of("basis") == ()


@pytest.mark.parametrize(
    ("key", "kustomization"),
    [("basis", "infrastructure-basis"), ("hardware-discovery", "hardware-discovery"), ("dashboard", "apps")],
)
def test_a_static_module_is_installed_by_the_kustomization_in_git(key: str, kustomization: str) -> None:
    static = {key: entry(key, activationMode="static", kustomizationName=kustomization)}

    assert catalog(**static).flux_name(key) == kustomization


def test_any_other_module_is_installed_by_its_own_kustomization() -> None:
    parsed = catalog("one", unusual=entry("unusual", activationMode="static"))

    assert parsed.flux_name("one") == "app-one"
    assert parsed.flux_name("unusual") == "app-unusual"
    assert parsed.flux_name("unknown") is None


def test_a_bad_group_costs_only_itself() -> None:
    text = json.dumps({"modules": {}, "groups": {"core": {"displayName": "Core", "order": 10}, "bad": 1}})

    assert ModuleCatalog.parse(text).groups == {
        "core": Group.model_validate({"displayName": "Core", "order": 10})
    }


def test_equal_texts_make_equal_catalogs_and_questions_change_nothing() -> None:
    one, other = catalog("basis", "gpu"), catalog("basis", "gpu")
    one.canonical("nvidia-gpu")
    one.cycle_of("gpu")

    assert one == other
    assert one != catalog("basis")
