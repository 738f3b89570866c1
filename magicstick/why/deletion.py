"""Why something that is being deleted is still there."""

from typing import Final

from magicstick.api.labels import INSTANCE_FINALIZER, MODEL_FINALIZER, MODULE_FINALIZER
from magicstick.kube.objects import ObjectMeta, View
from magicstick.why.causes import Cause, Hint, Subject

OURS: Final = frozenset({MODULE_FINALIZER, INSTANCE_FINALIZER, MODEL_FINALIZER})
KEEPERS: Final = {
    "finalizers.fluxcd.io": "Flux, whose controller has to run for it",
    "customresourcecleanup.apiextensions.k8s.io": "the API server, until the last object of the kind is gone",
    "foregroundDeletion": "Kubernetes, until what it owns is gone",
}
"""Who takes a finalizer off again."""


def held_by_finalizers(subject: Subject, live: View, meanwhile: str) -> Cause:
    """What holds a dying object; `meanwhile` says what happens until then."""
    metadata = live.metadata
    held = [each for each in metadata.finalizers if each not in OURS]
    sentence = f"is being deleted since {metadata.deletion_timestamp}: {meanwhile}"
    if not held:
        return Cause(subject, sentence, hint=_look(subject, "It goes by itself."), passing=True)
    holds = f"finalizer {held[0]} holds it" if len(held) == 1 else f"finalizers {', '.join(held)} hold it"
    return Cause(subject, f"{sentence}; {holds}", hint=_look(subject, _keeper(metadata)))


def _keeper(metadata: ObjectMeta) -> str:
    known = [f"{each} is taken off by {KEEPERS[each]}." for each in metadata.finalizers if each in KEEPERS]
    return " ".join(known) or "Find out who set the finalizer and why it is not taken off."


def _look(subject: Subject, text: str) -> Hint:
    return Hint(text, subject.command("get", "-o", "yaml"))
