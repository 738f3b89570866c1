"""The decision about a model that FreeToken serves directly (spec: models §13)."""

from typing import Final

from magicstick.kube.objects import Resource
from magicstick.models.direct import State, failed_rollout, health_problem, live_deployment
from magicstick.models.freetoken_objects import deployment, endpoint, service
from magicstick.models.freetoken_runtime import CONFIG_MAP, FreeTokenRuntime, freetoken_runtime
from magicstick.models.kinds import DEPLOYMENT, SERVICE
from magicstick.models.observation import CheckState, ModelObservation
from magicstick.models.plans import carry_out, kept, report
from magicstick.models.pods import PodView, trouble
from magicstick.models.publication import publication
from magicstick.models.resolved import ResolvedFreeToken
from magicstick.models.serving import direct_replicas
from magicstick.models.status import ModelPhase, ModelReason, Report
from magicstick.runtime.plan import Apply, Plan, Step
from magicstick.runtime.rollout import rolled

NOT_ASKED: Final = "It is not known yet whether the runtime has loaded the model."


def decide(o: ModelObservation, model: ResolvedFreeToken) -> Plan:
    """What to do next for a model that nothing before its runtime holds up."""
    if not o.descriptor_known:
        return kept(o, ModelReason.API_UNAVAILABLE, f"ConfigMap {CONFIG_MAP} cannot be read now.")
    if o.descriptor is None:
        return _no_runtime(o, f"ConfigMap {CONFIG_MAP} does not exist")
    runtime = freetoken_runtime(o.descriptor.data)
    if isinstance(runtime, str):
        return _no_runtime(o, runtime)
    if runtime.unverified:
        message = f"The image of the FreeToken runtime is not verified: {runtime.unverified}."
        return report(o, ModelPhase.WAITING_FOR_RUNTIME, ModelReason.FREETOKEN_UNVERIFIED, message)
    return _running(o, model, runtime)


def _no_runtime(o: ModelObservation, why: str) -> Plan:
    return report(o, ModelPhase.WAITING_FOR_RUNTIME, ModelReason.WAITING_FOR_FREETOKEN, f"{why}.")


def _running(o: ModelObservation, model: ResolvedFreeToken, runtime: FreeTokenRuntime) -> Plan:
    """The Service comes first, so that the address is there when the Pod is."""
    live = live_deployment(o, model)
    steps: tuple[Step, ...] = (
        Apply(SERVICE, service(model, runtime)),
        *rolled(DEPLOYMENT, deployment(model, runtime), live),
    )
    ready = live is not None and direct_replicas(live) > 0
    unhealthy = health_problem(o, ModelReason.WAITING_FOR_FREETOKEN_HEALTH, NOT_ASKED) if ready else None
    state = _unwell(o) or (unhealthy if ready else _starting(o, live))
    if state is None:
        return publication(o, endpoint=endpoint(model, runtime), steps=steps)
    phase, reason, message = state
    return carry_out(o, Report(phase=phase, reason=reason, message=message, effective=ready), steps)


def _unwell(o: ModelObservation) -> State | None:
    if o.check.state is not CheckState.FAILED:
        return None
    message = o.check.message or "The runtime reports an error."
    return ModelPhase.DEGRADED, ModelReason.FREETOKEN_HEALTH_FAILED, message


def _starting(o: ModelObservation, live: Resource | None) -> State:
    if live is not None and (failed := failed_rollout(live, {"Progressing": "False"})) is not None:
        message = f"The Deployment does not progress: {failed}"
        return ModelPhase.DEGRADED, ModelReason.FREETOKEN_DEPLOYMENT_FAILED, message
    found = trouble(_pods(o))
    if found is not None:
        return ModelPhase.STARTING, found.reason, f"{found.message}."
    message = "Waiting for a Pod of the runtime to be ready."
    return ModelPhase.STARTING, ModelReason.WAITING_FOR_FREETOKEN_POD, message


def _pods(o: ModelObservation) -> tuple[PodView, ...]:
    return tuple(each for each in o.pods or () if each.live)
