"""Whether each Pod of an Ollama model lists it under its name; where not, it is copied to that name.

KubeAI asks Ollama for the Model's own name. Its start-up makes that alias of the source model; when it did
not, or the alias was lost, the model would be Ready and answer nobody (spec: models §10.3). Copying is
idempotent: it makes another name for what is there already, and is asked for only where the name is
missing and the source is not.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from magicstick.models.endpoints import Endpoint
from magicstick.models.memory_usage import memory_usage, sample_of
from magicstick.models.observation import CheckState, EngineCheck
from magicstick.models.questions import Found, Sample
from magicstick.models.runtime_http import Answer, NoAnswer, RuntimeHttp

SCHEME: Final = "ollama://"
TAGS: Final = "/api/tags"
COPY: Final = "/api/copy"
LOADED: Final = "/api/ps"
LATEST: Final = ":latest"


@dataclass(frozen=True, slots=True)
class OllamaQuestion:
    """Is the model there under its name, and how much memory does it take?"""

    source: str
    """As its registry calls it."""
    alias: str
    measured: bool
    """Whether its memory is of interest: for models that are offloaded or say that they are not."""
    endpoints: tuple[Endpoint, ...]

    async def ask(self, http: RuntimeHttp, endpoint: Endpoint) -> Found:
        """See `questions.Question`."""
        names = await _names(http, endpoint)
        if not lists(names, self.alias):
            if not lists(names, self.source):
                return Found(CheckState.WAITING, "The source of the model is still being downloaded.")
            problem = await self._copied(http, endpoint)
            if problem:
                return Found(CheckState.FAILED, f"The model could not be copied to its name: {problem}.")
        return Found(CheckState.PASSED, sample=await self._sample(http, endpoint) if self.measured else None)

    def completed(self, check: EngineCheck, samples: Sequence[Sample], now: datetime) -> EngineCheck:
        """See `questions.Question`."""
        return replace(check, memory_usage=memory_usage(samples, now))

    async def _copied(self, http: RuntimeHttp, endpoint: Endpoint) -> str:
        """Make the alias; why there is none afterwards, or "". What Ollama says of it is not repeated."""
        body = {"source": self.source, "destination": self.alias}
        answer = await http.post(endpoint.url(COPY), body)
        if not answer.succeeded:
            return f"HTTP {answer.status}"
        if (answer.fields or {}).get("error"):
            return "the API reports an error"
        return "" if lists(await _names(http, endpoint), self.alias) else "the name is still missing"

    async def _sample(self, http: RuntimeHttp, endpoint: Endpoint) -> Sample | None:
        """What is not measured is unknown, and no reason to doubt the model."""
        try:
            answer = await http.get(endpoint.url(LOADED))
            loaded = [each for each in _models(answer) if lists(_called(each), self.alias)]
        except NoAnswer:
            return None
        return next((sample for each in loaded if (sample := sample_of(each)) is not None), None)


def source_of(url: str) -> str:
    """The reference that Ollama pulls."""
    return url.removeprefix(SCHEME).strip("/")


def lists(names: Sequence[str], wanted: str) -> bool:
    """Whether a model is among the names. One without a tag is the latest."""
    tagged = ":" in wanted.rpartition("/")[2]
    return wanted in names or (not tagged and f"{wanted}{LATEST}" in names)


async def _names(http: RuntimeHttp, endpoint: Endpoint) -> Sequence[str]:
    answer = await http.get(endpoint.url(TAGS))
    return [name for each in _models(answer) for name in _called(each)]


def _models(answer: Answer) -> Iterator[Mapping[str, object]]:
    """The models of a list.

    Raises:
        NoAnswer: it is none. That says nothing of what there is.
    """
    if not answer.succeeded:
        raise NoAnswer(f"HTTP {answer.status}")
    models = (answer.fields or {}).get("models", ...)
    if models is not None and not isinstance(models, list):
        raise NoAnswer("the answer is no list of models")
    return (each for each in models or () if isinstance(each, dict))


def _called(model: Mapping[str, object]) -> Sequence[str]:
    return [name for name in (model.get("name"), model.get("model")) if isinstance(name, str)]
