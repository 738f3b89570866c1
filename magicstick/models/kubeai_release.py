"""What KubeAI has: the profiles that it was installed with, the store that feeds it, and what it runs on.

The inline values of its HelmRelease belong to Git and the store is the operator's. What KubeAI has *taken*
is neither: it reads its configuration once, when it starts. Its ConfigMap together with a complete rollout
of its Deployment is therefore the one proof (spec: models §8.2, gpu §8).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec
import yaml

from magicstick.api.yaml_errors import YAML_ERRORS
from magicstick.kube.objects import Resource
from magicstick.models.resolved import Profile
from magicstick.modules.flux import FluxState, suspended, verdict

STORE_NAME: Final = "magicstick-offloading-profiles"
STORE_KEY: Final = "values.json"
RELEASE_NAME: Final = "kubeai"
CONFIG_VOLUME: Final = "config"
CONFIG_KEY: Final = "system.yaml"
NAMESPACE: Final = "ai"
"""Where KubeAI runs; the release that we ship says so."""
DEPLOYMENT_NAME: Final = "kubeai"
CONFIG_NAME: Final = "kubeai-config"
"""As KubeAI's chart calls them, whatever the release is called."""
PROFILES: Final = "resourceProfiles"

Profiles = Mapping[str, Profile]
"""By name."""


@dataclass(frozen=True, slots=True)
class KubeAi:
    """What profiles are derived from. None of it is a guess: what cannot be read is None or empty."""

    installed: Profiles | None = None
    """The profiles of the release's inline values; None while there is no release."""
    reads_store: bool = False
    """Whether the release takes values from the store."""
    store: Profiles | None = None
    """The profiles in the store; None while it is absent, or holds something else."""
    store_characters: int = 0
    """How long the store's text is."""

    @classmethod
    def of(cls, release: Resource | None, store: Resource | None) -> "KubeAi":
        """What the HelmRelease and the store's ConfigMap say."""
        text = store.data.get(STORE_KEY, "") if store is not None else ""
        return cls(
            installed=None if release is None else profiles_in(release.spec.get("values")),
            reads_store=release is not None and _reads_store(release),
            store=stored_profiles(store),
            store_characters=len(text),
        )


@dataclass(frozen=True, slots=True)
class Running:
    """What KubeAI runs with now."""

    profiles: Profiles = field(default_factory=dict)
    """Of the configuration that its Pods have read."""
    problem: str = ""
    """Why it may not have read them yet, as a sentence; "" when it has."""


def stored_profiles(store: Resource | None) -> Profiles | None:
    """The profiles in the store; None when there is no store, or its text is none."""
    text = store.data.get(STORE_KEY) if store is not None else None
    if text is None:
        return None
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    listed = document.get(PROFILES) if isinstance(document, Mapping) else None
    return profiles_in(document) if isinstance(listed, Mapping) else None


def profiles_in(values: object) -> Profiles:
    """The resource profiles of Helm values; what is no profile is left out."""
    listed = values.get(PROFILES) if isinstance(values, Mapping) else None
    profiles = listed.items() if isinstance(listed, Mapping) else ()
    return {name: each for name, each in profiles if isinstance(name, str) and isinstance(each, Mapping)}


def running(
    release: Resource | None,
    deployment: Resource | None,
    config: Resource | None,
    read: Callable[[Resource | None], Profiles | None] | None = None,
) -> Running:
    """What KubeAI runs with: its configuration, and whether all its Pods have started with it.

    A release under way may have changed the configuration but not yet the Deployment, so nothing counts
    while Flux is at work on it. `read` stands in for `configured`, where it is remembered.
    """
    if release is None or deployment is None:
        return Running(problem="KubeAI is not installed.")
    if not _reads(deployment, config):
        return Running(problem=f"KubeAI does not read its configuration from ConfigMap {CONFIG_NAME}.")
    profiles = (read or configured)(config)
    if profiles is None:
        return Running(problem=f"ConfigMap {CONFIG_NAME} does not exist, or holds no configuration.")
    found = verdict(release)
    if suspended(release):
        return Running(profiles, f"HelmRelease {release.metadata.key} is suspended: resume it.")
    if found.state is not FluxState.READY:
        what = "has failed" if found.state is FluxState.FAILED else "is not finished"
        said = f": {found.message}" if found.message else "."
        return Running(profiles, f"HelmRelease {release.metadata.key} {what}{said}")
    return Running(profiles, "" if rolled_out(deployment) else "KubeAI is being restarted.")


def rolled_out(deployment: Resource) -> bool:
    """Whether every Pod is of the newest template, and no older one is left."""
    wanted, status = deployment.spec.get("replicas", 1), deployment.status
    observed = status.get("observedGeneration")
    if not isinstance(observed, int) or observed < deployment.metadata.generation or wanted == 0:
        return False
    names = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    return all(status.get(name) == wanted for name in names)


def _reads(deployment: Resource, config: Resource | None) -> bool:
    """Whether the Deployment's volume is this very ConfigMap; where there is none, whether it would be."""
    name = CONFIG_NAME if config is None else config.metadata.name
    volumes = _items(_dig(deployment.spec, "template", "spec"), "volumes")
    return any(
        each.get("name") == CONFIG_VOLUME and _dig(each, "configMap").get("name") == name for each in volumes
    )


def configured(config: Resource | None) -> Profiles | None:
    """The profiles in KubeAI's configuration; None where there is none. Takes time where there are many."""
    text = config.data.get(CONFIG_KEY) if config is not None else None
    if text is None:
        return None
    try:
        document = yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe loader, the fast one where it is built
    except YAML_ERRORS:
        return None
    return profiles_in(document) if isinstance(document, Mapping) else None


def _reads_store(release: Resource) -> bool:
    return any(
        (each.get("kind"), each.get("name"), each.get("valuesKey", "values.yaml"))
        == ("ConfigMap", STORE_NAME, STORE_KEY)
        for each in _items(release.spec, "valuesFrom")
    )


def _dig(value: object, *path: str) -> Mapping[str, object]:
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _items(parent: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    listed = parent.get(name)
    return [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list | tuple) else []


_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
