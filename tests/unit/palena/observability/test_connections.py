"""Addresses of what Langfuse shares with its gateway, and their parts (spec: palena §7.4, §10)."""

from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.palena.observability.connections import (
    AddressError,
    RedisAddress,
    database_url,
    redis_address,
)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://:pw@cache.example.com:6380/0", RedisAddress("cache.example.com", 6380, "pw")),
        ("redis://cache.example.com", RedisAddress("cache.example.com", 6379, "")),
        ("rediss://me:p%40w@cache.example.com", RedisAddress("cache.example.com", 6379, "p@w", tls=True)),
        (" redis://:pw@cache.example.com\n", RedisAddress("cache.example.com", 6379, "pw")),
    ],
)
def test_a_redis_url_is_taken_apart(url: str, address: RedisAddress) -> None:
    assert redis_address(url) == address


def test_tls_is_said_only_where_there_is_some() -> None:
    assert redis_address("redis://:p@cache.example.com").data() == {
        "host": "cache.example.com",
        "port": "6379",
        "password": "p",
    }
    assert redis_address("rediss://:p@cache.example.com").data()["tls"] == "true"


@pytest.mark.parametrize(
    "url", ["", "http://secret@h", "redis://", "redis://:secret@h:port", "redis://:secret@[h"]
)
def test_what_is_no_redis_url_is_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(AddressError) as refused:
        redis_address(url)
    assert "secret" not in str(refused.value)


@given(user=st.text(min_size=1), password=st.text(min_size=1), database=st.text(min_size=1))
def test_whatever_the_parts_are_the_url_says_exactly_them(user: str, password: str, database: str) -> None:
    parts = urlsplit(database_url(user, password, "pg.example.com", 5432, database))

    assert (parts.hostname, parts.port, parts.query, parts.fragment) == ("pg.example.com", 5432, "", "")
    assert (unquote(parts.username or ""), unquote(parts.password or "")) == (user, password)
    assert unquote(parts.path.removeprefix("/")) == database
