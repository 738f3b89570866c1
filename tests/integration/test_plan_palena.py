"""`magicstick plan` for Palena on a real API server: it says what the operator then does, and does nothing."""

import asyncio
import base64
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hack import yamls
from magicstick.api.kinds import PALENA_GATEWAY
from magicstick.kube.client import Client
from magicstick.kube.config import ClusterConfig
from magicstick.kube.errors import Forbidden
from magicstick.kube.objects import Resource
from magicstick.palena.common.secrets import SECRET
from magicstick.plan import text
from magicstick.plan.changes import Action, Change
from magicstick.plan.documents import Document
from magicstick.plan.rehearsal import BlindError, Plan, Question, rehearse
from magicstick.runtime.clock import SystemClock
from magicstick.runtime.settings import Settings
from tests.support.palena_corner import PalenaCorner
from tests.support.palena_objects import gateway, model, secret
from tests.support.polling import until

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

AGENT = "plan-test"
GATEWAYS, LITELLM = "palenagateways", "gw-palena-litellm"
PLURALS = {
    "Cluster": "clusters",
    "LiteLLMInstance": "litellminstances",
    "StatefulSet": "statefulsets",
    "Service": "services",
    "NetworkPolicy": "networkpolicies",
}


async def planned(
    corner: PalenaCorner, *bodies: Mapping[str, Any], token: str = "", assume: tuple[str, ...] = ()
) -> Plan:
    """The plan for these objects in this corner."""
    cluster = corner.cluster
    config = ClusterConfig.plain(cluster.url, token=token or cluster.admin_token, ca_file=cluster.ca_file)
    documents = tuple(Document(f"{number}.yaml", body) for number, body in enumerate(bodies))
    async with Client(config, user_agent=AGENT, field_manager=AGENT) as client:
        return await rehearse(Question(documents, assume), Settings.load(), SystemClock(), client=client)


def created(plan: Plan) -> dict[tuple[str, str], Change]:
    """What the operator would create, by kind and name."""
    return {(each.kind.kind, each.key.name): each for each in plan.derived if each.action is Action.CREATE}


def every_form(plan: Plan) -> str:
    """Everything that is ever written of a plan."""
    lines = map(str, (*text.summary(plan), *text.diff(plan), *plan.notes))
    return "\n".join((*lines, text.as_yaml(plan), text.written(text.report(plan), "json")))


def includes(want: Any, have: Any) -> bool:
    """Whether everything that was planned is there, besides what the server fills in."""
    if isinstance(want, Mapping):
        return isinstance(have, Mapping) and all(includes(want[name], have.get(name)) for name in want)
    if isinstance(want, list | tuple):
        return isinstance(have, list) and len(want) == len(have) and all(map(includes, want, have))
    return bool(want == have)


async def running(corner: PalenaCorner, **spec: Any) -> None:
    """A gateway that runs, and an operator that has done its work and is gone."""
    async with corner.operator():
        await corner.gateway(**spec)
        await corner.all_ready()
        await corner.quiet()


async def test_the_operator_then_does_exactly_what_the_plan_said(corner: PalenaCorner) -> None:
    plan = await planned(corner, gateway(namespace=corner.namespace), assume=("palena",))
    assert [each.phase for each in plan.standings] == ["Running"]
    await running(corner)
    assert corner.phase(GATEWAYS, "gw") == "Running"
    made = {(kind, name) for kind, plural in PLURALS.items() for name in corner.names(plural)} | {
        ("Secret", name) for name in corner.names("secrets") if not name.endswith("-app")
    }
    assert created(plan).keys() == made
    for (kind, name), change in created(plan).items():
        if kind == "Secret":
            assert change.body["data"].keys() == corner.must("secrets", name)["data"].keys()
            continue
        want = dict(change.body["spec"])
        live = corner.must(PLURALS[kind], name)
        assert change.body["metadata"]["labels"].keys() == live["metadata"]["labels"].keys()
        for made_up in ("extraEnvVars", "template", "volumeClaimTemplates"):
            want.pop(made_up, None)
        assert includes(want, live["spec"]), (kind, name)


async def test_without_assumptions_only_the_next_step_is_planned(corner: PalenaCorner) -> None:
    plan = await planned(corner, gateway(namespace=corner.namespace))
    kinds = {kind for kind, _ in created(plan)}
    assert kinds == {"NetworkPolicy", "Cluster", "Secret", "Service", "StatefulSet"}
    (standing,) = plan.standings
    assert (standing.phase, standing.reason) == ("Provisioning", "ClusterCreating")


