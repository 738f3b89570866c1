"""What the gateway hears, over HTTP, with a realm that is played (spec: companions §2, §7 E17 to E31)."""

import asyncio
import json
from typing import Any

import pytest

from hack.devcluster.actors.ec_keys import EcSigningKey
from hack.devcluster.actors.keycloak import CLIENT
from hack.devcluster.actors.rsa_keys import SigningKey
from magicstick.access_guard.signatures import unbase64
from tests.support.apiserver import Answer as Reply
from tests.support.apiserver import Hang, Reset, status
from tests.support.guard_scene import SECRET_PATH, client_secret, gatekeeping, instance_path

pytestmark = pytest.mark.anyio
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
FOR_ALICE: dict[str, Any] = {"mode": "selected", "users": ["alice"]}
FOR_THE_TEAM: dict[str, Any] = {"mode": "selected", "groups": ["team"]}


@pytest.mark.req("MS-171")
async def test_somebody_with_a_grant_may_do_everything_and_others_nothing() -> None:
    async with gatekeeping() as scene:
        scene.instance("demo", sharing=FOR_ALICE)
        for name in ("alice", "bob"):
            scene.realm.add(name)
        for method in METHODS:
            assert await scene.allowed("demo", scene.realm.token("alice"), method=method, path="/a?b=c")
            assert not await scene.allowed("demo", scene.realm.token("bob"), method=method)
        assert not await scene.allowed("demo", scene.realm.token("alice"), method="TRACE")


@pytest.mark.req("MS-171")
async def test_whoever_is_below_a_granted_group_may_pass_until_the_membership_ends() -> None:
    async with gatekeeping() as scene:
        scene.instance("demo", sharing=FOR_THE_TEAM)
        scene.realm.groups |= {"team": "", "sub": "team", "deepest": "sub", "other": ""}
        alice = scene.realm.add("alice", groups=("other", "deepest"))
        scene.realm.add("bob", groups=("other",))
        token = scene.realm.token("alice")
        assert await scene.allowed("demo", token)
        assert not await scene.allowed("demo", scene.realm.token("bob"))

        alice.groups.remove("deepest")
        assert not await scene.allowed("demo", token)
        assert scene.decisions() == {"granted": 1, "not_granted": 2}


@pytest.mark.req("MS-170")
async def test_what_the_directory_says_now_counts_and_not_what_the_token_said() -> None:
    async with gatekeeping() as scene:
        scene.instance("demo", role="viewer", sharing=FOR_ALICE)
        alice = scene.realm.add("alice", "magicstick-viewer")
        token = scene.realm.token("alice")
        assert await scene.allowed("demo", token)

        alice.roles[:] = ["magicstick-user"]
        assert not await scene.allowed("demo", token)
        alice.roles[:] = ["magicstick-operator"]
        assert await scene.allowed("demo", token)
        alice.enabled = False
        assert not await scene.allowed("demo", token)
        alice.enabled = True
        alice.service_client = "robot"
        assert not await scene.allowed("demo", token)
        del scene.realm.people["alice"]
        assert not await scene.allowed("demo", token)


async def test_an_administrator_and_somebody_with_a_granted_name_need_a_grant_as_well() -> None:
    async with gatekeeping() as scene:
        scene.instance("demo", sharing=FOR_ALICE)
        scene.realm.add("root", "magicstick-admin")
        scene.realm.add("mallory").username = "alice"
        for name in ("root", "mallory"):
            assert not await scene.allowed("demo", scene.realm.token(name, preferred_username="alice"))


@pytest.mark.req("MS-171")
async def test_a_grant_ends_with_the_instance_and_with_its_entry() -> None:
    async with gatekeeping() as scene:
        scene.realm.add("alice")
        token = scene.realm.token("alice")
        scene.instance("demo", sharing=FOR_ALICE)
        assert await scene.allowed("demo", token)

        scene.instance("demo", sharing={"mode": "selected", "users": ["bob"]})
        assert not await scene.allowed("demo", token)
        scene.instance("demo", uid="uid-of-the-next", sharing=FOR_ALICE)
        assert not await scene.allowed("demo", token, uid="uid-of-demo")
        scene.instance("demo", spec={"enabled": False}, sharing=FOR_ALICE)
        assert not await scene.allowed("demo", token)
        scene.gone("demo")
        assert not await scene.allowed("demo", token)
        assert scene.decisions() == {
            "granted": 1,
            "not_granted": 1,
            "uid_mismatch": 1,
            "disabled": 1,
            "unknown_instance": 1,
        }


