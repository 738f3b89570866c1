"""What is said of states that no running cluster gets into easily."""

import json
from datetime import timedelta
from typing import Any

import pytest

from magicstick.api import labels
from magicstick.api.kinds import (
    APP_INSTANCE,
    APPLIANCE,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    MODEL_ACTIVATION,
    MODULE_ACTIVATION,
)
from magicstick.catalogs.applications import ApplicationCatalog
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, LEASE, NAMESPACE, NODE, Kind
from magicstick.kube.objects import Resource
from magicstick.modules.status import ModulePhase, module_status
from magicstick.why.causes import HARDWARE, STANDS_IN, Explanation, Subject
from magicstick.why.explainers import EXPLAINERS, explain, tree
from magicstick.why.operator import ago, heard, running
from magicstick.why.walk import first
from tests.support.module_objects import FLUX, HOME, activation, catalog, condition, kustomization
from tests.support.module_world import FakeDefinitions, crd
from tests.support.objects import resource
from tests.support.sight import Shelf, sight

CATALOG = catalog(alpha={"requires": ["basis"]}, beta={"requires": ["alpha"]})
LEASE_NAME = "magicstick-operator"


def shelf(*objects: Resource, basis: str = "True") -> Shelf:
    """Objects of modules, and a `basis` in this state."""
    made = Shelf()
    made.put(KUSTOMIZATION, kustomization("infrastructure-basis", ours=False, ready=basis))
    kinds = {kind.kind: kind for kind in (MODULE_ACTIVATION, KUSTOMIZATION, APPLIANCE)}
    for each in objects:
        made.put(kinds[each.kind], each)
    return made


def lease(**spec: Any) -> Resource:
    metadata = {"name": LEASE_NAME, "namespace": HOME, "resourceVersion": "7", "uid": "lease"}
    body = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata}
    return resource({**body, "spec": spec})


def asked(kind: Kind, name: str, objects: Shelf, **seen: Any) -> Explanation:
    namespace = {KUSTOMIZATION: FLUX, GIT_REPOSITORY: FLUX}.get(kind, HOME if kind.namespaced else "")
    return explain(Subject(kind, name, namespace), sight(objects, seen.pop("modules", CATALOG), **seen))


def test_a_field_that_cannot_be_read_is_named_with_the_command_that_edits_it() -> None:
    objects = shelf(activation("alpha", enabled="perhaps"))
    (cause,) = asked(MODULE_ACTIVATION, "alpha", objects).causes
    assert cause.sentence.startswith("is Degraded: spec.enabled")
    assert cause.hint is not None
    assert cause.hint.command == f"kubectl -n {HOME} edit moduleactivation alpha"


def test_a_ready_module_is_healthy_and_says_that_nobody_runs() -> None:
    live = kustomization("app-alpha", module="alpha")
    status = module_status(
        1, ModulePhase.READY, "KustomizationReady", "Applied revision: main@sha1:0000", "app-alpha"
    )
    objects = shelf(activation("alpha", status=status, finalizers=[labels.MODULE_FINALIZER]), live)
    objects.put(LEASE, lease(holderIdentity="one", leaseDurationSeconds=35, renewTime="2026-01-01T10:00:00Z"))
    found = asked(MODULE_ACTIVATION, "alpha", objects)
    assert found.healthy
    assert found.notes == ("The operator does not run (it was last heard 2 h ago): changes have no effect.",)


def test_a_module_that_flux_looks_at_again_is_as_healthy_as_it_was() -> None:
    live = kustomization(
        "app-alpha", module="alpha", ready="Unknown", reason="Progressing", message="at work"
    )
    status = module_status(1, ModulePhase.READY, "KustomizationReady", "Applied", "app-alpha")
    found = asked(MODULE_ACTIVATION, "alpha", shelf(activation("alpha", status=status), live))
    assert found.healthy


