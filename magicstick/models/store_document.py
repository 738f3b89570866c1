"""The profile store as a whole, derived from everything that wants a place in it.

Nothing of the old text is patched: what is wanted, what is still used and what is not ours make the new
one, and equal inputs make equal text. It stays below a bound; whoever does not fit any more is left out,
the youngest first, and what is in use never is (spec: models §8.2, decision 15).
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from magicstick.kube.kinds import ObjectKey
from magicstick.models.kubeai_release import PROFILES, Profiles
from magicstick.models.resolved import DerivedProfile, Profile

MAX_CHARACTERS: Final = 750_000
KEEP_UNUSED_S: Final = 600.0
"""A profile that nobody uses stays so long: a model that is stopped and started again finds it."""

_GENERATED: Final = re.compile(
    r"magicstick-cpu-[0-9a-f]{20}|.+-(uma-)?ram-[1-9][0-9]*|.+-(dra|sharing)-[0-9a-f]{16}"
)


@dataclass(frozen=True, slots=True)
class Claim:
    """The profiles that one activation wants."""

    key: ObjectKey
    created: str
    """When the activation was made; RFC 3339."""
    profiles: tuple[DerivedProfile, ...]


@dataclass(frozen=True, slots=True)
class StoreDocument:
    """The store as it should be."""

    text: str
    profiles: Profiles
    left_out: tuple[ObjectKey, ...] = ()
    """The activations whose profiles do not fit, oldest first."""


def is_generated(name: str) -> bool:
    """Whether a profile of this name is ours to drop."""
    return _GENERATED.fullmatch(name) is not None


def derive(
    claims: Iterable[Claim], current: Profiles, referenced: frozenset[str], lately: frozenset[str]
) -> StoreDocument:
    """The store for these claims.

    `current` is what it holds. What Models reference stays, and so does whatever we did not generate.
    Claims are granted whole, oldest activation first. What was used `lately` stays where there is room
    after that.
    """
    ordered = sorted(claims, key=lambda claim: (claim.created, claim.key))
    kept = {
        name: content for name, content in current.items() if name in referenced or not is_generated(name)
    }
    granted, left_out = _granted(ordered, kept)
    _keep(granted, {name: current[name] for name in sorted(lately & current.keys())})
    return StoreDocument(_text(granted), granted, left_out)


def fits(profiles: Profiles, characters: int, more: Iterable[DerivedProfile]) -> bool:
    """Whether a store with `profiles`, whose text has so many characters, has room for these too."""
    return characters + _growth(profiles, more) <= MAX_CHARACTERS


def _granted(ordered: Iterable[Claim], kept: Profiles) -> tuple[dict[str, Profile], tuple[ObjectKey, ...]]:
    granted, size, left_out = dict(kept), _size(kept), list[ObjectKey]()
    for claim in ordered:
        growth = _growth(granted, claim.profiles)
        if size + growth > MAX_CHARACTERS:
            left_out.append(claim.key)
            continue
        granted |= {each.name: each.content for each in claim.profiles}
        size += growth
    return granted, tuple(left_out)


def _keep(granted: dict[str, Profile], lately: Profiles) -> None:
    """Add what was used lately, as far as there is room."""
    size = _size(granted)
    for name, content in lately.items():
        cost = _cost(name, content)
        if name not in granted and size + cost <= MAX_CHARACTERS:
            granted[name] = content
            size += cost


def _text(profiles: Mapping[str, Profile]) -> str:
    return json.dumps({PROFILES: dict(profiles)}, sort_keys=True, separators=(",", ":"))


def _size(profiles: Profiles) -> int:
    return len(_text({})) + sum(_cost(name, content) for name, content in profiles.items())


def _growth(profiles: Profiles, more: Iterable[DerivedProfile]) -> int:
    """The characters by which these profiles, new or with new content, lengthen the store."""
    fresh = {each.name: each.content for each in more if profiles.get(each.name) != each.content}
    replaced = sum(_cost(name, profiles[name]) for name in fresh if name in profiles)
    return sum(_cost(name, content) for name, content in fresh.items()) - replaced


def _cost(name: str, content: Profile) -> int:
    """The characters that an entry adds, with its colon and its comma."""
    return len(json.dumps(name)) + len(json.dumps(content, separators=(",", ":"))) + 2
