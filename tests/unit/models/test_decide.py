"""The decision about one model, row by row (spec: models §9), up to where its runtime speaks."""

from dataclasses import replace
from typing import Any

import pytest

from magicstick.api import labels
from magicstick.api.kinds import KUBEAI_MODEL, MODULE_ACTIVATION
from magicstick.kube.errors import (
    ApiError,
    Forbidden,
    Invalid,
    NameConflict,
    NamespaceTerminating,
    Unavailable,
)
from magicstick.models.decide import decide_failure
from magicstick.models.observation import Sharing
from magicstick.models.resolved import ProfileWait, Reason, Refusal, WaitReason
from magicstick.modules.facts import Gap, not_ready, unknown
from magicstick.runtime.plan import Create, Finalizer
from tests.support.model_objects import (
    INTEL,
    NVIDIA,
    READY_MODULES,
    activation,
    external,
    freetoken,
    kubeai,
    live_deployment,
    live_model,
    live_object,
    live_service,
    module,
    observation,
    pod,
)
from tests.support.model_plans import applied, condition, decided, deletions, message, status_of, stored, told

OFF: dict[str, Any] = {"resolved": None, "modules": (), "profile": None}
PROVIDER = activation(spec={"type": "external", "external": {"model": "openai/x"}})
WANTED = Create(MODULE_ACTIVATION, {"metadata": {"name": "kubeai"}})


# --- 1 to 5: deleted, disabled -------------------------------------------------------------------


def test_row_1_a_deleted_model_takes_its_runtime_along() -> None:
    plan = decided(observation(activation(dying=True), live_model(), **OFF))
    assert told(plan) == ("Removing", "Removing")
    assert deletions(plan) == [("Model", "demo", "uid-model", None)]
    assert plan.finalizer is Finalizer.KEEP


def test_row_1_a_runtime_that_is_dying_is_waited_for() -> None:
    plan = decided(observation(activation(dying=True), live_model(dying=True), **OFF))
    assert told(plan) == ("Removing", "Removing")
    assert (plan.steps, plan.finalizer) == ((), Finalizer.KEEP)


def test_row_2_with_nothing_left_the_activation_may_go() -> None:
    plan = decided(observation(activation(dying=True), **OFF))
    assert (plan.steps, plan.finalizer, plan.status) == ((), Finalizer.REMOVE, None)


def test_row_2_the_deletion_of_an_external_model_touches_nothing_local() -> None:
    foreign = live_model(serves=None)
    plan = decided(observation(activation(spec=dict(PROVIDER.spec), dying=True), occupant=foreign, **OFF))
    assert (plan.steps, plan.finalizer) == ((), Finalizer.REMOVE)


def test_row_3_every_model_gets_our_finalizer_before_anything_is_made() -> None:
    assert decided(observation(activation(finalizers=()))).finalizer is Finalizer.ADD
    assert decided(observation()).finalizer is Finalizer.KEEP


@pytest.mark.req("MS-112")
def test_row_4_e33_a_disabled_model_loses_its_runtime_and_requests_nothing() -> None:
    plan = decided(observation(activation(enabled=False), live_model(), **OFF))
    assert told(plan) == ("Removing", "Removing")
    assert [type(step).__name__ for step in plan.steps] == ["Delete"]


def test_row_5_e33_with_nothing_left_it_is_disabled_and_keeps_its_finalizer() -> None:
    plan = decided(observation(activation(enabled=False), **OFF))
    assert told(plan) == ("Disabled", "Disabled")
    assert (plan.steps, plan.finalizer) == ((), Finalizer.KEEP)
    assert status_of(plan)["vramRequiredMi"] == 0


def test_runtimes_of_every_backend_and_place_are_removed_last_made_first() -> None:
    left = (live_service(), live_model(namespace="elsewhere"), live_deployment())
    plan = decided(observation(activation(dying=True), *left, **OFF))
    assert [kind for kind, *_ in deletions(plan)] == ["Model", "Deployment", "Service"]


