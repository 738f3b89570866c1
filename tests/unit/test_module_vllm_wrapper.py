"""The wrapper in the Pods of models: what vLLM is told of its memory (spec: companions §6.2; models §7.3)."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.manifests import MANIFESTS

FOLDER: Final = MANIFESTS / "modules/kubeai"
PRIORITY: Final = ["--scheduling-policy", "priority"]


def load() -> Any:
    spec = importlib.util.spec_from_file_location("wrapper", FOLDER / "wrapper.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WRAPPER: Final = load()


class Tools:
    """Stands in for the programs that tell a GPU's memory."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.asked: list[tuple[list[str], float]] = []

    def __call__(self, command: list[str], timeout_s: float) -> str:
        self.asked.append((command, timeout_s))
        return self.answer


def environment(target: str, budget: str | None = None, **more: str) -> dict[str, str]:
    named = {"MAGICSTICK_COMPUTE_TARGET": target, "MAGICSTICK_VLLM_VRAM_LIMIT": budget}
    return {name: value for name, value in named.items() if value is not None} | more


def on_nvidia(arguments: list[str], budget: str | None, physical: int, **more: str) -> list[str]:
    answer: list[str] = WRAPPER.rewritten(
        arguments, environment("nvidia-gpu", budget, **more), Tools(f"{physical}\n")
    )
    return answer


def test_a_cpu_model_is_told_its_policy_alone_and_no_gpu_is_asked() -> None:
    tools = Tools("")
    arguments = ["--max-model-len=2048", "--gpu-memory-utilization=0.9"]

    assert WRAPPER.rewritten(arguments, environment("cpu"), tools) == ["--max-model-len=2048", *PRIORITY]
    assert tools.asked == []


@pytest.mark.parametrize(
    ("budget", "physical", "share"),
    [
        ("8Gi", 16384, "0.5000"),
        ("512Mi", 24564, "0.0208"),
        ("12000", 24000, "0.5000"),
        ("12000 m", 24000, "0.5000"),
        ("1.5g", 3072, "0.5000"),
        ("1.5GiB", 3072, "0.5000"),
        ("16384MB", 16384, "0.9800"),
        ("0.0009765625Gi", 10000, "0.0001"),
    ],
)
def test_the_budget_becomes_a_share_of_what_the_gpu_has(budget: str, physical: int, share: str) -> None:
    assert on_nvidia(["--x"], budget, physical) == ["--x", f"--gpu-memory-utilization={share}", *PRIORITY]


@pytest.mark.parametrize(
    "budget", [None, "", "0", "0Mi", "0.5Mi", "-1", "8Ti", "8 G i", "1e3", "much", "nan"]
)
def test_without_a_usable_budget_the_model_does_not_start(budget: str | None) -> None:
    with pytest.raises(WRAPPER.Refused, match="MAGICSTICK_VLLM_VRAM_LIMIT"):
        on_nvidia([], budget, 16384)


def test_a_budget_above_what_the_gpu_has_is_refused() -> None:
    assert on_nvidia([], "16384", 16384)
    with pytest.raises(WRAPPER.Refused, match="16385 MiB, but the GPU has 16384 MiB"):
        on_nvidia([], "16385", 16384)


@pytest.mark.parametrize(
    "given",
    [
        ["--gpu-memory-utilization=0.9"],
        ["--gpu_memory_utilization=0.9"],
        ["--gpu-memory-utilization", "0.9"],
        ["--gpu_memory_utilization", "0.9"],
        ["--scheduling-policy=fcfs"],
        ["--scheduling_policy", "fcfs"],
        ["--gpu-memory-utilization"],  # without its value: the next flag is not taken for it
        ["--gpu-memory-utilization", "0.9", "--gpu_memory_utilization=0.1", "--scheduling-policy", "fcfs"],
    ],
)
@pytest.mark.parametrize("target", ["cpu", "nvidia-gpu"])
def test_what_the_caller_says_about_memory_and_order_is_dropped(given: list[str], target: str) -> None:
    arguments = ["serve", "model", *given, "--max-model-len", "8"]
    made = WRAPPER.rewritten(arguments, environment(target, "8Gi"), Tools("16384"))

    assert made[:4] == ["serve", "model", "--max-model-len", "8"]
    assert [each for each in made if "memory" in each] == (
        ["--gpu-memory-utilization=0.5000"] if target == "nvidia-gpu" else []
    )
    assert made[-2:] == PRIORITY


