"""What a cache of many foreign objects costs, and what listing them all again costs on top."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.alone

PODS = 10_000
BUDGET_MI = 100
RELIST_FACTOR = 1.3


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="reads a process's peak as Linux tells it"
)
@pytest.mark.parametrize("way", ["stream", "pages"])
def test_ten_thousand_foreign_pods_fit_and_are_listed_again_without_a_second_copy(way: str) -> None:
    command = [sys.executable, "-m", "tests.support.pod_memory", way, str(PODS)]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    resident_mi, peak_mi = map(float, output.splitlines()[-1].split())
    assert resident_mi <= BUDGET_MI
    assert peak_mi <= resident_mi * RELIST_FACTOR