def test_a_requirement_that_flux_looks_at_again_is_a_cause_that_passes() -> None:
    live = kustomization(
        "app-alpha", module="alpha", ready="Unknown", reason="Progressing", message="at work"
    )
    status = module_status(1, ModulePhase.READY, "KustomizationReady", "Applied", "app-beta")
    objects = shelf(activation("alpha"), activation("beta", status=status), live)
    (cause,) = asked(MODULE_ACTIVATION, "beta", objects).causes
    assert cause.passing
    assert cause.because == (Subject(MODULE_ACTIVATION, "alpha", HOME),)


def test_definitions_that_cannot_be_read_are_the_cause_and_no_absence() -> None:
    definitions = FakeDefinitions()
    definitions.unknown = True
    modules = catalog(alpha={"waitForReady": True, "requiredCrds": ["things.example.com"]})
    objects = shelf(activation("alpha"), kustomization("app-alpha", module="alpha"))
    objects.states[CUSTOM_RESOURCE_DEFINITION] = InformerState.FAILING
    found = asked(MODULE_ACTIVATION, "alpha", objects, modules=modules, definitions=definitions)
    (cause,) = found.causes
    assert cause.because == (Subject(CUSTOM_RESOURCE_DEFINITION, "*"),)


def test_an_activation_that_only_waits_for_the_operator_says_so() -> None:
    dying = activation("alpha", dying=True, finalizers=[labels.MODULE_FINALIZER])
    (cause,) = asked(MODULE_ACTIVATION, "alpha", shelf(dying)).causes
    assert cause.because == (Subject(LEASE, LEASE_NAME, HOME),)


def test_a_finalizer_of_somebody_else_is_named() -> None:
    dying = activation("alpha", dying=True, finalizers=["example.com/keep"])
    (cause,) = asked(MODULE_ACTIVATION, "alpha", shelf(dying)).causes
    assert cause.because == ()
    assert cause.sentence.endswith("finalizer example.com/keep holds it")


@pytest.mark.parametrize(
    ("spec", "runs", "said"),
    [
        (
            {"holderIdentity": "a", "leaseDurationSeconds": 35, "renewTime": "2026-01-01T11:59:30Z"},
            True,
            "30 s ago",
        ),
        (
            {"holderIdentity": "a", "leaseDurationSeconds": 35, "renewTime": "2026-01-01T11:59:24Z"},
            False,
            "36 s ago",
        ),
        ({"holderIdentity": "", "renewTime": "2026-01-01T11:59:59Z"}, False, "1 s ago"),
        ({"holderIdentity": "a", "renewTime": "yesterday"}, False, "never heard"),
        ({"holderIdentity": "a"}, False, "never heard"),
    ],
)
def test_the_lease_tells_whether_an_operator_runs(*, spec: dict[str, Any], runs: bool, said: str) -> None:
    objects = Shelf()
    objects.put(LEASE, lease(**spec))
    seen = sight(objects, CATALOG)
    assert running(seen) is runs
    assert said in heard(seen)
    assert explain(Subject(LEASE, LEASE_NAME, HOME), seen).healthy is runs


def test_a_lease_that_cannot_be_read_tells_nothing_of_the_operator() -> None:
    objects = Shelf()
    objects.states[LEASE] = InformerState.FAILING
    seen = sight(objects, CATALOG, reasons={LEASE: "Forbidden: no"})
    assert running(seen) is None
    (cause,) = explain(Subject(LEASE, LEASE_NAME, HOME), seen).causes
    assert "(Forbidden: no)" in cause.sentence


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s ago"), (59, "59 s ago"), (60, "1 min ago"), (7200, "2 h ago"), (90000, "1 d ago")],
)
def test_times_are_told_to_the_unit_that_matters(seconds: float, text: str) -> None:
    assert ago(timedelta(seconds=seconds)) == text


def test_a_definition_that_is_there_and_not_established_is_no_missing_one() -> None:
    objects = Shelf()
    objects.put(CUSTOM_RESOURCE_DEFINITION, crd("things.example.com"))
    found = asked(CUSTOM_RESOURCE_DEFINITION, "things.example.com", objects)
    assert found.state == "exists, and the server has not established it"
    assert not found.healthy


