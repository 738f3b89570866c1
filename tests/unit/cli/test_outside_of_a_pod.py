"""Processes that somebody starts on their own machine, as while they develop."""

from pathlib import Path

import pytest

from tests.unit.test_cli import process


@pytest.mark.parametrize("command", ["run", "model-catalog", "access-guard"])
def test_outside_of_a_pod_a_process_uses_the_kubeconfig_of_the_home(tmp_path: Path, command: str) -> None:
    done = process("-m", "magicstick", command, HOME=str(tmp_path), LITELLM_MASTER_KEY="CHANGEME")
    assert done.returncode == 1
    assert f"no kubeconfig at {tmp_path / '.kube' / 'config'}" in done.stderr