@given(st.lists(st.text(max_size=12).filter(lambda text: not text.startswith(("--gpu", "--sched")))))
def test_all_other_arguments_stay_as_they_are(arguments: list[str]) -> None:
    assert WRAPPER.rewritten(arguments, environment("cpu"), Tools("")) == [*arguments, *PRIORITY]


def test_offloading_is_told_completely_and_replaces_what_the_caller_says() -> None:
    given = ["--cpu-offload-gb", "3", "--offload_backend=x", "--offload-group-size=7", "--other"]
    made = on_nvidia(given, "12000Mi", 24000, MAGICSTICK_CPU_OFFLOAD_MI="8192")

    assert made == [
        "--other",
        "--gpu-memory-utilization=0.5000",
        "--cpu-offload-gb=8.000000",
        "--offload-backend=uva",
        "--offload-group-size=0",
        *PRIORITY,
    ]


@pytest.mark.parametrize("target", ["nvidia-gpu", "amd-gpu", "intel-gpu"])
def test_no_offloading_is_told_as_an_explicit_zero(target: str) -> None:
    made = WRAPPER.rewritten(
        [], environment(target, "1", MAGICSTICK_CPU_OFFLOAD_MI="0"), Tools(str(16384 * 1024 * 1024))
    )

    assert "--cpu-offload-gb=0.000000" in made


def test_without_a_word_about_offloading_the_callers_stays() -> None:
    assert "--cpu-offload-gb=3" in on_nvidia(["--cpu-offload-gb=3"], "8Gi", 16384)


@pytest.mark.parametrize("target", ["amd-gpu", "intel-gpu"])
def test_offloading_is_refused_where_it_does_not_exist(target: str) -> None:
    with pytest.raises(WRAPPER.Refused, match=f"{target} cannot offload"):
        WRAPPER.rewritten([], environment(target, "1", MAGICSTICK_CPU_OFFLOAD_MI="1"), Tools("1"))


@pytest.mark.parametrize("text", ["", "-1", "1.5", "8Gi", "٣"])
def test_offloading_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(WRAPPER.Refused, match="MAGICSTICK_CPU_OFFLOAD_MI"):
        on_nvidia([], "8Gi", 16384, MAGICSTICK_CPU_OFFLOAD_MI=text)


@pytest.mark.parametrize("target", ["", "CPU", "tpu"])
def test_an_unknown_target_is_refused(target: str) -> None:
    with pytest.raises(WRAPPER.Refused, match="MAGICSTICK_COMPUTE_TARGET"):
        WRAPPER.rewritten([], environment(target, "8Gi"), Tools("16384"))


@pytest.mark.parametrize(("more", "device"), [({}, "0"), ({"MAGICSTICK_GPU_DEVICE": "3"}, "3")])
def test_nvidias_tool_is_asked_about_the_device_and_not_for_long(more: dict[str, str], device: str) -> None:
    tools = Tools("24564\n")

    assert WRAPPER.physical_mi("nvidia-gpu", more, tools) == 24564
    (((program, *options), timeout_s),) = tools.asked
    assert (program, timeout_s) == ("nvidia-smi", 10)
    assert options == ["--query-gpu=memory.total", "--format=csv,noheader,nounits", "-i", device]


