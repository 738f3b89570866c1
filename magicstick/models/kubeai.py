"""The decision about a model that KubeAI serves: rows 19 to 31 of the table (spec: models §9, §10)."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from magicstick.api.kinds import KUBEAI_MODEL
from magicstick.kube.kinds import POD
from magicstick.kube.objects import Resource
from magicstick.models.objects import Object, kubeai_model
from magicstick.models.observation import CheckState, ModelObservation
from magicstick.models.plans import carry_out, kept, report, still_serving, without_slot
from magicstick.models.pods import PodView, ended, failure, pods_of, trouble
from magicstick.models.publication import publication
from magicstick.models.resolved import ProfileChoice, ProfileWait, ResolvedKubeAi, WaitReason
from magicstick.models.serving import replicas, wants_none
from magicstick.models.status import ModelPhase, ModelReason, Outcome, Report, due
from magicstick.models.trackers import MAX_ATTEMPTS, NO_POD_TIMEOUT_S, Awaited, Recovery, revision
from magicstick.runtime.plan import Apply, Delete, Plan, Step


def decide(o: ModelObservation, model: ResolvedKubeAi, now: datetime) -> Plan:
    """What to do next for a model that nothing before its runtime holds up."""
    for rule in BEFORE:
        plan = rule(o)
        if plan is not None:
            return plan
    if o.profile is None:
        return kept(o, ModelReason.API_UNAVAILABLE, "The resource profiles of KubeAI cannot be read now.")
    if isinstance(o.profile, ProfileWait):
        return _waits_for_profile(o, o.profile)
    body = kubeai_model(model, o.profile.reference)
    if o.model is None:
        return _not_made(o, o.profile, body)
    case = Case(o, model, o.profile.reference, body, o.model, now)
    for step in RUNNING:
        plan = step(case)
        if plan is not None:
            return plan
    return publication(o, profile=case.profile, steps=case.steps)


@dataclass(frozen=True, slots=True)
class Case:
    """A model whose KubeAI Model is there, and is made what it should be in the same pass."""

    o: ModelObservation
    model: ResolvedKubeAi
    profile: str
    body: Object
    live: Resource
    now: datetime

    @property
    def steps(self) -> tuple[Step, ...]:
        """Makes the Model what it should be; nothing is sent where it is."""
        return (Apply(KUBEAI_MODEL, self.body),)

    @property
    def pods(self) -> tuple[PodView, ...]:
        """Those that count as this Model's."""
        return pods_of(self.o.pods or (), self.live)

    @property
    def ready(self) -> int:
        """Ready replicas."""
        return replicas(self.live, self.o.pods or ())[0]

    @property
    def revision(self) -> str:
        """What timers count for."""
        return revision(self.live, self.o.generation, self.body)

    @property
    def recovery(self) -> Recovery:
        """How often an ended Pod of this revision was replaced."""
        return Recovery.of(self.o.status.pod_recovery, self.revision)

    def tell(
        self,
        phase: ModelPhase,
        reason: str,
        message: str,
        *,
        steps: tuple[Step, ...] = (),
        outcome: str | None = None,
        recovery: Recovery | None = None,
        awaited: Awaited | None = None,
    ) -> Plan:
        """A plan that says what the runtime's state is, while it is not fine."""
        told = Report(
            phase=phase,
            reason=reason,
            message=message,
            profile=self.profile,
            effective=self.ready > 0,
            pod_creation=None if awaited is None else awaited.status(),
            pod_recovery=None if self.ready else (recovery or self.recovery).status(),
        )
        return carry_out(self.o, told, (*self.steps, *steps), outcome=outcome)


# --- before there is a Model -----------------------------------------------------------------------


def _unified_memory_profile(o: ModelObservation) -> Plan | None:
    """Row 19."""
    if isinstance(o.profile, ProfileWait) and o.profile.reason is WaitReason.UNIFIED_MEMORY:
        return _waits_for_profile(o, o.profile)
    return None


def _not_served(o: ModelObservation) -> Plan | None:
    """Row 20."""
    if o.kubeai_served:
        return None
    message = f"Waiting for CustomResourceDefinition {KUBEAI_MODEL.crd_name}, which KubeAI brings."
    return report(o, ModelPhase.WAITING_FOR_CRD, ModelReason.WAITING_FOR_CRD, message)


def _foreign_model(o: ModelObservation) -> Plan | None:
    if o.occupant is None or o.model is not None:
        return None
    message = (
        f"KubeAI Model {o.occupant.metadata.key} exists and was not made for this activation; it is left "
        "alone. Remove it, or give the activation another name."
    )
    return report(o, ModelPhase.DEGRADED, ModelReason.NAME_CONFLICT, message)


def _no_slot(o: ModelObservation) -> Plan | None:
    """Rows 19 and 22: without a slot the Model must not run (spec: models §8.5)."""
    if o.sharing is None or not o.sharing.refused:
        return None
    return without_slot(o, o.sharing.refused)


def _model_leaving(o: ModelObservation) -> Plan | None:
    """Somebody deleted the Model: it is made anew once it is gone."""
    if o.model is None or not o.model.metadata.dying:
        return None
    message = f"KubeAI Model {o.model.metadata.key} is being deleted, and is made anew once it is gone."
    return report(o, ModelPhase.STARTING, ModelReason.RETIRING_PREVIOUS_RUNTIME, message)


BEFORE: Final[tuple[Callable[[ModelObservation], Plan | None], ...]] = (
    _unified_memory_profile,
    _not_served,
    _foreign_model,
    _no_slot,
    _model_leaving,
)