@pytest.mark.parametrize("local", [{"engine": "Nonsense"}, {"engine": 7}, "no object"])
def test_an_engine_that_cannot_be_read_does_not_keep_a_runtime(local: object) -> None:
    ways: list[dict[str, Any]] = [{"dying": True}, {"enabled": False}]
    for fields in ways:
        plan = decided(observation(activation(local=local, **fields), live_model(), **OFF))
        assert deletions(plan) == [("Model", "demo", "uid-model", None)]


# --- 6 to 10: cache, type, sharing ---------------------------------------------------------------


@pytest.mark.req("MS-089", "MS-090")
def test_row_6_while_the_cache_is_cleared_nothing_is_made_or_changed_or_stopped() -> None:
    for serving in ((), (live_model(ready=1),)):
        plan = decided(observation(None, *serving, cleanup="The model cache is being cleared: clean."))
        assert told(plan) == ("Starting", "ModelCacheMaintenance")
        assert plan.steps == ()


@pytest.mark.req("MS-092")
@pytest.mark.parametrize("fields", [{"dying": True}, {"enabled": False}])
def test_row_6_a_model_that_nobody_wants_is_removed_all_the_same(fields: dict[str, Any]) -> None:
    plan = decided(observation(activation(**fields), live_model(), cleanup="It is being cleared.", **OFF))
    assert deletions(plan) == [("Model", "demo", "uid-model", None)]


@pytest.mark.req("MS-093")
def test_row_6_external_models_do_not_wait_for_the_cache() -> None:
    plan = decided(observation(PROVIDER, cleanup="It is being cleared.", resolved=external(), published=True))
    assert told(plan) == ("Ready", "CatalogReady")


def test_row_7_an_unknown_type_is_named_and_does_not_wait_for_the_cache() -> None:
    refusal = Refusal(Reason.UNSUPPORTED_TYPE, "spec.type", "must be local or external")
    odd = observation(activation(type="magic"), cleanup="It is being cleared.", resolved=refusal)
    plan = decided(odd)
    assert told(plan) == ("Degraded", "UnsupportedType")
    assert "spec.type must be local or external" in message(plan)
    assert status_of(plan)["catalogId"] == ""


@pytest.mark.parametrize("phase", ["Starting", "Switching"])
def test_rows_8_and_10_sharing_that_is_not_ready_holds_the_model(phase: Any) -> None:
    plan = decided(observation(sharing=Sharing(phase, "time-slicing", "Models are being stopped.")))
    assert told(plan) == ("Starting", "WaitingForGpuSharing")
    assert "Models are being stopped." in message(plan)
    assert plan.steps == ()


def test_rows_8_and_10_e14_blocked_sharing_degrades() -> None:
    plan = decided(observation(sharing=Sharing("Blocked", "dra-shared", "No such device.")))
    assert told(plan) == ("Degraded", "GpuSharingBlocked")


def test_row_9_freetoken_does_not_share_a_gpu_also_where_its_spec_is_refused() -> None:
    wanted = activation(local={"engine": "FreeToken"})
    refusal = Refusal(Reason.INVALID_SPEC, "spec.local.freetoken", "needs a node without time-slicing")
    plan = decided(observation(wanted, sharing=Sharing("Ready", "time-slicing"), resolved=refusal))
    assert told(plan) == ("Degraded", "FreeTokenRequiresWholeGpu")


# --- 11 to 14: resolution, modules, devices ------------------------------------------------------


@pytest.mark.req("MS-354")
@pytest.mark.parametrize("reason", [Reason.INVALID_SPEC, Reason.INVALID_NAME, Reason.INVALID_TARGET])
def test_rows_11_and_12_bad_input_is_a_sentence_and_makes_and_deletes_nothing(reason: Reason) -> None:
    refusal = Refusal(reason, "spec.local.vram", "must be a quantity")
    for serving in ((), (live_model(ready=1),)):
        plan = decided(observation(None, *serving, resolved=refusal))
        assert told(plan) == ("Degraded", reason.value)
        assert "spec.local.vram must be a quantity." in message(plan)
        assert plan.steps == ()
        assert status_of(plan)["catalogId"] == ""