@pytest.mark.parametrize(("target", "backend"), [("amd-gpu", "cuda"), ("intel-gpu", "xpu")])
def test_the_installed_torch_is_asked_in_an_interpreter_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, backend: str
) -> None:
    """The real program, with a torch that has one device of 16 GiB in the right place."""
    (tmp_path / "torch.py").write_text(
        "class Device:\n"
        "    total_memory = 16 * 1024 ** 3\n"
        f"class {backend}:\n"
        "    get_device_properties = staticmethod(lambda index: {1: Device}[index])\n"
        "print('a warning of a library')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    assert WRAPPER.physical_mi(target, {"MAGICSTICK_GPU_DEVICE": "1"}, WRAPPER.output_of) == 16384
    with pytest.raises(WRAPPER.Refused, match="could not be read"):
        WRAPPER.physical_mi(target, {"MAGICSTICK_GPU_DEVICE": "2"}, WRAPPER.output_of)


@pytest.mark.parametrize("answer", ["", "[N/A]\n", "0", "-5", "12 GiB"])
def test_an_answer_that_is_no_amount_is_refused(answer: str) -> None:
    with pytest.raises(WRAPPER.Refused, match="could not be read"):
        WRAPPER.physical_mi("nvidia-gpu", {}, Tools(answer))


@pytest.mark.parametrize(
    "command",
    [["no-such-program-here"], [sys.executable, "-c", "raise SystemExit(3)"]],
    ids=["absent", "failing"],
)
def test_a_tool_that_is_absent_or_fails_is_a_refusal(command: list[str]) -> None:
    with pytest.raises(WRAPPER.Refused, match="could not be read"):
        WRAPPER.output_of(command, 10)


def test_a_tool_that_hangs_is_a_refusal() -> None:
    with pytest.raises(WRAPPER.Refused, match="timed out"):
        WRAPPER.output_of([sys.executable, "-c", "import threading; threading.Event().wait()"], 0.05)


# --- in a real interpreter -------------------------------------------------------------------------------

PROGRAM: Final = """
import json, subprocess, sys
child = [sys.executable, "-c", "import json, sys; print(json.dumps(sys.argv[1:]))", "--max-model-len=1"]
print(json.dumps(sys.argv[1:]))
print(subprocess.check_output(child, text=True).strip())
"""


def interpreter(
    folder: Path, *arguments: str, variables: Mapping[str, str], module: bool = False
) -> subprocess.CompletedProcess[str]:
    """A program that prints its arguments and those of an interpreter that it starts."""
    (folder / "program.py").write_text(PROGRAM)
    how = ["-m", "program"] if module else [str(folder / "program.py")]
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    paths = {"PYTHONPATH": os.pathsep.join([str(FOLDER), str(folder)]), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *how, *arguments],
        env={**inherited, **paths, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


ENABLED: Final = {"MAGICSTICK_VLLM_WRAPPER_ENABLED": "true"}


def enabled(target: str) -> dict[str, str]:
    return {**ENABLED, "MAGICSTICK_COMPUTE_TARGET": target}


@pytest.mark.parametrize("module", [False, True], ids=["script", "module"])
def test_the_first_interpreter_is_rewritten_and_those_that_it_starts_are_not(
    tmp_path: Path, module: bool  # noqa: FBT001 - a case
) -> None:  # fmt: skip
    done = interpreter(tmp_path, "--gpu-memory-utilization=0.9", module=module, variables=enabled("cpu"))

    own, child = map(json.loads, done.stdout.splitlines())
    assert (own, child) == (PRIORITY, ["--max-model-len=1"])
    assert done.stderr == ""


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"MAGICSTICK_VLLM_WRAPPER_ENABLED": "false"},
        ENABLED | {"MAGICSTICK_VLLM_WRAPPER_APPLIED": "true"},
    ],
    ids=["unset", "off", "applied"],
)
def test_an_interpreter_that_is_not_meant_stays_untouched(tmp_path: Path, variables: dict[str, str]) -> None:
    done = interpreter(tmp_path, "--gpu-memory-utilization=0.9", variables=variables)

    assert json.loads(done.stdout.splitlines()[0]) == ["--gpu-memory-utilization=0.9"]


def test_a_refusal_ends_the_process_before_the_program_starts(tmp_path: Path) -> None:
    done = interpreter(tmp_path, variables=enabled("tpu"))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("[magicstick-vllm-wrapper] MAGICSTICK_COMPUTE_TARGET is 'tpu'")
    assert "Traceback" not in done.stderr


def test_a_fault_of_the_wrapper_itself_ends_the_process_too(tmp_path: Path) -> None:
    (tmp_path / "wrapper.py").write_text("raise RuntimeError('broken')\n")
    paths = os.pathsep.join([str(tmp_path), str(FOLDER)])
    done = interpreter(tmp_path, variables={**ENABLED, "PYTHONPATH": paths})

    assert (done.returncode, done.stdout) == (2, "")
    assert "broken" in done.stderr