async def test_an_open_instance_needs_nobodys_identity_and_asks_nobody() -> None:
    async with gatekeeping() as scene:
        scene.instance("demo")
        scene.instance("bare", authentication="none")
        scene.instance("all", sharing={"mode": "all"})
        for name in ("demo", "bare", "all"):
            assert await scene.allowed(name)
            assert await scene.allowed(name, "no.such.token")
        assert scene.realm.calls == []


async def test_a_token_in_the_cookie_counts_and_identity_in_other_headers_does_not() -> None:
    async with gatekeeping() as scene:
        scene.instance("demo", sharing=FOR_ALICE)
        scene.realm.add("alice")
        token = scene.realm.token("alice")
        assert await scene.allowed("demo", headers={"Cookie": f"a=b; MagicStickAccessToken={token}"})
        claimed = {"X-User": "alice", "X-Auth-Request-User": "alice", "X-Forwarded-User": "alice"}
        assert not await scene.allowed("demo", headers=claimed)
        assert not await scene.allowed("demo", "a.b.c", headers=claimed)
        assert not await scene.allowed("demo", headers={"X-Access-Token": token, **claimed})


@pytest.mark.parametrize(
    "said",
    [
        {"iss": "https://id.example.com/realms/magicstick"},
        {"azp": "account-console"},
        {"azp": None},
        {"exp": 1},
        {"exp": "later"},
        {"exp": True},
        {"sub": "bob"},
        {"sub": "../users/alice"},
        {"sub": ".."},
        {"realm_access": None},
        {"realm_access": {"roles": "magicstick-admin"}},
        {"realm_access": {"roles": ["magicstick-user", 7]}},
    ],
    ids=str,
)
async def test_a_signed_token_that_does_not_fit_is_no_identity(said: dict[str, Any]) -> None:
    async with gatekeeping() as scene:
        scene.instance("demo", sharing=FOR_ALICE)
        scene.realm.add("alice")
        assert not await scene.allowed("demo", scene.realm.token("alice", **said))
        assert not scene.realm.asked("/admin/")


async def test_tokens_of_both_clients_and_an_issuer_with_a_slash_are_good() -> None:
    async with gatekeeping() as scene:
        scene.instance("demo", sharing=FOR_ALICE)
        scene.realm.add("alice")
        slashed = "https://id.example.local/realms/magicstick/"
        for token in (
            scene.realm.token("alice", azp="magicstick-cli"),
            scene.realm.token("alice", azp=CLIENT, iss=slashed),
        ):
            assert await scene.allowed("demo", token)


async def test_made_up_tokens_cost_the_identity_provider_one_look_at_its_keys() -> None:
    async with gatekeeping() as scene:
        scene.instance("demo", sharing=FOR_ALICE)
        scene.realm.add("alice")
        real = scene.realm.token("alice")
        head, payload, signature = real.split(".")
        forged = SigningKey.make("first", seed=1)
        for token in (
            scene.realm.token("alice", key=forged),
            scene.realm.token("alice", key=SigningKey("unknown", forged.modulus, forged.secret)),
            f"{head}.{payload}.{signature[:-4]}AAAA",
            f"{head}.{scene.realm.token('alice', azp='magicstick-cli').split('.')[1]}.{signature}",
            scene.realm.key.token({"sub": "alice"}, alg="none"),
            scene.realm.key.token({"sub": "alice"}, alg="HS256"),
            scene.realm.key.token({"sub": "alice"}, crit=["exp"]),
        ):
            assert not await scene.allowed("demo", token)
        assert [call.path.rpartition("/")[2] for call in scene.realm.calls] == ["certs"]
        assert scene.decisions() == {"no_identity": 7}


