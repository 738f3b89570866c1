"""Whether a live SecurityPolicy is the one that is wanted, and stands (spec: modules-and-apps §9.7).

Nothing here takes silence for consent: a policy without a verdict, with a verdict on an earlier generation,
or with any ancestor that says no, is not accepted.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from magicstick.api import labels
from magicstick.apps.gateway.policies import digest
from magicstick.apps.gateway.reading import maps
from magicstick.apps.ports import GatewaySite
from magicstick.kube.differ import NOT_WANTED, differences
from magicstick.kube.kinds import ObjectKey
from magicstick.kube.objects import Resource

ACCEPTED: Final = "Accepted"
OVERRIDDEN: Final = "Overridden"
"""Envoy Gateway says so of a policy in whose place a more specific one takes effect."""


def accepted(live: Resource, body: Mapping[str, Any], site: GatewaySite) -> bool:
    """Whether `live` is what `body` wants, and every ancestor has accepted it, our Gateway among them."""
    ours = ObjectKey(site.namespace, site.gateway)
    return (
        live.metadata.annotations.get(labels.ACCESS_GUARD_SPEC)
        == body["metadata"]["annotations"][labels.ACCESS_GUARD_SPEC]
        and _has(live.spec, body["spec"])
        and not _leftover(live, body)
        and not edited(live)
        and _standing(live)
        and any(_gateway(each, live.metadata.namespace) == ours for each in _ancestors(live))
    )


def refusal(live: Resource) -> str:
    """What the gateway has against a policy as it is now, on one line; "" where it has said nothing."""
    said = (
        " ".join(str(each.get("message") or each.get("reason") or "").split())
        for ancestor in _ancestors(live)
        for each in maps(ancestor.get("conditions"))
        if each.get("type") == ACCEPTED
        and each.get("status") == "False"
        and _is(each.get("observedGeneration"), live.metadata.generation)
    )
    return next(filter(None, said), "")


def accepted_as_it_is(live: Resource) -> bool:
    """Whether `live` is as we once wrote it, whatever that was, and every ancestor has accepted it."""
    known = live.metadata.annotations.get(labels.ACCESS_GUARD_SPEC)
    return known == digest(live.spec) and not edited(live) and _standing(live)


def edited(live: Resource) -> bool:
    """Whether anybody else has set something in the spec: fields that an apply of ours would not remove.

    So may have been done where nobody knows any more who set what: managedFields can be emptied.
    """
    owners = {
        (entry.manager, entry.operation)
        for entry in live.metadata.managed_fields
        if not entry.subresource and "f:spec" in msgspec.json.decode(entry.fields_v1, type=dict[str, Any])
    }
    return owners != {(labels.OPERATOR, "Apply")}


def targets(live: Resource) -> frozenset[ObjectKey]:
    """The routes that a policy stands in front of."""
    namespace = live.metadata.namespace
    return frozenset(
        ObjectKey(namespace, str(each.get("name"))) for each in maps(live.spec.get("targetRefs"))
    )


def _standing(live: Resource) -> bool:
    verdicts = [_accepts(each, live.metadata.generation) for each in _ancestors(live)]
    return bool(verdicts) and all(verdicts) and not live.metadata.dying


def _accepts(ancestor: Mapping[str, Any], generation: int) -> bool:
    """Whether an ancestor has accepted this very generation, and lets it take effect."""
    conditions = maps(ancestor.get("conditions"))
    verdicts = [each for each in conditions if each.get("type") == ACCEPTED]
    overridden = any(each.get("type") == OVERRIDDEN and each.get("status") != "False" for each in conditions)
    current = all(
        each.get("status") == "True" and _is(each.get("observedGeneration"), generation) for each in verdicts
    )
    return bool(verdicts) and current and not overridden


def _gateway(ancestor: Mapping[str, Any], namespace: str) -> ObjectKey | None:
    """Which Gateway an ancestor is; the namespace is the policy's where it is left out."""
    reference = ancestor.get("ancestorRef")
    if not isinstance(reference, Mapping) or reference.get("kind", "Gateway") != "Gateway":
        return None
    return ObjectKey(str(reference.get("namespace", namespace)), str(reference.get("name")))


def _leftover(live: Resource, body: Mapping[str, Any]) -> bool:
    """Whether the spec still has a field that we own and want no more."""
    found = differences(body, live, labels.OPERATOR)
    return any(why == NOT_WANTED for path, why in found.items() if path.startswith("spec"))


def _has(have: object, want: object) -> bool:
    """Whether everything that is wanted is there; the server may have added defaults of its own."""
    if isinstance(want, Mapping):
        return isinstance(have, Mapping) and all(_has(have.get(name), value) for name, value in want.items())
    if isinstance(want, list):
        return isinstance(have, list | tuple) and len(have) == len(want) and all(map(_has, have, want))
    return type(have) is type(want) and have == want


def _is(value: object, number: int) -> bool:
    return not isinstance(value, bool) and value == number


def _ancestors(live: Resource) -> list[Mapping[str, Any]]:
    return maps(live.status.get("ancestors"))
