"""The command line of `make dev`."""

import argparse
import contextlib
import math
from pathlib import Path
from typing import Final

from hack.dev.appliance import ROOT
from hack.dev.choices import Gpu

DEADLINE_S: Final = 180.0
EXAMPLES: Final = (
    "examples: make dev; make dev GPU=mixed; make dev MODULES=all ONCE=1; "
    "make dev MODELS=1 GPU=nvidia; make dev APP=odysseus; make dev PALENA=1; "
    "make dev ARGS='--deadline 60'"
)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The options; None for those of the process. Ends the process with 2 where they make no sense."""
    parser = argparse.ArgumentParser(
        prog="make dev",
        description="Start a real control plane, run the operator on it and show the appliance get Ready.",
        epilog=EXAMPLES,
    )
    _add_ending(parser)
    _add_hardware(parser)
    _add_contents(parser)
    _add_folders(parser)
    options = parser.parse_args(arguments)
    if not (options.source / "manifests" / "kustomization.yaml").is_file():
        parser.error(f"{options.source} has no manifests/kustomization.yaml")
    return options


def _add_ending(parser: argparse.ArgumentParser) -> None:
    """When it ends by itself."""
    parser.add_argument("--once", action="store_true", help="end as soon as the appliance is Ready")
    parser.add_argument(
        "--deadline",
        type=_seconds,
        default=DEADLINE_S,
        metavar="SECONDS",
        help="with --once: fail after so many seconds without Ready (default: %(default)g)",
    )


def _add_hardware(parser: argparse.ArgumentParser) -> None:
    """Which nodes are played."""
    parser.add_argument(
        "--gpu",
        type=_vendor,
        default=Gpu.NONE,
        metavar="VENDOR",
        help=f"play nodes with GPUs: {', '.join(Gpu)} (default: %(default)s)",
    )
    parser.add_argument(
        "--nodes", type=_count, default=1, help="how many nodes without GPUs to play (default: %(default)s)"
    )


def _add_contents(parser: argparse.ArgumentParser) -> None:
    """What the operator is given to do."""
    parser.add_argument(
        "--modules",
        type=_names,
        default=(),
        metavar="NAMES",
        help="switch these modules on, separated by commas, or all of them: all",
    )
    parser.add_argument(
        "--models",
        action="store_true",
        help="apply the models of examples/, play KubeAI and LiteLLM for them, and run the model catalog; "
        "the one for NVIDIA only on nodes with its GPUs",
    )
    parser.add_argument(
        "--app",
        type=_names,
        default=(),
        metavar="NAMES",
        help="make an instance of these applications, separated by commas, or of all of them: all; helm "
        "installs them, and Envoy Gateway is run for them",
    )
    parser.add_argument(
        "--palena",
        action="store_true",
        help="run Palena's half as well, and apply examples/palena: a gateway with a model, tools, a chat "
        "and traces; the operators of its database, of LiteLLM and of Langfuse are played",
    )


def _add_folders(parser: argparse.ArgumentParser) -> None:
    """What is installed from where, and where everything is kept."""
    parser.add_argument(
        "--source",
        type=Path,
        default=ROOT,
        metavar="FOLDER",
        help="the tree whose manifests are installed, and delivered to Flux (default: this one)",
    )
    parser.add_argument(
        "--directory",
        type=Path,
        default=ROOT / ".dev",
        metavar="FOLDER",
        help="where the cluster and the operator's log are kept (default: .dev)",
    )


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < (seconds := float(text)) < math.inf:
            return seconds
    raise argparse.ArgumentTypeError("must be a number of seconds above 0")


def _count(text: str) -> int:
    with contextlib.suppress(ValueError):
        if (count := int(text)) >= 0:
            return count
    raise argparse.ArgumentTypeError("must be 0 or more")


def _vendor(text: str) -> Gpu:
    if text not in {each.value for each in Gpu}:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(Gpu)}, and is {text!r}")
    return Gpu(text)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