async def test_a_session_that_was_ended_counts_for_half_a_minute_at_most() -> None:
    async with gatekeeping() as scene:
        scene.instance("demo", sharing=FOR_ALICE)
        scene.realm.add("alice")
        token = scene.realm.token("alice")
        assert await scene.allowed("demo", token)
        assert await scene.allowed("demo", token)
        assert len(scene.realm.asked("/userinfo")) == 1
        scene.realm.end(token)
        scene.clock.ahead_s = 30.0
        assert not await scene.allowed("demo", token)


async def test_a_key_that_was_rotated_in_is_found_and_old_keys_are_not_believed_for_ever() -> None:
    async with gatekeeping() as scene:
        scene.instance("demo", sharing=FOR_ALICE)
        scene.realm.add("alice")
        assert await scene.allowed("demo", scene.realm.token("alice"))
        scene.realm.rotate("second")
        scene.clock.ahead_s = 11.0
        assert await scene.allowed("demo", scene.realm.token("alice"))
        assert len(scene.realm.asked("/certs")) == 2

        with scene.realm.fault("/certs"):
            assert await scene.allowed("demo", scene.realm.token("alice"))
            scene.clock.ahead_s = 650.0
            assert not await scene.allowed("demo", scene.realm.token("alice"))
        scene.clock.ahead_s += 1.0
        assert await scene.allowed("demo", scene.realm.token("alice"))
        assert scene.decisions() == {"granted": 4, "identity_unavailable": 1}


async def test_a_token_is_believed_no_longer_than_the_realm_publishes_its_key() -> None:
    async with gatekeeping() as scene:
        scene.instance("demo", sharing=FOR_ALICE)
        scene.realm.add("alice")
        withdrawn = scene.realm.token("alice")
        assert await scene.allowed("demo", withdrawn)
        scene.realm.rotate("second")
        del scene.realm.published[0]
        scene.clock.ahead_s = 11.0  # within the half minute that the provider's yes is good for
        assert await scene.allowed("demo", withdrawn), "nothing has brought the new keys yet"
        assert await scene.allowed("demo", scene.realm.token("alice"))
        assert not await scene.allowed("demo", withdrawn)


async def test_a_realm_may_sign_with_elliptic_curves_and_a_token_never_chooses_the_algorithm() -> None:
    async with gatekeeping() as scene:
        scene.instance("demo", sharing=FOR_ALICE)
        scene.realm.add("alice")
        curve, rsa = EcSigningKey("curve"), scene.realm.key
        scene.realm.published.append(curve.jwk)
        said = json.loads(unbase64(scene.realm.token("alice").split(".")[1]))
        assert await scene.allowed("demo", curve.token(said))
        for token in (
            curve.token(said, alg="RS256"),
            curve.token(said, kid=rsa.kid),
            curve.token(said, kid=rsa.kid, alg="RS256"),
            rsa.token(said, alg="ES256"),
            rsa.token(said, kid=curve.kid),
            rsa.token(said, kid=curve.kid, alg="ES256"),
        ):
            assert not await scene.allowed("demo", token)
        assert len(scene.realm.asked("/userinfo")) == 1
        assert scene.decisions() == {"granted": 1, "no_identity": 6}


@pytest.mark.req("MS-170")
@pytest.mark.parametrize("part", ["/userinfo", "/certs", "/token", "/users/alice", "/composite", "/groups"])
@pytest.mark.parametrize(
    ("code", "body"),
    [
        (500, b""),
        (429, b"{}"),
        (302, b""),
        (204, b""),
        (200, b"<html>"),
        (200, b"[1"),
        (200, b"null"),
        (200, b""),
    ],
)
async def test_whatever_the_identity_provider_says_that_is_no_answer_is_a_no(
    part: str, code: int, body: bytes
) -> None:
    async with gatekeeping() as scene:
        scene.realm.groups["team"] = ""
        scene.realm.add("alice", groups=("team",))
        scene.instance("demo", sharing=FOR_THE_TEAM)
        scene.instance("free")
        token = scene.realm.token("alice")
        with scene.realm.fault(
            part, code, body=body, headers={"Location": "/elsewhere"} if code == 302 else {}
        ):
            assert not await scene.allowed("demo", token)
            assert await scene.allowed("free", token)
        scene.clock.ahead_s = 2.0
        assert await scene.allowed("demo", token)
        assert scene.decisions() == {"identity_unavailable": 1, "unrestricted": 1, "granted": 1}


