"""What people ask for: kinds by any of their names, modules by any of theirs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from magicstick.api import appearances
from magicstick.api.kinds import (
    APP_INSTANCE,
    APPLIANCE,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    MODEL_ACTIVATION,
    MODULE_ACTIVATION,
)
from magicstick.kube.kinds import LEASE, NODE, Kind
from magicstick.why.causes import HARDWARE, MODULE

APPEARING: Final = (
    appearances.APPLIANCE,
    appearances.MODULE_ACTIVATION,
    appearances.APP_INSTANCE,
    appearances.MODEL_ACTIVATION,
    *appearances.PALENA_APPEARANCES,
)
FURTHER: Final[Mapping[str, Kind]] = {
    "module": MODULE,
    "modules": MODULE,
    "model": MODEL_ACTIVATION,
    "models": MODEL_ACTIVATION,
    "instance": APP_INSTANCE,
    "instances": APP_INSTANCE,
    "hardware": HARDWARE,
    "hw": HARDWARE,
    "kustomization": KUSTOMIZATION,
    "kustomizations": KUSTOMIZATION,
    "ks": KUSTOMIZATION,
    "gitrepository": GIT_REPOSITORY,
    "gitrepositories": GIT_REPOSITORY,
    "gitrepo": GIT_REPOSITORY,
    "node": NODE,
    "nodes": NODE,
    "no": NODE,
    "operator": LEASE,
    "lease": LEASE,
    **{word: each.kind for each in appearances.PALENA_APPEARANCES for word in each.spoken},
}
"""Words besides the names that our definitions give their kinds."""

SHOWN: Final = (
    "appliance",
    "module",
    "model",
    "instance",
    "hardware",
    "kustomization",
    "gitrepository",
    "node",
    "gateway",
    "palenamodel",
    "ui",
    "observability",
    "mcpserver",
)
"""What help and completion offer."""
ALONE: Final = frozenset({APPLIANCE, LEASE})
"""Kinds of which there is one: the name may be left out."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked about; without a name, the one object of its kind."""

    kind: Kind = APPLIANCE
    name: str = ""
    namespace: str = ""
    """Of an object of Palena; "" for anywhere. All others are where the appliance is."""


class NoQuestionError(ValueError):
    """The words ask for nothing that could be explained; the message says what does."""


def question(*words: str) -> Question:
    """What the words ask for: `KIND/NAME`, `KIND NAME`, the name of a module, or nothing for the Appliance.

    Raises:
        NoQuestionError: naming what is wrong.
    """
    match words:
        case ():
            return Question()
        case (word,) if "/" in word:
            kind, _, name = word.partition("/")
            return _named(kind, name)
        case (word,):
            found = _kinds().get(word.lower())
            if found is None:
                return _named("module", word)
            if found in ALONE:
                return Question(found)
            raise NoQuestionError(f"which {word}? Ask for {word}/NAME")
        case (kind, name):
            return _named(kind, name)
        case _:
            raise NoQuestionError("one object at a time: KIND/NAME")


def _named(word: str, name: str) -> Question:
    kind = _kinds().get(word.lower())
    if kind is None:
        raise NoQuestionError(f"{word!r} is no kind that can be explained; there are {', '.join(SHOWN)}")
    if not name or "/" in name:
        raise NoQuestionError(f"{name!r} is no name of a {word}")
    return Question(kind, name)


def _kinds() -> Mapping[str, Kind]:
    own = {
        word.lower(): each.kind
        for each in APPEARING
        for word in (each.kind.plural, each.singular, *each.short_names, each.kind.crd_name)
    }
    return {**FURTHER, **own}


NAMED_BY_MODULE: Final = frozenset({MODULE, MODULE_ACTIVATION})
"""Kinds whose objects can be called by the name of their module."""
