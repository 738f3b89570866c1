"""Stored objects become typed models or one clear complaint, never an exception."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from magicstick.api.app_instance import AppInstanceSpec, AppInstanceStatus
from magicstick.api.appliance import ApplianceSpec, ApplianceStatus
from magicstick.api.base import ApplianceRef
from magicstick.api.crds import DEFINITIONS
from magicstick.api.host_operation import FINISHED_PHASES, HostOperationStatus
from magicstick.api.model_activation import ModelActivationSpec
from magicstick.api.model_activation_status import ModelActivationStatus
from magicstick.api.module_activation import ModuleActivationSpec, ModuleActivationStatus
from magicstick.api.parse import InvalidSpec, parse, read_status
from magicstick.kube.objects import FullObjectMeta, Resource
from tests.support.crd_bases import BASES, SCHEMAS, Case, RuleCase
from tests.support.crd_examples import EXAMPLES
from tests.support.crd_fields import CASES
from tests.support.crd_rules import RULE_CASES
from tests.support.schemas import Object, complete, put

SPECS: Mapping[str, type[BaseModel]] = {each.kind.kind: each.spec for each in DEFINITIONS}
STATUSES: Mapping[str, type[BaseModel]] = {each.kind.kind: each.status for each in DEFINITIONS}

EXACT_ONLY_ON_THE_SERVER = {
    "ModuleActivation-spec.module",
    "ModelActivation-spec.type",
    "ModelActivation-spec.local.engine",
    "ModelActivation-spec.local.computeTarget",
    "AppInstance-spec.access.sharing.users",
    "AppInstance-spec.access.sharing.groups",
    "PalenaGateway-spec.litellm.extraEnvVars",
    "PalenaUI-spec.extraEnv",
    "PalenaObservability-spec.langfuse.web.extraEnv",
    "PalenaObservability-spec.langfuse.worker.extraEnv",
    "PalenaMCPServer-spec.env",
}
"""Fields that are read more leniently than the schema asks, since older objects have them so."""

json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def stored(spec: Any = None, status: Any = None) -> Resource:
    return Resource(FullObjectMeta(name="one"), spec=spec or {}, status=status or {})


def model(**local: Any) -> ModelActivationSpec | InvalidSpec:
    return parse(ModelActivationSpec, stored({"type": "local", "local": local}))


def instance(**access: Any) -> AppInstanceSpec | InvalidSpec:
    return parse(AppInstanceSpec, stored({"application": "openclaw", "access": access}))


@pytest.mark.parametrize("case", [case for case in CASES if case.path.startswith("spec.")], ids=str)
def test_what_the_server_accepts_is_read_and_what_it_refuses_is_named(case: Case) -> None:
    base = with_fields(case.kind, case.given)
    for value in case.accepted:
        read = parse(SPECS[case.kind], stored(put(base, case.path, value)["spec"]))
        assert not isinstance(read, InvalidSpec), f"{value!r}: {read}"
    if str(case) in EXACT_ONLY_ON_THE_SERVER:
        return
    for value in case.refused:
        read = parse(SPECS[case.kind], stored(put(base, case.path, value)["spec"]))
        assert isinstance(read, InvalidSpec), value
        assert read.field.replace("[0]", "[]").replace(".example", ".*") == case.path
        assert read.allowed


@pytest.mark.parametrize(
    "case",
    [case for case in RULE_CASES if case.before is None and case.node and case.kind != "HostOperation"],
    ids=str,
)
def test_rules_within_one_object_hold_for_objects_that_no_server_checked(case: RuleCase) -> None:
    for overrides in case.accepted:
        assert not isinstance(
            parse(SPECS[case.kind], stored(with_fields(case.kind, overrides)["spec"])), InvalidSpec
        )
    for overrides in case.refused:
        read = parse(SPECS[case.kind], stored(with_fields(case.kind, overrides)["spec"]))
        assert isinstance(read, InvalidSpec)
        assert read.field == case.node
        assert read.allowed.startswith(case.message)


def with_fields(kind: str, overrides: Mapping[str, Any]) -> Object:
    obj: Object = {"spec": BASES[kind]}
    for path, value in overrides.items():
        obj = put(obj, path, value)
    return obj


@pytest.mark.parametrize("kind", SPECS)
def test_objects_as_people_write_them_are_read_without_loss(kind: str) -> None:
    for spec in EXAMPLES[kind]:
        read = parse(SPECS[kind], stored(spec))

        assert not isinstance(read, InvalidSpec)
        assert read.model_dump(mode="json", by_alias=True, exclude_unset=True) == spec


@pytest.mark.parametrize("kind", SPECS)
@given(data=st.data())
def test_no_content_whatever_raises(kind: str, data: st.DataObject) -> None:
    known = st.sampled_from(sorted(SCHEMAS[kind]["properties"]["spec"]["properties"]))
    spec = data.draw(st.dictionaries(known | st.text(max_size=5), json, max_size=4))

    parse(SPECS[kind], stored(spec))
    read_status(STATUSES[kind], stored(status=spec | {"phase": spec, "conditions": spec}))


SOURCE = {"kind": "GitRepository", "name": "flux-system"}
REALTIME = {"profile": "p", "gpuNode": "n"}
COMPLAINTS: tuple[tuple[str, Mapping[str, Any], str], ...] = (
    ("Appliance", {}, "spec.source is required"),
    ("Appliance", {"source": "flux-system"}, "spec.source must be an object"),
    ("Appliance", {"source": SOURCE, "modules": []}, "spec.modules must be an object"),
    (
        "Appliance",
        {"source": SOURCE, "modules": {"a": {"enabled": 1}}},
        "spec.modules.a.enabled must be true or false",
    ),
    ("AppInstance", {}, "spec.application is required"),
    ("AppInstance", {"application": ""}, "spec.application must have a length of at least 1"),
    ("AppInstance", {"application": ["a"]}, "spec.application must be text"),
    ("ModelActivation", {"type": "remote"}, "spec.type must be 'local' or 'external'"),
)
ACCESS_COMPLAINTS: tuple[tuple[Mapping[str, Any], str], ...] = (
    ({"authentication": "basic"}, "authentication must be 'sso' or 'none'"),
    ({"role": 7}, "role must be 'user', 'viewer', 'operator' or 'admin'"),
    (
        {"sharing": {"mode": "selected", "users": ["a b"]}},
        "sharing.users[0] must match ^[A-Za-z0-9._:-]{1,160}$",
    ),
    ({"sharing": {"mode": "selected", "users": "a"}}, "sharing.users must be a list"),
    ({"sharing": {"mode": "all", "users": ["u"] * 101}}, "sharing.users must have at most 100 items"),
)
LOCAL_COMPLAINTS: tuple[tuple[Mapping[str, Any], str], ...] = (
    ({"minReplicas": -1}, "minReplicas must be at least 0"),
    ({"minReplicas": True}, "minReplicas must be a whole number"),
    ({"minReplicas": "2"}, "minReplicas must be a whole number"),
    ({"cpuOffloading": "true"}, "cpuOffloading must be true or false"),
    ({"cpuResources": []}, "cpuResources must be an object"),
    ({"cpuResources": {"requests": 1}}, "cpuResources.requests is no known field: remove it"),
    ({"vllm": {"attention": "auto"}}, "vllm.attention is no known field: remove it"),
    ({"freetoken": {"advanced": {"a": 1}}}, "freetoken.advanced.a is no known field: remove it"),
    ({"realtime": REALTIME | {"x": 1}}, "realtime.x is no known field: remove it"),
    (
        {"realtime": REALTIME | {"gpuMemoryFraction": 0}},
        "realtime.gpuMemoryFraction must be greater than 0.0",
    ),
    ({"realtime": REALTIME | {"gpuMemoryFraction": "1"}}, "realtime.gpuMemoryFraction must be a number"),
    ({"realtime": REALTIME | {"gpuCount": 3}}, "realtime.gpuCount must be 1 or 2"),
    ({"realtime": REALTIME | {"gpuCount": True}}, "realtime.gpuCount must be a whole number"),
    ({"realtime": REALTIME | {"gpuCount": "1"}}, "realtime.gpuCount must be a whole number"),
    ({"realtime": REALTIME | {"systemMemoryMi": True}}, "realtime.systemMemoryMi must be a whole number"),
    ({"realtime": REALTIME | {"gpuMemoryFraction": True}}, "realtime.gpuMemoryFraction must be a number"),
    ({"env": {"a.b": 1}}, 'env["a.b"] must be text'),
    ({"engine": "TensorRT"}, "engine must be 'VLLM', 'OLlama' or 'FreeToken'"),
    ({"vram": "8 gb"}, "vram must be a Kubernetes quantity, for example 8Gi, 1.5Gi, 500M or 1e9"),
)


@pytest.mark.parametrize(
    ("kind", "spec", "sentence"),
    [
        *COMPLAINTS,
        *[
            ("AppInstance", {"application": "a", "access": part}, f"spec.access.{text}")
            for part, text in ACCESS_COMPLAINTS
        ],
        *[
            ("ModelActivation", {"type": "local", "local": part}, f"spec.local.{text}")
            for part, text in LOCAL_COMPLAINTS
        ],
    ],
)
def test_a_complaint_is_a_sentence_with_the_path_and_what_is_allowed(
    kind: str, spec: Mapping[str, Any], sentence: str
) -> None:
    read = parse(SPECS[kind], stored(spec))

    assert isinstance(read, InvalidSpec)
    assert str(read) == sentence


def test_a_complaint_never_repeats_the_value() -> None:
    secret = "s3cr3t-canary"
    for read in (
        model(env={"TOKEN": [secret]}),
        model(engine=secret),
        model(vram=secret),
        model(minReplicas=secret),
        instance(sharing={"mode": "selected", "users": [f"{secret} "]}),
    ):
        assert isinstance(read, InvalidSpec)
        assert secret not in str(read)


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ("vllm", "VLLM"),
        (" OLLAMA ", "OLlama"),
        ("ollama", "OLlama"),
        ("freetoken", "FreeToken"),
        ("", "VLLM"),
    ],
)
def test_an_engine_is_read_in_any_spelling_of_older_objects(text: str, engine: str) -> None:
    read = model(engine=text)

    assert isinstance(read, ModelActivationSpec)
    assert read.local.engine == engine


@pytest.mark.parametrize(("text", "target"), [("CPU", "cpu"), (" amd-gpu ", "amd-gpu"), ("", "nvidia-gpu")])
def test_a_compute_target_is_read_in_any_case(text: str, target: str) -> None:
    read = model(computeTarget=text)

    assert isinstance(read, ModelActivationSpec)
    assert read.local.compute_target == target


def test_fields_of_older_models_are_read_in_snake_case_and_camel_case_wins() -> None:
    read = model(context_window=1, max_output_tokens=2, max_num_seqs=3, maxNumSeqs=4)

    assert isinstance(read, ModelActivationSpec)
    local = read.local
    assert (local.context_window, local.max_output_tokens, local.max_num_seqs) == (1, 2, 4)


def test_cpu_offloading_left_out_is_neither_true_nor_false() -> None:
    left_out, off = model(), model(cpuOffloading=False)

    assert isinstance(left_out, ModelActivationSpec)
    assert isinstance(off, ModelActivationSpec)
    assert left_out.local.cpu_offloading is None
    assert off.local.cpu_offloading is False


@pytest.mark.parametrize("vram", ["8 gb", " 8Gi ", "0", "-1Gi", "8gib", "1_000", "８Gi", ""])  # noqa: RUF001 - other digits are the point
def test_gpu_memory_that_is_no_quantity_is_a_complaint_about_its_field(vram: str) -> None:
    read = model(vram=vram)

    assert isinstance(read, InvalidSpec)
    assert read.field == "spec.local.vram"


def test_a_model_without_a_type_is_local_and_goes_to_the_usual_place() -> None:
    read = parse(ModelActivationSpec, stored())

    assert isinstance(read, ModelActivationSpec)
    assert (read.type, read.enabled, read.target_namespace) == ("local", True, "ai")
    assert (read.local.engine, read.local.compute_target) == ("VLLM", "nvidia-gpu")


def test_unknown_fields_of_a_model_are_kept_and_those_of_other_kinds_are_not() -> None:
    read = model(gpuDevice={"nodeName": "n"})
    module = parse(ModuleActivationSpec, stored({"module": "litellm", "unheard": 1}))

    assert isinstance(read, ModelActivationSpec)
    assert read.local.model_extra == {"gpuDevice": {"nodeName": "n"}}
    assert isinstance(module, ModuleActivationSpec)
    assert module.model_extra is None


def test_free_objects_may_be_nested_as_deep_as_they_like() -> None:
    values: object = "bottom"
    for _ in range(900):
        values = [values]

    read = parse(AppInstanceSpec, stored({"application": "a", "values": {"deep": values}}))

    assert isinstance(read, AppInstanceSpec)
    assert read.values["deep"] is values


@pytest.mark.req("MS-228")
def test_an_instance_goes_to_ai_and_is_open_to_users_who_signed_in() -> None:
    read = parse(AppInstanceSpec, stored({"application": "openclaw"}))

    assert isinstance(read, AppInstanceSpec)
    assert (read.enabled, read.target_namespace) == (True, "ai")
    assert (read.access.authentication, read.access.role) == ("sso", "user")
    assert (read.access.exposure, read.access.sharing) == ("localAndPublic", None)


@pytest.mark.req("MS-229")
def test_an_entry_of_an_instance_list_without_enabled_counts_as_enabled() -> None:
    lists = {name: [{"name": "a"}] for name in ("openclaw", "hermes", "paperclip", "kubeopencode")}

    read = parse(ApplianceSpec, stored({"source": SOURCE, "instances": lists}))

    assert isinstance(read, ApplianceSpec)
    assert read.instances is not None
    instances = read.instances
    lists_read = (instances.openclaw, instances.hermes, instances.paperclip, instances.kubeopencode)
    assert [entry.enabled for entries in lists_read for entry in entries] == [True] * 4


def test_a_module_of_an_appliance_is_off_unless_it_is_switched_on() -> None:
    source = {"kind": "GitRepository", "name": "flux-system"}

    read = parse(
        ApplianceSpec, stored({"source": source, "modules": {"litellm": {}, "dashboard": {"enabled": True}}})
    )

    assert isinstance(read, ApplianceSpec)
    assert {name: module.enabled for name, module in read.modules.items()} == {
        "litellm": False,
        "dashboard": True,
    }
    assert read.source.namespace == "flux-system"


@pytest.mark.parametrize(
    ("module", "name"),
    [("litellm", "litellm"), (" litellm ", "litellm"), ("", "one"), (None, "one"), ("  ", "one")],
)
def test_an_activation_without_a_module_means_the_one_it_is_named_after(
    module: str | None, name: str
) -> None:
    read = parse(ModuleActivationSpec, stored({"module": module}))

    assert isinstance(read, ModuleActivationSpec)
    assert read.module_or("one") == name


def test_null_is_the_same_as_absent_at_every_level() -> None:
    read = parse(
        AppInstanceSpec,
        stored({"application": "a", "enabled": None, "access": {"role": None, "sharing": None}}),
    )

    assert read == parse(AppInstanceSpec, stored({"application": "a", "access": {}}))


@pytest.mark.parametrize(
    ("reference", "ours"),
    [({}, True), ({"name": "local"}, True), ({"name": "other"}, False), ({"namespace": "elsewhere"}, False)],
)
def test_an_object_of_another_appliance_is_told_apart(reference: dict[str, str], ours: bool) -> None:  # noqa: FBT001 - a table
    assert ApplianceRef.model_validate(reference).ours is ours


def test_models_cannot_be_changed() -> None:
    read = ModuleActivationSpec.model_validate({"module": "litellm"})

    with pytest.raises(ValidationError, match="frozen"):
        read.module = "other"  # type: ignore[misc] # what the type checker refuses must fail at run time too


@pytest.mark.parametrize("kind", STATUSES)
def test_a_complete_status_is_read_whole(kind: str) -> None:
    status = complete(SCHEMAS[kind]["properties"]["status"])

    read = read_status(STATUSES[kind], stored(status=status))

    assert read.model_dump(mode="json", by_alias=True, exclude_unset=True) == status


@pytest.mark.parametrize("kind", STATUSES)
def test_every_status_may_be_empty(kind: str) -> None:
    assert read_status(STATUSES[kind], stored()) == STATUSES[kind]()


def test_an_unreadable_field_of_a_status_is_as_if_it_were_not_set() -> None:
    status = {"phase": "Ready", "kustomization": 7, "conditions": [{"type": "Ready"}]}

    read = read_status(ModuleActivationStatus, stored(status=status))

    assert read == ModuleActivationStatus(phase="Ready")


def test_an_unheard_phase_of_a_host_operation_is_none_and_thus_unfinished() -> None:
    read = read_status(HostOperationStatus, stored(status={"phase": "Pondering", "message": "m"}))

    assert (read.phase, read.message) == (None, "m")
    assert read.phase not in FINISHED_PHASES


def test_names_of_urls_are_spelled_as_in_the_api() -> None:
    status = {"localURL": "https://a.example.local", "publicURL": "https://a.example.com"}

    read = read_status(AppInstanceStatus, stored(status=status))

    assert (read.local_url, read.public_url) == (status["localURL"], status["publicURL"])


def test_summaries_of_models_keep_further_fields() -> None:
    status = {"models": {"chat": {"phase": "Ready", "engine": "VLLM"}}, "seededModules": ["litellm"]}

    read = read_status(ApplianceStatus, stored(status=status))

    assert read.models["chat"].model_extra == {"engine": "VLLM"}
    assert read.seeded_modules == ("litellm",)


def test_null_clears_what_a_runtime_reported() -> None:
    read = read_status(ModelActivationStatus, stored(status={"memoryUsage": None, "gpuSharing": None}))

    assert (read.memory_usage, read.gpu_sharing) == (None, None)