async def test_nothing_changes_where_the_operator_has_done_its_work(corner: PalenaCorner) -> None:
    await running(corner)
    plan = await planned(corner, gateway(namespace=corner.namespace))
    assert not plan.changes, [str(line) for line in text.diff(plan)]
    assert {each.kind.kind for each in plan.derived} >= {"Cluster", "LiteLLMInstance"}


async def test_a_changed_field_is_a_change_of_one_field(corner: PalenaCorner) -> None:
    await running(corner)
    plan = await planned(corner, gateway(namespace=corner.namespace, litellm={"replicas": 3}))
    (change,) = [each for each in plan.derived if each.changes]
    assert (change.kind.kind, change.key.name) == ("LiteLLMInstance", LITELLM)
    assert [(each.path, each.before, each.after) for each in change.fields] == [("spec.replicas", 1, 3)]


async def test_no_value_of_the_cluster_is_in_any_form_of_a_plan(corner: PalenaCorner) -> None:
    await running(corner)
    keys = secret("provider-keys", {"api-key": "sk-swordfish-of-a-user"}, namespace=corner.other)
    await corner.client.apply(f"{corner.path('secrets', corner.other)}/provider-keys", keys, manager="user")
    wanted = model("m", {"name": "gw", "namespace": corner.namespace}, namespace=corner.other)
    wanted["spec"]["provider"]["apiKeySecretRef"] = {"name": "provider-keys", "key": "api-key"}
    everyone = gateway(namespace=corner.namespace, allowedConsumers={"from": "All"}, litellm={"replicas": 2})
    plan = await planned(corner, everyone, wanted)
    copies = [each for (kind, _), each in created(plan).items() if kind == "Secret"]
    assert [each.body["data"].keys() for each in copies] == [{"api-key"}], "it is copied to the gateway"
    written = every_form(plan)
    confidential = {
        value
        for name, keys in (("gw-palena-redis", ("password", "url")), (f"{LITELLM}-keys", None))
        for key, value in corner.must("secrets", name)["data"].items()
        if keys is None or key in keys
    }
    assert len(confidential) == 4
    for encoded in confidential:
        assert encoded not in written
        assert base64.b64decode(encoded).decode() not in written
    assert "swordfish" not in written
    assert base64.b64encode(b"sk-swordfish").decode().rstrip("=") not in written


async def test_a_value_that_would_be_generated_anew_is_told_so_in_the_difference(
    corner: PalenaCorner,
) -> None:
    await running(corner)
    name = "gw-palena-redis"
    await corner.client.merge(f"{corner.path('secrets')}/{name}", {"data": {"url": None}})
    plan = await planned(corner, gateway(namespace=corner.namespace))
    (change,) = [each for each in plan.derived if each.changes and each.kind == SECRET]
    assert [each.path for each in change.fields if each.note != "taken over"] == ["data"]
    shown = [line for line in map(str, text.diff(plan)) if "(masked)" in line or "(generated)" in line]
    assert shown[-1] == "+       url: (masked)", "derived from a password that is there"
    await corner.delete("secrets", f"{LITELLM}-keys")
    await corner.delete("litellminstances", LITELLM)
    await corner.until_gone("secrets", f"{LITELLM}-keys")
    await corner.until_gone("litellminstances", LITELLM)
    first, second = [await planned(corner, gateway(namespace=corner.namespace)) for _ in range(2)]
    assert created(first)["Secret", f"{LITELLM}-keys"].body["data"].keys() == {"master-key", "salt-key"}
    assert "master-key: (generated)" in every_form(first)
    assert every_form(first) == every_form(second)


async def test_a_secret_that_is_nowhere_is_assumed_only_where_that_is_asked_for(corner: PalenaCorner) -> None:
    await running(corner)
    wanted = model("m", "gw", namespace=corner.namespace)
    wanted["spec"]["provider"]["apiKeySecretRef"] = {"name": "provider-keys", "key": "api-key"}
    plain = await planned(corner, wanted)
    assert (plain.notes, plain.standings[0].reason) == ((), "SecretNotFound")
    assumed = await planned(corner, wanted, assume=("palena",))
    assert assumed.standings[0].phase == "Running"
    (note,) = assumed.notes
    assert note.startswith(f"Secret {corner.namespace}/provider-keys is not given, and not in the cluster:")
    assert note.endswith("it is assumed to be there, with api-key")
    await corner.secret("provider-keys", {"api-key": "sk-of-a-user"})
    there = await planned(corner, wanted, assume=("palena",))
    assert (there.notes, there.standings[0].phase) == ((), "Running")


