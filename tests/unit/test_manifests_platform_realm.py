"""The realm, and the script that keeps its clients as a release wants them (spec: platform §1.4)."""

import functools
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.rendered import DOMAINS, container, find

pytestmark = pytest.mark.cluster  # kustomize is a part of kubectl, which the cluster brings

IDENTITY: Final = "platform/identity"
GATEWAY, SETUP, USERS = "magicstick-human-gateway-local", "magicstick-setup", "magicstick-user-admin"
SECRETS: Final = {
    GATEWAY: "MAGICSTICK_HUMAN_GATEWAY_CLIENT_SECRET",
    SETUP: "MAGICSTICK_SETUP_CLIENT_SECRET",
    USERS: "MAGICSTICK_USER_ADMIN_CLIENT_SECRET",
}
ROLES: Final = {
    SETUP: {"manage-clients", "view-clients", "manage-users", "query-users", "view-users", "view-realm"},
    USERS: {"manage-users", "query-users", "view-users", "view-realm"},
}
ENVIRONMENT: Final = {
    "KC_BOOTSTRAP_ADMIN_USERNAME": "bootstrap-admin",
    "KC_BOOTSTRAP_ADMIN_PASSWORD": "marker-admin",
    **{name: f"marker-{client}" for client, name in SECRETS.items()},
}


def files(name: str) -> dict[str, str]:
    """A ConfigMap's data as Keycloak finds it."""
    data: dict[str, str] = find(IDENTITY, "ConfigMap", name, **DOMAINS)["data"]
    return data


@functools.cache
def realm() -> dict[str, Any]:
    """The realm that Keycloak imports."""
    imported: dict[str, Any] = json.loads(files("keycloak-realm")["magicstick-realm.json"])
    return imported


def clients() -> dict[str, dict[str, Any]]:
    return {client["clientId"]: client for client in realm()["clients"]}


# --- the realm -------------------------------------------------------------------------------------------


def test_the_realm_has_four_roles_and_a_group_that_is_none() -> None:
    assert (realm()["realm"], realm()["enabled"], realm()["registrationAllowed"]) == (
        "magicstick",
        True,
        False,
    )
    assert [role["name"] for role in realm()["roles"]["realm"]] == [
        "magicstick-user",
        "magicstick-viewer",
        "magicstick-operator",
        "magicstick-admin",
    ]
    assert realm()["groups"] == [{"name": "magicstick-recovery"}]


def test_the_gateways_client_only_logs_people_in_and_only_where_the_appliance_is() -> None:
    client = clients()[GATEWAY]

    assert client["redirectUris"] == [
        "https://auth-pilot.example.local/oauth2/callback",
        "https://example.local/oauth2/callback",
        "https://example.local/oauth2/callback/*",
        "https://dashboard.example.com/oauth2/callback",
        "https://dashboard.example.com/oauth2/callback/*",
    ]
    assert client["webOrigins"] == [
        "https://auth-pilot.example.local",
        "https://example.local",
        "https://dashboard.example.com",
    ]
    assert client["attributes"]["post.logout.redirect.uris"].split("##") == [
        "https://example.local/",
        "https://dashboard.example.com/",
    ]
    assert flows(client) == {"standardFlowEnabled"}
    assert client["publicClient"] is False


@pytest.mark.parametrize("name", [SETUP, USERS])
def test_a_service_client_has_an_account_and_no_way_for_people(name: str) -> None:
    assert flows(clients()[name]) == {"serviceAccountsEnabled"}
    assert (clients()[name]["publicClient"], clients()[name]["redirectUris"]) == (False, [])


def flows(client: dict[str, Any]) -> set[str]:
    names = (
        "standardFlowEnabled",
        "implicitFlowEnabled",
        "directAccessGrantsEnabled",
        "serviceAccountsEnabled",
    )
    return {name for name in names if client[name]}


def test_the_accounts_of_service_clients_have_exactly_the_specified_rights() -> None:
    accounts = {user["serviceAccountClientId"]: user["clientRoles"] for user in realm()["users"]}

    assert {client: set(roles["realm-management"]) for client, roles in accounts.items()} == ROLES
    assert all(set(roles) == {"realm-management"} for roles in accounts.values())


