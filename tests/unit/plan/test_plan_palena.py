"""Plans of Palena's kinds for an empty cluster, with and without those on whom Palena depends."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from magicstick.kube.cache import Caches
from magicstick.kube.config import ClusterConfig
from magicstick.manager import Manager
from magicstick.plan import text
from magicstick.plan.changes import Action
from magicstick.plan.documents import InputError, read
from magicstick.plan.operator import Halves, Operator
from magicstick.plan.rehearsal import Plan
from magicstick.plan.sources import Once
from magicstick.plan.unknown import ASSUMED, GENERATED, UID
from magicstick.runtime.settings import Settings
from tests.support import golden
from tests.support.palena_consumers import BUCKET, mcp_server, observability, ui
from tests.support.palena_objects import GATEWAY, HOME, gateway, model, secret
from tests.unit.plan.conftest import Done, FixedClock, Planned

pytestmark = pytest.mark.anyio

EXAMPLES = Path(__file__).parents[3] / "examples" / "palena"
KEY = {"name": "provider-keys", "key": "OPENAI_API_KEY"}


def keyed(name: str = "large", **provider: Any) -> dict[str, Any]:
    """A model whose provider wants a key."""
    wanted = {"model": "openai/gpt-4o", "apiKeySecretRef": KEY, **provider}
    return model(name, GATEWAY, provider=wanted)


def examples() -> list[dict[str, Any]]:
    return [dict(each.body) for each in read([str(EXAMPLES)], str)]


def made(plan: Plan, kind: str = "") -> dict[str, Any]:
    """What the operator would create, by name; of one kind, or by `Kind/name`."""
    found = [each for each in plan.derived if each.action is Action.CREATE]
    if not kind:
        return {f"{each.kind.kind}/{each.key.name}": each.body for each in found}
    return {each.key.name: each.body for each in found if each.kind.kind == kind}


def standing(plan: Plan, kind: str) -> tuple[str, str, str]:
    """Phase, reason and message of the one object of a kind."""
    (found,) = [each for each in plan.standings if each.kind.kind == kind]
    return found.phase, found.reason, found.message


def every_form(plan: Plan) -> str:
    """Everything that is ever written of a plan."""
    lines = [*text.summary(plan), *text.diff(plan)]
    data = [
        text.written(form(plan), kind) for form in (text.listing, text.report) for kind in ("json", "yaml")
    ]
    return "\n".join([*map(str, lines), *data, text.as_yaml(plan), *plan.notes])


# --- one list of reconcilers ---------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"palena_watch_namespaces": "one,two"}], ids=["all", "some"])
async def test_the_plan_knows_every_reconciler_of_both_halves(settings: dict[str, object]) -> None:
    loaded = Settings.load(leader_election=False, magicstick_enable_palena=True, **settings)
    manager = Manager(loaded, ClusterConfig.plain("http://127.0.0.1:9"))
    operator = Operator.over(
        Caches(Once(lambda _: True)), loaded, FixedClock(), Halves.of(frozenset(), loaded)
    )
    theirs = {each.name: each.declaration for each in manager.controllers}
    assert operator.reconcilers.keys() == theirs.keys()
    for name, each in operator.reconcilers.items():
        assert [edge.scope for edge in each.declaration.edges] == [edge.scope for edge in theirs[name].edges]
        assert each.declaration.field_manager == theirs[name].field_manager


@pytest.mark.parametrize(
    ("groups", "enabled", "halves"),
    [
        (set(), False, Halves(appliance=True, palena=False)),
        ({"v1"}, True, Halves(appliance=True, palena=True)),
        ({"appliance.magicstick.dev"}, False, Halves(appliance=True, palena=False)),
        ({"palena.ai"}, False, Halves(appliance=False, palena=True)),
        ({"palena.ai", "v1"}, True, Halves(appliance=False, palena=True)),
        ({"palena.ai", "appliance.magicstick.dev"}, False, Halves(appliance=True, palena=True)),
    ],
)
def test_only_the_halves_that_are_concerned_are_asked(
    groups: set[str], *, enabled: bool, halves: Halves
) -> None:
    assert Halves.of(groups, Settings.load(magicstick_enable_palena=enabled)) == halves


# --- to the end ----------------------------------------------------------------------------------------


async def test_the_examples_are_planned_to_the_end(planned: Planned) -> None:
    plan = await planned(*examples())
    assert {each.kind.kind: each.phase for each in plan.standings} == {
        "PalenaGateway": "Running",
        "PalenaModel": "Running",
        "PalenaMCPServer": "Running",
        "PalenaUI": "Running",
        "PalenaObservability": "Running",
    }
    golden.check_text("plan/palena", "\n".join(map(str, text.summary(plan))) + "\n")


async def test_what_several_controllers_write_is_one_object(planned: Planned) -> None:
    plan = await planned(*examples())
    shared = [each for each in text.objects(plan) if each["kind"] in ("Cluster", "LiteLLMInstance")]
    golden.check("plan/palena-shared", shared)
    names = [(each.kind, each.key) for each in plan.derived]
    assert len(names) == len(set(names))


async def test_generated_secrets_are_shown_as_such_and_known_parts_are_masked(planned: Planned) -> None:
    plan = await planned(gateway())
    secrets = {
        each["metadata"]["name"]: each["data"] for each in text.objects(plan) if each["kind"] == "Secret"
    }
    assert secrets == {
        f"{GATEWAY}-palena-redis": {
            "password": "(generated)",
            "host": "(masked)",
            "port": "(masked)",
            "url": "(generated)",
        },
        f"{GATEWAY}-palena-litellm-keys": {"master-key": "(generated)", "salt-key": "(generated)"},
    }


async def test_no_made_up_value_is_in_any_form_of_a_plan(planned: Planned) -> None:
    written = every_form(await planned(*examples(), keyed("elsewhere")))
    assert "(generated)" in written
    for mark in (GENERATED, ASSUMED, UID):
        assert mark not in written
        assert mark.lower() not in written.lower()


async def test_what_is_generated_is_the_same_in_every_plan(planned: Planned) -> None:
    first, second = await planned(*examples()), await planned(*examples())
    assert first == second
    assert every_form(first) == every_form(second)


# --- what is assumed -----------------------------------------------------------------------------------


async def test_a_secret_that_is_named_and_not_given_is_assumed_and_said(planned: Planned) -> None:
    plan = await planned(gateway(), keyed(), assume=("palena",))
    assert plan.notes == (
        f"Secret {HOME}/provider-keys is not given: it is assumed to be there, with OPENAI_API_KEY",
    )
    assert standing(plan, "PalenaModel")[0] == "Running"
    assert "Secret/provider-keys" not in made(plan)


async def test_a_secret_that_is_given_is_not_assumed(planned: Planned) -> None:
    given = {"apiVersion": "v1", "kind": "Secret", "stringData": {"OPENAI_API_KEY": "CHANGEME"}}
    plan = await planned(
        gateway(), keyed(), {**given, "metadata": {"name": "provider-keys", "namespace": HOME}}
    )
    assert plan.notes == ()
    assert standing(plan, "PalenaModel")[0] == "Running"
    assert "CHANGEME" not in every_form(plan)


async def test_a_key_that_a_given_secret_lacks_is_missing(planned: Planned) -> None:
    plan = await planned(gateway(), keyed(), secret("provider-keys", {"OTHER": "CHANGEME"}))
    assert plan.notes == ()
    assert standing(plan, "PalenaModel")[:2] == ("Error", "SecretKeyMissing")


async def test_every_secret_that_can_be_named_is_assumed(planned: Planned) -> None:
    def key(name: str) -> dict[str, str]:
        return {"name": name, "key": "value"}

    def outside(name: str) -> dict[str, Any]:
        return {"mode": "external", "external": {"secretRef": {"name": name}}}

    clickhouse = {"name": "clickhouse", "keys": {"url": "url", "username": "user", "password": "pass"}}
    plan = await planned(
        gateway(
            database=outside("db"), redis=outside("cache"), litellm={"masterKeySecretRef": key("master")}
        ),
        keyed(),
        ui(
            gatewayKey={"mode": "secret", "secretRef": key("chat-key")},
            mongodb={"mode": "external", "secretRef": {"name": "mongo"}},
            auth={
                "oidc": {
                    "enabled": True,
                    "issuer": "https://login.example.com",
                    "clientIdRef": key("client"),
                    "clientSecretRef": key("client-secret"),
                }
            },
            extraEnv=[{"name": "EXTRA", "valueFrom": {"secretKeyRef": key("extra")}}],
        ),
        observability(
            database=outside("traces-db"),
            redis=outside("traces-cache"),
            clickhouse={"mode": "external", "external": {"secretRef": clickhouse}},
            seed={"adminUser": {"email": "admin@example.com", "passwordSecretRef": key("admin")}},
            blobStorage=BUCKET,
        ),
    )
    assert {each.kind.kind: each.phase for each in plan.standings if each.tells} == {}
    assert [note.split()[1].partition("/")[2] for note in plan.notes] == [
        *("db", "cache", "master", "provider-keys", "chat-key", "client", "client-secret", "mongo", "extra"),
        *("s3-keys", "clickhouse", "admin", "traces-db", "traces-cache"),
    ]


async def test_without_assumptions_the_kinds_of_others_are_missing(planned: Planned) -> None:
    plan = await planned(gateway(), keyed(), assume=())
    assert made(plan) == {}
    assert standing(plan, "PalenaGateway")[:2] == ("Error", "CRDMissing")
    assert plan.notes == ()


async def test_a_tool_server_needs_nobody_but_kubernetes_to_run(planned: Planned) -> None:
    plan = await planned(mcp_server(), assume=())
    assert standing(plan, "PalenaMCPServer")[0] == "Provisioning"
    assert "Deployment/websearch-searxng" in made(plan)


async def test_who_stands_around_a_gateway_that_is_not_given_waits_for_it(planned: Planned) -> None:
    plan = await planned(ui(), observability(), keyed())
    assert {each.kind.kind: each.phase for each in plan.standings} == {
        "PalenaUI": "Pending",
        "PalenaObservability": "Pending",
        "PalenaModel": "Pending",
    }
    assert all(GATEWAY in each.message for each in plan.standings)


async def test_what_palena_needs_is_no_assumption_about_modules(planned: Planned) -> None:
    module = {"apiVersion": "appliance.magicstick.dev/v1alpha1", "kind": "ModuleActivation"}
    activation = {**module, "metadata": {"name": "litellm"}, "spec": {"module": "litellm"}}
    plan = await planned(gateway(), activation, assume=("palena",))
    assert standing(plan, "PalenaGateway")[0] == "Running"
    assert standing(plan, "ModuleActivation")[0] == "WaitingForModules"


async def test_a_module_cannot_be_assumed_where_none_counts(planned: Planned) -> None:
    with pytest.raises(InputError, match=r"'litellm': .* needs modules; allowed are all, none, palena"):
        await planned(gateway(), assume=("litellm",))


async def test_a_model_of_the_appliance_is_a_model_of_palena(planned: Planned) -> None:
    external = {
        "apiVersion": "appliance.magicstick.dev/v1alpha1",
        "kind": "ModelActivation",
        "metadata": {"name": "served"},
        "spec": {
            "type": "local",
            "local": {"computeTarget": "cpu", "engine": "VLLM", "url": "hf://example/m"},
        },
    }
    bridged = model("bridged", GATEWAY, modelActivationRef={"name": "served"})
    del bridged["spec"]["provider"]
    plan = await planned(gateway(), external, bridged)
    phase, _, message = standing(plan, "PalenaModel")
    assert phase == "Provisioning"
    assert "served" in message


# --- what is wrong -------------------------------------------------------------------------------------


async def test_an_unknown_field_is_named_with_those_that_there_are(planned: Planned) -> None:
    with pytest.raises(InputError, match=r"spec.databse is no field of PalenaGateway; known are .*database"):
        await planned(gateway(databse={}))


async def test_a_kind_that_palena_has_not_is_named_with_those_it_has(planned: Planned) -> None:
    wrong = {**gateway(), "kind": "PalenaGate"}
    with pytest.raises(InputError, match=r"are palena.ai/v1alpha1 PalenaGate; allowed are .*PalenaGateway, "):
        await planned(wrong)


async def test_values_of_a_secret_that_are_no_text_are_named_and_not_shown(planned: Planned) -> None:
    body = secret("s", {})
    with pytest.raises(InputError, match=r"stringData.pin must be text, in quotes") as caught:
        await planned(keyed(), {**body, "stringData": {"pin": 8472}})
    assert "8472" not in str(caught.value)


async def test_objects_of_palena_live_in_any_namespace_and_without_one_beside_the_appliance(
    planned: Planned,
) -> None:
    homeless = gateway()
    del homeless["metadata"]["namespace"]
    plan = await planned(homeless, gateway(namespace="other"))
    assert {each.key.namespace for each in plan.standings} == {"ai-system", "other"}
    with pytest.raises(InputError, match=r"metadata.namespace must be lower-case letters"):
        await planned(gateway(namespace="No Namespace"))


async def test_what_nobody_looks_at_is_said(planned: Planned) -> None:
    plan = await planned(gateway(), palena_watch_namespaces="elsewhere")
    (note,) = plan.notes
    assert note.startswith(f"PalenaGateway {HOME}/{GATEWAY}: nobody looks at it, by PALENA_WATCH_NAMESPACES")
    assert made(plan) == {}


# --- the command ---------------------------------------------------------------------------------------


def test_the_command_plans_the_folder_of_examples(command: Callable[..., Done]) -> None:
    done = command("-f", EXAMPLES, "--offline")
    assert done.code == 1
    assert "+ create    LangfuseInstance ai-gateway/obs-langfuse" in done.out.splitlines()
    assert "Not ready then" not in done.out
    assert "kustomization.yaml: skipped" in done.err