async def test_nothing_is_ever_written_and_large_secrets_are_not_read(corner: PalenaCorner) -> None:
    mark = corner.cluster.audit_mark()
    await planned(corner, gateway(namespace=corner.namespace), assume=("all",))
    asked = list(corner.cluster.audit(AGENT, mark))
    assert {each.verb for each in asked} <= {"get", "list"}
    lists = [each.uri for each in asked if each.resource == "secrets" and each.verb == "list"]
    assert lists
    assert all("fieldSelector=type%21%3Dhelm.sh" in each for each in lists)
    assert corner.names("secrets") == set()
    assert corner.find(GATEWAYS, "gw") is None


async def test_who_may_not_read_secrets_gets_no_half_plan(corner: PalenaCorner) -> None:
    token = await _reader_of_all_but_secrets(corner)
    with pytest.raises(BlindError, match="secrets") as caught:
        await planned(corner, gateway(namespace=corner.namespace), token=token)
    assert caught.value.forbidden


async def test_the_command_tells_a_change_and_its_absence_by_its_exit_code(
    corner: PalenaCorner, tmp_path: Path
) -> None:
    await running(corner)
    same = await _command(corner, tmp_path, gateway(namespace=corner.namespace))
    assert (same.returncode, same.stdout, same.stderr) == (0, "Nothing would change.\n", "")
    other = await _command(corner, tmp_path, gateway(namespace=corner.namespace, litellm={"replicas": 2}))
    assert (other.returncode, other.stderr) == (1, "")
    assert "~     spec.replicas: 1 -> 2" in other.stdout.splitlines()


async def _command(
    corner: PalenaCorner, folder: Path, body: Mapping[str, Any]
) -> subprocess.CompletedProcess[str]:
    """`magicstick plan --diff` for an object, as a process."""
    (folder / "object.yaml").write_text(yamls.dump(body))
    words = ["plan", "-f", str(folder), "--diff", "--kubeconfig", str(corner.cluster.kubeconfig)]
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "magicstick", *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ},
    )


async def _reader_of_all_but_secrets(corner: PalenaCorner) -> str:
    """The token of an account that may list everything else that Palena reads."""
    name, rbac = f"reader-{corner.namespace}", "/apis/rbac.authorization.k8s.io/v1"
    everything = {"verbs": ["get", "list"], "apiGroups": ["apps", "networking.k8s.io", "storage.k8s.io"]}
    groups = ["palena.ai", "postgresql.cnpg.io", "litellm.palena.ai", "langfuse.palena.ai"]
    others = ["apiextensions.k8s.io", "appliance.magicstick.dev"]
    core = ["services", "configmaps", "persistentvolumeclaims", "namespaces"]
    rules = [
        {**everything, "resources": ["*"]},
        {"verbs": ["get", "list"], "apiGroups": [*groups, *others], "resources": ["*"]},
        {"verbs": ["get", "list"], "apiGroups": [""], "resources": core},
    ]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": rules}
    await corner.client.apply(f"{rbac}/clusterroles/{name}", {**role, "metadata": {"name": name}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader"}}
    await corner.client.apply(f"/api/v1/namespaces/{corner.namespace}/serviceaccounts/reader", account)
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": corner.namespace}],
    }
    await corner.client.apply(f"{rbac}/clusterrolebindings/{name}", binding)
    cluster = corner.cluster
    token = await asyncio.to_thread(cluster.service_account_token, corner.namespace, "reader")
    config = ClusterConfig.plain(cluster.url, token=token, ca_file=cluster.ca_file)
    async with Client(config, user_agent="test", field_manager="test") as client:
        await until("the rights are in force", lambda: _may_list(client))
    return token


async def _may_list(client: Client) -> bool:
    try:
        async for _ in client.pages(PALENA_GATEWAY, view=Resource):
            pass
    except Forbidden:
        return False
    return True
