"""Programs whose source is changed a little before they are compiled: see `programs.Adaptation`."""

import shutil
import stat
from pathlib import Path

from hack.devcluster.errors import BuildError
from hack.devcluster.programs import Adaptation, Program

SOURCE = "source"


def lay_out(program: Program, module: Path, folder: Path) -> None:
    """Makes a folder to build an adapted program in: its go.mod, go.sum, and the copy that they now mean.

    Args:
        program: with adaptations.
        module: the module's source, which stays as it is.
        folder: does not exist yet.

    Raises:
        BuildError: the source has not what is to be changed, as after a change of its version.
    """
    # The module cache is read-only; a copy must be changeable, and removable.
    shutil.copytree(module, folder / SOURCE, copy_function=shutil.copyfile)
    for each in (folder, *folder.rglob("*")):
        if each.is_dir():
            each.chmod(each.stat().st_mode | stat.S_IWUSR)
    for adaptation in program.adaptations:
        _adapt(program, folder / SOURCE / adaptation.file, adaptation)
    requirements = (program.source / "go.mod").read_text()
    (folder / "go.mod").write_text(f"{requirements}\nreplace {program.module} => ./{SOURCE}\n")
    shutil.copyfile(program.source / "go.sum", folder / "go.sum")


def _adapt(program: Program, file: Path, adaptation: Adaptation) -> None:
    text = file.read_text() if file.exists() else ""
    if text.count(adaptation.before) != adaptation.times:
        raise BuildError(
            f"{program.name} {program.version}: {adaptation.file} does not hold {adaptation.before!r} "
            f"{adaptation.times} times"
        )
    file.write_text(text.replace(adaptation.before, adaptation.after))
