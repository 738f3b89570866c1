"""What counts as a question, and on whose behalf (spec: companions §2.1, §7 E17, E21, E30)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.access_guard.asked import COOKIE, LARGEST_TOKEN, Asked, read

UID = "6f2c1c1e-0d7b-4c55-9d1e-2b2f3f0a9a11"
TARGET = f"/internal/instance-access/demo/{UID}"
TOKEN = "aaaa.bbbb.cccc"


def asked(target: str, method: str = "GET") -> Asked | None:
    return read(method, target, [], [])


def token(authorization: list[str], cookies: list[str] | None = None) -> str:
    found = read("GET", TARGET, authorization, cookies or [])
    assert found is not None
    return found.token.get_secret_value()


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
def test_each_method_of_a_client_is_a_question(method: str) -> None:
    assert asked(TARGET + "/", method) == Asked("demo", UID)


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "get", "PROPFIND", ""])
def test_any_other_method_is_none(method: str) -> None:
    assert asked(TARGET + "/", method) is None


@pytest.mark.parametrize(
    "rest",
    [
        "",
        "/",
        "/a/b?c=d",
        "?x=/../..",
        "/%2e%2e/%2F",
        "//",
        "/../../other/uid",
        "/\\..\\",
        "/%00",
        "#/x",
        "/é",
    ],
)
def test_what_follows_the_uid_is_the_clients_and_means_nothing(rest: str) -> None:
    assert asked(TARGET + rest) == Asked("demo", UID)


@pytest.mark.parametrize(
    "target",
    [
        "",
        "/",
        "*",
        "/healthz/../internal/instance-access/demo/uid/",
        "internal/instance-access/demo/uid",
        "//internal/instance-access/demo/uid",
        "/internal//instance-access/demo/uid",
        "/internal/instance-access//uid/",
        "/internal/instance-access/demo",
        "/internal/instance-access/demo/",
        "/internal/instance-access/demo//uid",
        "/internal/instance-access/demo/?uid",
        "/internal/instance-access/Demo/uid/",
        "/internal/instance-access/demo./uid/",
        "/internal/instance-access/-demo/uid/",
        "/internal/instance-access/demo-/uid/",
        "/internal/instance-access/./uid/",
        "/internal/instance-access/../uid/",
        "/internal/instance-access/demo/../other/uid/",
        "/internal/instance-access/%64emo/uid/",
        "/internal/instance-access/demo%2Fother/uid/",
        "/internal/instance-access/demo/uid%2Fother",
        "/internal/instance-access/demo/u%69d/",
        "/internal%2Finstance-access/demo/uid/",
        "/Internal/instance-access/demo/uid/",
        "/internal/instance-access/demo/uid;x=1/",
        "/internal/instance-access/demo/uid\n/",
        "/internal/instance-access/demo\n/uid/",
        "/internal/instance-access/dem\u00f6/uid/",
        "/internal/instance-access/demo/uid\u0661/",
        "http://guard/internal/instance-access/demo/uid/",
        f"/internal/instance-access/{'a' * 64}/uid/",
        f"/internal/instance-access/demo/{'u' * 161}/",
        "/internal/instance-entitlement/demo/uid/",
    ],
)
def test_no_other_way_to_write_it_is_a_question(target: str) -> None:
    assert asked(target) is None


def test_the_longest_name_and_uid_are_taken_whole() -> None:
    name, uid = "a" * 63, "u" * 160
    assert asked(f"/internal/instance-access/{name}/{uid}/x") == Asked(name, uid)


@given(st.text(max_size=60))
def test_whatever_a_client_sends_asks_about_the_instance_of_the_route_or_nothing(path: str) -> None:
    found = asked(f"{TARGET}/{path}")
    assert found is not None
    assert (found.name, found.uid) == ("demo", UID)


@given(st.text(max_size=80))
def test_no_text_at_all_raises(target: str) -> None:
    asked(target)
    asked(f"/internal/instance-access/{target}")


@pytest.mark.parametrize(
    ("authorization", "cookies"),
    [
        ([f"Bearer {TOKEN}"], []),
        ([f"bearer {TOKEN}"], []),
        ([f"BEARER   {TOKEN} "], []),
        ([], [f"{COOKIE}={TOKEN}"]),
        ([""], [f"{COOKIE}={TOKEN}"]),
        ([], ["a=b; c", f"x=y;{COOKIE}={TOKEN} ; z=1"]),
        ([], [f"{COOKIE}={TOKEN}; {COOKIE}={TOKEN}"]),
        ([f"Bearer {TOKEN}"], [f"{COOKIE}=dddd.eeee.ffff"]),
    ],
)
def test_a_token_comes_in_the_header_or_else_in_the_cookie(
    authorization: list[str], cookies: list[str]
) -> None:
    assert token(authorization, cookies) == TOKEN


@pytest.mark.parametrize(
    ("authorization", "cookies"),
    [
        ([], []),
        (["Basic YTpi"], []),
        (["Basic YTpi"], [f"{COOKIE}={TOKEN}"]),
        (["Bearer"], []),
        (["Bearer "], []),
        (["Bearer opaque"], []),
        ([f"Bearer {TOKEN}.dddd"], []),
        ([f"Bearer {TOKEN}, Bearer {TOKEN}"], []),
        ([f"Bearer {TOKEN}", "Bearer dddd.eeee.ffff"], []),
        ([f"Bearer\t{TOKEN}"], []),
        ([f"Bearer {TOKEN}\nX-User: root"], []),
        ([f"Bearer aaaa.bbbb.{'c' * LARGEST_TOKEN}"], []),
        ([], [f"{COOKIE}={TOKEN}; {COOKIE}=dddd.eeee.ffff"]),
        ([], [f"{COOKIE.lower()}={TOKEN}"]),
        ([], [f"X{COOKIE}={TOKEN}"]),
        ([], [f'{COOKIE}="{TOKEN}"']),
    ],
)
def test_what_is_no_token_or_two_is_none(authorization: list[str], cookies: list[str]) -> None:
    assert token(authorization, cookies) == ""


def test_a_question_shows_nothing_of_its_token() -> None:
    found = read("GET", TARGET, [f"Bearer {TOKEN}"], [])
    assert TOKEN not in repr(found)
    assert TOKEN not in str(found)
