"""What `make dev` makes of the names that it is given on its command line."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def make_dev(*given: str) -> subprocess.CompletedProcess[str]:
    """What would be run, or what is wrong; nothing is."""
    command = ("make", "--dry-run", "--no-print-directory", "--old-file=.venv/.installed", "dev", *given)
    clean = {"PATH": os.environ["PATH"]}  # without what the make that runs the tests was told
    return subprocess.run(
        command, cwd=ROOT, env=clean, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    ("given", "flags"),
    [
        ((), ""),
        (("PALENA=1", "ONCE=yes", "MODELS=true"), "--once --models --palena"),
        (("PALENA=0", "ONCE=no", "MODELS="), ""),
        (
            ("GPU=nvidia", "APP=hermes,odysseus", "MODULES=all"),
            "--gpu nvidia --modules all --app hermes,odysseus",
        ),
        (("ARGS=--deadline 60",), "--deadline 60"),
    ],
)
def test_a_switch_is_on_where_it_says_yes_and_off_where_it_says_no(
    given: tuple[str, ...], flags: str
) -> None:
    done = make_dev(*given)
    assert (done.returncode, done.stderr) == (0, "")
    words = [word for word in shlex.split(done.stdout) if word.strip()]
    assert words[words.index("hack.dev") + 1 :] == flags.split()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("MODELS=qwen-cpu", "MODELS is a switch: MODELS=1 or MODELS=0, and not 'qwen-cpu'"),
        ("APPS=odysseus", "make dev knows no APPS; it knows ONCE GPU MODULES MODELS APP PALENA"),
    ],
)
def test_what_it_cannot_mean_is_refused_rather_than_overlooked(given: str, told: str) -> None:
    done = make_dev(given)
    assert done.returncode == 2
    assert told in done.stderr
    assert "hack.dev" not in done.stdout
