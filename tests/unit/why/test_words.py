"""What can be asked for, and the commands that are hinted at."""

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.api.appearances import HOST_OPERATION
from magicstick.api.kinds import APP_INSTANCE, APPLIANCE, KUSTOMIZATION, MODEL_ACTIVATION, MODULE_ACTIVATION
from magicstick.kube.kinds import NODE, Kind
from magicstick.why.asking import APPEARING, FURTHER, SHOWN, NoQuestionError, Question, question
from magicstick.why.causes import HARDWARE, MODULE, Subject
from magicstick.why.explainers import EXPLAINERS


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], Question(APPLIANCE)),
        (["appliance"], Question(APPLIANCE)),
        (["msapp/local"], Question(APPLIANCE, "local")),
        (["module/litellm"], Question(MODULE, "litellm")),
        (["litellm"], Question(MODULE, "litellm")),
        (["moduleactivation", "litellm"], Question(MODULE_ACTIVATION, "litellm")),
        (["msmod/litellm"], Question(MODULE_ACTIVATION, "litellm")),
        (["ModuleActivations.appliance.magicstick.dev/litellm"], Question(MODULE_ACTIVATION, "litellm")),
        (["model/llama"], Question(MODEL_ACTIVATION, "llama")),
        (["instance/notes"], Question(APP_INSTANCE, "notes")),
        (["hardware/gpu"], Question(HARDWARE, "gpu")),
        (["ks/app-litellm"], Question(KUSTOMIZATION, "app-litellm")),
        (["node/one"], Question(NODE, "one")),
    ],
)
def test_words_mean(words: list[str], expected: Question) -> None:
    assert question(*words) == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nonsense/x"], "'nonsense' is no kind that can be explained; there are appliance, module"),
        (["module/"], "'' is no name of a module"),
        (["module/a/b"], "'a/b' is no name of a module"),
        (["hardware"], "which hardware? Ask for hardware/NAME"),
        (["a", "b", "c"], "one object at a time: KIND/NAME"),
    ],
)
def test_words_that_mean_nothing_are_told_with_what_does(words: list[str], message: str) -> None:
    with pytest.raises(NoQuestionError) as caught:
        question(*words)
    assert str(caught.value).startswith(message)


def test_every_kind_that_can_be_asked_for_is_explained() -> None:
    assert {*FURTHER.values(), *(each.kind for each in APPEARING)} <= set(EXPLAINERS)
    assert all(question(f"{word}/x").kind in EXPLAINERS for word in SHOWN)
    assert HOST_OPERATION.kind not in EXPLAINERS


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1), st.text(max_size=20))
def test_a_hinted_command_is_the_same_words_in_a_shell_whatever_objects_are_called(
    name: str, value: str
) -> None:
    subject = Subject(Kind("", "v1", "ConfigMap", "configmaps"), name, "ai-system")
    assert shlex.split(subject.command("get")) == ["kubectl", "-n", "ai-system", "get", "configmap", name]
    patch = shlex.split(subject.patch({"value": value}))
    assert json.loads(patch[-1]) == {"spec": {"value": value}}
