"""Which connections NetworkPolicies let through, decided as the API says it (networking.k8s.io/v1).

Only ingress: what is generated here says nothing of egress. Ports are numbers; IP blocks are of no use
between Pods, so a rule that has one is an error of the test.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Endpoint:
    """A Pod, or whoever stands for one outside."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    ports: tuple[int, ...] = ()
    """On which it listens."""
    namespace_labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> Mapping[str, str]:
        """The labels of its namespace, with the one that every namespace has."""
        return {"kubernetes.io/metadata.name": self.namespace, **self.namespace_labels}


def paths(endpoints: Iterable[Endpoint], policies: Iterable[Object]) -> set[tuple[str, str, int]]:
    """Every (from, to, port) that is open between two of the endpoints."""
    every, rules = tuple(endpoints), tuple(policies)
    return {
        (source.name, target.name, port)
        for target in every
        for port in target.ports
        for source in every
        if source is not target and allowed(source, target, port, rules)
    }


def allowed(source: Endpoint, target: Endpoint, port: int, policies: Iterable[Object]) -> bool:
    """Whether a connection gets through: always to a Pod that no policy selects, else by any rule."""
    selecting = [each for each in policies if _selects(each, target)]
    return not selecting or any(_admits(each, source, port) for each in selecting)


def _selects(policy: Object, target: Endpoint) -> bool:
    spec = policy["spec"]
    assert spec["policyTypes"] == ["Ingress"], "egress is not decided here"
    return policy["metadata"]["namespace"] == target.namespace and matches(spec["podSelector"], target.labels)


def _admits(policy: Object, source: Endpoint, port: int) -> bool:
    namespace = policy["metadata"]["namespace"]
    return any(_rule_admits(rule, namespace, source, port) for rule in policy["spec"].get("ingress", ()))


def _rule_admits(rule: Object, namespace: str, source: Endpoint, port: int) -> bool:
    ports, peers = rule.get("ports", ()), rule.get("from", ())
    at = not ports or any(each.get("protocol", "TCP") == "TCP" and each["port"] == port for each in ports)
    return at and (not peers or any(_is_peer(peer, namespace, source) for peer in peers))


def _is_peer(peer: Object, namespace: str, source: Endpoint) -> bool:
    assert peer, "an empty peer is refused by the API"
    assert "ipBlock" not in peer, "no Pod has an address here"
    if "namespaceSelector" in peer:
        near = matches(peer["namespaceSelector"], source.place)
    else:
        near = source.namespace == namespace
    return near and matches(peer.get("podSelector", {}), source.labels)


def matches(selector: Object, labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects these labels; the empty one selects all."""
    wanted = selector.get("matchLabels", {})
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_expression(each, labels) for each in selector.get("matchExpressions", ()))


def _expression(each: Object, labels: Mapping[str, str]) -> bool:
    key, values = each["key"], each.get("values", ())
    match each["operator"]:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case other:
            raise AssertionError(f"no operator {other}")