async def test_while_keycloak_is_away_open_instances_stay_open_and_the_log_says_it_once() -> None:
    async with gatekeeping() as scene:
        scene.instance("demo", sharing=FOR_ALICE)
        scene.instance("free")
        scene.realm.add("alice")
        token = scene.realm.token("alice")
        assert await scene.allowed("demo", token)
        await scene.realm.stop()
        for _ in range(3):
            assert not await scene.allowed("demo", token)
            assert await scene.allowed("free", token)
        await scene.realm.start()
        assert await scene.allowed("demo", token)
        told = [entry["event"] for entry in scene.logs if entry.get("who") == "the identity provider"]
        assert told == ["somebody cannot be asked; what depends on it is denied", "somebody answers again"]


@pytest.mark.parametrize(
    "reply",
    [
        status(500, "InternalError", "no"),
        status(403, "Forbidden", "no"),
        status(401, "Unauthorized", "no"),
        status(429, "TooManyRequests", "no"),
        Reply(404, "404 page not found\n"),
        Reply(200, "<html>"),
        Reply(200, {"metadata": {"uid": 7}, "spec": {}}),
        Reply(200, {"metadata": {"uid": "uid-of-demo"}, "spec": []}),
        Reply(200, {}),
        Reset(),
    ],
    ids=str,
)
async def test_an_instance_that_cannot_be_read_opens_for_nobody(reply: Any) -> None:
    async with gatekeeping() as scene:
        scene.instance("demo")
        scene.instance("other")
        scene.server.answer("GET", instance_path("demo"), reply)
        assert not await scene.allowed("demo")
        assert await scene.allowed("other")
        assert scene.decisions() == {"error": 1, "unrestricted": 1}


async def test_credentials_that_cannot_be_used_are_a_no_and_are_read_anew() -> None:
    async with gatekeeping() as scene:
        scene.instance("demo", sharing=FOR_ALICE)
        scene.realm.add("alice")
        token = scene.realm.token("alice")
        no_key = {"metadata": {"name": "x"}, "data": {"client-id": "YQ=="}}
        no_base64 = {"metadata": {"name": "x"}, "data": {"client-id": "YQ==", "client-secret": "!"}}
        for reply in (
            status(404, "NotFound", "no"),
            status(403, "Forbidden", "no"),
            Reply(200, no_key),
            Reply(200, no_base64),
            Reply(200, client_secret("of-yesterday")),
        ):
            scene.server.answer("GET", SECRET_PATH, reply)
            assert not await scene.allowed("demo", token)
        scene.server.answer("GET", SECRET_PATH, Reply(200, client_secret()))
        assert await scene.allowed("demo", token)


async def test_a_token_of_ours_that_is_not_accepted_any_more_is_renewed() -> None:
    async with gatekeeping() as scene:
        scene.instance("demo", sharing=FOR_ALICE)
        scene.realm.add("alice")
        token = scene.realm.token("alice")
        assert await scene.allowed("demo", token)
        assert await scene.allowed("demo", token)
        assert len(scene.realm.asked("connect/token")) == 1
        scene.realm.forget_access()
        assert await scene.allowed("demo", token)
        scene.clock.ahead_s = 46.0  # it is good for a minute
        assert await scene.allowed("demo", token)
        assert len(scene.realm.asked("connect/token")) == 3


async def test_groups_are_asked_for_where_they_matter_and_then_along_with_the_person() -> None:
    async with gatekeeping() as scene:
        scene.realm.groups["team"] = ""
        scene.realm.add("alice", groups=("team",))
        scene.realm.add("bob", groups=("team",)).enabled = False
        scene.instance("team", sharing=FOR_THE_TEAM)
        scene.instance("both", sharing={**FOR_THE_TEAM, "users": ["alice"]})
        token = scene.realm.token("alice")
        with scene.realm.fault("/users/alice/groups"):
            assert await scene.allowed("both", token), "whoever is named needs no groups"
            assert not await scene.allowed("team", token)
        assert await scene.allowed("team", token)
        assert not await scene.allowed("team", scene.realm.token("bob")), "groups alone open nothing"


