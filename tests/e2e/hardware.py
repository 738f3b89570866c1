"""The stage of a story about hardware: what happens to nodes, and what has to hold after each step."""

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hack.dev.appliance import DEFINITIONS, FLUX, OURS
from hack.devcluster.actors.following import DIRECTIONS
from hack.devcluster.audit import AuditMark, AuditRecord
from hack.devcluster.programs import BY_NAME
from hack.devcluster.rest import Object
from magicstick.api.labels import MANAGED_BY, MODULE, OPERATOR
from magicstick.gpu.sightings import DETECTION_SETTLE_S
from magicstick.runtime.conditions import check_conditions
from tests.e2e.stand import Stand
from tests.support.appliance_page import Page, comparable, differences
from tests.support.operator import ERRORS
from tests.support.oracles import told
from tests.support.scene import assert_honest_writes
from tests.support.world import AGENT

APPLIANCE: Final = f"{OURS}/appliances/local"
NODES: Final = "/api/v1/nodes"
DEADLINE_S: Final = 120.0
QUIET_S: Final = 1.5
"""Three resyncs of the operator as the story runs it."""
KUBELET: Final = BY_NAME["kube-apiserver"].version
MERGE: Final = "application/merge-patch+json"


class Stage:
    """A `Stand` with nodes that come, change and go. `page` is what the Appliance has to say now."""

    def __init__(self, stand: Stand, log: Path, page: Page) -> None:
        self.stand = stand
        self.page = page
        self.steps: list[str] = []
        self._rest = stand.cluster.rest
        self._log = log
        self._mark: AuditMark = stand.cluster.audit_mark()

    # -- the steps ----------------------------------------------------------------------------------

    def step(self, told: str) -> None:
        """What happens from here on."""
        self.steps.append(told)
        self._mark = self.stand.cluster.audit_mark()
        print(f"{len(self.steps)}. {told}")  # noqa: T201 - for pytest to show with a failure

    def tells(self, page: Page, *, writes: Iterable[str] | None = None) -> None:
        """Wait until the Appliance's whole status is as told, and stays so; then ask the oracles.

        `writes` are the resources that the operator may have written in this step, besides the status of
        the Appliance; by default all that are its to write.
        """
        self.page = page
        self._until_told()
        self._until_quiet()
        assert not self._differences(), self._failure("it did not stay so")
        self._assert_sound()
        done = self.writes()
        assert_honest_writes(done)
        if writes is not None:
            found = [each for each in done if each.resource not in {"appliances", *writes}]
            assert not found, self._failure(f"writes that nothing calls for: {told(found)}")

    def stays(self) -> None:
        """Nothing has changed: the same page, and not a single write."""
        self.tells(self.page, writes=())
        assert not self.writes(), self._failure(f"writes: {told(self.writes())}")

    def is_empty(self) -> None:
        """Nothing of ours is there, or comes, for longer than any label takes to count."""
        self._until_quiet(2 * DETECTION_SETTLE_S)
        left = [
            *self._rest.get(f"{OURS}/appliances")["items"],
            *self._rest.get(f"{OURS}/moduleactivations")["items"],
            *self._generated(),
        ]
        assert not left, self._failure(f"left: {[each['metadata']['name'] for each in left]}")
        assert not self.writes(), self._failure(f"writes: {told(self.writes())}")

    def writes(self) -> list[AuditRecord]:
        """What the operator wrote in this step, without Events and leases."""
        return [
            each for each in self._requests() if each.is_write and each.resource not in {"events", "leases"}
        ]

    def kept(self, *modules: str) -> dict[str, tuple[str, int]]:
        """Identity and generation of what stands of these modules; to be compared with later."""
        paths = [
            path
            for module in modules
            for path in (f"{OURS}/moduleactivations/{module}", f"{FLUX}/platform-{module}")
        ]
        found = {path: (self.stand.get(path) or {})["metadata"] for path in paths}
        return {path: (meta["uid"], meta["generation"]) for path, meta in found.items()}

    # -- nodes --------------------------------------------------------------------------------------

    def join(self, name: str, hardware: str = "", *, kubelet: str = KUBELET, plugins: str = "") -> None:
        """A machine becomes a node; `hardware` is what is in it, as the actors read it."""
        marks = {"hardware": hardware, "plugins": plugins}
        annotations = {f"{DIRECTIONS}/{key}": value for key, value in marks.items() if value}
        self.stand.cluster.add_node(name, annotations=annotations, kubelet_version=kubelet)

    def until_labelled(self, name: str, label: str) -> None:
        """Wait until Node Feature Discovery has seen it."""
        self.stand.until(
            f"{name} to have {label}",
            lambda: label in self._rest.get(f"{NODES}/{name}")["metadata"]["labels"],
        )

    def leave(self, *names: str) -> None:
        """Nodes are deleted."""
        for name in names:
            self._rest.request("DELETE", f"{NODES}/{name}")

    def direct(self, *names: str, **directions: str | None) -> None:
        """Tell the actors something about nodes (see `hack.devcluster.actors.gpu`); None takes it back."""
        marks = {f"{DIRECTIONS}/{key.replace('_', '-')}": each for key, each in directions.items()}
        for name in names:
            self.patch_node(name, {"metadata": {"annotations": marks}})

    def offer(self, name: str, resource: str, amount: str | None) -> None:
        """Somebody else's device plugin reports how much of a resource can be allocated; None for gone."""
        self.patch_node(f"{name}/status", {"status": {"allocatable": {resource: amount}}})

    def patch_node(self, name: str, body: Object) -> None:
        """Whoever may."""
        self._rest.request("PATCH", f"{NODES}/{name}", body, MERGE)

    # -- others -------------------------------------------------------------------------------------

    def define(self, name: str) -> None:
        """Somebody installs a definition of a vendor's kind."""
        plural, group = name.split(".", 1)
        kind = plural.removesuffix("s").capitalize()
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
        self._rest.apply(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": name},
                "spec": {"group": group, "scope": "Cluster", "names": names, "versions": [version]},
            },
            field_manager="somebody",
        )

    def undefine(self, *names: str) -> None:
        """Somebody removes definitions; returns once they are gone."""
        for name in names:
            self.stand.delete(f"{DEFINITIONS}/{name}")
            self.stand.until_gone(f"{DEFINITIONS}/{name}")

    # -- what has to hold ---------------------------------------------------------------------------

    def _differences(self) -> list[str]:
        found = self.stand.get(APPLIANCE)
        if found is None:
            return ["there is no Appliance"]
        return differences(self.page.status(found["metadata"]["generation"]), comparable(found))

    def _until_told(self) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while self._differences():
            assert time.monotonic() < deadline, self._failure("not told in time")
            time.sleep(0.1)  # nobody tells when

    def _until_quiet(self, window_s: float = QUIET_S) -> None:
        """A window in which the operator asks for nothing but watches and the lease."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            mark = self.stand.cluster.audit_mark()
            time.sleep(window_s)  # that nothing happens can only be seen by looking for a while
            busy = [
                each for each in self._requests(mark) if each.verb != "watch" and each.resource != "leases"
            ]
            if not busy:
                return
            assert time.monotonic() < deadline, self._failure(f"it does not rest: {told(busy)}")

    def _requests(self, since: AuditMark | None = None) -> list[AuditRecord]:
        return list(self.stand.cluster.audit(AGENT, self._mark if since is None else since))

    def _assert_sound(self) -> None:
        """Conditions are well formed, and each of our Kustomizations has exactly one module."""
        activations = self._rest.get(f"{OURS}/moduleactivations")["items"]
        for item in (*activations, self._rest.get(APPLIANCE)):
            wrong = check_conditions(item)
            assert not wrong, self._failure(f"{item['metadata']['name']}: {wrong}")
        ours = sorted(each["metadata"]["labels"][MODULE] for each in self._generated())
        wanted = sorted(
            item["spec"]["module"] for item in activations if item["spec"].get("enabled") is not False
        )
        assert ours == wanted, self._failure(f"Kustomizations of {ours}, modules {wanted}")
        entries = map(json.loads, filter(None, self._log.read_text().splitlines()))
        errors = [each for each in entries if each.get("level") in ERRORS]
        assert not errors, self._failure(f"logged: {errors[:5]}")

    def _generated(self) -> list[Object]:
        """The Kustomizations that the operator made."""
        return [
            item
            for item in self._rest.get(FLUX)["items"]
            if item["metadata"].get("labels", {}).get(MANAGED_BY) == OPERATOR
        ]

    def _failure(self, what: str) -> str:
        lines = [f"step {len(self.steps)}, {self.steps[-1]}: {what}", *self._differences()]
        return "\n".join([*lines, self.stand.describe()])
