"""The script that changes Paperclip's OpenCode adapter, and what its changes do (spec: platform §4.4.3)."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.charts.rendering import CHARTS, Object

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="the script runs in Node.js")

SCRIPT = CHARTS / "paperclip/files/prepare-adapter-patch.mjs"

# What the script expects of the adapter, as little as it can run with.
EXECUTE = """\
import {
  adapterExecutionTargetIsRemote,
  overrideAdapterExecutionTargetRemoteCwd,
  readAdapterExecutionTarget,
} from "./target.ts";

export function execute(ctx) {
  const executionTarget = readAdapterExecutionTarget({
    executionTarget: ctx.executionTarget,
  });
  const executionTargetIsRemote = adapterExecutionTargetIsRemote(executionTarget);
  const resolvedInstructionsFilePath = "/control/plane/AGENTS.md";
  const instructionsDir = "/control/plane/";
  const instructionsPrefix =
          `Be kind.\\n\\n` +
          `The above agent instructions were loaded from ${resolvedInstructionsFilePath}. ` +
          `Resolve any relative file references from ${instructionsDir}.\\n\\n`;
  return { executionTarget, executionTargetIsRemote, instructionsPrefix };
}
"""
TARGET = """\
export const adapterExecutionTargetIsRemote = (target) => target?.kind === "remote";
export const overrideAdapterExecutionTargetRemoteCwd = (target, cwd) => ({ ...target, remoteCwd: cwd });
export const readAdapterExecutionTarget = ({ executionTarget }) => executionTarget;
"""
ASK = """\
import { execute } from "./execute.mjs";
console.log(JSON.stringify(execute({ executionTarget: JSON.parse(process.argv[2]) })));
"""
SANDBOX: Object = {"kind": "remote", "transport": "sandbox", "providerKey": "kubernetes", "remoteCwd": "/tmp"}  # noqa: S108 - the provider's


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "adapter" / "server"
    (folder / "deeper").mkdir(parents=True)
    (folder / "execute.ts").write_text(EXECUTE)
    (folder / "target.ts").write_text(TARGET)
    (folder / "deeper" / "other.ts").write_text("other")
    link = tmp_path / "source"  # as a package manager lays it out
    link.symlink_to(folder)
    return link


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "patch"
    folder.mkdir()
    return folder


def run(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["node", "--input-type=module", "--eval", SCRIPT.read_text()],
        env={
            "PATH": "/usr/bin:/bin:/usr/local/bin",
            "ADAPTER_SOURCE": str(source),
            "ADAPTER_TARGET": str(target),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def executed(target: Path, given: Object | None) -> Object:
    """What the changed adapter makes of an execution target."""
    folder = target.parent / "run"
    folder.mkdir(exist_ok=True)
    for name in ("execute", "target"):
        (folder / f"{name}.mjs").write_text(
            (target / f"{name}.ts").read_text().replace("./target.ts", "./target.mjs")
        )
    (folder / "ask.mjs").write_text(ASK)
    command = ["node", str(folder / "ask.mjs"), json.dumps(given)]
    answer: Object = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return answer


def test_all_is_copied_and_one_file_changed_and_read_only(source: Path, target: Path) -> None:
    assert run(source, target).returncode == 0

    assert (target / "deeper" / "other.ts").read_text() == "other"
    assert (target / "target.ts").read_text() == TARGET
    assert (target / "execute.ts").read_text() != EXECUTE
    assert (target / "execute.ts").stat().st_mode & 0o777 == 0o444
    assert (source / "execute.ts").read_text() == EXECUTE


def test_a_second_start_does_the_same(source: Path, target: Path) -> None:
    assert run(source, target).returncode == 0
    first = (target / "execute.ts").read_text()
    (target / "left-over.ts").write_text("of another build")

    assert run(source, target).returncode == 0
    assert (target / "execute.ts").read_text() == first
    assert not (target / "left-over.ts").exists()


def test_an_agent_in_a_sandbox_works_where_its_files_are_brought_back(source: Path, target: Path) -> None:
    run(source, target)
    answer = executed(target, SANDBOX)

    assert answer["executionTarget"] == {**SANDBOX, "remoteCwd": "/workspace"}
    assert answer["executionTargetIsRemote"] is True


@pytest.mark.parametrize(
    "given",
    [
        None,
        {"kind": "local"},
        {**SANDBOX, "remoteCwd": "/data"},
        {**SANDBOX, "providerKey": "other"},
        {**SANDBOX, "transport": "ssh"},
        {**SANDBOX, "kind": "local"},
    ],
)
def test_every_other_target_stays_as_it_is(source: Path, target: Path, given: Object | None) -> None:
    run(source, target)

    assert executed(target, given)["executionTarget"] == given


def test_no_path_of_the_control_plane_is_told_to_an_agent(source: Path, target: Path) -> None:
    run(source, target)
    prefix = executed(target, SANDBOX)["instructionsPrefix"]

    assert prefix.startswith("Be kind.\n\n")
    assert prefix.endswith(".\n\n")
    assert "/control/plane" not in prefix


@pytest.mark.parametrize(
    "text",
    [
        "  overrideAdapterExecutionTargetRemoteCwd,\n",
        "const executionTarget = readAdapterExecutionTarget({",
        "const executionTargetIsRemote = adapterExecutionTargetIsRemote(executionTarget);",
        "`The above agent instructions were loaded from ${resolvedInstructionsFilePath}. ` +",
        "`Resolve any relative file references from ${instructionsDir}.\\n\\n`;",
    ],
)
@pytest.mark.parametrize("times", [0, 2])
def test_another_build_is_not_half_patched(source: Path, target: Path, text: str, times: int) -> None:
    assert EXECUTE.count(text) == 1
    (source / "execute.ts").write_text(EXECUTE.replace(text, text * times))
    ended = run(source, target)

    assert ended.returncode == 1
    assert f"found {times} times" in ended.stderr
    assert not list(target.iterdir())


def test_without_the_adapter_it_fails(tmp_path: Path, target: Path) -> None:
    ended = run(tmp_path / "nowhere", target)

    assert ended.returncode == 1
    assert "prepare-adapter-patch: ENOENT" in ended.stderr