def test_the_realms_file_holds_no_secret_but_the_places_that_keycloak_fills_in() -> None:
    assert set(clients()) == set(SECRETS)
    assert {name: client["secret"] for name, client in clients().items()} == {
        name: f"${{{variable}}}" for name, variable in SECRETS.items()
    }
    told = {each["name"] for each in container(IDENTITY, "keycloak")["env"]}
    assert set(SECRETS.values()) <= told


def test_the_realms_file_and_the_scripts_files_describe_the_same_clients() -> None:
    described = {
        name.removesuffix(".json"): json.loads(text)
        for name, text in files("keycloak-clients").items()
        if name.endswith(".json")
    }

    assert described == {
        name: {key: value for key, value in client.items() if key != "secret"}
        for name, client in clients().items()
    }


# --- the script ------------------------------------------------------------------------------------------

STAND_IN: Final = '''#!{python} -IS
"""Stands in for kcadm.sh on a state in a file; refuses what Keycloak's own does not have."""
import json, os, sys
from pathlib import Path

path = Path(os.environ["STATE"])
state = json.loads(path.read_text())
words = sys.argv[1:]
state["calls"].append(words)
option = lambda name: words[words.index(name) + 1] if name in words else None


def finish(text="", code=0):
    path.write_text(json.dumps(state))
    print(text, end="\\n" if text else "")
    sys.exit(code)


def body():
    source = option("-f")
    return json.load(sys.stdin if source == "-" else open(source))


def account():
    return state["roles"][option("--uid").removeprefix("account-of-")]


assert option("--config") == "/tmp/sync-clients.config"
if words[:2] == ["config", "credentials"]:
    who = option("--user") or option("--client")
    secret = os.environ.get("KC_CLI_PASSWORD" if "--user" in words else "KC_CLI_CLIENT_SECRET")
    finish(code=0 if state["accounts"].get(who) == secret else 1)
assert option("-r") == "magicstick"
match words[:2]:
    case ["get", "clients"]:
        name = option("-q").removeprefix("clientId=")
        finish("id-of-" + name if name in state["clients"] else "")
    case ["get", endpoint] if endpoint.endswith("/service-account-user"):
        finish("account-of-" + endpoint.split("/")[1].removeprefix("id-of-"))
    case ["create", "clients"]:
        made = body()
        state["clients"][made["clientId"]] = made
        state["roles"].setdefault(made["clientId"], [])
        finish("id-of-" + made["clientId"])
    case ["update", endpoint]:
        if state["failures"]:
            state["failures"] -= 1
            finish(code=1)
        state["clients"][endpoint.split("/")[1].removeprefix("id-of-")].update(body())
        finish()
    case ["get-roles", _]:
        if state["blind"]:
            state["blind"] -= 1
            finish(code=1)
        finish("\\n".join(account()))
    case ["add-roles", _]:
        given = [words[position + 1] for position, word in enumerate(words) if word == "--rolename"]
        account()[:] = sorted({{*account(), *given}})
        finish()
    case ["remove-roles", _]:
        account().remove(option("--rolename"))
        finish()
finish(code=2)
'''


