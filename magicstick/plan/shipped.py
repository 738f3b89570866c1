"""Where the catalogs of a plan without a cluster are, and the folders of modules beside them."""

from pathlib import Path
from typing import Final

import magicstick
from magicstick.kube.kinds import CONFIG_MAP
from magicstick.plan.documents import Document, InputError, read

ROOT: Final = Path(magicstick.__file__).parents[1]
"""The tree that this program is a part of."""
CATALOGS: Final = Path("manifests", "catalogs")


def catalogs(folder: Path | None) -> tuple[Document, ...]:
    """The ConfigMaps in this folder; by default those that ship.

    Raises:
        InputError: there are none.
    """
    place = folder or ROOT / CATALOGS
    if folder is None and not place.is_dir():
        raise InputError(["this installation has no catalogs beside it: name a folder with --catalogs"])
    found = tuple(each for each in read([str(place)], str) if each.body.get("kind") == CONFIG_MAP.kind)
    if not found:
        raise InputError([f"--catalogs {place}: the folder holds no ConfigMap"])
    return found


def root(folder: Path | None) -> Path | None:
    """The folder that the paths of modules start from: that of these catalogs, else the one that ships."""
    above = folder.resolve().parents if folder is not None else ()
    candidates = (*above, ROOT)
    return next((each for each in candidates if (each / CATALOGS.parent / "modules").is_dir()), None)
