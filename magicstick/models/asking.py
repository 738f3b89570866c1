"""What is to be asked of the Pods of a model (spec: models §10.3, §13; realtime §9).

vLLM under KubeAI is asked nothing.
"""

from magicstick.kube.objects import Resource
from magicstick.models.direct import live_deployment
from magicstick.models.endpoints import direct_endpoints, kubeai_endpoints
from magicstick.models.freetoken_health import FreeTokenQuestion
from magicstick.models.freetoken_runtime import FreeTokenRuntime, freetoken_runtime
from magicstick.models.observation import ModelObservation
from magicstick.models.ollama import OllamaQuestion, source_of
from magicstick.models.questions import Question
from magicstick.models.realtime.health import RealtimeQuestion
from magicstick.models.realtime.objects import PORT as REALTIME_PORT
from magicstick.models.resolved import ResolvedFreeToken, ResolvedKubeAi, ResolvedLocal, ResolvedRealtime
from magicstick.models.serving import direct_replicas


def question_of(o: ModelObservation, model: ResolvedLocal) -> Question | None:
    """What to ask; None where nothing is: the engine has no check, or its runtime is not there."""
    match model:
        case ResolvedKubeAi(engine="OLlama") if o.model is not None and not o.model.metadata.dying:
            return OllamaQuestion(
                source=source_of(model.url),
                alias=model.name,
                measured=model.cpu_offloading is not None,
                endpoints=kubeai_endpoints(o.pods or (), o.model),
            )
        case ResolvedFreeToken():
            return _of_freetoken(o, model)
        case ResolvedRealtime():
            return _of_realtime(o, model)
        case _:
            return None


def _of_freetoken(o: ModelObservation, model: ResolvedFreeToken) -> FreeTokenQuestion | None:
    runtime = None if o.descriptor is None else freetoken_runtime(o.descriptor.data)
    deployment = _deployment(o, model)
    if not isinstance(runtime, FreeTokenRuntime) or deployment is None:
        return None
    endpoints = direct_endpoints(o.pods or (), deployment, runtime.port)
    return FreeTokenQuestion(runtime.health_path, runtime.version, endpoints)


def _of_realtime(o: ModelObservation, model: ResolvedRealtime) -> RealtimeQuestion | None:
    """Only a runtime that is rolled out is asked: until then its Pod says more (spec: realtime §9)."""
    deployment = _deployment(o, model)
    if deployment is None or direct_replicas(deployment) < 1:
        return None
    return RealtimeQuestion(direct_endpoints(o.pods or (), deployment, REALTIME_PORT))


def _deployment(o: ModelObservation, model: ResolvedFreeToken | ResolvedRealtime) -> Resource | None:
    found = live_deployment(o, model)
    return None if found is None or found.metadata.dying else found