@pytest.mark.req("MS-222")
def test_row_13_missing_modules_are_named_and_requested_and_nothing_is_made() -> None:
    missing = (module("kubeai", not_ready(Gap.NOT_INSTALLED)), module("litellm", not_ready(Gap.DISABLED)))
    plan = decided(observation(modules=(*missing, *READY_MODULES[2:]), requests=(WANTED,), published=True))
    assert told(plan) == ("WaitingForModules", "WaitingForModules")
    assert "Waiting for modules: kubeai, litellm (" in message(plan)
    assert plan.steps == (WANTED,)


def test_row_13_e29_what_is_not_ready_is_not_published_whatever_the_catalog_says() -> None:
    missing = (module("litellm", not_ready(Gap.NOT_READY)),)
    plan = decided(observation(PROVIDER, resolved=external(), modules=missing, published=True))
    assert told(plan)[0] == "WaitingForModules"
    assert condition(plan, "CatalogPublished") == "False"


def test_row_13_a_runtime_that_serves_is_left_alone_and_stays_fine() -> None:
    ready = stored(decided(observation(None, live_model(ready=1), pods=(pod(ready=True),), published=True)))
    missing = (module("litellm", not_ready(Gap.NOT_READY)),)
    standing = live_model(ready=1, spec={"minReplicas": 1, "resourceProfile": "named:1"})
    plan = decided(observation(ready, standing, pods=(pod(ready=True),), modules=missing, published=True))
    assert told(plan) == ("WaitingForModules", "WaitingForModules")
    assert plan.steps == ()
    assert condition(plan, "RuntimeReady") == "True"
    assert status_of(plan)["resolvedResourceProfile"] == "named:1"


def test_row_13_what_is_not_known_of_a_module_changes_nothing() -> None:
    unclear = (module("kubeai", unknown("cannot be judged")),)
    assert decided(observation(activation(status={"phase": "Ready"}), modules=unclear)).status is None
    plan = decided(observation(modules=unclear))
    assert told(plan) == ("Starting", "RuntimeApiUnavailable")


@pytest.mark.req("MS-317", "MS-318")
def test_row_14_a_model_waits_for_an_allocatable_device_of_its_own_target() -> None:
    for target, named in ((NVIDIA, "nvidia.com/gpu"), (INTEL, "gpu.intel.com/xe or gpu.intel.com/i915")):
        plan = decided(observation(resolved=kubeai(target=replace(target, allocatable=0))))
        assert told(plan) == ("WaitingForGPU", "WaitingForGPU")
        assert named in message(plan)
        assert target.display_name in message(plan)
        assert plan.steps == ()


@pytest.mark.req("MS-316")
def test_row_14_devices_are_looked_at_only_once_the_modules_are_ready() -> None:
    none = kubeai(target=INTEL)
    missing = (module("kubeai", not_ready(Gap.NOT_READY)),)
    assert told(decided(observation(resolved=none, modules=missing)))[0] == "WaitingForModules"
    assert told(decided(observation(resolved=none)))[0] == "WaitingForGPU"


@pytest.mark.req("MS-319")
def test_row_14_cpu_and_external_models_wait_for_no_device() -> None:
    assert told(decided(observation()))[0] == "WaitingForPod"
    assert told(decided(observation(PROVIDER, resolved=external(), published=True)))[0] == "Ready"


# --- 17 to 23: what stands between a resolved model and its Model -----------------------------------


@pytest.mark.parametrize(
    ("resolved", "serving", "gone"),
    [
        (kubeai(), (live_deployment(), live_service()), ["Deployment", "Service"]),
        (freetoken(), (live_model(),), ["Model"]),
        (kubeai(namespace="elsewhere"), (live_model(),), ["Model"]),
        (external(), (live_model(),), ["Model"]),
    ],
)
def test_rows_15_and_17_a_runtime_of_another_backend_or_place_goes_before_the_new_one_comes(
    resolved: Any, serving: Any, gone: list[str]
) -> None:
    plan = decided(observation(None, *serving, resolved=resolved, occupant=None))
    assert told(plan) == ("Starting", "RetiringPreviousRuntime")
    assert [kind for kind, *_ in deletions(plan)] == gone
    assert applied(plan) == []


