"""From all sources to one set of routes: who wants what, what stays as it is, and what is wrong.

Guarantees: a source that cannot be read takes nothing away: what it once led to is *held*, neither
changed nor withdrawn, and so is the route whose key cannot be had. One bad entry costs its neighbours
nothing. Pure (spec: models §16, companions §1.3 and §1.4).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from magicstick.api.labels import MODEL
from magicstick.kube.objects import Resource
from magicstick.model_catalog.inventory import Deployment
from magicstick.model_catalog.routes import (
    Origin,
    Route,
    Source,
    direct_route,
    endpoint_of,
    external_route,
    inline_key,
    kubeai_route,
)
from magicstick.model_catalog.values import Object, first_text, is_name, is_unicode, items, section, text
from magicstick.runtime.logs import Secret

RUNTIME_READY: Final = "RuntimeReady"
DIRECT: Final = frozenset({Source.FREETOKEN, Source.REALTIME})


class KeyReference(NamedTuple):
    """One key of a Secret beside LiteLLM."""

    secret: str
    key: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What could not be read is not absent. `reason` is for people and holds no value."""

    reason: str


Listing = tuple[Resource, ...] | Unreadable
Keys = Mapping[KeyReference, Secret | Unreadable]


@dataclass(frozen=True, slots=True)
class Sources:
    """All that says which models there are. `external` is the text of `models.json`."""

    models: Listing = ()
    activations: Listing = ()
    external: str | Unreadable = ""
    keys: Keys = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hold:
    """Routes in LiteLLM that stay as they are. A route without a mark of its origin may be of any."""

    sources: frozenset[Source]
    origin: Origin | None = None
    name: str | None = None
    excluding: frozenset[str] = frozenset()

    def covers(self, deployment: Deployment) -> bool:
        """Whether this deployment stays as it is."""
        fits = self.origin is None or deployment.origin in ("", self.origin)
        named = self.name is None or self.name == deployment.name
        of_source = deployment.managed and deployment.source in self.sources
        return of_source and fits and named and deployment.name not in self.excluding


class Problem(NamedTuple):
    """What is wrong, for people: about what, and why. Never with a value."""

    subject: str
    reason: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Desired:
    """The routes by name, what is held, and what was wrong."""

    routes: Mapping[str, Route] = field(default_factory=dict)
    holds: tuple[Hold, ...] = ()
    problems: tuple[Problem, ...] = ()


class _Entry(NamedTuple):
    """A model of another provider, whoever wants it."""

    name: str
    content: Object
    origin: Origin
    problem: str = ""
    """Why nothing can be made of it; "" for nothing."""


class _Draft:
    """The answer while it is made. A later route of a name takes the place of an earlier one."""

    def __init__(self) -> None:
        self.routes: dict[str, Route] = {}
        self.holds: list[Hold] = []
        self.problems: list[Problem] = []

    def done(self) -> Desired:
        return Desired(self.routes, tuple(self.holds), tuple(self.problems))


def desired_routes(sources: Sources, kubeai_api_base: str) -> Desired:
    """The routes that LiteLLM should have. Later sources win on equal names."""
    draft = _Draft()
    _add_models(draft, sources, kubeai_api_base)
    entries = _read_external(sources.external)
    if isinstance(entries, Unreadable):
        activated = frozenset(entry.name for entry in _activated(sources, wanted_only=False))
        draft.problems.append(Problem("models.json", entries.reason))
        draft.holds.append(Hold(frozenset({Source.EXTERNAL}), Origin.CONFIG_MAP, excluding=activated))
        entries = ()
    for entry in (*entries, *_activated(sources)):
        _add_external(draft, entry, sources.keys)
    _add_direct(draft, sources)
    return draft.done()


def key_references(sources: Sources) -> frozenset[KeyReference]:
    """The keys without which some routes cannot be made."""
    entries = _read_external(sources.external)
    listed = () if isinstance(entries, Unreadable) else entries
    found = (_reference(entry.content) for entry in (*listed, *_activated(sources)))
    return frozenset(each for each in found if each is not None)


def runtime_ready(activation: Resource) -> bool:
    """Whether the model runs, by a condition that speaks of the present spec (spec: README decision 29).

    The phase does not count: it waits for publication itself.
    """
    return any(
        section({"": each}, "").get("type") == RUNTIME_READY
        and section({"": each}, "").get("status") == "True"
        and _generation(each) >= activation.metadata.generation
        for each in items(activation.status, "conditions")
    )


def wanted(activation: Resource) -> bool:
    """Whether the model should be served at all."""
    return activation.spec.get("enabled") is not False and not activation.metadata.dying


def ready_replicas(model: Resource) -> int:
    """How many replicas KubeAI counts as ready."""
    found = section(model.status, "replicas").get("ready")
    return found if type(found) is int and found > 0 else 0


def backend(activation: Resource) -> Source:
    """What serves a local model."""
    local = section(activation.spec, "local")
    if text(section(local, "realtime").get("profile")):
        return Source.REALTIME
    return Source.FREETOKEN if text(local.get("engine")).lower() == Source.FREETOKEN else Source.KUBEAI