def test_a_definition_that_serves_another_version_is_no_missing_one() -> None:
    objects = Shelf()
    objects.put(CUSTOM_RESOURCE_DEFINITION, crd(KUSTOMIZATION.crd_name, established=True))
    found = asked(CUSTOM_RESOURCE_DEFINITION, KUSTOMIZATION.crd_name, objects)
    assert found.state == "does not serve version v1"


def test_a_source_that_was_not_looked_at_yet_is_a_cause_that_passes() -> None:
    objects = Shelf()
    metadata = {"name": "flux-system", "namespace": FLUX, "generation": 1, "resourceVersion": "1"}
    objects.put(GIT_REPOSITORY, resource({"metadata": metadata, "spec": {}, "status": {}}))
    (cause,) = asked(GIT_REPOSITORY, "flux-system", objects).causes
    assert cause.passing


def test_a_suspended_kustomization_that_is_to_run_waits_for_the_operator() -> None:
    live = kustomization("app-alpha", module="alpha", suspend=True)
    (cause,) = asked(KUSTOMIZATION, "app-alpha", shelf(activation("alpha"), live)).causes
    assert cause.because == (Subject(LEASE, LEASE_NAME, HOME),)


def test_a_kustomization_with_nonsense_in_its_dependencies_is_explained_all_the_same() -> None:
    spec = {"dependsOn": ["x", {"name": 5}, {"name": "gone"}], "sourceRef": "nowhere"}
    live = kustomization("apps", ours=False, ready="False", reason="DependencyNotReady", spec=spec)
    (cause,) = asked(KUSTOMIZATION, "apps", shelf(live)).causes
    assert cause.because == (Subject(KUSTOMIZATION, "gone", FLUX),)


@pytest.mark.parametrize(
    "kind", [kind for kind in EXPLAINERS if kind.kind not in ("Hardware", "Module", "ConfigMap")]
)
def test_a_kind_that_cannot_be_read_is_never_taken_for_absent(kind: Kind) -> None:
    objects = shelf()
    objects.states[kind] = InformerState.FAILING
    (cause,) = asked(kind, "anything", objects, reasons={kind: "Forbidden: not you"}).causes
    assert "cannot be seen with your account (Forbidden: not you)" in cause.sentence
    assert cause.hint is not None
    assert "auth can-i list" in cause.hint.command


@pytest.mark.parametrize(
    "kind",
    [
        APPLIANCE,
        MODULE_ACTIVATION,
        KUSTOMIZATION,
        GIT_REPOSITORY,
        APP_INSTANCE,
        MODEL_ACTIVATION,
        NAMESPACE,
        NODE,
    ],
)
def test_what_does_not_exist_is_said_to_be_missing_with_something_to_do(kind: Kind) -> None:
    name = "local" if kind == APPLIANCE else "nothing"
    (cause,) = asked(kind, name, shelf()).causes
    assert "does not exist" in cause.sentence
    assert cause.hint is not None
    assert cause.hint.command


@pytest.mark.parametrize("kind", [kind for kind in EXPLAINERS if not kind.built_in and kind not in STANDS_IN])
def test_a_kind_that_is_not_served_leads_to_its_definition(kind: Kind) -> None:
    objects = shelf()
    objects.states[kind] = InformerState.ABSENT
    namespace = FLUX if kind in (KUSTOMIZATION, GIT_REPOSITORY) else HOME
    _, trees = tree(Subject(kind, "anything", namespace), sight(objects, CATALOG))
    assert first(trees)[-1].cause.subject == Subject(CUSTOM_RESOURCE_DEFINITION, kind.crd_name)


