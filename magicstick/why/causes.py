"""The words of an explanation: subjects, causes, hints.

An explainer says of one subject whether it is healthy, and if not, in which order what is the matter. Each
cause names the subjects that it comes from; one that names none is a root, and says what can be done.
"""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from magicstick.api.kinds import APPLIANCE, GROUP, MODULE_ACTIVATION, VERSION
from magicstick.kube.kinds import Kind, ObjectKey

MODULE: Final = Kind(GROUP, VERSION, "Module", "modules")
"""A module of the catalog for which no object stands: part of what is known of ModuleActivations."""
HARDWARE: Final = Kind(GROUP, VERSION, "Hardware", "hardware")
"""The GPUs of one vendor, by the module that serves them: part of what is known of the Appliance."""

STANDS_IN: Final = {MODULE: MODULE_ACTIVATION, HARDWARE: APPLIANCE}
"""The kind whose reconciler knows of a subject that is no object."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a cause is about: an object, or a part of one (see `STANDS_IN`)."""

    kind: Kind
    name: str
    namespace: str = ""

    @classmethod
    def of(cls, kind: Kind, key: ObjectKey) -> "Subject":
        """The object of a kind at a place."""
        return cls(kind, key.name, key.namespace)

    @property
    def key(self) -> ObjectKey:
        """Where the object lives."""
        return ObjectKey(self.namespace, self.name)

    def command(self, verb: str, *options: str) -> str:
        """A kubectl command about this object."""
        return kubectl(verb, self.kind.kind.lower(), self.name, *options, namespace=self.namespace)

    def patch(self, spec: Mapping[str, object]) -> str:
        """The command that sets fields of its spec."""
        return self.command("patch", "--type=merge", "-p", json.dumps({"spec": spec}, separators=(",", ":")))

    def __str__(self) -> str:
        return f"{self.kind.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class Hint:
    """What a person can do: a sentence, and a command that does it or shows more ("" for none)."""

    text: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason why `subject` is not as it should be; `sentence` goes on after the subject's name."""

    subject: Subject
    sentence: str
    because: tuple[Subject, ...] = ()
    """Where it comes from, first what to look at first; () for a root."""
    hint: Hint | None = None
    """What to do where it is a root, or turns out to be one."""
    passing: bool = False
    """Whether it ends by itself, as far as can be seen: looked at after what does not."""
    note: str = ""
    """What else to know, one sentence."""

    def __str__(self) -> str:
        return f"{self.subject} {self.sentence}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What there is to say of one subject.

    A healthy one may have a cause all the same, for those who wait for it: a module that is switched off is
    as it should be.
    """

    subject: Subject
    healthy: bool
    state: str
    """Goes on after the subject's name: `is Ready`."""
    causes: tuple[Cause, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences about what may become a problem."""


def healthy(subject: Subject, state: str, *causes: Cause, notes: tuple[str, ...] = ()) -> Explanation:
    """Nothing is wrong with it."""
    return Explanation(subject, healthy=True, state=state, causes=causes, notes=notes)


def unhealthy(*causes: Cause) -> Explanation:
    """At least one cause, all about the same subject; the first says what is the matter."""
    first = causes[0]
    return Explanation(first.subject, healthy=False, state=first.sentence, causes=causes)


def kubectl(*words: str, namespace: str = "") -> str:
    """A kubectl command that a shell takes as it is, whatever users called their objects."""
    place = ("-n", namespace) if namespace else ()
    return shlex.join(("kubectl", *place, *words))
