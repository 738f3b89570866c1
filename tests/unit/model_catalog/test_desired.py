"""Which routes there should be, row by row of the specification (spec: models §16, companions §1.3 to §1.5)."""

import json
from typing import Any

import msgspec
import pytest

from magicstick.model_catalog.desired import (
    KeyReference,
    Sources,
    Unreadable,
    desired_routes,
    key_references,
)
from magicstick.model_catalog.routes import endpoint_of
from magicstick.runtime.logs import Secret
from tests.support.catalog_objects import (
    ENDPOINT,
    KUBEAI_BASE,
    activation,
    external,
    freetoken,
    model,
    realtime,
    routes,
)


def only(sources: Sources) -> Any:
    ((_, route),) = routes(sources).items()
    return route


def listed(*entries: object) -> str:
    return json.dumps({"models": entries})


# -- KubeAI ------------------------------------------------------------------------------------------


def test_a_ready_kubeai_model_is_routed_as_the_table_says() -> None:
    route = only(Sources(models=(model(args=("--max-model-len=4096",)),)))

    assert (route.id, route.key.get_secret_value()) == ("ai-appliance-kubeai-demo", "none")
    assert route.params == {"model": "openai/demo", "api_base": KUBEAI_BASE, "order": 0}
    assert route.info == {
        "ai_appliance_managed": True,
        "ai_appliance_source": "kubeai",
        "source": "kubeai",
        "magicstick_origin": "model",
        "ai_appliance_type": "chat",
        "features": ["TextGeneration"],
        "magicstick_vllm_priority": True,
        "order": 0,
        "max_input_tokens": 4096,
    }


@pytest.mark.parametrize("engine", ["OLlama", "Infinity", "FasterWhisper", ""])
def test_only_vllm_may_be_sent_priorities(engine: str) -> None:
    assert only(Sources(models=(model(engine=engine),))).info["magicstick_vllm_priority"] is False


@pytest.mark.parametrize(
    ("args", "annotations", "limits"),
    [
        ((), {}, (None, None)),
        (("--max-model-len", "8192"), {}, (8192, None)),
        (("--max-model-len=1", "--max-model-len=2"), {}, (2, None)),
        (("--max-model-len=auto",), {}, (None, None)),
        (("--max-model-len",), {}, (None, None)),
        (("--max-model-len=4096",), {"ai-appliance.io/context-window": "2048"}, (2048, None)),
        (("--max-model-len=4096",), {"ai-appliance.io/context-window": "-5"}, (4096, None)),
        ((), {"ai-appliance.io/max-output-tokens": "512"}, (None, 512)),
    ],
)
def test_limits_come_from_annotations_before_arguments(
    args: tuple[str, ...], annotations: dict[str, str], limits: tuple[int | None, int | None]
) -> None:
    info = only(Sources(models=(model(args=args, annotations=annotations),))).info
    assert (info.get("max_input_tokens"), info.get("max_output_tokens")) == limits


@pytest.mark.req("MS-364")
@pytest.mark.parametrize("ready", [0, None, -1, "1", True, 1.0])
def test_a_model_without_a_ready_replica_is_not_routed(ready: object) -> None:
    assert routes(Sources(models=(model(ready=ready),))) == {}


def test_a_model_that_is_being_deleted_is_not_routed() -> None:
    assert routes(Sources(models=(model(dying=True),))) == {}


def test_a_model_of_nobody_needs_no_activation() -> None:
    assert list(routes(Sources(models=(model(),), activations=()))) == ["demo"]


@pytest.mark.req("MS-364")
@pytest.mark.req("MS-361")
@pytest.mark.parametrize(
    ("changes", "routed"),
    [
        ({}, True),
        ({"phase": "Degraded"}, True),  # the phase itself waits for publication
        ({"ready": "False"}, False),  # a replica, or Ollama's alias, was lost
        ({"ready": "Unknown"}, False),
        ({"ready": None}, False),
        ({"observed": 1}, False),  # speaks of an earlier spec
        ({"observed": 3}, True),
        ({"enabled": False}, False),
        ({"enabled": None}, True),  # only the boolean false disables
        ({"enabled": "false"}, True),
        ({"dying": True}, False),
        ({"name": "other"}, False),
    ],
)
def test_a_model_of_an_activation_is_routed_while_the_activation_says_that_it_runs(
    changes: dict[str, Any], *, routed: bool
) -> None:
    sources = Sources(models=(model(owner="demo"),), activations=(activation(**changes),))
    assert ("demo" in routes(sources)) is routed


def test_a_runtime_that_kubeai_serves_is_not_routed_past_kubeai() -> None:
    assert routes(Sources(activations=(activation(endpoint=ENDPOINT, engine="VLLM"),))) == {}


# -- runtimes without KubeAI ---------------------------------------------------------------------------