def _generation(condition: object) -> int:
    found = section({"": condition}, "").get("observedGeneration")
    return found if type(found) is int else -1


# -- KubeAI ------------------------------------------------------------------------------------------


def _add_models(draft: _Draft, sources: Sources, api_base: str) -> None:
    if isinstance(sources.models, Unreadable):
        draft.holds.append(Hold(frozenset({Source.KUBEAI})))
        draft.problems.append(Problem("KubeAI Models", sources.models.reason))
        return
    ready = _ready_names(sources.activations)
    for model in sorted(sources.models, key=lambda each: each.metadata.name):
        name, owner = model.metadata.name, model.metadata.labels.get(MODEL)
        if owner and ready is None:
            draft.holds.append(Hold(frozenset({Source.KUBEAI}), name=name))
        elif not model.metadata.dying and ready_replicas(model) and (not owner or owner in (ready or ())):
            draft.routes[name] = kubeai_route(model, api_base)


def _ready_names(activations: Listing) -> frozenset[str] | None:
    """The local models that run; None while nobody can tell."""
    if isinstance(activations, Unreadable):
        return None
    return frozenset(
        each.metadata.name for each in activations if _local(each) and wanted(each) and runtime_ready(each)
    )


def _local(activation: Resource) -> bool:
    return bool(activation.spec.get("type", "local") == "local")


# -- other providers ---------------------------------------------------------------------------------


def _read_external(content: str | Unreadable) -> tuple[_Entry, ...] | Unreadable:
    """The entries of `models.json`, named or not."""
    if isinstance(content, Unreadable) or not content.strip():
        return content if isinstance(content, Unreadable) else ()
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return Unreadable("is no JSON: an object with `models`, or a list, is allowed")
    listed = document.get("models", []) if isinstance(document, dict) else document
    if not isinstance(listed, list):
        return Unreadable("has no list: an object with `models`, or a list, is allowed")
    entries = (each if isinstance(each, dict) else {} for each in listed)
    return tuple(_listed(entry) for entry in entries if entry.get("enabled") is not False)


def _listed(entry: Object) -> _Entry:
    """JSON can spell text that no request can carry: half of a surrogate pair."""
    name = text(entry.get("name"))
    if not is_unicode(entry):
        return _Entry(name, {}, Origin.CONFIG_MAP, "holds text that is no Unicode")
    return _Entry(name, entry, Origin.CONFIG_MAP)


def _activated(sources: Sources, *, wanted_only: bool = True) -> Iterable[_Entry]:
    """The external models that activations ask for."""
    if isinstance(sources.activations, Unreadable):
        return
    for each in sorted(sources.activations, key=lambda each: each.metadata.name):
        if each.spec.get("type") == "external" and (wanted(each) or not wanted_only):
            content = dict(section(each.spec, "external"))
            content.pop("type", None)
            yield _Entry(each.metadata.name, content, Origin.ACTIVATION)


def _add_external(draft: _Draft, entry: _Entry, keys: Keys) -> None:
    subject = f"external model {entry.name[:80]!r}"
    if not is_name(entry.name):
        draft.problems.append(Problem("models.json", "an entry has no `name` of printable characters"))
        return
    if entry.problem:
        draft.problems.append(Problem(subject, entry.problem))
        return
    reference = _reference(entry.content)
    key = inline_key(entry.content) if reference is None else keys.get(reference, Unreadable("was not read"))
    if isinstance(key, Unreadable):
        draft.holds.append(Hold(frozenset({Source.EXTERNAL}), name=entry.name))
        draft.problems.append(Problem(subject, key.reason))
        return
    route = external_route(entry.name, entry.content, entry.origin, key)
    if isinstance(route, str):
        draft.problems.append(Problem(subject, route))
    else:
        draft.routes[entry.name] = route


def _reference(entry: Object) -> KeyReference | None:
    """The Secret's key that the entry names; None where it names only half of one."""
    for parent in (entry, section(entry, "litellm")):
        named = section(parent, "apiKeySecretRef")
        secret, key = first_text(named.get("name")), first_text(named.get("key"))
        if secret and key:
            return KeyReference(secret, key)
    return None


# -- runtimes without KubeAI ---------------------------------------------------------------------------


def _add_direct(draft: _Draft, sources: Sources) -> None:
    if isinstance(sources.activations, Unreadable):
        draft.holds.append(Hold(DIRECT | {Source.EXTERNAL}, Origin.ACTIVATION))
        draft.problems.append(Problem("ModelActivations", sources.activations.reason))
        return
    for each in sorted(sources.activations, key=lambda each: each.metadata.name):
        source = backend(each)
        if source not in DIRECT or not (_local(each) and wanted(each) and runtime_ready(each)):
            continue
        endpoint = endpoint_of(each)
        if endpoint:
            draft.routes[each.metadata.name] = direct_route(each, source, endpoint)
        else:
            allowed = (
                "status.runtimeEndpoint must be http(s)://<service>.<targetNamespace>.svc.cluster.local/v1"
            )
            draft.problems.append(Problem(f"model {each.metadata.name!r}", allowed))
