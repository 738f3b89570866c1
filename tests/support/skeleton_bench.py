"""A skeleton over a cluster in miniature, to carry out single passes."""

from typing import Any

from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.runtime.conditions import find
from magicstick.runtime.skeleton import Result, Skeleton
from tests.support.objects import WIDGET
from tests.support.runtime import KEY, FakeHands, FakeStores, Pair, PairReconciler, resource, widget_body
from tests.support.virtual_time import VirtualTime


class Events:
    """A recorder that a test can read."""

    def __init__(self) -> None:
        self.noted: list[tuple[bool, str, str]] = []
        self.about: list[tuple[Kind, ObjectKey]] = []

    def record(self, kind: Kind, obj: Resource, *, normal: bool, reason: str, message: str) -> None:
        self.noted.append((normal, reason, message))
        self.about.append((kind, obj.metadata.key))


class SkeletonBench:
    """A skeleton over a cluster in miniature that holds one widget."""

    def __init__(self, **metadata: Any) -> None:
        self.stores = FakeStores()
        self.clock = VirtualTime()
        self.hands = FakeHands(self.stores)
        self.events = Events()
        self.reconciler = PairReconciler(self.stores)
        self.skeleton = self.new_skeleton()
        self.hands.put(WIDGET, resource(widget_body(**metadata)))

    def new_skeleton(self) -> Skeleton[Pair]:
        return Skeleton(
            self.reconciler, self.stores.store(WIDGET), self.hands, clock=self.clock, recorder=self.events
        )

    async def reconcile(self, key: ObjectKey = KEY) -> Result:
        return await self.skeleton.reconcile(key)

    @property
    def widget(self) -> Resource:
        found = self.hands.live(WIDGET, KEY)
        assert found is not None
        return found

    def condition(self, type_: str) -> dict[str, Any]:
        return dict(find(self.widget.status["conditions"], type_) or {})

    @property
    def history(self) -> list[tuple[str, str]]:
        return self.hands.history
