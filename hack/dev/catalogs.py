"""The catalogs that a tree of manifests ships, as far as `make dev` looks into them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from hack.devcluster import DevClusterError


def shipped_catalog(source: Path, name: str, content: str) -> Mapping[str, Mapping[str, Any]]:
    """The entries of a catalog.

    Args:
        source: the tree.
        name: of the catalog's file, without its ending.
        content: what it holds: `modules` for example, which stands in `modules.json`.

    Raises:
        DevClusterError: there is none, or it cannot be read.
    """
    file = source / "manifests" / "catalogs" / f"{name}.yaml"
    try:
        shipped = yaml.safe_load(file.read_text())
        entries: Mapping[str, Mapping[str, Any]] = json.loads(shipped["data"][f"{content}.json"])[content]
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError) as error:
        raise DevClusterError(f"{file} holds no catalog of {content}: {error!r}") from error
    return entries