def test_a_freetoken_runtime_is_routed_as_the_table_says() -> None:
    route = only(Sources(activations=(freetoken(contextWindow=8192, features=["TextGeneration"]),)))

    assert (route.id, route.key.get_secret_value()) == ("ai-appliance-freetoken-demo", "none")
    assert route.params == {"model": "openai/demo", "api_base": ENDPOINT, "order": 0}
    assert route.info == {
        "ai_appliance_managed": True,
        "ai_appliance_source": "freetoken",
        "source": "freetoken",
        "magicstick_origin": "activation",
        "ai_appliance_type": "chat",
        "features": ["TextGeneration"],
        "order": 0,
        "max_input_tokens": 8192,
    }


@pytest.mark.parametrize("profile", ["qwen3-omni", "qwen3-omni-rocm", "anything"])
def test_a_realtime_runtime_of_any_profile_is_routed_as_the_table_says(profile: str) -> None:
    route = only(Sources(activations=(realtime(profile=profile),)))

    assert route.id == "ai-appliance-vllm-omni-demo"
    assert {name: route.info[name] for name in ("source", "ai_appliance_type", "mode", "order")} == {
        "source": "vllm-omni",
        "ai_appliance_type": "realtime",
        "mode": "realtime",
        "order": 0,
    }
    assert route.info["supports_audio_input"] is route.info["supports_audio_output"] is True


@pytest.mark.parametrize("made", [freetoken, realtime])
@pytest.mark.parametrize(
    "changes", [{"ready": "False"}, {"observed": 1}, {"enabled": False}, {"dying": True}, {"ready": None}]
)
def test_a_direct_runtime_that_does_not_run_is_not_routed(made: Any, changes: dict[str, Any]) -> None:
    assert routes(Sources(activations=(made(**changes),))) == {}


@pytest.mark.parametrize(
    ("endpoint", "accepted"),
    [
        ("http://demo.ai.svc.cluster.local:8091/v1", True),
        ("https://demo.ai.svc.cluster.local/v1", True),
        ("http://demo.ai.svc.cluster.local/v1/", True),
        ("", False),
        ("http://demo.other.svc.cluster.local/v1", False),
        ("http://demo.ai.svc.cluster.local.example.com/v1", False),
        ("http://example.com/v1", False),
        ("http://ai.svc.cluster.local/v1", False),
        ("http://user:pass@demo.ai.svc.cluster.local/v1", False),
        ("http://@demo.ai.svc.cluster.local/v1", False),
        ("http://demo.ai.svc.cluster.local/v1?x=1", False),
        ("http://demo.ai.svc.cluster.local/v1?", False),
        ("http://demo.ai.svc.cluster.local/v1#x", False),
        ("http://demo.ai.svc.cluster.local/v1#", False),
        ("http://demo.ai.svc.cluster.local/v2", False),
        ("http://demo.ai.svc.cluster.local/", False),
        ("http://demo.ai.svc.cluster.local:port/v1", False),
        ("ftp://demo.ai.svc.cluster.local/v1", False),
        ("http://[::1/v1", False),
        ("http://evil.example.com\\.ai.svc.cluster.local/v1", False),
        ("http://a b.ai.svc.cluster.local/v1", False),
    ],
)
def test_requests_go_to_services_of_the_models_namespace_alone(endpoint: str, *, accepted: bool) -> None:
    activated = freetoken(endpoint=endpoint)

    assert endpoint_of(activated) == (endpoint.rstrip("/") if accepted else "")
    decided = desired_routes(Sources(activations=(activated,)), KUBEAI_BASE)
    assert bool(decided.routes) is accepted
    assert bool(decided.problems) is not accepted


def test_the_namespace_of_a_direct_runtime_is_the_activations() -> None:
    there = freetoken(endpoint="http://demo.other.svc.cluster.local/v1", namespace="other")
    assert list(routes(Sources(activations=(there,)))) == ["demo"]


# -- other providers ---------------------------------------------------------------------------------


def test_an_external_model_is_routed_with_what_is_given_and_nothing_else() -> None:
    route = only(Sources(external=listed({"name": " cloud ", "model": "openai/gpt"})))

    assert (route.name, route.id, route.key) == ("cloud", "ai-appliance-external-cloud", None)
    assert route.params == {"model": "openai/gpt"}
    assert route.info == {
        "ai_appliance_managed": True,
        "ai_appliance_source": "external",
        "source": "external",
        "magicstick_origin": "configmap",
        "ai_appliance_type": "chat",
    }


