"""The three kinds of an instance's way in, as a server holds them, with a gateway and people beside.

It carries steps out one by one as the applier does on server-side apply, reduced to what counts here: the
members of a spec are atomic, each is owned by whoever set it, and a change of the spec is a new generation.

What is right it knows by itself, by nothing that the operator computes: a policy is `sound` while its spec is
the one that was last applied and the gateway has accepted it in this generation.
"""

import copy
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from magicstick.apps.gateway.plan import references
from magicstick.apps.kinds import HTTP_ROUTE, SECURITY_POLICY
from magicstick.apps.ports import LiveAccess, Piece, Reference
from magicstick.kube.objects import Resource
from magicstick.runtime.plan import Apply, Delete, Step
from tests.support.gateway_objects import OPERATOR, SITE, Object, ancestor, key_of, managed
from tests.support.objects import resource

INSTANCE = "appliance.magicstick.dev/appinstance"


@dataclass(slots=True)
class Held:
    """One object."""

    uid: str
    labels: dict[str, str]
    annotations: dict[str, str]
    spec: Object
    owners: dict[str, str]
    """From a member of the spec to who set it last."""
    applied: Object
    """The spec that the operator applied last; {} while it never did."""
    generation: int = 1
    ancestors: list[Object] = field(default_factory=list)
    accepted: int = 0
    """The generation that the gateway accepted last; 0 for none."""
    finalizers: bool = False
    dying: bool = False


class GatewayWorld:
    """See the module."""

    def __init__(self) -> None:
        self.objects: dict[Reference, Held] = {}
        self._uids = itertools.count(1)

    # --- what the operator sees ----------------------------------------------------------------------

    def observed(self, instance: str, target_namespace: str) -> LiveAccess:
        """What is observed of an instance."""
        every = {place: self._view(place, held) for place, held in self.objects.items()}
        pieces = tuple(
            Piece(place.kind, view)
            for place, view in every.items()
            if view.metadata.labels.get(INSTANCE) == instance
        )
        places = references(instance, target_namespace, SITE)
        return LiveAccess(pieces, {place: every[place] for place in places if place in every})

    def _view(self, place: Reference, held: Held) -> Resource:
        owned: dict[str, Object] = {}
        for name, owner in held.owners.items():
            owned.setdefault(owner, {})[f"f:{name}"] = {}
        metadata: Object = {
            "name": place.key.name,
            "namespace": place.key.namespace,
            "uid": held.uid,
            "generation": held.generation,
            "labels": held.labels,
            "annotations": held.annotations,
            "finalizers": ["example.com/held"] if held.finalizers else [],
            "managedFields": [
                managed(owner, "Apply" if owner == OPERATOR else "Update", {"f:spec": members})
                for owner, members in owned.items()
            ],
        }
        if held.dying:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        status = {"ancestors": held.ancestors}
        return resource({"kind": place.kind.kind, "metadata": metadata, "spec": held.spec, "status": status})

    # --- what the operator does ----------------------------------------------------------------------

    def carry_out(self, step: Step) -> bool:
        """One step, as the applier does it; whether it wrote."""
        match step:
            case Apply(kind, body):
                return self._apply(Reference(kind, key_of(body)), copy.deepcopy(dict(body)))
            case Delete(kind, key, uid):
                return self._delete(Reference(kind, key), uid)
            case _:
                raise AssertionError(step)

    def _apply(self, place: Reference, body: Object) -> bool:
        held = self.objects.get(place)
        metadata = body["metadata"]
        if held is None:
            owners = dict.fromkeys(body["spec"], OPERATOR)
            self.objects[place] = Held(
                f"uid-{next(self._uids)}",
                metadata["labels"],
                metadata.get("annotations", {}),
                body["spec"],
                owners,
                copy.deepcopy(body["spec"]),
            )
            return True
        if held.dying:
            return False
        assert held.labels.items() >= metadata["labels"].items(), "an object of somebody else is taken"
        before = copy.deepcopy(held)
        foreign = {name: part for name, part in held.spec.items() if held.owners.get(name) != OPERATOR}
        held.owners = {name: held.owners[name] for name in foreign} | dict.fromkeys(body["spec"], OPERATOR)
        self._set(held, {**foreign, **body["spec"]})
        held.annotations = {**held.annotations, **metadata.get("annotations", {})}
        held.applied = copy.deepcopy(body["spec"])
        return before != held

    def _delete(self, place: Reference, uid: str) -> bool:
        held = self.objects.get(place)
        if held is None or held.uid != uid or held.dying:
            return False
        self.remove(place)
        return True

    @staticmethod
    def _set(held: Held, spec: Object) -> None:
        if spec != held.spec:
            held.spec = spec
            held.generation += 1

    # --- what others do --------------------------------------------------------------------------------

    def judge(self, place: Reference, *, accept: bool, lag: int = 0) -> None:
        """The gateway's verdict on a policy, on a generation `lag` before the present one."""
        held = self.objects[place]
        generation = max(1, held.generation - lag)
        held.ancestors = [ancestor(generation=generation, status="True" if accept else "False")]
        held.accepted = generation if accept else 0

    def judge_all(self) -> None:
        """The gateway accepts every policy as it is."""
        for place in self.of(SECURITY_POLICY):
            self.judge(place, accept=True)

    def edit(self, place: Reference, change: Callable[[Object], object]) -> None:
        """Somebody edits a spec."""
        held = self.objects[place]
        spec = copy.deepcopy(held.spec)
        change(spec)
        for name in spec.keys() | held.spec.keys():
            if spec.get(name) != held.spec.get(name):
                held.owners.pop(name, None)
                if name in spec:
                    held.owners[name] = "kubectl-edit"
        self._set(held, spec)

    def remove(self, place: Reference) -> None:
        """A deletion: at once, or when the finalizers of others are gone."""
        held = self.objects[place]
        held.dying = True
        if not held.finalizers:
            del self.objects[place]

    def release(self) -> None:
        """Others take their finalizers away."""
        for place, held in list(self.objects.items()):
            held.finalizers = False
            if held.dying:
                del self.objects[place]

    # --- what is right -----------------------------------------------------------------------------------

    def of(self, kind: object) -> list[Reference]:
        """The places of all objects of a kind."""
        return [place for place in self.objects if place.kind == kind]

    def open_routes(self) -> set[Reference]:
        """The routes that lead somewhere."""
        return {
            place
            for place in self.of(HTTP_ROUTE)
            if any(rule.get("backendRefs") for rule in self.objects[place].spec["rules"])
        }

    def sound(self, place: Reference) -> bool:
        """Whether a policy is what the operator applied last, and accepted in this generation."""
        held = self.objects[place]
        return held.spec == held.applied and held.accepted == held.generation and not held.dying

    def exposed(self) -> set[Reference]:
        """The open routes that no sound policy protects."""
        protected = {
            target["name"]
            for place in self.of(SECURITY_POLICY)
            if self.sound(place)
            for target in self.objects[place].spec["targetRefs"]
        }
        return {place for place in self.open_routes() if place.key.name not in protected}

    def closable(self, places: Iterable[Reference]) -> set[Reference]:
        """Those of the places that an operator can still close: what is dying takes no apply."""
        return {place for place in places if not self.objects[place].dying}

    def specs(self) -> Mapping[Reference, Any]:
        """All specs by place."""
        return {place: held.spec for place, held in self.objects.items()}