@pytest.mark.parametrize(
    ("reason", "served"),
    [(WaitReason.UNIFIED_MEMORY, False), (WaitReason.OFFLOADING, True), (WaitReason.CPU, True)],
)
@pytest.mark.req("MS-155")
def test_rows_19_21_and_23_a_profile_that_is_not_in_force_holds_the_model_and_leaves_what_runs(
    reason: WaitReason, *, served: bool
) -> None:
    wait = ProfileWait(reason, "KubeAI has not taken it yet.")
    for serving in ((), (live_model(ready=1),)):
        plan = decided(observation(None, *serving, profile=wait, kubeai_served=served))
        assert told(plan) == ("Starting", reason.value)
        assert plan.steps == ()


def test_rows_19_and_22_a_refused_slot_stops_the_model() -> None:
    refused = Sharing("Ready", "time-slicing", refused="All 4 slots are taken.")
    plan = decided(observation(None, live_model(ready=1), sharing=refused))
    assert told(plan) == ("Starting", "WaitingForGpuSharing")
    assert [kind for kind, *_ in deletions(plan)] == ["Model"]
    assert "All 4 slots are taken." in message(plan)


@pytest.mark.req("MS-124")
def test_row_20_without_the_definition_of_models_none_is_made() -> None:
    for profile in (ProfileWait(WaitReason.CPU, "It is not there."), observation().profile):
        plan = decided(observation(kubeai_served=False, profile=profile))
        assert told(plan) == ("WaitingForCRD", "WaitingForCRD")
        assert KUBEAI_MODEL.crd_name in message(plan)
        assert plan.steps == ()


def test_a_model_of_the_name_that_is_not_ours_is_neither_written_nor_deleted() -> None:
    for labels_of in ({"serves": None}, {"serves": "another"}):
        foreign = live_model(**labels_of)
        plan = decided(observation(occupant=foreign))
        assert told(plan) == ("Degraded", "NameConflict")
        assert "ai/demo" in message(plan)
        assert plan.steps == ()
        gone = decided(observation(activation(dying=True), occupant=foreign, **OFF))
        assert (gone.steps, gone.finalizer) == ((), Finalizer.REMOVE)


def test_a_model_that_somebody_deletes_is_waited_for_and_made_anew() -> None:
    plan = decided(observation(None, live_model(dying=True)))
    assert told(plan) == ("Starting", "RetiringPreviousRuntime")
    assert plan.steps == ()


@pytest.mark.req("MS-018")
def test_a_resolved_model_is_one_kubeai_model() -> None:
    plan = decided(observation())
    (body,) = applied(plan)
    assert (body["kind"], body["metadata"]["name"], body["metadata"]["namespace"]) == ("Model", "demo", "ai")


@pytest.mark.req("MS-125")
def test_a_changed_model_is_applied_in_place() -> None:
    plan = decided(observation(None, live_model(ready=1), resolved=kubeai(url="hf://example/other")))
    assert [body["spec"]["url"] for body in applied(plan)] == ["hf://example/other"]
    assert deletions(plan) == []


# --- 30, 31: publication -------------------------------------------------------------------------


@pytest.mark.req("MS-366")
@pytest.mark.parametrize(
    ("published", "expected"),
    [(True, ("Ready", "CatalogReady")), (False, ("Reconciling", "WaitingForCatalog"))],
)
def test_rows_30_and_31_an_external_model_is_ready_exactly_when_it_is_published(
    expected: tuple[str, str], *, published: bool
) -> None:
    plan = decided(observation(PROVIDER, resolved=external(), published=published))
    assert told(plan) == expected
    assert plan.steps == ()
    status = status_of(plan)
    assert (status["computeTarget"], status["engine"], status["modelRef"]) == (
        "external",
        "external",
        "litellm/demo",
    )
    assert status["requestedKvCacheType"] == ""


