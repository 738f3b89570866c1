"""The description of the FreeToken runtime, and whether its image may be run (spec: models §13)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

CONFIG_MAP: Final = "magicstick-freetoken-runtime"
DEFAULT_PORT: Final = 1919
DEFAULT_HEALTH_PATH: Final = "/health"
VERIFIED: Final = "verified"
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_REVISION: Final = re.compile(r"[0-9a-f]{40}")
_PATH: Final = re.compile(r"(/[A-Za-z0-9._~-]+)+")
_MAX_PORT: Final = 65535
_MAX_PATH: Final = 256


@dataclass(frozen=True, slots=True)
class FreeTokenRuntime:
    """One release of the runtime."""

    image: str
    """By digest, where one is known."""
    port: int
    version: str
    health_path: str = DEFAULT_HEALTH_PATH
    """Where the runtime says how it is."""
    unverified: str = ""
    """Why the image must not be run; "" when it may."""


def freetoken_runtime(data: Mapping[str, str]) -> FreeTokenRuntime | str:
    """The runtime that the ConfigMap describes, or what is wrong with the description."""
    image = data.get("image", "").strip()
    if not image:
        return f"ConfigMap {CONFIG_MAP} names no image"
    port = _port(data.get("port"))
    if port is None:
        return f"ConfigMap {CONFIG_MAP}: port must be a number from 1 to {_MAX_PORT}"
    health_path = data.get("healthPath", DEFAULT_HEALTH_PATH)
    if len(health_path) > _MAX_PATH or not _PATH.fullmatch(health_path):
        return f"ConfigMap {CONFIG_MAP}: healthPath must be a path like {DEFAULT_HEALTH_PATH}"
    pinned, problem = _pin(image, data.get("imageDigest", "").strip())
    unverified = problem or _promotion_problem(data)
    return FreeTokenRuntime(pinned, port, data.get("version", ""), health_path, unverified)


def _pin(image: str, digest: str) -> tuple[str, str]:
    """The image by its digest, and why that cannot be; one of both is of no use without the other."""
    repository, _, named = image.partition("@")
    if digest and not _DIGEST.fullmatch(digest):
        return image, "imageDigest must be sha256: and 64 hex digits"
    if named and not _DIGEST.fullmatch(named):
        return image, "image must end in @sha256: and 64 hex digits where it has a digest"
    if named:
        return image, "image and imageDigest name different digests" if digest not in ("", named) else ""
    if not digest:
        return image, "neither image nor imageDigest has a digest"
    return f"{_without_tag(repository)}@{digest}", ""


def _without_tag(repository: str) -> str:
    """A colon before the last slash belongs to a port of the registry."""
    head, slash, last = repository.rpartition("/")
    return head + slash + last.partition(":")[0]


def _promotion_problem(data: Mapping[str, str]) -> str:
    if data.get("promotionState", "pending") != VERIFIED:
        return f"promotionState must be {VERIFIED}"
    if not _REVISION.fullmatch(data.get("imageRevision", "")):
        return "imageRevision must be 40 hex digits"
    return ""


def _port(text: str | None) -> int | None:
    if text is None:
        return DEFAULT_PORT
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:6]) <= _MAX_PORT:
        return None
    return int(text)