def test_a_static_module_that_an_instance_needs_leads_to_its_kustomization() -> None:
    objects = _workload(APP_INSTANCE, {"application": "notes"}, {})
    objects.put(
        KUSTOMIZATION, kustomization("infrastructure-basis", ours=False, ready="False", reason="BuildFailed")
    )
    seen = sight(objects, CATALOG)
    notes = {"chartPath": "charts/notes", "route": {"port": 80}, "requiredModules": ["basis"]}
    seen.catalogs.applications = ApplicationCatalog.parse(json.dumps({"applications": {"notes": notes}}))  # type: ignore[misc] # a copy that tests may set
    _, trees = tree(Subject(APP_INSTANCE, "one", HOME), seen)
    assert first(trees)[-1].cause.subject == Subject(KUSTOMIZATION, "infrastructure-basis", FLUX)


def test_a_module_that_is_ready_and_not_reported_so_waits_for_the_operator() -> None:
    objects = shelf(activation("alpha"), kustomization("app-alpha", module="alpha"))
    (cause,) = asked(MODULE_ACTIVATION, "alpha", objects).causes
    assert cause.sentence == "is Ready by now, which the operator has not reported yet"
    assert cause.because == (Subject(LEASE, LEASE_NAME, HOME),)


def test_a_refused_write_comes_after_what_the_module_waits_for() -> None:
    status = module_status(1, ModulePhase.DEGRADED, "ApiRejected", "the server refused it", "app-beta")
    objects = shelf(activation("alpha", enabled=False), activation("beta", status=status))
    waits, refused = asked(MODULE_ACTIVATION, "beta", objects).causes
    assert waits.because == (Subject(MODULE_ACTIVATION, "alpha", HOME),)
    assert refused.sentence == "is Degraded: the server refused it"
    assert refused.hint is not None
    assert "--as=system:serviceaccount" in refused.hint.command


def test_what_the_operator_cannot_read_is_told_with_its_rights() -> None:
    status = module_status(
        1, ModulePhase.RECONCILING, "ApiUnavailable", "Kustomizations cannot be read now", ""
    )
    (cause,) = asked(MODULE_ACTIVATION, "alpha", shelf(activation("alpha", status=status))).causes
    assert cause.hint is not None
    assert cause.hint.text.startswith("Grant the operator the right to read.")


def test_hardware_of_an_unknown_vendor_is_told_with_the_known_ones() -> None:
    found = explain(Subject(HARDWARE, "abacus"), sight(Shelf(), CATALOG))
    assert found.state == "is not the module of a GPU vendor"


@pytest.mark.parametrize("kind", [APP_INSTANCE, MODEL_ACTIVATION])
def test_what_is_ready_by_its_own_status_is_healthy(kind: Kind) -> None:
    status = {
        "observedGeneration": 1,
        "phase": "Ready",
        "message": "Serving.",
        "conditions": [condition("True")],
    }
    found = asked(kind, "one", _workload(kind, {}, status))
    assert found.healthy
    assert found.state == "is Ready: Serving."


@pytest.mark.parametrize("kind", [APP_INSTANCE, MODEL_ACTIVATION])
def test_what_has_no_status_waits_for_the_operator(kind: Kind) -> None:
    (cause,) = asked(kind, "one", _workload(kind, {"type": "local", "local": {}}, {})).causes
    assert cause.because == (Subject(LEASE, LEASE_NAME, HOME),)


def test_a_failed_instance_tells_its_own_reason() -> None:
    told = condition("False", "InstallFailed", "the chart is broken")
    status = {
        "observedGeneration": 1,
        "phase": "Degraded",
        "message": "the chart is broken",
        "conditions": [told],
    }
    found = asked(APP_INSTANCE, "one", _workload(APP_INSTANCE, {"application": "gone"}, status))
    assert found.state == "is Degraded (InstallFailed): the chart is broken"


def _workload(kind: Kind, spec: dict[str, Any], status: dict[str, Any]) -> Shelf:
    objects = shelf()
    metadata = {"name": "one", "namespace": HOME, "generation": 1, "resourceVersion": "1", "uid": "one"}
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    objects.put(kind, resource({**body, "spec": spec, "status": status}))
    return objects
