"""Follows the catalog ConfigMaps and keeps the last good copy of each (spec: magicstick-api §3).

A catalog that is absent, unreadable or malformed changes nothing: its last good copy stays in force,
and `problems` says what is wrong. So nothing is ever deleted, suspended or downgraded because of a bad
catalog; without any good copy, nothing is generated.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final, Generic, Protocol, TypeVar

import structlog

from magicstick.catalogs.applications import ApplicationCatalog
from magicstick.catalogs.compute_targets import ComputeTargetCatalog
from magicstick.catalogs.definitions import (
    APPLICATIONS,
    COMPUTE_TARGETS,
    MODEL_PRESETS,
    MODULES,
    CatalogFile,
)
from magicstick.catalogs.entries import CatalogError
from magicstick.catalogs.modules import ModuleCatalog
from magicstick.catalogs.presets import PresetCatalog
from magicstick.kube.cache import Caches
from magicstick.kube.informer import Informer, InformerState
from magicstick.kube.kinds import CONFIG_MAP, Kind, ObjectKey
from magicstick.kube.objects import Resource

MESSAGE_LIMIT: Final = 1024
LISTED_ENTRIES: Final = 5

log = structlog.get_logger(__name__)


class Parsed(Protocol):
    """What every catalog's model has."""

    @property
    def invalid(self) -> Mapping[str, str]:
        """Disabled entries: key -> "field: what is allowed"."""
        ...


C = TypeVar("C", bound=Parsed)
Handler = Callable[[str, Parsed | None, Parsed | None], None]


class ProblemReason(StrEnum):
    """What can be wrong with a catalog."""

    MISSING = "CatalogMissing"
    """The ConfigMap does not exist."""
    UNREADABLE = "CatalogUnreadable"
    """The API server does not let us read the ConfigMap."""
    MALFORMED = "CatalogMalformed"
    """The ConfigMap lacks its key, or the key holds no catalog."""
    INVALID_ENTRIES = "InvalidCatalogEntries"
    """Some entries are disabled; the others are in force."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a catalog, for the Appliance's condition `CatalogsValid`."""

    reason: ProblemReason
    message: str
    """One or two sentences that name the ConfigMap and what to do; at most `MESSAGE_LIMIT` characters."""


class CatalogSettings(Protocol):
    """Where the catalogs are; `runtime.settings.Settings` has all of it."""

    @property
    def module_catalog_namespace(self) -> str: ...  # noqa: D102 - named like its variable
    @property
    def module_catalog_name(self) -> str: ...  # noqa: D102 - named like its variable
    @property
    def app_catalog_namespace(self) -> str: ...  # noqa: D102 - named like its variable
    @property
    def app_catalog_name(self) -> str: ...  # noqa: D102 - named like its variable
    @property
    def compute_target_catalog_namespace(self) -> str: ...  # noqa: D102 - named like its variable
    @property
    def compute_target_catalog_name(self) -> str: ...  # noqa: D102 - named like its variable
    @property
    def model_presets_namespace(self) -> str: ...  # noqa: D102 - named like its variable
    @property
    def model_presets_name(self) -> str: ...  # noqa: D102 - named like its variable


class Followed(Generic[C]):
    """One catalog: its last good copy, and what is wrong with what the cluster holds now.

    `absent` is the copy that a ConfigMap which never existed stands for; None where there must be one.
    """

    def __init__(
        self,
        file: CatalogFile,
        key: ObjectKey,
        informer: Informer[Resource],
        parse: Callable[[str], C],
        absent: C | None = None,
    ) -> None:
        self.name = file.source
        self.copy: C | None = None
        self.problem: Problem | None = None
        self._data_key = file.key
        self._key = key
        self._informer = informer
        self._parse = parse
        self._absent = absent
        self._parsed_text: str | None = None

    @property
    def known(self) -> bool:
        """Whether the ConfigMap was read, or could not be: until then nothing is concluded."""
        return self.copy is not None or self.problem is not None

    def refresh(self) -> bool:
        """Take what the cache holds now; True when the copy or the problem changed."""
        before = (self.copy, self.problem)
        if self._informer.state is InformerState.FAILING:
            self._report(ProblemReason.UNREADABLE, f"cannot be read: {self._informer.reason}")
        elif self._informer.store.synced:
            self._take(self._informer.store.get(self._key))
        return (self.copy, self.problem) != before

    def _take(self, config_map: Resource | None) -> None:
        if config_map is None:
            self._take_absence()
        elif self._data_key not in config_map.data:
            self._report(ProblemReason.MALFORMED, f"has no key {self._data_key}")
        else:
            self._take_text(config_map.data[self._data_key])

    def _take_absence(self) -> None:
        if self.copy is None:
            self.copy = self._absent
        if self.copy is None or self.copy != self._absent:
            self._report(ProblemReason.MISSING, "does not exist")

    def _take_text(self, text: str) -> None:
        """Text that is in force already is not parsed again."""
        try:
            if self.copy is None or text != self._parsed_text:
                self.copy, self._parsed_text = self._parse(text), text
        except CatalogError as error:
            self._report(ProblemReason.MALFORMED, f"is malformed: {self._data_key} {error}")
            return
        self.problem = self._invalid_entries(self.copy.invalid)

    def _invalid_entries(self, invalid: Mapping[str, str]) -> Problem | None:
        if not invalid:
            return None
        listed = [f"{key} ({problem})" for key, problem in list(invalid.items())[:LISTED_ENTRIES]]
        more = f" and {len(invalid) - len(listed)} more" if len(invalid) > len(listed) else ""
        text = f"ConfigMap {self._key} has disabled entries: {', '.join(listed)}{more}."
        return Problem(ProblemReason.INVALID_ENTRIES, text[:MESSAGE_LIMIT])

    def _report(self, reason: ProblemReason, what: str) -> None:
        kept = (
            "Nothing is generated until it is good."
            if self.copy is None
            else "Its last good copy stays in force."
        )
        text = f"ConfigMap {self._key} {what}"[: MESSAGE_LIMIT - len(kept) - 2]
        self.problem = Problem(reason, f"{text}. {kept}")


