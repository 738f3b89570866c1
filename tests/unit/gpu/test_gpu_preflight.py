"""The platform preflight of a node (spec: gpu §3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.catalogs.modules import Hardware
from magicstick.gpu.preflight import ISSUE_LIMIT, issues_of, version_of
from tests.support.gpu_objects import node

AMD = Hardware.model_validate(
    {
        "vendor": "amd",
        "detectionLabel": "d",
        "supportedLabel": "s",
        "architectures": ["amd64"],
        "minimumKubernetes": "1.29.0",
    }
)
ANYWHERE = Hardware.model_validate({"vendor": "any", "detectionLabel": "d", "supportedLabel": "d"})


@pytest.mark.req("MS-105")
@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"system": "windows"}, "operating system must be linux and is windows"),
        ({"system": ""}, "operating system must be linux and is unknown"),
        ({"architecture": "arm64"}, "architecture must be amd64 and is arm64"),
        ({"architecture": ""}, "architecture must be amd64 and is unknown"),
        ({"kubelet": "v1.28.9"}, "kubelet must be 1.29.0 or newer and is v1.28.9"),
        ({"kubelet": ""}, "kubelet must be 1.29.0 or newer and is of no known version"),
        ({"kubelet": "latest"}, "kubelet must be 1.29.0 or newer and is latest"),
    ],
)
def test_each_part_of_the_platform_is_checked(options: dict[str, str], part: str) -> None:
    (issue,) = issues_of(node(**options), AMD)
    assert part in issue


def test_a_fitting_node_has_no_issue() -> None:
    assert issues_of(node(), AMD) == ()


@pytest.mark.req("MS-105")
def test_all_issues_are_told() -> None:
    assert len(issues_of(node(system="windows", architecture="arm", kubelet="v1.2"), AMD)) == 3


def test_readiness_and_a_cordon_do_not_matter() -> None:
    assert issues_of(node(ready=False, cordoned=True), AMD) == ()


def test_what_the_catalog_does_not_ask_for_is_not_checked() -> None:
    assert issues_of(node(architecture="riscv64", kubelet="?"), ANYWHERE) == ()


def test_a_minimum_that_is_no_version_fails() -> None:
    (issue,) = issues_of(node(), AMD.model_copy(update={"minimum_kubernetes": "new"}))
    assert "is no version: new" in issue


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v1.29.0", (1, 29, 0)),
        ("1.29", (1, 29, 0)),
        ("v1.30.2+k3s1", (1, 30, 2)),
        ("k3s v1.31.4-rc1", (1, 31, 4)),
        ("1.100.0", (1, 100, 0)),
        ("v2", None),
        ("", None),
        ("one.two", None),
    ],
)
def test_the_first_version_anywhere_counts(text: str, version: tuple[int, int, int] | None) -> None:
    assert version_of(text) == version


def test_versions_compare_as_numbers() -> None:
    assert issues_of(node(kubelet="v1.100.0"), AMD) == ()


@given(st.text(max_size=400), st.text(max_size=400), st.text(max_size=400))
def test_whatever_a_kubelet_reports_gives_short_sentences(
    system: str, architecture: str, kubelet: str
) -> None:
    found = issues_of(node(system=system, architecture=architecture, kubelet=kubelet), AMD)
    assert all(len(issue) <= ISSUE_LIMIT for issue in found)