@pytest.mark.req("MS-144", "MS-360", "MS-361")
def test_rows_30_and_31_a_local_model_is_ready_once_it_runs_and_is_published() -> None:
    serving = live_model(ready=1)
    waiting = decided(observation(None, serving, pods=(pod(ready=True),), published=False))
    assert told(waiting) == ("Reconciling", "WaitingForCatalog")
    assert condition(waiting, "RuntimeReady") == "True"
    ready = decided(observation(None, serving, pods=(pod(ready=True),), published=True))
    assert told(ready) == ("Ready", "CatalogReady")
    assert condition(ready, "CatalogPublished") == "True"
    starting = decided(observation(None, live_model(ready=0), pods=(pod(),), published=True))
    assert told(starting)[0] == "Starting"


def test_while_nobody_can_tell_of_publication_a_new_model_waits_and_a_published_one_stays() -> None:
    serving, pods = live_model(ready=1), (pod(ready=True),)
    waiting = decided(observation(None, serving, pods=pods, published=None))
    assert told(waiting) == ("Reconciling", "WaitingForCatalog")
    assert condition(waiting, "CatalogPublished") == "Unknown"
    ready = stored(decided(observation(None, serving, pods=pods, published=True)))
    assert told(decided(observation(ready, serving, pods=pods, published=None))) == ("Ready", "CatalogReady")


def test_a_namespace_that_the_catalog_does_not_look_at_is_named() -> None:
    elsewhere = activation(targetNamespace="lab", type="external", external={"model": "openai/x"})
    plan = decided(observation(elsewhere, resolved=external(), published=False))
    assert "namespace ai alone" in message(plan)


# --- what cannot be known ------------------------------------------------------------------------


def test_an_activation_of_another_appliance_is_left_alone() -> None:
    plan = decided(observation(ours=False, **OFF))
    assert (plan.steps, plan.finalizer, plan.status) == ((), Finalizer.KEEP, None)


@pytest.mark.parametrize("fields", [{}, {"dying": True}, {"enabled": False}])
def test_blind_nothing_is_made_removed_or_released(fields: dict[str, Any]) -> None:
    plan = decided(observation(activation(status={"phase": "Ready"}, **fields), live_model(), blind="x"))
    assert (plan.steps, plan.status) == ((), None)
    assert plan.finalizer is Finalizer.KEEP


@pytest.mark.parametrize(
    "seen",
    [
        {"unknown": "Nodes cannot be read now", "resolved": None},
        {"pods": None},
        {"profile": None},
    ],
)
def test_what_cannot_be_read_keeps_the_status(seen: dict[str, Any]) -> None:
    plan = decided(observation(activation(status={"phase": "Ready"}), live_model(ready=1), **seen))
    assert (plan.steps, plan.status) == ((), None)


def test_without_any_catalog_a_new_model_says_so_and_makes_nothing() -> None:
    plan = decided(observation(unknown="There is no catalog", without_catalog=True, resolved=None))
    assert told(plan) == ("Starting", "CatalogUnavailable")
    assert plan.steps == ()


# --- refused writes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Forbidden("secret words", code=403), ("Degraded", "RuntimePermissionDenied")),
        (
            Invalid("secret words", code=422, causes=[("spec.url", "secret words")]),
            ("Degraded", "RuntimeApiRejected"),
        ),
        (
            NameConflict("models.kubeai.org ai/demo exists and is not managed by us"),
            ("Degraded", "NameConflict"),
        ),
        (NamespaceTerminating("secret words", code=404), ("WaitingForNamespace", "WaitingForNamespace")),
        (Unavailable("secret words", code=503), ("Starting", "RuntimeApiUnavailable")),
    ],
)
def test_a_refused_request_is_told_without_the_words_of_the_answer(
    error: ApiError, expected: tuple[str, str]
) -> None:
    plan = decide_failure(observation(), error)
    assert told(plan) == expected
    assert "secret words" not in str(plan.status)
    assert plan.steps == ()


