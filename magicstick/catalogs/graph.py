"""Cycles of a small directed graph."""

from collections.abc import Iterable, Mapping, Sequence


def cycles(edges: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """For every node that lies on a cycle, the nodes of its strongly connected component.

    Nodes that lie on no cycle are left out; a node that points at itself is a cycle of one. Edges to
    nodes that are no keys of `edges` are ignored. The nodes of a component stand in the order of
    `edges`. Kosaraju's algorithm with explicit stacks, so that depth is no limit: O(nodes + edges).
    """
    forward = {node: [each for each in targets if each in edges] for node, targets in edges.items()}
    backward: dict[str, list[str]] = {node: [] for node in edges}
    for node, targets in forward.items():
        for target in targets:
            backward[target].append(node)
    rank = {node: position for position, node in enumerate(edges)}
    found: dict[str, tuple[str, ...]] = {}
    assigned: set[str] = set()
    for root in reversed(_finishing_order(forward)):
        component = _reachable(root, backward, assigned)
        if len(component) > 1 or root in forward[root]:
            members = tuple(sorted(component, key=rank.__getitem__))
            found.update(dict.fromkeys(members, members))
    return found


def _finishing_order(edges: Mapping[str, Sequence[str]]) -> list[str]:
    """Every node, after all nodes that a depth-first walk reaches from it for the first time."""
    order: list[str] = []
    seen: set[str] = set()
    for root in edges:
        stack = _enter(root, edges, seen)
        while stack:
            node, rest = stack[-1]
            following = next((each for each in rest if each not in seen), None)
            if following is None:
                order.append(node)
                stack.pop()
            else:
                stack += _enter(following, edges, seen)
    return order


def _enter(node: str, edges: Mapping[str, Sequence[str]], seen: set[str]) -> list[tuple[str, Iterable[str]]]:
    """The frame of `node` on the stack of a walk; none if it was walked before."""
    if node in seen:
        return []
    seen.add(node)
    return [(node, iter(edges[node]))]


def _reachable(root: str, edges: Mapping[str, Sequence[str]], assigned: set[str]) -> set[str]:
    """What `root` reaches, itself included, of the nodes not yet `assigned`; assigns them."""
    if root in assigned:
        return set()
    assigned.add(root)
    component, stack = {root}, [root]
    while stack:
        for target in edges[stack.pop()]:
            if target not in assigned:
                assigned.add(target)
                component.add(target)
                stack.append(target)
    return component
