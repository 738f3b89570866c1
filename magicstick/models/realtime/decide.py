"""The decision about a model that vLLM-Omni serves directly (spec: realtime §9, step 10)."""

from typing import Final

from magicstick.kube.kinds import CONFIG_MAP
from magicstick.kube.objects import Resource
from magicstick.models.direct import State, failed_rollout, health_problem, live_deployment
from magicstick.models.kinds import DEPLOYMENT, SERVICE
from magicstick.models.observation import ModelObservation
from magicstick.models.plans import carry_out, without_slot
from magicstick.models.pods import trouble
from magicstick.models.publication import publication
from magicstick.models.realtime.diagnosis import pod_failure, pods_of_runtime
from magicstick.models.realtime.nodes import slot_problem
from magicstick.models.realtime.objects import endpoint_of, runtime_objects
from magicstick.models.resolved import ResolvedRealtime
from magicstick.models.serving import direct_replicas
from magicstick.models.status import ModelPhase, ModelReason, Report
from magicstick.runtime.plan import Apply, Plan, Step
from magicstick.runtime.rollout import rolled

NOT_ASKED: Final = "It is not known yet whether the runtime has loaded the model."
FAILED_CONDITIONS: Final = {"Progressing": "False", "ReplicaFailure": "True"}


def decide(o: ModelObservation, model: ResolvedRealtime) -> Plan:
    """What to do next for a model that nothing before its runtime holds up."""
    if refused := slot_problem(model, o.sharing):
        return without_slot(o, refused)
    config, service, deployment = runtime_objects(model)
    live = live_deployment(o, model)
    steps: tuple[Step, ...] = (
        Apply(CONFIG_MAP, config),
        Apply(SERVICE, service),
        *rolled(DEPLOYMENT, deployment, live),
    )
    rolled_out = live is not None and direct_replicas(live) > 0
    state = _unhealthy(o) if rolled_out else _starting(o, model, live)
    if state is None:
        return publication(o, endpoint=endpoint_of(model), steps=steps, ready=ModelReason.REALTIME_READY)
    phase, reason, message = state
    return carry_out(o, Report(phase=phase, reason=reason, message=message, effective=rolled_out), steps)


def _unhealthy(o: ModelObservation) -> State | None:
    return health_problem(o, ModelReason.WAITING_FOR_REALTIME_HEALTH, NOT_ASKED)


def _starting(o: ModelObservation, model: ResolvedRealtime, live: Resource | None) -> State:
    pods = pods_of_runtime(o.pods or ())
    if failed := pod_failure(pods, model):
        return ModelPhase.DEGRADED, ModelReason.REALTIME_POD_FAILED, failed
    if live is not None and (failed := failed_rollout(live, FAILED_CONDITIONS)) is not None:
        message = f"The Deployment of the runtime fails: {failed}"
        return ModelPhase.DEGRADED, ModelReason.REALTIME_DEPLOYMENT_FAILED, message
    found = trouble(pods)
    why = "" if found is None else f" {found.message}."
    message = f"Waiting for a Pod of the runtime to be ready.{why}"
    return ModelPhase.STARTING, ModelReason.WAITING_FOR_REALTIME_POD, message
