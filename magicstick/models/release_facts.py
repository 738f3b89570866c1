"""What the caches know of KubeAI's installation, and which profile a Model may name because of it.

Guarantees
    Everything is read from caches. What cannot be read is not known, and never absent.

Who asks has to declare `edges`.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, TypeVar

from anyio import Lock, to_thread

from magicstick.api.kinds import HELM_RELEASE
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CONFIG_MAP, Kind, ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.models import kubeai_release
from magicstick.models.kinds import DEPLOYMENT
from magicstick.models.kubeai_release import KubeAi, Running
from magicstick.models.profiles import profile_for
from magicstick.models.resolved import ProfileChoice, ProfileWait, ResolvedKubeAi
from magicstick.modules.flux import verdict
from magicstick.modules.objects import Site
from magicstick.modules.ports import Reads
from magicstick.runtime.reconciler import Edge

Place = tuple[Kind, str, str]
"""Kind, namespace and name of one object."""
Wakes = Callable[[Resource | None, Resource | None], Iterable[ObjectKey]]

T = TypeVar("T")
LONG: Final = 1 << 14
"""Characters. What is shorter is read within a few milliseconds; 3,000 profiles take half a second."""
_KNOWN: Final = (InformerState.SYNCED, InformerState.ABSENT)


class ReleaseFacts:
    """See the module. `namespace` is where KubeAI itself runs."""

    def __init__(self, reads: Reads, site: Site, namespace: str = kubeai_release.NAMESPACE) -> None:
        self._reads = reads
        self.release_place: Place = (HELM_RELEASE, site.flux_namespace, kubeai_release.RELEASE_NAME)
        self.store_place: Place = (CONFIG_MAP, site.flux_namespace, kubeai_release.STORE_NAME)
        self._deployment_place: Place = (DEPLOYMENT, namespace, kubeai_release.DEPLOYMENT_NAME)
        self._config_place: Place = (CONFIG_MAP, namespace, kubeai_release.CONFIG_NAME)
        self._kubeai = Remembered(KubeAi.of)
        self._configured = Remembered(kubeai_release.configured)
        self._reading = Lock()

    @property
    def store_key(self) -> ObjectKey:
        """The profile store."""
        return ObjectKey(*self.store_place[1:])

    @property
    def release(self) -> Resource | None:
        """KubeAI's HelmRelease; its absence counts only while `blind` says nothing."""
        return self._get(self.release_place)

    @property
    def store(self) -> Resource | None:
        """The ConfigMap that is the profile store; its absence counts like that of the release."""
        return self._get(self.store_place)

    def blind(self) -> str:
        """Why it cannot be told what profiles are derived from; "" when it can."""
        for place in (self.release_place, self.store_place):
            state = self._reads.state(*place)
            if state not in _KNOWN:
                return f"{place[0].kind} {place[2]} cannot be read now ({state})"
        return ""

    def kubeai(self) -> KubeAi:
        """What profiles are derived from."""
        return self._kubeai(self.release, self.store)

    def running(self) -> Running:
        """What KubeAI runs with; not known where its objects cannot be read."""
        for place in (self._deployment_place, self._config_place):
            state = self._reads.state(*place)
            if state not in _KNOWN:
                return Running(problem=f"{place[0].kind} {place[2]} cannot be read now ({state}).")
        deployment, config = self._get(self._deployment_place), self._get(self._config_place)
        return kubeai_release.running(self.release, deployment, config, self._configured)

    async def prepare(self) -> None:
        """Read a long configuration of KubeAI beside the event loop, which it would hold up.

        Who does not wait for this gets the same answers, only later.
        """
        config = self._get(self._config_place)
        text = "" if config is None else config.data.get(kubeai_release.CONFIG_KEY, "")
        if len(text) < LONG or self._configured.knows(config):
            return
        async with self._reading:
            if not self._configured.knows(config):
                self._configured.learn(await to_thread.run_sync(kubeai_release.configured, config), config)

    def profile_for(self, model: ResolvedKubeAi, named: str | None) -> ProfileChoice | ProfileWait | None:
        """The profile that the Model may name, what it waits for, or None while that cannot be told.

        `named` is the one that the existing Model names; None without a Model.
        """
        return None if self.blind() else profile_for(model, self.kubeai(), self.running(), named)

    def base_edges(self, wakes: Wakes) -> tuple[Edge[Any], ...]:
        """Of what profiles are derived from: it concerns every model that KubeAI serves."""
        return (_edge(self.release_place, wakes, "which profiles KubeAI is installed with", release_changed),)

    def progress_edges(self, wakes: Wakes) -> tuple[Edge[Any], ...]:
        """Of how far a profile has come: it concerns those that wait for one."""
        return (
            _edge(self.store_place, wakes, "whether a profile is in the store", data_changed),
            _edge(self._config_place, wakes, "whether KubeAI has been given a profile", data_changed),
            _edge(self._deployment_place, wakes, "whether KubeAI runs with it", rollout_changed),
        )

    def _get(self, place: Place) -> Resource | None:
        kind, namespace, name = place
        found: Resource | None = self._reads.store(kind, namespace, name).get(ObjectKey(namespace, name))
        return found


class Remembered(Generic[T]):
    """A function of objects in the cache that is worked out anew only when one of them is another.

    Each model asks the same, and what it asks about may be long.
    """

    def __init__(self, function: Callable[..., T]) -> None:
        self._function = function
        self._last: tuple[tuple[Resource | None, ...], T] | None = None

    def __call__(self, *objects: Resource | None) -> T:
        """What the function makes of these objects."""
        if self._last is None or not self.knows(*objects):
            return self.learn(self._function(*objects), *objects)
        return self._last[1]

    def knows(self, *objects: Resource | None) -> bool:
        """Whether these very objects are those that it was worked out of last."""
        return self._last is not None and all(a is b for a, b in zip(self._last[0], objects, strict=True))

    def learn(self, result: T, *objects: Resource | None) -> T:
        """What the function made of these objects, by whomever it was asked."""
        self._last = (objects, result)
        return result


def release_changed(old: View | None, new: View | None) -> bool:
    """Whether a HelmRelease says something else, of itself or of its success."""
    return _release_meaning(old) != _release_meaning(new)


def data_changed(old: View | None, new: View | None) -> bool:
    """Whether a ConfigMap holds something else."""
    before, after = (each.data if isinstance(each, Resource) else None for each in (old, new))
    return before != after


def rollout_changed(old: View | None, new: View | None) -> bool:
    """Whether a Deployment has another template, or is rolled out and was not, or the other way round."""
    before, after = (
        (each.spec, kubeai_release.rolled_out(each)) if isinstance(each, Resource) else None
        for each in (old, new)
    )
    return before != after


def _release_meaning(release: View | None) -> tuple[object, ...] | None:
    return (
        (release.spec, release.metadata.annotations, verdict(release))
        if isinstance(release, Resource)
        else None
    )


def _edge(
    place: Place, wakes: Wakes, why: str, changed: Callable[[View | None, View | None], bool]
) -> Edge[Any]:
    kind, namespace, name = place
    return Edge(kind, wakes, why, changed, namespace=namespace, name=name)
