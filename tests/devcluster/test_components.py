"""The command lines: everything on loopback, inside the directory, and fit for its purpose."""

import re
from pathlib import Path

import pytest

from hack import yamls
from hack.devcluster import envoy
from hack.devcluster.access import load
from hack.devcluster.components import (
    COMMANDS,
    CONTROL_PLANE,
    FULL,
    HERE,
    WITH_ACTORS,
    WITH_CONTROLLERS,
    WITH_GATEWAY,
    Component,
    Context,
    programs_of,
)
from hack.devcluster.layout import Layout, Ports


@pytest.fixture
def context(tmp_path: Path) -> Context:
    stages = tmp_path / "cache" / "kwok" / "stages"
    stages.mkdir(parents=True)
    for name in ("pod-ready", "node-initialize"):
        (stages / f"{name}.yaml").write_text("")
    binaries = {name: tmp_path / "cache" / name / name for name in programs_of(WITH_GATEWAY)}
    return Context(Layout(tmp_path / "cluster"), Ports.choose(), WITH_GATEWAY, binaries, tmp_path / "source")


def with_components(context: Context, components: tuple[Component, ...]) -> Context:
    return Context(context.layout, context.ports, components, context.binaries, context.source)


@pytest.mark.parametrize("component", WITH_GATEWAY)
def test_every_listener_is_on_loopback(context: Context, component: Component) -> None:
    command = COMMANDS[component](context)
    addresses = re.findall(r"\d+\.\d+\.\d+\.\d+(?=:\d)", " ".join([*command.argv, command.health]))
    assert set(addresses) <= {"127.0.0.1"}
    bound = [argument for argument in command.argv if re.match(r"--(bind-address|listen|.*-addr)", argument)]
    assert all("127.0.0.1" in argument or argument.endswith("=") for argument in bound)


@pytest.mark.parametrize("component", WITH_GATEWAY)
def test_every_component_that_talks_has_credentials_of_its_own(
    context: Context, component: Component
) -> None:
    if component in CONTROL_PLANE:
        return
    command = COMMANDS[component](context)
    config = context.layout.kubeconfig("admin")
    text = " ".join([*command.argv, *command.env.values()])
    assert f"{config}-" in text
    assert not re.search(rf"{re.escape(str(config))}(?!-)", text)


def test_selections_grow() -> None:
    assert set(CONTROL_PLANE) < set(WITH_CONTROLLERS) < set(FULL) < set(WITH_ACTORS) < set(WITH_GATEWAY)


def test_service_accounts_are_asked_for_only_where_somebody_makes_them(context: Context) -> None:
    disabled = "--disable-admission-plugins=ServiceAccount"
    assert disabled in COMMANDS[Component.API_SERVER](with_components(context, CONTROL_PLANE)).argv
    assert disabled not in COMMANDS[Component.API_SERVER](with_components(context, FULL)).argv


def test_kwok_gets_every_stage(context: Context) -> None:
    configs = [each for each in COMMANDS[Component.KWOK](context).argv if each.startswith("--config=")]
    own = sorted(each.name for each in (HERE / "stages").glob("*.yaml"))
    assert own
    assert [Path(each).name for each in configs] == ["node-initialize.yaml", "pod-ready.yaml", *own]


def test_a_component_needs_its_program(context: Context) -> None:
    assert programs_of(CONTROL_PLANE) == ["etcd", "kube-apiserver"]
    assert programs_of((Component.GIT_SOURCE,)) == ["flux-crds"]


def test_only_a_cluster_with_a_gateway_builds_it() -> None:
    assert "envoy-gateway" in programs_of(WITH_GATEWAY)
    assert "envoy-gateway" not in programs_of(WITH_ACTORS)


def test_the_gateway_listens_on_loopback_alone(context: Context) -> None:
    command = COMMANDS[Component.ENVOY_GATEWAY](context)
    assert command.env["HEALTH_ADDRESS"].startswith("127.0.0.1:")
    said = envoy.configuration(context)
    assert said["admin"]["address"]["host"] == "127.0.0.1"
    assert said["telemetry"]["metrics"]["prometheus"]["disable"]


def test_the_audit_policy_never_logs_the_body_of_a_secret() -> None:
    rules = yamls.load((HERE / "audit-policy.yaml").read_text())["rules"]
    for rule in rules:
        resources = [name for group in rule.get("resources", []) for name in group.get("resources", [])]
        if "secrets" in resources:
            assert rule["level"] == "Metadata"
            return
        assert rule["level"] != "RequestResponse", "a rule before that of secrets could match them"
    pytest.fail("no rule for secrets")


class TestLoad:
    def test_files_folders_and_objects_may_be_mixed(self, tmp_path: Path) -> None:
        folder = tmp_path / "folder" / "deep"
        folder.mkdir(parents=True)
        (folder / "b.yaml").write_text("kind: B\n---\nkind: C\n---\n")
        (tmp_path / "folder" / "a.yml").write_text("kind: A\n")
        (tmp_path / "folder" / "readme.md").write_text("not: yaml: at all")
        single = tmp_path / "d.yaml"
        single.write_text("kind: D\n")
        loaded = load([tmp_path / "folder", single, {"kind": "E"}])
        assert sorted(obj["kind"] for obj in loaded) == ["A", "B", "C", "D", "E"]
        assert [obj["kind"] for obj in loaded][-2:] == ["D", "E"]
