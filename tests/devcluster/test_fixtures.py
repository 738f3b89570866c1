"""The project's fixtures: what needs a cluster is known as such, and can be left out."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = ROOT / "tests" / "conftest.py"

SUITE = """
from hack.devcluster import AuditUnavailableError

def test_alone():
    pass

def test_with_cluster(control_plane):
    raise AssertionError("started")

def test_reads_audit():
    raise AuditUnavailableError("not ours")
"""


def run(tmp_path: Path, *arguments: str) -> str:
    """Runs pytest on SUITE with the project's conftest; returns its report."""
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  cluster: needs a cluster\n")
    (tmp_path / "test_suite.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", str(tmp_path), *arguments]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    ).stdout


def test_a_test_that_asks_for_a_cluster_is_skipped_when_none_is_wanted(tmp_path: Path) -> None:
    report = run(tmp_path, "--no-cluster")
    assert "1 passed, 2 skipped" in report
    assert "--no-cluster" in report


def test_a_test_that_asks_for_a_cluster_carries_the_mark(tmp_path: Path) -> None:
    assert "1 passed, 1 skipped, 1 deselected" in run(tmp_path, "-m", "not cluster")


def test_a_test_that_cannot_read_the_audit_log_is_skipped_with_the_reason(tmp_path: Path) -> None:
    assert "not ours" in run(tmp_path, "-k", "audit")