def _waits_for_profile(o: ModelObservation, wait: ProfileWait) -> Plan:
    """Rows 19, 21 and 23: an existing Model is left alone."""
    return report(o, ModelPhase.STARTING, wait.reason, wait.message)


def _not_made(o: ModelObservation, profile: ProfileChoice, body: Object) -> Plan:
    told = Report(
        phase=ModelPhase.WAITING_FOR_POD,
        reason=ModelReason.WAITING_FOR_MODEL_POD,
        message="The KubeAI Model is being made.",
        profile=profile.reference,
    )
    return carry_out(o, told, (Apply(KUBEAI_MODEL, body),))


# --- once there is a Model -------------------------------------------------------------------------


def _ended_pod(case: Case) -> Plan | None:
    """Row 24: a Pod that ended for good is replaced, and the attempt written down before.

    An attempt that was written down and not carried out, since the operator ended in between or the Pod
    had changed, is carried out; it counts once.
    """
    pod = None if case.ready else ended(case.pods, case.live)
    if pod is None or any(each.ready for each in case.pods):
        return None
    recovery = case.recovery
    if recovery.last_pod_uid == pod.metadata.uid:
        return _replace(case, pod, recovery)
    if recovery.exhausted:
        message = f"{MAX_ATTEMPTS} Pods ended and were replaced, and so did the next one: {failure(pod)}. "
        advice = "Change the activation, or delete the Pod, once the cause is mended."
        return case.tell(ModelPhase.DEGRADED, ModelReason.POD_RECOVERY_EXHAUSTED, message + advice)
    left_s = recovery.left_s(case.now)
    if left_s > 0:
        message = (
            f"Attempt {recovery.attempts} of {MAX_ATTEMPTS} failed; the next follows soon: {failure(pod)}."
        )
        outcome = due(left_s, ModelPhase.DEGRADED, case.o.resync_s)
        return case.tell(ModelPhase.DEGRADED, ModelReason.POD_RECOVERY_BACKOFF, message, outcome=outcome)
    attempt = recovery.next(pod.metadata.uid, failure(pod), case.now)
    return _recovering(case, attempt, (), Outcome.RECORDED)


def _replace(case: Case, pod: PodView, recovery: Recovery) -> Plan:
    metadata = pod.metadata
    step = Delete(POD, metadata.key, metadata.uid, metadata.resource_version)
    return _recovering(case, recovery, (step,), None)


def _recovering(case: Case, recovery: Recovery, steps: tuple[Step, ...], outcome: str | None) -> Plan:
    message = f"A Pod ended and is being replaced, attempt {recovery.attempts} of {MAX_ATTEMPTS}: "
    return case.tell(
        ModelPhase.STARTING,
        ModelReason.RECOVERING_TERMINAL_POD,
        f"{message}{recovery.last_failure}.",
        steps=steps,
        recovery=recovery,
        outcome=outcome,
    )


def _scaled_to_zero(case: Case) -> Plan | None:
    """Nobody awaits a Pod that KubeAI does not want (spec: models §19)."""
    if case.pods or not wants_none(case.live):
        return None
    message = "KubeAI has scaled the model to zero, as minReplicas 0 allows; the first request starts it."
    return case.tell(ModelPhase.STARTING, ModelReason.SCALED_TO_ZERO, message)


def _no_pod(case: Case) -> Plan | None:
    """Rows 25 and 26. Degraded is only a report: a Pod that comes later clears it."""
    if case.pods:
        return None
    awaited = Awaited.of(case.o.status.pod_creation, case.revision, case.now)
    left_s = awaited.left_s(case.now)
    if left_s > 0:
        message = "KubeAI has not made a Pod yet, so the runtime has not started."
        phase, reason = ModelPhase.WAITING_FOR_POD, ModelReason.WAITING_FOR_MODEL_POD
        return case.tell(phase, reason, message, awaited=awaited, outcome=due(left_s, phase, case.o.resync_s))
    message = (
        f"KubeAI has made no Pod within {NO_POD_TIMEOUT_S // 60} minutes. Look into KubeAI's log and at "
        "admission rules; the model starts by itself once a Pod is there."
    )
    return case.tell(ModelPhase.DEGRADED, ModelReason.POD_CREATION_STALLED, message, awaited=awaited)


def _pod_in_trouble(case: Case) -> Plan | None:
    """Row 27, and the other reasons that a Pod gives itself (spec: models §18)."""
    found = None if case.ready else trouble(case.pods)
    return None if found is None else case.tell(ModelPhase.STARTING, found.reason, f"{found.message}.")


def _no_replica(case: Case) -> Plan | None:
    """Row 28."""
    if case.ready:
        return None
    return case.tell(
        ModelPhase.STARTING, ModelReason.WAITING_FOR_REPLICA, "Waiting for a replica to be ready."
    )


def _no_alias(case: Case) -> Plan | None:
    """Row 29; nobody but Ollama has aliases."""
    check = case.o.check
    if case.model.engine != "OLlama" or check.state is CheckState.PASSED:
        return None
    if check.state is CheckState.UNKNOWN and still_serving(case.o):
        return None  # it had them, and nobody can tell now
    message = check.message or "It is not known yet whether each Pod lists the model under its name."
    return case.tell(ModelPhase.STARTING, ModelReason.WAITING_FOR_ALIAS, message)


RUNNING: Final[tuple[Callable[[Case], Plan | None], ...]] = (
    _ended_pod,
    _scaled_to_zero,
    _no_pod,
    _pod_in_trouble,
    _no_replica,
    _no_alias,
)
