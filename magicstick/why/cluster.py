"""Why something of the cluster itself is in the way: definitions, namespaces, catalogs."""

from collections.abc import Iterator, Mapping
from typing import Final

from magicstick.api.kinds import (
    CNPG_CLUSTER,
    KUSTOMIZATION,
    LANGFUSE_INSTANCE,
    LITELLM_INSTANCE,
    LITELLM_MODEL,
    LITELLM_VIRTUAL_KEY,
    SHIPPED_KINDS,
)
from magicstick.catalogs.definitions import APPLICATIONS, COMPUTE_TARGETS, MODEL_PRESETS, MODULES
from magicstick.catalogs.loader import Problem
from magicstick.kube.discovery import CrdView
from magicstick.why.causes import Cause, Explanation, Hint, Subject, healthy, kubectl, unhealthy
from magicstick.why.deletion import held_by_finalizers
from magicstick.why.edges import catalog_places
from magicstick.why.sight import FLUX_KINDS, Sight

UNUSABLE: Final = "Nothing is generated until it is good."
"""How `catalogs.loader` ends the message about a catalog of which it has no copy."""
INSTALL_OURS: Final = "magicstick crds | kubectl apply --server-side -f -"

DRIVEN: Final[Mapping[str, str]] = {
    CNPG_CLUSTER.crd_name: "CloudNativePG",
    **dict.fromkeys(
        (kind.crd_name for kind in (LITELLM_INSTANCE, LITELLM_MODEL, LITELLM_VIRTUAL_KEY)),
        "the LiteLLM operator",
    ),
    LANGFUSE_INSTANCE.crd_name: "the Langfuse operator",
}
"""Whose the foreign kinds are that Palena drives; it never installs them."""


def explain_definition(subject: Subject, sight: Sight) -> Explanation:
    """Why a kind is not served."""
    if blocked := sight.obstacle(subject):
        return blocked
    found = sight.stores.store(subject.kind).get(subject.key)
    if not isinstance(found, CrdView):
        return unhealthy(Cause(subject, "does not exist", hint=_install(subject.name, sight)))
    if found.metadata.dying:
        return unhealthy(held_by_finalizers(subject, found, "its objects go with it"))
    if not found.established:
        hint = Hint("See its conditions.", subject.command("describe"))
        return unhealthy(Cause(subject, "exists, and the server has not established it", hint=hint))
    wanted = _version(subject.name)
    if wanted and not found.serves(wanted):
        sentence = f"does not serve version {wanted}"
        return unhealthy(Cause(subject, sentence, hint=_install(subject.name, sight)))
    return healthy(subject, "is established")


def _install(name: str, sight: Sight) -> Hint:
    if any(name == kind.crd_name for kind in SHIPPED_KINDS):
        return Hint("Install the kinds of magicstick.", INSTALL_OURS)
    if any(name == kind.crd_name for kind in FLUX_KINDS):
        return Hint("Install Flux.", "flux install")
    if operator := DRIVEN.get(name):
        return Hint(f"Install {operator}, whose kind this is.", kubectl("get", "crd", name))
    module = next(_modules_with(name, sight), "")
    if module:
        place = sight.place(KUSTOMIZATION, sight.facts.flux_name(module) or module)
        return Hint(f"See why what module {module} installs does not bring it.", place.command("describe"))
    look = kubectl("get", "kustomizations", namespace=sight.facts.site.flux_namespace)
    return Hint("Install what brings it.", look)


def _modules_with(name: str, sight: Sight) -> Iterator[str]:
    catalog = sight.facts.catalog
    for module, definition in catalog.modules.items() if catalog is not None else ():
        if name in definition.required_crds:
            yield module


def _version(name: str) -> str:
    """The version in which the operator uses a kind; "" for a kind that it only waits for."""
    return next((kind.version for kind in (*SHIPPED_KINDS, *FLUX_KINDS) if kind.crd_name == name), "")


def explain_namespace(subject: Subject, sight: Sight) -> Explanation:
    """Why nothing can be made in a namespace."""
    if blocked := sight.obstacle(subject):
        return blocked
    found = sight.find(subject)
    if found is None:
        hint = Hint("Create it, or install what brings it.", subject.command("create"))
        return unhealthy(Cause(subject, "does not exist", hint=hint))
    if not found.metadata.dying:
        return healthy(subject, "exists")
    sentence = f"is being deleted since {found.metadata.deletion_timestamp}: nothing can be made in it"
    hint = Hint("See what holds it, and create it again once it is gone.", subject.command("describe"))
    return unhealthy(Cause(subject, sentence, hint=hint))


def explain_catalog(subject: Subject, sight: Sight) -> Explanation:
    """What is wrong with a catalog, by the same reader that the operator has."""
    names = (MODULES, APPLICATIONS, COMPUTE_TARGETS, MODEL_PRESETS)
    places = dict(zip((each.source for each in names), catalog_places(sight.settings), strict=True))
    problems = [
        sight.catalogs.problems[name]
        for name, place in places.items()
        if place == subject.key and name in sight.catalogs.problems
    ]
    if not problems:
        return healthy(subject, "is in order")
    look = subject.command("get", "-o", "yaml")
    hint = Hint("Correct it where it comes from (manifests/catalogs).", look)
    told = " ".join(_told(each, subject) for each in problems)
    return unhealthy(Cause(subject, told.rstrip("."), hint=hint))


def _told(problem: Problem, subject: Subject) -> str:
    """The problem without what follows from it here: nobody but the operator has a last good copy."""
    text = problem.message.removeprefix(f"ConfigMap {subject.key} ")
    if UNUSABLE not in text:
        return text
    return text.replace(UNUSABLE, "An operator that had a good copy before goes on with it.")
