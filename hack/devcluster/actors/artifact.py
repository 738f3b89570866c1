"""Packs a folder the way Flux's source-controller packs a commit."""

import gzip
import hashlib
import io
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

SKIPPED = frozenset({".git", "__pycache__"})

Fingerprint: TypeAlias = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Artifact:
    """A tar.gz of a folder; the same content gives the same bytes.

    Attributes:
        digest: `sha256:<hex>` of the data.
    """

    data: bytes
    digest: str

    @property
    def hash(self) -> str:
        """The hexadecimal part of the digest."""
        return self.digest.removeprefix("sha256:")


def files_of(folder: Path, only: tuple[str, ...] = ()) -> list[Path]:
    """The regular files below a folder, sorted; symbolic links are left out, as Flux leaves them out.

    Args:
        folder: what to walk.
        only: restricts the walk to these subfolders.
    """
    roots = [folder / name for name in only] if only else [folder]
    found = (path for root in roots for path in root.rglob("*"))
    return sorted(
        path
        for path in found
        if path.is_file() and not path.is_symlink() and not SKIPPED & set(path.relative_to(folder).parts)
    )


def fingerprint(folder: Path, only: tuple[str, ...] = ()) -> Fingerprint:
    """Changes when a file does; much cheaper than packing."""
    stats = ((path, path.stat()) for path in files_of(folder, only))
    return tuple((str(path), stat.st_mtime_ns, stat.st_size) for path, stat in stats)


def pack(folder: Path, only: tuple[str, ...] = ()) -> Artifact:
    """Makes the artifact.

    Raises:
        FileNotFoundError: there is no such folder.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder {folder}")
    buffer = io.BytesIO()
    # No time and no owner: only names, modes and content may change the digest.
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for path in files_of(folder, only):
            content = path.read_bytes()
            entry = tarfile.TarInfo(str(path.relative_to(folder)))
            entry.size = len(content)
            entry.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            archive.addfile(entry, io.BytesIO(content))
    data = buffer.getvalue()
    return Artifact(data, f"sha256:{hashlib.sha256(data).hexdigest()}")