class Catalogs:
    """All catalogs that the operator reads. Ask after `Caches.wait_synced`; before, nothing is known.

    Guarantees: a copy is replaced only by another good one; handlers are told of every change of a copy
    or a problem, and of nothing else; one that raises is logged and harms no other.
    """

    def __init__(self, caches: Caches, settings: CatalogSettings) -> None:
        self._caches = caches
        self._handlers: list[Handler] = []
        self._modules = self._follow(
            MODULES, settings.module_catalog_namespace, settings.module_catalog_name, ModuleCatalog.parse
        )
        self._applications = self._follow(
            APPLICATIONS, settings.app_catalog_namespace, settings.app_catalog_name, ApplicationCatalog.parse
        )
        self._compute_targets = self._follow(
            COMPUTE_TARGETS,
            settings.compute_target_catalog_namespace,
            settings.compute_target_catalog_name,
            ComputeTargetCatalog.parse,
        )
        self._presets = self._follow(
            MODEL_PRESETS,
            settings.model_presets_namespace,
            settings.model_presets_name,
            PresetCatalog.parse,
            absent=PresetCatalog(),
        )
        caches.subscribe_state(self._on_state)

    @property
    def modules(self) -> ModuleCatalog | None:
        """The last good module catalog; None before the first."""
        return self._modules.copy

    @property
    def applications(self) -> ApplicationCatalog | None:
        """The last good application catalog; None before the first."""
        return self._applications.copy

    @property
    def compute_targets(self) -> ComputeTargetCatalog | None:
        """The last good compute-target catalog; None before the first."""
        return self._compute_targets.copy

    @property
    def presets(self) -> PresetCatalog | None:
        """The last good presets, empty when there never was such a ConfigMap; None while not known."""
        return self._presets.copy

    @property
    def problems(self) -> Mapping[str, Problem]:
        """What is wrong now, by catalog: `modules`, `applications`, `compute-targets`, `model-presets`."""
        return {each.name: each.problem for each in self._all if each.problem is not None}

    @property
    def known(self) -> bool:
        """Whether each catalog was read or could not be; until then absence means nothing."""
        return all(each.known for each in self._all)

    @property
    def usable(self) -> bool:
        """Whether there is a good module, application and compute-target catalog.

        Without, nothing is generated, and the Appliance is Degraded with reason `CatalogUnavailable`.
        """
        return None not in (self.modules, self.applications, self.compute_targets)

    def subscribe(self, handler: Handler) -> None:
        """Call `handler(catalog, old copy, new copy)` after each change of a copy or a problem.

        When only the problem changed, both copies are the same object.
        """
        self._handlers.append(handler)

    @property
    def _all(self) -> tuple[Followed[Any], ...]:
        return (self._modules, self._applications, self._compute_targets, self._presets)

    def _follow(
        self,
        file: CatalogFile,
        namespace: str,
        name: str,
        parse: Callable[[str], C],
        *,
        absent: C | None = None,
    ) -> Followed[C]:
        informer = self._caches.add(CONFIG_MAP, namespace=namespace, name=name, view=Resource)
        followed = Followed(file, ObjectKey(namespace, name), informer, parse, absent)
        informer.store.subscribe(lambda _old, _new: self._refresh(followed))
        return followed

    def _on_state(self, kind: Kind, _: InformerState) -> None:
        if kind == CONFIG_MAP:
            for followed in self._all:
                self._refresh(followed)

    def _refresh(self, followed: Followed[Any]) -> None:
        old = followed.copy
        if not followed.refresh():
            return
        if followed.problem is None:
            log.info("catalog in force", catalog=followed.name)
        else:
            log.warning("catalog problem", catalog=followed.name, **asdict(followed.problem))
        for handler in self._handlers:
            try:
                handler(followed.name, old, followed.copy)
            except Exception:
                log.exception("catalog handler failed; others are told as usual", catalog=followed.name)
