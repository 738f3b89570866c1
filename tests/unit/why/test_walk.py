"""The walk ends on every graph, follows edges alone, and finds every root once."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.api.kinds import APPLIANCE, KUSTOMIZATION, MODULE_ACTIVATION
from magicstick.kube.kinds import NODE, Kind
from magicstick.runtime.settings import Settings
from magicstick.why.causes import MODULE, Cause, Explanation, Hint, Subject, healthy, unhealthy
from magicstick.why.edges import Graph, around
from magicstick.why.text import answer, clean, data, lines
from magicstick.why.walk import DEPTH_LIMIT, End, Node, NotCoveredError, first, paths, walk

Edges = dict[str, list[list[str]]]
"""For each subject its causes, each a list of what it comes from."""


def module(name: str) -> Subject:
    return Subject(MODULE_ACTIVATION, name, "ai-system")


class Graphs:
    """Explanations by name; counts how often each was asked for."""

    def __init__(self, edges: Edges, passing: frozenset[str] = frozenset()) -> None:
        self._edges = edges
        self._passing = passing
        self.asked: list[str] = []

    def explain(self, subject: Subject) -> Explanation:
        self.asked.append(subject.name)
        causes = [
            Cause(
                subject,
                f"is broken ({number})",
                tuple(map(module, because)),
                passing=subject.name in self._passing,
            )
            for number, because in enumerate(self._edges.get(subject.name, []))
        ]
        return unhealthy(*causes) if causes else healthy(subject, "is fine")


def anywhere(_kind: Kind, _other: Kind) -> bool:
    return True


def walked(edges: Edges, start: str = "a", passing: frozenset[str] = frozenset()) -> tuple[Node, ...]:
    return walk(module(start), Graphs(edges, passing).explain, anywhere)


def nodes_of(trees: tuple[Node, ...]) -> list[Node]:
    return [found for tree in trees for found in (tree, *nodes_of(tree.because))]


NAMES = st.sampled_from("abcdefgh")
GRAPHS = st.dictionaries(NAMES, st.lists(st.lists(NAMES, max_size=4), max_size=3))


@given(GRAPHS, NAMES)
def test_every_graph_ends_and_explains_each_broken_subject_once(edges: Edges, start: str) -> None:
    graph = Graphs(edges)
    trees = walk(module(start), graph.explain, anywhere)
    broken = [name for name in graph.asked if edges.get(name)]
    assert len(broken) == len(set(broken))
    assert bool(trees) == bool(edges.get(start))


@given(GRAPHS, NAMES)
def test_a_broken_subject_always_has_a_root_on_a_path_that_begins_with_it(edges: Edges, start: str) -> None:
    trees = walked(edges, start)
    path = first(trees)
    assert bool(path) == bool(trees)
    for found in paths(trees):
        assert found[0].cause.subject == module(start)
        assert found[-1].end in {End.ROOT, End.CIRCLE, End.DEEP}
        assert all(step.end is None for step in found[:-1])


@given(GRAPHS, NAMES)
def test_every_broken_subject_that_can_be_reached_stands_in_the_tree(edges: Edges, start: str) -> None:
    reached, waiting = set[str](), [start]
    while waiting:
        name = waiting.pop()
        if name not in reached and edges.get(name):
            reached.add(name)
            waiting += [each for because in edges[name] for each in because]
    assert {node.cause.subject.name for node in nodes_of(walked(edges, start))} == reached


@given(GRAPHS, NAMES)
def test_both_forms_can_be_written_for_every_graph(edges: Edges, start: str) -> None:
    graph = Graphs(edges)
    trees = walk(module(start), graph.explain, anywhere)
    explanation = graph.explain(module(start))
    for every in (False, True):
        told = answer(explanation, trees, every=every)
        text = [str(line) for line in lines(told)]
        assert text[0].startswith(str(module(start)))
        assert data(told)["healthy"] is explanation.healthy
        assert len(data(told)["rootCauses"]) + told.more == len(list(paths(trees)))


def test_a_chain_deeper_than_the_limit_is_left_to_another_question() -> None:
    names = [f"m{number}" for number in range(DEPTH_LIMIT * 2)]
    edges: Edges = {name: [[below]] for name, below in itertools.pairwise(names)}
    path = first(walked(edges, "m0"))
    assert len(path) == DEPTH_LIMIT
    assert path[-1].end is End.DEEP
    assert path[-1].onward == module(names[DEPTH_LIMIT])
    told = answer(Graphs(edges).explain(module("m0")), walked(edges, "m0"), every=False)
    assert f"magicstick why {module(names[DEPTH_LIMIT])}" in "\n".join(map(str, lines(told)))


def test_a_circle_is_named_where_it_closes() -> None:
    trees = walked({"a": [["b"]], "b": [["a"]]})
    path = first(trees)
    assert [node.cause.subject.name for node in path] == ["a", "b"]
    assert path[-1].end is End.CIRCLE
    told = answer(Graphs({"a": [["b"]]}).explain(module("a")), trees, every=False)
    assert "(which leads back to ModuleActivation/a)" in "\n".join(map(str, lines(told)))


def test_what_does_not_pass_by_itself_comes_before_what_does() -> None:
    path = first(walked({"a": [["b", "c"]], "b": [[]], "c": [[]]}, passing=frozenset("b")))
    assert path[-1].cause.subject.name == "c"


def test_what_passes_by_itself_is_told_where_there_is_nothing_else() -> None:
    path = first(walked({"a": [["b"]], "b": [[]]}, passing=frozenset("b")))
    assert path[-1].cause.subject.name == "b"


def test_a_cause_whose_reasons_have_gone_meanwhile_is_a_root() -> None:
    (node,) = walked({"a": [["b"]]})
    assert node.end is End.ROOT


def test_nothing_leads_over_what_no_edge_covers() -> None:
    covers = Graph(around(Settings())).covers
    subject = Subject(APPLIANCE, "local", "ai-system")

    def explain(asked: Subject) -> Explanation:
        return unhealthy(Cause(asked, "is broken", (Subject(NODE, "gpu-1"),)))

    with pytest.raises(NotCoveredError, match=r"no edge leads from Appliance/local to Node/gpu-1"):
        walk(subject, explain, covers)


def test_a_module_without_an_object_counts_as_part_of_what_is_known_of_activations() -> None:
    def explain(asked: Subject) -> Explanation:
        if asked.kind == MODULE:
            return unhealthy(Cause(asked, "is not in the module catalog"))
        return unhealthy(Cause(asked, "waits", (Subject(MODULE, "lost"),)))

    path = first(walk(module("a"), explain, lambda _kind, _other: False))
    assert path[-1].cause.subject == Subject(MODULE, "lost")
    with pytest.raises(NotCoveredError):
        walk(Subject(KUSTOMIZATION, "app-a", "flux-system"), explain, lambda _kind, _other: False)


def test_what_the_cluster_says_cannot_steer_a_terminal() -> None:
    assert clean("a\x1b[31m\tb\r\nc\u202ed\x9be") == "a [31m b c d e"


def test_a_very_long_message_is_cut_in_text_and_whole_in_data() -> None:
    cause = Cause(module("a"), f"says {'x' * 5000}", hint=Hint("Look.", "kubectl get pods"))
    told = answer(unhealthy(cause), (Node(cause, end=End.ROOT),), every=False)
    assert all(len(str(line)) < 1000 for line in lines(told))
    assert data(told)["rootCauses"][0]["sentence"] == cause.sentence
