"""The page about the patch of Paperclip's operator, beside what is installed and rendered."""

import re
from typing import Any, Final

import pytest
import yaml

from tests.support.manifests import MANIFESTS

ROOT: Final = MANIFESTS.parent
PAGE: Final = (ROOT / "docs" / "paperclip.md").read_text()


def table(heading: str) -> list[list[str]]:
    """The rows of the table under a heading, without its head."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip().replace("`", "") for cell in row] for row in rows[2:]]


def release() -> dict[str, Any]:
    """The HelmRelease of the module."""
    documents = yaml.safe_load_all((MANIFESTS / "modules/paperclip-operator/release.yaml").read_text())
    (found,) = [each for each in documents if each["kind"] == "HelmRelease"]
    return dict(found["spec"])


@pytest.mark.req("MS-210")
def test_the_patch_is_documented_for_every_mode() -> None:
    assert table("The patch") == [
        ["local_trusted", "loopback", "127.0.0.1"],
        ["any other, or none", "custom", "0.0.0.0"],  # noqa: S104 - what the patch leaves as it is
    ]


@pytest.mark.req("MS-210")
def test_the_page_names_the_chart_and_the_image_that_are_installed() -> None:
    spec = release()
    chart, image = spec["chart"]["spec"], spec["values"]["image"]
    assert table("The image") == [
        ["chart", f"{chart['chart']} {chart['version']}"],
        ["repository", image["repository"]],
        ["tag", image["tag"]],
    ]
    assert f"chart `{chart['chart']}` {chart['version']}" in PAGE


@pytest.mark.req("MS-210")
def test_the_mode_and_the_files_that_the_page_speaks_of_are_there() -> None:
    """Its reasons hold for what is rendered: instances are trusted, and a proxy needs their port."""
    assert "mode: local_trusted" in (ROOT / "charts/paperclip/templates/instance.yaml").read_text()
    named = re.findall(r"`((?:charts|manifests)/[^`]+)`", PAGE)
    assert len(named) == 2
    assert all((ROOT / each).is_file() for each in named)
