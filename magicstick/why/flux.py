"""Why Flux has not done something: Kustomizations, and the source that they are made from."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from magicstick.api.kinds import GIT_REPOSITORY, KUSTOMIZATION, MODULE_ACTIVATION
from magicstick.catalogs.modules import RESERVED_KUSTOMIZATIONS
from magicstick.kube.objects import Resource
from magicstick.modules.decide import decide
from magicstick.modules.facts import is_ours, label_of
from magicstick.modules.flux import FluxState, Verdict, suspended, verdict
from magicstick.modules.reconciler import observe
from magicstick.modules.status import ModulePhase
from magicstick.runtime.conditions import timestamp
from magicstick.why.causes import Cause, Explanation, Hint, Subject, healthy, kubectl, unhealthy
from magicstick.why.deletion import held_by_finalizers
from magicstick.why.operator import lease_of
from magicstick.why.sight import Sight

SOURCE_REASONS: Final = frozenset({"ArtifactFailed", "SourceNotFound", "SourceNotReady"})
"""Reasons with which kustomize-controller says that it lacks something to apply."""
WAITS_FOR_OTHERS: Final = "DependencyNotReady"
REQUESTED_AT: Final = "reconcile.fluxcd.io/requestedAt"


# --- Kustomizations ------------------------------------------------------------------------------


def explain_kustomization(subject: Subject, sight: Sight) -> Explanation:
    """Why a Kustomization is not applied; a healthy one is applied in its present generation."""
    if blocked := sight.obstacle(subject):
        return blocked
    live = sight.find(subject)
    cause = _missing(subject) if live is None else _trouble(subject, live, sight)
    return healthy(subject, "is applied") if cause is None else unhealthy(cause)


def _trouble(subject: Subject, live: Resource, sight: Sight) -> Cause | None:
    """What is the matter with a Kustomization that exists; None for one that is applied."""
    if live.metadata.dying:
        return held_by_finalizers(subject, live, "Flux removes what it had applied first")
    if _orphaned(live, sight):
        sentence = "has no activation, and the operator is to remove it"
        return Cause(subject, sentence, (lease_of(sight),))
    if suspended(live):
        return _suspended(subject, live, sight)
    said = verdict(live)
    return None if said.state is FluxState.READY else _unapplied(subject, live, said, sight)


def _orphaned(live: Resource, sight: Sight) -> bool:
    """Whether it is ours and nobody stands behind it (see `modules.orphans`)."""
    facts = sight.facts
    if not is_ours(live) or live.metadata.name in RESERVED_KUSTOMIZATIONS:
        return False
    if facts.catalog is None or facts.blind():
        return False
    module = facts.canonical(label_of(live))
    return not facts.activations_of(module) and not facts.claimants(live.metadata.name)


def _missing(subject: Subject) -> Cause:
    look = kubectl("get", "kustomizations", namespace=subject.namespace)
    hint = Hint("Apply the Flux graph of this repository, or see what there is of it.", look)
    return Cause(subject, f"does not exist in namespace {subject.namespace}", hint=hint)


def _suspended(subject: Subject, live: Resource, sight: Sight) -> Cause:
    """By us while its module waits; by somebody else's hand otherwise."""
    if is_ours(live) and (owner := sight.facts.activation(sight.facts.canonical(label_of(live)))):
        target = Subject.of(MODULE_ACTIVATION, owner.metadata.key)
        if decide(observe(owner, sight.facts)).outcome == ModulePhase.WAITING_FOR_MODULES:
            return Cause(subject, "is suspended by the operator while its module waits", (target,))
        return Cause(subject, "is suspended, and the operator is to resume it", (lease_of(sight),))
    hint = Hint("Resume it.", subject.patch({"suspend": False}))
    return Cause(subject, "is suspended by hand (spec.suspend is true): Flux leaves it alone", hint=hint)


def _unapplied(subject: Subject, live: Resource, said: Verdict, sight: Sight) -> Cause:
    told, source = _told(said), _source(live)
    if said.reason == WAITS_FOR_OTHERS:
        waiting = tuple(_unready_dependencies(live, sight))
        sentence = f"waits for others in Flux{told}"
        hint = Hint("See what Flux says.", subject.command("describe"))
        return Cause(subject, sentence, waiting, hint, passing=not waiting)
    troubled = source is not None and not explain_source(source, sight).healthy
    behind = (source,) if source is not None and troubled else ()
    if said.state is FluxState.FAILED:
        because = behind if said.reason in SOURCE_REASONS else ()
        return _failed(Cause(subject, f"cannot be applied by Flux{told}", because), live, said, sight)
    checking = said.state is FluxState.CHECKING
    sentence = "is being looked at by Flux again" if checking else "has not been applied by Flux yet"
    hint = Hint("See what Flux says, and whether kustomize-controller runs.", subject.command("describe"))
    return Cause(subject, sentence + told, behind, hint, passing=not behind)