@pytest.mark.parametrize(
    ("entry", "field", "expected"),
    [
        ({"litellm": {"model": "a"}, "model": "b"}, "model", "a"),
        ({"model": "b"}, "model", "b"),
        ({"litellm": {"apiBase": "a", "api_base": "b"}, "apiBase": "c", "api_base": "d"}, "api_base", "a"),
        ({"litellm": {"api_base": "b"}, "apiBase": "c", "api_base": "d"}, "api_base", "b"),
        ({"apiBase": "c", "api_base": "d"}, "api_base", "c"),
        ({"api_base": "d"}, "api_base", "d"),
        (
            {
                "api_version": "a",
                "litellm": {"api_version": "b", "apiVersion": "d"},
                "apiVersion": "c",
            },
            "api_version",
            "a",
        ),
        ({"litellm": {"api_version": "b", "apiVersion": "d"}, "apiVersion": "c"}, "api_version", "b"),
        ({"litellm": {"apiVersion": "d"}, "apiVersion": "c"}, "api_version", "c"),
        ({"litellm": {"apiVersion": "d"}}, "api_version", "d"),
        ({"customLlmProvider": "a"}, "custom_llm_provider", "a"),
        ({"litellm": {"custom_llm_provider": "b"}, "customLlmProvider": "a"}, "custom_llm_provider", "b"),
        ({"tpm": 5, "litellm": {"tpm": 6}}, "tpm", 5),
        ({"tpm": 0, "litellm": {"tpm": "6"}}, "tpm", 6),
        ({"rpm": True}, "rpm", None),
    ],
)
def test_values_of_an_external_model_have_their_precedence(
    entry: dict[str, Any], field: str, expected: object
) -> None:
    whole = {"name": "cloud", "model": "openai/gpt", **entry}
    assert only(Sources(external=listed(whole))).params.get(field) == expected


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"type": "embedding", "modelType": "chat"}, ("embedding", None, None)),
        ({"modelType": "embedding"}, ("embedding", None, None)),
        ({"contextWindow": 1, "context_window": 2, "max_input_tokens": 3}, ("chat", 1, None)),
        ({"context_window": "2", "max_input_tokens": 3}, ("chat", 2, None)),
        ({"max_input_tokens": 3}, ("chat", 3, None)),
        ({"maxOutputTokens": False, "max_output_tokens": 4}, ("chat", None, 4)),
    ],
)
def test_type_and_limits_of_an_external_model_have_their_precedence(
    entry: dict[str, Any], expected: tuple[str, int | None, int | None]
) -> None:
    info = only(Sources(external=listed({"name": "cloud", "model": "m", **entry}))).info
    assert (
        info["ai_appliance_type"],
        info.get("max_input_tokens"),
        info.get("max_output_tokens"),
    ) == expected


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        ({"litellm": {"apiKey": "a", "api_key": "b"}, "apiKey": "c", "api_key": "d"}, "a"),
        ({"litellm": {"api_key": "b"}, "apiKey": "c"}, "b"),
        ({"apiKey": "c", "api_key": "d"}, "c"),
        ({"api_key": "d"}, "d"),
        ({"apiKeySecretRef": {"name": "keys", "key": "one"}, "apiKey": "c"}, "from-secret"),
        ({"apiKeySecretRef": {"name": "keys"}, "apiKey": "c"}, "c"),
        ({"apiKeySecretRef": {"key": "one"}, "apiKey": "c"}, "c"),
        ({"apiKeySecretRef": "keys", "apiKey": "c"}, "c"),
    ],
)
def test_the_key_comes_from_the_secret_before_the_entry(entry: dict[str, Any], key: str) -> None:
    keys = {KeyReference("keys", "one"): Secret("from-secret")}
    route = only(Sources(external=listed({"name": "cloud", "model": "m", **entry}), keys=keys))
    assert route.key.get_secret_value() == key


@pytest.mark.parametrize(
    "content", ['[{"name": "cloud", "model": "m"}]', '{"models": [{"name": "cloud", "model": "m"}]}']
)
def test_the_models_of_the_config_map_are_a_list_or_an_object_with_one(content: str) -> None:
    assert list(routes(Sources(external=content))) == ["cloud"]


@pytest.mark.parametrize("content", ["", "  \n", "{}", "[]", '{"models": []}'])
def test_no_content_is_no_models(content: str) -> None:
    decided = desired_routes(Sources(external=content), KUBEAI_BASE)
    assert (decided.routes, decided.holds, decided.problems) == ({}, (), ())


@pytest.mark.parametrize(
    "bad",
    [7, "text", None, [], {}, {"name": ""}, {"name": 3}, {"name": "a\nB=c", "model": "m"}, {"name": "x"}],
)
def test_a_bad_entry_costs_its_neighbours_nothing_and_is_told(bad: object) -> None:
    decided = desired_routes(Sources(external=listed(bad, {"name": "good", "model": "m"})), KUBEAI_BASE)

    assert list(decided.routes) == ["good"]
    assert len(decided.problems) == 1