@pytest.mark.parametrize("groups", [["team", "../users"], ["", "team"], [".."], ["a b"]])
async def test_a_group_that_is_odd_is_a_no(groups: list[str]) -> None:
    async with gatekeeping() as scene:
        scene.instance("demo", sharing=FOR_THE_TEAM)
        scene.realm.groups["team"] = ""
        scene.realm.add("alice", groups=tuple(groups))
        assert not await scene.allowed("demo", scene.realm.token("alice"))
        assert scene.decisions() == {"identity_unavailable": 1}


async def test_groups_come_in_pages_end_in_circles_and_have_a_bound() -> None:
    async with gatekeeping() as scene:
        scene.instance("demo", sharing=FOR_THE_TEAM)
        many = {f"g{number}": "" for number in range(250)}
        scene.realm.groups |= {**many, "team": "", "x": "y", "y": "x"}
        alice = scene.realm.add("alice", groups=(*many, "team"))
        token = scene.realm.token("alice")
        assert await scene.allowed("demo", token)
        assert len(scene.realm.asked("/users/alice/groups")) == 3
        assert not scene.realm.asked("/admin/realms/magicstick/groups/")

        alice.groups = ["x"]
        assert not await scene.allowed("demo", token)
        alice.groups = [f"g{number}" for number in range(1001)]
        assert not await scene.allowed("demo", token)
        assert scene.decisions() == {"granted": 1, "not_granted": 1, "identity_unavailable": 1}


async def test_without_keycloak_as_the_directory_restricted_instances_open_for_nobody() -> None:
    async with gatekeeping(identity_management_mode="external") as scene:
        scene.instance("demo", sharing=FOR_ALICE)
        scene.instance("free")
        scene.realm.add("alice")
        assert not await scene.allowed("demo", scene.realm.token("alice"))
        assert await scene.allowed("free")
        assert scene.realm.calls == []


async def test_the_directory_may_be_believed_for_some_seconds_where_that_is_set() -> None:
    async with gatekeeping(guard_directory_cache_seconds=5) as scene:
        scene.realm.groups["team"] = ""
        scene.instance("demo", sharing=FOR_THE_TEAM)
        alice = scene.realm.add("alice", groups=("team",))
        token = scene.realm.token("alice")
        assert await scene.allowed("demo", token)
        asked = len(scene.realm.calls)
        alice.enabled = False
        assert await scene.allowed("demo", token)
        assert len(scene.realm.calls) == asked
        scene.clock.ahead_s = 5.0
        assert not await scene.allowed("demo", token)


async def test_a_question_never_shares_what_was_asked_before_it() -> None:
    async with gatekeeping() as scene:
        scene.instance("demo", sharing=FOR_ALICE)
        scene.realm.add("alice")
        token = scene.realm.token("alice")
        scene.realm.shut()
        first = asyncio.create_task(scene.allowed("demo", token))
        await scene.realm.until_waiting(1)
        scene.instance("demo", sharing={"mode": "selected", "users": ["bob"]})
        second = asyncio.create_task(scene.allowed("demo", token))
        scene.realm.open()
        assert (await first, await second) == (True, False)


async def test_a_client_that_leaves_takes_no_answer_from_others() -> None:
    async with gatekeeping() as scene:
        scene.instance("demo", sharing=FOR_ALICE)
        scene.realm.add("alice")
        token = scene.realm.token("alice")
        scene.realm.shut()
        leaving = asyncio.create_task(scene.allowed("demo", token))
        await scene.realm.until_waiting(1)
        staying = asyncio.create_task(scene.allowed("demo", token))
        leaving.cancel()
        scene.realm.open()
        assert await staying


@pytest.mark.parametrize("who", ["server", "realm"])
async def test_silence_is_a_no_in_time(who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with gatekeeping() as scene:
        monkeypatch.setattr(scene.program.guard, "_deadline_s", 0.2)
        scene.instance("demo", sharing=FOR_ALICE)
        scene.instance("free")
        scene.realm.add("alice")
        if who == "server":
            scene.server.answer("GET", instance_path("demo"), Hang())
        else:
            scene.realm.shut()
        async with asyncio.timeout(3.0):
            assert not await scene.allowed("demo", scene.realm.token("alice"))
            assert await scene.allowed("free")
        assert scene.decisions() == {"error": 1, "unrestricted": 1}