@dataclass
class Keycloak:
    """A directory with the script, its files, and a stand-in for what it calls."""

    folder: Path
    state: dict[str, Any]

    def run(self, *, listens: bool = True, attempts: int = 120) -> subprocess.CompletedProcess[str]:
        """Run the script to its end; pauses are skipped and told on standard output."""
        (self.folder / "state.json").write_text(json.dumps(self.state))
        script = files("keycloak-clients")["sync-clients.sh"]
        assert "/dev/tcp/127.0.0.1/8080" in script
        script = script.replace("(exec 3<>/dev/tcp/127.0.0.1/8080)", "true" if listens else "false")
        script = script.replace("ATTEMPTS=120", f"ATTEMPTS={attempts}")
        (self.folder / "sync-clients.sh").write_text(script)
        done = subprocess.run(
            [shutil.which("bash") or "bash", self.folder / "sync-clients.sh"],
            env={
                **ENVIRONMENT,
                "PATH": f"{self.folder}:{os.environ['PATH']}",
                "STATE": str(self.folder / "state.json"),
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        self.state = json.loads((self.folder / "state.json").read_text())
        return done


@pytest.fixture
def keycloak(tmp_path: Path) -> Keycloak:
    """Just after the import of an older release: one client fewer, old hosts, old secrets, a role too many."""
    for name, text in files("keycloak-clients").items():
        (tmp_path / name).write_text(text)
    (tmp_path / "kcadm.sh").write_text(STAND_IN.format(python=sys.executable))
    (tmp_path / "sleep").write_text("#!/bin/sh\necho slept $1\n")
    for program in ("kcadm.sh", "sleep"):
        (tmp_path / program).chmod(0o755)
    return Keycloak(
        tmp_path,
        {
            "calls": [],
            "failures": 0,
            "blind": 0,
            "accounts": {"bootstrap-admin": "marker-admin"},
            "clients": {
                GATEWAY: {
                    "clientId": GATEWAY,
                    "redirectUris": ["https://old.example.com/*"],
                    "secret": "old",
                },
                SETUP: {"clientId": SETUP, "secret": "old"},
            },
            "roles": {SETUP: ["view-users"], GATEWAY: [], USERS: ["realm-admin", "view-users"]},
        },
    )


def wanted() -> dict[str, Any]:
    return {name: {**client, "secret": f"marker-{name}"} for name, client in clients().items()}


def test_clients_become_what_the_release_wants_wherever_they_were(keycloak: Keycloak) -> None:
    done = keycloak.run()

    assert done.returncode == 0, done.stderr
    assert keycloak.state["clients"] == wanted()
    assert {client: set(keycloak.state["roles"][client]) for client in ROLES} == ROLES
    assert keycloak.state["roles"][GATEWAY] == []
    assert "slept" not in done.stdout


def test_a_second_start_changes_nothing(keycloak: Keycloak) -> None:
    keycloak.run()
    before = {name: keycloak.state[name] for name in ("clients", "roles")}

    assert keycloak.run().returncode == 0
    assert {name: keycloak.state[name] for name in ("clients", "roles")} == before


def test_the_realms_own_client_takes_over_where_the_first_account_is_gone(keycloak: Keycloak) -> None:
    keycloak.state["accounts"] = {SETUP: f"marker-{SETUP}"}

    assert keycloak.run().returncode == 0
    assert keycloak.state["clients"] == wanted()


def test_what_fails_once_is_tried_again_after_a_pause(keycloak: Keycloak) -> None:
    keycloak.state["failures"] = 2

    done = keycloak.run()

    assert done.returncode == 0
    assert done.stdout.count("slept 5") == 2
    assert keycloak.state["clients"] == wanted()


def test_rights_that_could_not_be_read_are_not_taken_for_none(keycloak: Keycloak) -> None:
    keycloak.state["blind"] = 1

    done = keycloak.run()

    assert done.stdout.count("slept 5") == 1
    assert {client: set(keycloak.state["roles"][client]) for client in ROLES} == ROLES


def test_it_gives_up_when_the_startup_probe_does(keycloak: Keycloak) -> None:
    startup = container(IDENTITY, "keycloak")["startupProbe"]

    done = keycloak.run(listens=False)

    assert done.returncode == 1
    assert done.stdout.count(f"slept {startup['periodSeconds']}\n") == startup["failureThreshold"]
    assert "gave up" in done.stderr
    assert keycloak.state["calls"] == []  # nothing is started while Keycloak itself is starting


def test_nothing_is_written_where_no_login_succeeds(keycloak: Keycloak) -> None:
    keycloak.state["accounts"] = {}
    before = keycloak.state["clients"]

    done = keycloak.run(attempts=3)

    assert done.returncode == 1
    assert keycloak.state["clients"] == before


@pytest.mark.req("MS-379")
def test_no_secret_is_printed_or_passed_as_an_argument(keycloak: Keycloak) -> None:
    keycloak.state["failures"] = 1

    done = keycloak.run()

    assert keycloak.state["clients"] == wanted()  # they were there to be told
    assert "marker" not in done.stdout + done.stderr
    assert "marker" not in json.dumps(keycloak.state["calls"])


def test_the_script_runs_beside_keycloak_and_never_in_its_way() -> None:
    running = container(IDENTITY, "keycloak")
    shell, flag, command = running["lifecycle"]["postStart"]["exec"]["command"]
    (mount,) = [each for each in running["volumeMounts"] if each["name"] == "clients"]

    assert (shell, flag) == ("/bin/bash", "-c")
    assert command.startswith(f"/bin/bash {mount['mountPath']}/sync-clients.sh ")
    assert command.endswith("&")


def test_the_scripts_dollar_signs_are_none_of_fluxs() -> None:
    assert "${" not in files("keycloak-clients")["sync-clients.sh"]