@pytest.mark.parametrize(("enabled", "routed"), [(False, False), (0, True), ("false", True), (None, True)])
def test_only_the_boolean_false_disables_an_entry(enabled: object, *, routed: bool) -> None:
    entry = {"name": "cloud", "model": "m", "enabled": enabled}
    assert bool(routes(Sources(external=listed(entry)))) is routed


@pytest.mark.req("MS-366")
def test_an_external_activation_is_routed_whatever_else_starts() -> None:
    sources = Sources(
        activations=(external(), activation("starting", ready=None)), models=(model("starting", ready=0),)
    )
    route = only(sources)
    assert (route.name, route.origin, route.params["model"]) == ("cloud", "activation", "openai/gpt-demo")


@pytest.mark.req("MS-366")
@pytest.mark.parametrize("changes", [{"enabled": False}, {"dying": True}])
def test_an_external_activation_that_is_not_wanted_is_not_routed(changes: dict[str, Any]) -> None:
    assert routes(Sources(activations=(external(**changes),))) == {}


def test_later_sources_win_on_equal_names() -> None:
    everywhere = Sources(
        models=(model("same"),), external=listed({"name": "same", "model": "m"}), activations=()
    )
    assert only(everywhere).source == "external"
    activated = Sources(everywhere.models, (external("same"),), everywhere.external)
    assert only(activated).origin == "activation"
    direct = Sources(everywhere.models, (freetoken("same"),), everywhere.external)
    assert only(direct).source == "freetoken"


def test_the_keys_that_are_needed_are_those_of_wanted_entries() -> None:
    def reference(name: str) -> dict[str, Any]:
        return {"apiKeySecretRef": {"name": name, "key": "key"}}

    sources = Sources(
        activations=(external("a", **reference("a")), external("b", enabled=False, **reference("b"))),
        external=listed(
            {"name": "c", "model": "m", **reference("c")},
            {"name": "d", "model": "m", "enabled": False, **reference("d")},
        ),
    )
    assert key_references(sources) == {KeyReference("a", "key"), KeyReference("c", "key")}


# -- what cannot be read -------------------------------------------------------------------------------


def test_a_missing_key_is_told_by_name_and_costs_the_others_nothing() -> None:
    content = listed(
        {"name": "cloud", "model": "m", "apiKeySecretRef": {"name": "keys", "key": "one"}},
        {"name": "good", "model": "m"},
    )
    keys = {KeyReference("keys", "one"): Unreadable("Secret 'keys' is not there")}
    decided = desired_routes(Sources(external=content, keys=keys), KUBEAI_BASE)

    assert list(decided.routes) == ["good"]
    assert [str(each) for each in decided.problems] == ["external model 'cloud': Secret 'keys' is not there"]


@pytest.mark.parametrize(
    "content", ["{", "7", '"text"', '{"models": 7}', '{"models": {"a": 1}}', "[" * 100_000]
)
def test_unreadable_models_of_the_config_map_cost_only_themselves(content: str) -> None:
    sources = Sources(models=(model(),), activations=(external(),), external=content)
    decided = desired_routes(sources, KUBEAI_BASE)

    assert sorted(decided.routes) == ["cloud", "demo"]
    assert [each.subject for each in decided.problems] == ["models.json"]


@pytest.mark.parametrize(
    "entry",
    [
        {"model": "openai/\ud800"},
        {"model": "openai/x", "litellm": {"apiKey": "\udfff"}},
        {"model": "openai/x", "apiKeySecretRef": {"name": "\ud800", "key": "k"}},
        {"model": "openai/x", "\ud800": 1},
    ],
)
def test_text_that_no_request_can_carry_costs_only_its_own_entry(entry: dict[str, Any]) -> None:
    good = {"name": "good", "model": "openai/good"}
    sources = Sources(models=(model(),), external=listed({"name": "bad", **entry}, good))
    decided = desired_routes(sources, KUBEAI_BASE)

    assert sorted(decided.routes) == ["demo", "good"]
    assert [str(each) for each in decided.problems] == ["external model 'bad': holds text that is no Unicode"]
    assert not key_references(sources)
    for each in decided.routes.values():
        assert msgspec.json.encode(each.params)


def test_models_of_nobody_go_on_while_activations_cannot_be_read() -> None:
    sources = Sources((model("free"), model("bound", owner="bound")), Unreadable("forbidden"))
    decided = desired_routes(sources, KUBEAI_BASE)

    assert list(decided.routes) == ["free"]
    assert [str(each) for each in decided.problems] == ["ModelActivations: forbidden"]


def test_externals_go_on_while_models_cannot_be_read() -> None:
    decided = desired_routes(Sources(Unreadable("forbidden"), (external(),)), KUBEAI_BASE)
    assert list(decided.routes) == ["cloud"]
