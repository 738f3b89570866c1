"""The controllers of Palena: a list of its own, since either half runs without the other."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from magicstick.kube.discovery import Discovery
from magicstick.kube.errors import ApiError
from magicstick.kube.kinds import ObjectKey
from magicstick.palena.common.declaring import narrowed
from magicstick.palena.common.facts import PalenaFacts
from magicstick.palena.common.secrets import Entropy
from magicstick.palena.gateway.observation import Site
from magicstick.palena.gateway.reconciler import GatewayReconciler
from magicstick.palena.mcp_server.reconciler import McpServerReconciler
from magicstick.palena.model.reconciler import ModelReconciler
from magicstick.palena.observability.callbacks import Shape
from magicstick.palena.observability.reconciler import ObservabilityReconciler
from magicstick.palena.ui.reconciler import UiReconciler
from magicstick.runtime.plan import Plan
from magicstick.runtime.reads import Reads
from magicstick.runtime.reconciler import Declaration, Followed
from magicstick.runtime.settings import PalenaController, Settings


@dataclass(frozen=True, slots=True)
class Means:
    """What the controllers are made from."""

    reads: Reads
    facts: PalenaFacts
    settings: Settings
    entropy: Entropy


def palena(reads: Reads, settings: Settings, discovery: Discovery, entropy: Entropy) -> tuple[Followed, ...]:
    """Palena's half: the controllers that the settings name, to be declared to `reads`.

    Where only some namespaces are watched, there is one of each for each of them: its primary objects are
    those of the namespace, and may refer to whatever is watched.
    """
    means = Means(reads, PalenaFacts(reads, discovery), settings, entropy)
    return tuple(_wanted(means, settings.palena_watch_namespaces))


def _wanted(means: Means, namespaces: tuple[str, ...]) -> Iterator[Followed]:
    for name, make in CONTROLLERS.items():
        if name not in means.settings.palena_controllers:
            continue
        if not namespaces:
            yield make(means)
        for namespace in namespaces:
            inner = make(means)
            yield Narrowed(inner, narrowed(inner.declaration, namespace, namespaces))


def _gateway(means: Means) -> Followed:
    settings = means.settings
    site = Site(settings.palena_cnpg_namespace, settings.palena_litellm_operator_namespace)
    return GatewayReconciler(means.facts, means.reads, means.entropy, site)


def _model(means: Means) -> Followed:
    return ModelReconciler(means.facts, means.reads)


def _mcp_server(means: Means) -> Followed:
    return McpServerReconciler(means.facts, means.entropy, domain=means.settings.palena_cluster_domain)


def _ui(means: Means) -> Followed:
    return UiReconciler(means.facts, means.reads, means.entropy, domain=means.settings.palena_cluster_domain)


def _observability(means: Means) -> Followed:
    wanted = means.settings.palena_callback_shape
    return ObservabilityReconciler(
        means.facts,
        means.reads,
        means.entropy,
        shape=None if wanted == "auto" else Shape(wanted),
        domain=means.settings.palena_cluster_domain,
    )


CONTROLLERS: Final[Mapping[PalenaController, Callable[[Means], Followed]]] = {
    "gateway": _gateway,
    "model": _model,
    "ui": _ui,
    "observability": _observability,
    "mcpserver": _mcp_server,
}
"""All of them, by the name that the settings have for them."""


class Narrowed:
    """A reconciler with the declaration of one namespace."""

    def __init__(self, inner: Followed, declaration: Declaration) -> None:
        self._inner = inner
        self._declaration = declaration

    @property
    def declaration(self) -> Declaration:
        """See `runtime.reconciler.Reconciler`."""
        return self._declaration

    def follow(self, wake: Callable[[Iterable[ObjectKey]], None]) -> None:
        """See `runtime.reconciler.Followed`."""
        self._inner.follow(wake)

    async def observe(self, key: ObjectKey) -> Any:
        """See `runtime.reconciler.Reconciler`."""
        return await self._inner.observe(key)

    def decide(self, observation: Any, now: datetime) -> Plan:
        """See `runtime.reconciler.Reconciler`."""
        return self._inner.decide(observation, now)

    def decide_failure(self, observation: Any, error: ApiError, now: datetime) -> Plan:
        """See `runtime.reconciler.Reconciler`."""
        return self._inner.decide_failure(observation, error, now)
