"""Cycles, compared with what plain reachability says."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from magicstick.catalogs.graph import cycles

NODES = "abcdefgh"
GRAPHS = st.dictionaries(
    st.sampled_from(NODES), st.lists(st.sampled_from([*NODES, "unknown"]), max_size=4), max_size=len(NODES)
)


def reachable(edges: dict[str, list[str]], start: str) -> set[str]:
    """Every known node at the end of a path of at least one edge."""
    found: set[str] = set()
    ahead = [each for each in edges[start] if each in edges]
    while ahead:
        node = ahead.pop()
        if node not in found:
            found.add(node)
            ahead += [each for each in edges[node] if each in edges]
    return found


@given(GRAPHS)
def test_a_component_is_all_that_reaches_and_is_reached(edges: dict[str, list[str]]) -> None:
    reach = {node: reachable(edges, node) for node in edges}

    expected = {
        node: tuple(each for each in edges if each in reach[node] and node in reach[each])
        for node in edges
        if node in reach[node]
    }

    assert cycles(edges) == expected


def test_a_chain_of_any_depth_is_no_problem() -> None:
    chain = {str(node): [str(node + 1)] for node in range(20_000)}

    assert cycles(chain) == {}


def test_a_circle_of_any_length_is_one_component() -> None:
    names = [str(node) for node in range(20_000)]
    circle = {node: [following] for node, following in itertools.pairwise([*names, names[0]])}

    assert cycles(circle)["7"] == tuple(names)