def _failed(cause: Cause, live: Resource, said: Verdict, sight: Sight) -> Cause:
    """Whoever corrects the source has to know where, what Flux tried, and whether it tried the correction."""
    path, look = str(live.spec.get("path", "")), cause.subject.command("describe")
    tried, newest = live.status.get("lastAttemptedRevision"), _newest(live, sight)
    if tried and newest and tried != newest:
        text = f"Flux tried {tried}, and the source has been at {newest} since: have it tried at once."
        return replace(cause, hint=Hint(text, _request(cause.subject, sight)), passing=True)
    at = f", which Flux tried at {tried}" if tried else ""
    if said.reason == "HealthCheckFailed":
        text = f"See why what {path} installs does not become healthy{at}."
        return replace(cause, hint=Hint(text, look))
    return replace(cause, hint=Hint(f"Correct {path} in the source{at}.", look))


def _newest(live: Resource, sight: Sight) -> str:
    """The revision that the source is at; "" where it cannot be seen."""
    source = _source(live)
    if source is None or not sight.known(GIT_REPOSITORY):
        return ""
    found = sight.find(source)
    return revision_of(found) if found is not None else ""


def _request(subject: Subject, sight: Sight) -> str:
    """What `flux reconcile` does."""
    return subject.command("annotate", "--overwrite", f"{REQUESTED_AT}={timestamp(sight.now)}")


def _told(said: Verdict) -> str:
    """Flux's own words, where they are about what is there now."""
    if not said.message:
        return ""
    return f" ({said.reason}): {said.message}" if said.reason else f": {said.message}"


def _unready_dependencies(live: Resource, sight: Sight) -> Iterator[Subject]:
    listed = live.spec.get("dependsOn")
    for entry in listed if isinstance(listed, list | tuple) else ():
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if not isinstance(name, str):
            continue
        place = entry.get("namespace") or live.metadata.namespace
        subject = Subject(KUSTOMIZATION, name, str(place))
        found = sight.find(subject)
        if found is None or verdict(found).state is not FluxState.READY:
            yield subject


def _source(live: Resource) -> Subject | None:
    """The GitRepository that a Kustomization is made from; None for any other source."""
    reference = live.spec.get("sourceRef")
    if not isinstance(reference, Mapping) or reference.get("kind") != GIT_REPOSITORY.kind:
        return None
    place = reference.get("namespace") or live.metadata.namespace
    return Subject(GIT_REPOSITORY, str(reference.get("name")), str(place))


# --- sources -------------------------------------------------------------------------------------


def explain_source(subject: Subject, sight: Sight) -> Explanation:
    """Why a GitRepository has nothing to apply."""
    if blocked := sight.obstacle(subject):
        return blocked
    if subject.namespace != sight.facts.site.flux_namespace:
        return healthy(subject, f"is in namespace {subject.namespace}, where it is not looked at")
    live = sight.find(subject)
    if live is None:
        look = kubectl("get", "gitrepositories", namespace=subject.namespace)
        hint = Hint("Create it, or name another in the Appliance's spec.source.", look)
        return unhealthy(Cause(subject, f"does not exist in namespace {subject.namespace}", hint=hint))
    if live.metadata.dying:
        return unhealthy(held_by_finalizers(subject, live, "Flux ends with it"))
    if suspended(live):
        sentence = "is suspended by hand (spec.suspend is true): nothing new is fetched"
        return unhealthy(Cause(subject, sentence, hint=Hint("Resume it.", subject.patch({"suspend": False}))))
    return _fetched(subject, live)


def _fetched(subject: Subject, live: Resource) -> Explanation:
    said, look = verdict(live), subject.command("describe")
    if said.state is FluxState.READY:
        return healthy(subject, f"is fetched at {revision_of(live) or 'no revision'}")
    if said.state is FluxState.FAILED:
        address = str(live.spec.get("url", "its URL"))
        hint = Hint(f"Check that {address} can be reached with the Secret that spec.secretRef names.", look)
        return unhealthy(Cause(subject, f"cannot be fetched by Flux{_told(said)}", hint=hint))
    hint = Hint("See what Flux says, and whether source-controller runs.", look)
    sentence = f"has not been fetched by Flux yet{_told(said)}"
    return unhealthy(Cause(subject, sentence, hint=hint, passing=True))


def revision_of(source: Resource) -> str:
    """What a source holds; "" for nothing."""
    artifact = source.status.get("artifact")
    revision = artifact.get("revision") if isinstance(artifact, Mapping) else None
    return revision if isinstance(revision, str) else ""
