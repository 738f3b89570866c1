"""What the declarations of all reconcilers of Palena have in common (spec: palena §1, §2)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import View
from magicstick.palena.common import labels
from magicstick.palena.common.phases import FAILING, REQUEUE_S, Outcome, Phase
from magicstick.runtime.reconciler import Declaration, Edge

WORKERS: Final = 16
"""Objects of one kind that are worked on at a time, at most: one waits for a dozen writes in a row."""
PATIENCE: Final = 3
"""So many requests in a row have to fail before one that may pass by itself is told."""


def declare(name: str, primary: Kind, *, edges: Iterable[Edge[Any]], writes: Iterable[Kind]) -> Declaration:
    """The declaration of the controller of one kind; `name` as in metrics and logs."""
    return Declaration(
        name=name,
        primary=primary,
        edges=tuple(edges),
        writes=frozenset(writes),
        requeue_s=REQUEUE_S,
        failing=FAILING,
        backoff_s=REQUEUE_S[Outcome.FAILED],
        finalizer=labels.FINALIZER,
        workers=WORKERS,
        tells_failures=True,
        patience=PATIENCE,
        field_manager=labels.FIELD_MANAGERS[primary],
        managed_by=labels.OPERATOR,
        fault_phase=Phase.ERROR,
    )


def narrowed(declaration: Declaration, namespace: str, watched: Sequence[str]) -> Declaration:
    """The same for the primary objects of one namespace, which may refer to any that is watched.

    What happens elsewhere wakes none of another namespace: two controllers would work on one object.
    """
    edges = (_waking_in(namespace, edge) for edge in declaration.edges)
    return replace(
        declaration,
        name=f"{declaration.name}@{namespace}",
        namespace=namespace,
        edges=tuple(each for edge in edges for each in _within(edge, watched)),
    )


def _waking_in(namespace: str, edge: Edge[Any]) -> Edge[Any]:
    def wakes(old: View | None, new: View | None) -> Iterable[ObjectKey]:
        return [key for key in edge.wakes(old, new) if key.namespace == namespace]

    return replace(edge, wakes=wakes)


def _within(edge: Edge[Any], watched: Sequence[str]) -> Iterable[Edge[Any]]:
    """An edge to everything becomes one for each namespace; others stay as they are."""
    if edge.namespace or edge.name is not None or not edge.kind.namespaced:
        return (edge,)
    return (replace(edge, namespace=each) for each in watched)
