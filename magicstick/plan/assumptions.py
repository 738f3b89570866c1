"""What is taken for granted about modules, and who plays Flux for it: applies, and says that it is healthy.

A module is assumed to be ready together with everything that it requires. What its folder holds, as far as
the operator reads it, is then there as well. Nothing of it counts as a change.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, Self

from magicstick.api import labels
from magicstick.api.kinds import HELM_RELEASE, KUSTOMIZATION
from magicstick.catalogs.modules import ModuleCatalog
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, Kind
from magicstick.kube.objects import Resource
from magicstick.modules.facts import ModuleFacts, is_ours
from magicstick.modules.flux import FluxState, suspended, verdict
from magicstick.plan.documents import Body, InputError, read

ALL: Final = "all"
NONE: Final = "none"
PALENA: Final = "palena"
"""Not a module: everybody on whom Palena depends (`plan.palena`)."""


class Lay(Protocol):
    """`plan.server.PretendServer.lay`."""

    async def __call__(self, kind: Kind, body: Body, *, if_missing: bool = False) -> Resource | None:
        """Make an object true as if somebody had applied it, or created it; what was there before."""
        ...


def assumes_palena(words: Iterable[str]) -> bool:
    """Whether these words of `--assume-ready` mean those on whom Palena depends."""
    return not {ALL, PALENA}.isdisjoint(words)


def refuse_modules(words: Iterable[str]) -> None:
    """Where no module counts, none can be assumed.

    Raises:
        InputError: a word means a module.
    """
    allowed = (ALL, NONE, PALENA)
    wrong = [word for word in words if word not in allowed]
    if wrong:
        known = ", ".join(allowed)
        raise InputError(
            f"--assume-ready {word!r}: nothing that was given needs modules; allowed are {known}"
            for word in wrong
        )


@dataclass(frozen=True, slots=True)
class Assumed:
    """The modules that are assumed to be ready."""

    modules: frozenset[str] = frozenset()
    """Canonical, with all that they require."""
    named: tuple[str, ...] = ()
    """Those that were asked for by name: they are there, whether anybody gives an activation or not."""

    @classmethod
    def of(cls, names: Iterable[str], catalog: ModuleCatalog) -> Self:
        """What these words mean: names of modules, or `all`, or `none`; `palena` is no module.

        Raises:
            InputError: a word is no module of the catalog.
        """
        words = [name for name in names if name not in (NONE, PALENA)]
        if ALL in words:
            return cls(frozenset(catalog.modules))
        canonical = {word: catalog.canonical(word) for word in words}
        unknown = [word for word, module in canonical.items() if module not in catalog.modules]
        if unknown:
            known = ", ".join((ALL, NONE, PALENA, *sorted(catalog.modules)))
            raise InputError(f"--assume-ready {word!r} is no module; allowed are {known}" for word in unknown)
        named = tuple(dict.fromkeys(canonical.values()))
        return cls(frozenset(_with_requirements(named, catalog)), named)

    def promises(self, catalog: ModuleCatalog) -> frozenset[str]:
        """The names of the definitions that these modules bring."""
        brought = (catalog.modules[each].required_crds for each in self.modules)
        return frozenset(crd for crds in brought for crd in crds)


def _with_requirements(modules: Iterable[str], catalog: ModuleCatalog) -> Iterator[str]:
    waiting, seen = list(modules), set[str]()
    while waiting:
        module = waiting.pop()
        if module in seen or module not in catalog.modules:
            continue
        seen.add(module)
        yield module
        waiting += catalog.requires(module)


class Flux:
    """Plays Flux for the modules that are assumed to be ready.

    Args:
        facts: of the operator whose plan is made.
        assumed: for which modules.
        kinds: what of a module's folder is laid.
        root: the folder that the paths of modules start from; None where there is none.
    """

    def __init__(
        self,
        facts: ModuleFacts,
        assumed: Assumed,
        kinds: Iterable[Kind],
        lay: Lay,
        root: Path | None,
    ) -> None:
        self._facts = facts
        self._assumed = assumed
        self._kinds = {(kind.api_version, kind.kind): kind for kind in kinds}
        self._lay = lay
        self._root = root
        self._brought: set[str] = set()

    async def plant(self) -> None:
        """The Kustomizations of static modules, which the operator does not make."""
        catalog = self._facts.catalog
        for module in sorted(self._assumed.modules) if catalog is not None else ():
            name = catalog.flux_name(module) if catalog is not None else None
            static = catalog is not None and catalog.modules[module].static
            if static and name is not None:
                body = _static(name, self._facts.site.flux_namespace)
                await self._lay(KUSTOMIZATION, body, if_missing=True)

    async def act(self) -> bool:
        """Apply what is waiting to be applied; whether anything was."""
        acted = False
        for each in self._facts.kustomizations.list():
            module = self._module_of(each)
            if module is None or suspended(each) or verdict(each).state is FluxState.READY:
                continue
            await self._bring(module)
            await self._lay(KUSTOMIZATION, ready(each))
            acted = True
        return acted

    def _module_of(self, kustomization: Resource) -> str | None:
        names, name = self._facts.names, kustomization.metadata.name
        module = None if names is None else names.module_of(name)
        catalog = self._facts.catalog
        if catalog is None or module not in self._assumed.modules:
            return None
        return module if catalog.modules[module].static or is_ours(kustomization) else None

    async def _bring(self, module: str) -> None:
        catalog = self._facts.catalog
        if catalog is None or module in self._brought:
            return
        self._brought.add(module)
        for crd in catalog.modules[module].required_crds:
            await self._lay(CUSTOM_RESOURCE_DEFINITION, definition(crd), if_missing=True)
        for body in self._folder(catalog.modules[module].path):
            kind = self._kinds.get((str(body.get("apiVersion")), str(body.get("kind"))))
            if kind is not None:
                stored = _with_ready(body, 1) if kind == HELM_RELEASE else body
                await self._lay(kind, stored, if_missing=True)

    def _folder(self, path: str) -> Iterator[Body]:
        folder = self._root / path.lstrip("./") if self._root is not None else None
        if folder is None or not folder.is_dir():
            return
        try:
            documents = read([str(folder)], str)
        except InputError:
            return  # what cannot be read is not there: whoever needs it waits for it, and says so
        yield from (each.body for each in documents)


def ready(live: Resource) -> Body:
    """A live object, as Flux or Helm reports it once it is applied and healthy."""
    metadata = live.metadata
    body = {
        "apiVersion": live.api_version,
        "kind": live.kind,
        "metadata": {"name": metadata.name, "namespace": metadata.namespace},
        "spec": live.spec,
    }
    return _with_ready(body, metadata.generation)


def _with_ready(body: Body, generation: int) -> Body:
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "ReconciliationSucceeded",
        "message": "Assumed to be ready.",
        "observedGeneration": generation,
    }
    return {**body, "status": {"observedGeneration": generation, "conditions": [condition]}}


def _static(name: str, namespace: str) -> Mapping[str, Any]:
    return {
        "apiVersion": KUSTOMIZATION.api_version,
        "kind": KUSTOMIZATION.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {},
    }


def release_definition() -> Mapping[str, Any]:
    """The definition of HelmReleases as the platform's Flux has it, as far as the operator reads it."""
    spec: Body = {"properties": {"install": {"properties": {"strategy": {}}}}}
    schema: Body = {"openAPIV3Schema": {"properties": {"spec": spec}}}
    plain = definition(HELM_RELEASE.crd_name)
    versions = [{"name": HELM_RELEASE.version, "served": True, "schema": schema}]
    return {**plain, "spec": {**plain["spec"], "versions": versions}}


def definition(name: str, kind: Kind | None = None) -> Mapping[str, Any]:
    """An established definition without a schema; with a kind, one that serves it."""
    plural, _, group = name.partition(".")
    served = {"names": {"kind": kind.kind}} if kind is not None else {}
    versions = [{"name": kind.version, "served": True}] if kind is not None else []
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITION.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITION.kind,
        "metadata": {"name": name, "labels": {labels.NAME: plural}},
        "spec": {"group": group, "versions": versions, **served},
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    }