def test_the_refused_field_is_named() -> None:
    error = Invalid("no", code=422, causes=[("spec.maxReplicas", "no")])
    assert "spec.maxReplicas" in message(decide_failure(observation(), error))


def test_of_many_refused_fields_some_are_named_and_none_that_is_nil() -> None:
    causes = [("<nil>", "no"), ("", "no"), *((f"spec.features[{n}]", "no") for n in range(9))]
    text = message(decide_failure(observation(), Invalid("no", code=422, causes=causes)))
    assert "because of spec.features[0], " in text
    assert "spec.features[4] and 4 more." in text
    whole = Invalid("no", code=422, causes=[("<nil>", "no")])
    assert "needs. The operator's" in message(decide_failure(observation(), whole))


def test_an_api_that_is_away_keeps_the_phase() -> None:
    seen = observation(activation(status={"phase": "Ready"}))
    assert decide_failure(seen, Unavailable("away", code=503)).status is None


# --- what every state tells ----------------------------------------------------------------------


@pytest.mark.req("MS-348")
def test_every_local_model_tells_the_cache_type_that_it_asks_for() -> None:
    refusal = Refusal(Reason.INVALID_SPEC, "spec.local.url", "is required")
    asked = {"engine": "OLlama", "kvCacheType": "q8_0"}
    for seen in (
        observation(activation(local=asked), resolved=refusal),
        observation(activation(local=asked), **OFF),
    ):
        assert status_of(decided(seen))["requestedKvCacheType"] == "q8_0"
    assert status_of(decided(observation(activation(enabled=False), **OFF)))["requestedKvCacheType"] == "auto"
    for resolved in (kubeai(), freetoken()):
        seen = observation(None, resolved=resolved)
        assert status_of(decided(seen))["requestedKvCacheType"] == resolved.requested_kv_cache_type


@pytest.mark.req("MS-347")
def test_once_there_is_a_model_every_message_names_its_replicas_and_engine() -> None:
    serving, missing = live_model(ready=1), (module("litellm", not_ready(Gap.NOT_READY)),)
    refusal = Refusal(Reason.INVALID_SPEC, "spec.local.url", "is required")
    for seen in ({"modules": missing}, {"cleanup": "It is cleared."}, {"published": True}):
        plan = decided(observation(None, serving, pods=(pod(ready=True),), **seen))
        assert message(plan).startswith("1/1 replicas of vLLM on CPU are ready. ")
    plan = decided(observation(None, serving, pods=(pod(ready=True),), resolved=refusal))
    assert message(plan).startswith("1/1 replicas of VLLM are ready. ")


def test_the_status_tells_what_was_resolved() -> None:
    status = status_of(decided(observation(None, live_model())))
    assert {name: status[name] for name in ("modelRef", "catalogId", "computeTarget", "engine")} == {
        "modelRef": "kubeai/demo",
        "catalogId": "demo",
        "computeTarget": "cpu",
        "engine": "VLLM",
    }
    assert status["memoryRequiredMi"] == 4096
    assert status["cpuResources"] == {"requestMillicores": 2000, "limitMillicores": 8000}
    assert status["resolvedResourceProfile"].endswith(":1")


def test_an_object_that_only_looks_like_ours_is_left_alone() -> None:
    other = live_object(KUBEAI_MODEL, "demo", serves=None)
    assert other.metadata.labels.get(labels.MANAGED_BY) is None
    assert decided(observation(occupant=other)).steps == ()


@pytest.mark.req("MS-373")
def test_what_vision_policy_was_requested_is_never_reported_as_being_in_effect() -> None:
    seeing = kubeai(annotations={labels.VISION_ATTENTION: "flash-attn-triton"})
    for serving, pods in (((), ()), ((live_model(ready=1),), (pod(ready=True),))):
        plan = decided(observation(None, *serving, pods=pods, resolved=seeing, published=True))
        assert applied(plan)[0]["metadata"]["annotations"] == {labels.VISION_ATTENTION: "flash-attn-triton"}
        assert "flash-attn-triton" not in str(plan.status)
