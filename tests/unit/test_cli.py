"""The command line: what it says, how it fails, and how soon."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hack import yamls
from magicstick import __version__
from magicstick.api.crds import render_all
from magicstick.cli import main
from magicstick.cli.app import COMMANDS
from magicstick.runtime.options import GROUPS
from magicstick.runtime.settings import described

HELP_TIMES = 20
"""`--help` may take so many times as long as a Python that does nothing: 300 ms where that takes 15 ms."""
VISIBLE = tuple(command for command in COMMANDS if command != "settings")
FIRST_LINE_TIMES = 60
"""The same for the first line of the log: under a second."""
REPOSITORY = Path(__file__).parents[2]


def run(*words: str) -> int:
    """The exit code of a command line in this process."""
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert isinstance(caught.value.code, int)
    return caught.value.code


def plain(text: str) -> str:
    """What rich printed, without frames and line breaks."""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", text).split())


def environment(**variables: str) -> dict[str, str]:
    """Ours, without settings."""
    settings = {known.variable for known in described()} | {"KUBERNETES_SERVICE_HOST"}
    return {name: value for name, value in os.environ.items() if name not in settings} | variables


def process(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(**variables),
        cwd=REPOSITORY,
    )


def quickest_s(*arguments: str) -> float:
    """The shortest of five runs, in seconds: the one that other processes disturbed least."""
    times = []
    for _ in range(5):
        begun = time.perf_counter()
        process(*arguments)
        times.append(time.perf_counter() - begun)
    return min(times)


def test_help_lists_the_commands_and_is_what_no_arguments_give(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    with_flag = capsys.readouterr().out
    assert run() == 0
    assert capsys.readouterr().out == with_flag
    for command in VISIBLE:
        assert f" {command} " in with_flag
    assert " settings " not in plain(with_flag).partition("Commands")[2].partition("Settings are")[0]


@pytest.mark.parametrize("command", VISIBLE)
def test_each_command_has_examples(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert run(command, "--help") == 0
    text = plain(capsys.readouterr().out)
    assert f"Examples: magicstick {command}" in text


def test_the_help_of_run_lists_every_setting_by_group_with_its_variable(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERMINAL_WIDTH", "200")
    assert run("run", "--help") == 0
    text = plain(capsys.readouterr().out)
    assert [text.index(f" {group} ") for group in GROUPS] == sorted(
        text.index(f" {group} ") for group in GROUPS
    )
    for known in described():
        assert f" {known.flag} " in text
        assert f"env {known.variable}" in text


def test_help_needs_no_library_but_that_of_the_command_line() -> None:
    program = (
        "import sys\n"
        "from magicstick.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )
    loaded = process("-c", program).stderr
    assert "'typer'" in loaded
    for heavy in (
        "pydantic",
        "aiohttp",
        "structlog",
        "prometheus_client",
        "anyio",
        "kubernetes_asyncio",
        "yaml",
    ):
        assert f"'{heavy}'" not in loaded


@pytest.mark.alone
def test_help_is_there_at_once() -> None:
    assert quickest_s("-m", "magicstick", "--help") < HELP_TIMES * quickest_s("-c", "pass")


@pytest.mark.alone
def test_the_first_line_of_the_log_is_there_within_a_second(tmp_path: Path) -> None:
    nothing_s = quickest_s("-c", "pass")
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, "-m", "magicstick", "run", "--kubeconfig", str(tmp_path / "none")],
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            cwd=REPOSITORY,
        ) as running:
            assert running.stderr is not None
            line = json.loads(running.stderr.readline())
            times.append(time.perf_counter() - begun)
            running.communicate()
        assert line["event"] == "starting"
        assert line["version"] == __version__
    assert min(times) < FIRST_LINE_TIMES * nothing_s


def test_version_says_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("version") == 0
    assert capsys.readouterr().out == f"magicstick {__version__}\n"
    assert run("version", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["version"] == __version__


def test_crds_prints_what_kubectl_applies(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("crds") == 0
    documents = list(yamls.load_all(capsys.readouterr().out))
    assert documents == list(render_all().values())


def test_crds_are_written_where_they_differ_and_then_up_to_date(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "deep" / "crds"
    assert run("crds", "--output", str(folder)) == 0
    assert sorted(path.name for path in folder.iterdir()) == sorted(render_all())
    capsys.readouterr()
    assert run("crds", "--output", str(folder)) == 0
    assert capsys.readouterr().out == ""
    assert run("crds", "--output", str(folder), "--check") == 0


def test_a_crd_that_is_out_of_date_fails_the_check_and_stays(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run("crds", "--output", str(tmp_path))
    stale = tmp_path / next(iter(render_all()))
    stale.write_text("kind: Old\n")
    assert run("crds", "--output", str(tmp_path), "--check") == 1
    error = capsys.readouterr().err
    assert error == (f"magicstick: out of date: {stale}; run 'magicstick crds --output {tmp_path}'\n")
    assert stale.read_text() == "kind: Old\n"
    stale.unlink()
    assert run("crds", "--output", str(tmp_path), "--check") == 1


def test_the_crds_of_the_repository_are_up_to_date() -> None:
    assert run("crds", "--output", str(REPOSITORY / "manifests" / "crds"), "--check") == 0


@pytest.mark.parametrize(
    ("words", "problem", "remedy"),
    [
        (["nonsense"], "No such command 'nonsense'", "see 'magicstick --help'"),
        (["run", "--nonsense"], "No such option: --nonsense", "see 'magicstick run --help'"),
        (["run", "--workers"], "Option '--workers' requires an argument", "see 'magicstick run --help'"),
        (["version", "extra"], "Got unexpected extra argument", "see 'magicstick version --help'"),
        (["version", "-o", "xml"], "Invalid value for '--output'", "see 'magicstick version --help'"),
        (["crds", "--check"], "--check needs --output", "the place to compare with"),
        (["run", "--workers", "none"], "WORKERS (--workers) is 'none'", "the default is 16"),
    ],
)
def test_misuse_is_told_in_one_line_with_what_to_do(
    capsys: pytest.CaptureFixture[str], words: list[str], problem: str, remedy: str
) -> None:
    assert run(*words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"magicstick: {problem}")
    assert captured.err.endswith(f"{remedy}\n")
    assert captured.err.count("\n") == 1


def test_a_folder_that_cannot_be_written_is_told_without_a_traceback(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    assert run("crds", "--output", str(tmp_path / "file")) == 1
    assert capsys.readouterr().err.startswith(f"magicstick: {tmp_path / 'file'}")


def test_a_setting_from_the_environment_that_is_wrong_ends_run_with_code_2() -> None:
    done = process("-m", "magicstick", "run", REQUEUE_SECONDS="soon")
    assert done.returncode == 2
    assert done.stderr.startswith("magicstick: REQUEUE_SECONDS (--requeue-seconds) is 'soon'")
    assert done.stderr.count("\n") == 1


def test_a_kubeconfig_that_is_missing_is_told_after_the_start_without_a_traceback(tmp_path: Path) -> None:
    done = process("-m", "magicstick", "run", KUBECONFIG=str(tmp_path / "none"))
    started, told = done.stderr.splitlines()
    assert json.loads(started)["event"] == "starting"
    assert told.startswith(f"magicstick: no kubeconfig at {tmp_path / 'none'}")
    assert done.returncode == 1


def test_output_that_nobody_reads_any_more_ends_without_a_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as nobody:
        done = subprocess.run(
            [sys.executable, "-m", "magicstick", "crds"],
            check=False,
            stdout=nobody,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            env=environment(),
            cwd=REPOSITORY,
        )
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("magicstick ", {"run", "model-catalog", "access-guard", "get", "why", "plan", "crds", "version"}),
        ("magicstick run --log-format ", {"auto", "json", "console"}),
        ("magicstick run --leader-election f", {"false"}),
    ],
)
def test_shells_complete_commands_options_and_values(line: str, expected: set[str]) -> None:
    done = process(
        "-m",
        "magicstick",
        _MAGICSTICK_COMPLETE="complete_bash",
        COMP_WORDS=line,
        COMP_CWORD=str(len(line.split(" ")) - 1),
    )
    assert set(done.stdout.split()) == expected


@pytest.mark.parametrize("command", VISIBLE)
def test_the_page_of_the_command_line_tells_of_each_command(command: str) -> None:
    page = (REPOSITORY / "docs" / "cli.md").read_text()
    assert f"| [`{command}`](#{command}) |" in page
    assert f"\n## {command}\n" in page


def test_the_page_of_the_settings_can_be_written_and_checked(tmp_path: Path) -> None:
    page = tmp_path / "settings.md"
    assert run("settings", "--output", str(page), "--check") == 1
    assert run("settings", "--output", str(page)) == 0
    assert run("settings", "--output", str(page), "--check") == 0
    assert "REQUEUE_SECONDS" in page.read_text()


@pytest.mark.parametrize("command", [["version"], ["crds"], ["settings"]])
def test_a_full_disk_is_told_in_one_line(command: list[str]) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device that takes nothing
        done = subprocess.run(
            [sys.executable, "-m", "magicstick", *command],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            env=environment(),
            cwd=REPOSITORY,
        )
    assert done.returncode == 1
    assert done.stderr == "magicstick: cannot write to standard output: No space left on device\n"
