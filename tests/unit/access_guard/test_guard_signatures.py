"""RS256 and ES256 against the examples of RFC 7515, and against what must not pass."""

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from hypothesis import given
from hypothesis import strategies as st

from hack.devcluster.actors.ec_keys import EcSigningKey
from hack.devcluster.actors.rsa_keys import SigningKey
from magicstick.access_guard.signatures import PublicKey, UnreadableKeysError, read_keys, unbase64
from magicstick.access_guard.tokens import take_apart
from magicstick.runtime.logs import Secret

# RFC 7515, appendix A.2: a key, a text, and its signature.
MODULUS = (
    "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS"
    "-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2"
    "CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9g"
    "b54h4FRWyuXpoQ"
)
SIGNED = b"eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
SIGNATURE = unbase64(
    "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr"
    "7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi"
    "12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGl"
    "UPQGe77Rw"
)
JWK = {"kty": "RSA", "kid": "rfc", "use": "sig", "alg": "RS256", "n": MODULUS, "e": "AQAB"}
OURS = SigningKey.make("first")

# RFC 7515, appendix A.3: the same on a curve.
CURVE_JWK = {
    "kty": "EC",
    "kid": "rfc-curve",
    "crv": "P-256",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
}
CURVE_SIGNED = SIGNED.replace(b"eyJhbGciOiJSUzI1NiJ9", b"eyJhbGciOiJFUzI1NiJ9")
CURVE_SIGNATURE = unbase64(
    "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
)
ON_CURVE = EcSigningKey("curve")


def keys(*entries: Any) -> dict[str, PublicKey]:
    return dict(read_keys(json.dumps({"keys": entries}).encode()))


def test_the_examples_of_the_rfc_pass() -> None:
    assert keys(JWK)["rfc"].verifies(SIGNED, SIGNATURE)
    assert keys(CURVE_JWK)["rfc-curve"].verifies(CURVE_SIGNED, CURVE_SIGNATURE)


@given(st.integers(0, len(SIGNATURE) * 8 - 1))
def test_no_other_bit_of_the_signature_passes(bit: int) -> None:
    changed = bytearray(SIGNATURE)
    changed[bit // 8] ^= 1 << bit % 8
    assert not keys(JWK)["rfc"].verifies(SIGNED, bytes(changed))


@given(st.binary(max_size=300))
def test_no_other_text_and_no_other_signature_pass(content: bytes) -> None:
    key = keys(JWK)["rfc"]
    assert key.verifies(content, SIGNATURE) is (content == SIGNED)
    assert key.verifies(SIGNED, content) is (content == SIGNATURE)


def test_a_signature_of_another_length_or_above_the_modulus_does_not_pass() -> None:
    key = keys(JWK)["rfc"]
    above = int.from_bytes(SIGNATURE, "big") + int.from_bytes(unbase64(MODULUS), "big")
    for signature in (b"\x00" + SIGNATURE, SIGNATURE[1:], SIGNATURE + b"\x00", above.to_bytes(257, "big")):
        assert not key.verifies(SIGNED, signature)


@pytest.mark.parametrize(
    "padded",
    [
        pytest.param(
            lambda end, size: b"\x00\x01\xff\x00" + end.ljust(size - 4, b"\xff"), id="digest in front"
        ),
        pytest.param(
            lambda end, size: b"\x00\x02" + b"\xff" * (size - len(end) - 3) + b"\x00" + end, id="type 2"
        ),
        pytest.param(
            lambda end, size: b"\x00\x01" + b"\xff" * (size - 35) + b"\x00" + end[-32:], id="bare digest"
        ),
        pytest.param(lambda end, size: end.rjust(size, b"\x00"), id="no padding"),
    ],
)
def test_a_padding_that_is_read_kindly_elsewhere_does_not_pass(padded: Any) -> None:
    """The owner of the key made them, so nothing but the padding is wrong."""
    message, size = b"a.b", 256
    real = pow(int.from_bytes(OURS.sign(message), "big"), 65537, OURS.modulus).to_bytes(size, "big")
    forged = padded(real[-51:], size)
    signature = pow(int.from_bytes(forged, "big"), OURS.secret, OURS.modulus).to_bytes(size, "big")
    key = keys(OURS.jwk)["first"]
    assert key.verifies(message, OURS.sign(message))
    assert not key.verifies(message, signature)


@pytest.mark.parametrize(
    "changes",
    [
        {"kty": "EC"},
        {"use": "enc"},
        {"alg": "RS512"},
        {"alg": "none"},
        {"n": "AQAB"},
        {"n": ""},
        {"n": "A"},
        {"n": "_" * 1400},
        {"crv": "P-256"},
        {"e": "AQ"},
        {"e": "AA"},
        {"e": "AQAA"},
        {"e": "AQAAAAE"},
        {"kid": 7},
        {"n": None},
    ],
    ids=str,
)
def test_a_key_that_may_not_be_used_is_left_out_and_its_neighbours_stay(changes: dict[str, Any]) -> None:
    assert list(keys({**JWK, **changes}, "no key", OURS.jwk)) == ["first"]


@pytest.mark.parametrize(
    "changes",
    [
        {"kty": "RSA"},
        {"use": "enc"},
        {"alg": "ES384"},
        {"alg": "RS256"},
        {"alg": "none"},
        {"crv": "P-384"},
        {"crv": "secp256k1"},
        {"crv": ""},
        {"x": CURVE_JWK["y"]},
        {"y": ""},
        {"x": "A" * 43, "y": "A" * 43},
        {"x": "AA" + CURVE_JWK["x"]},
        {"x": "_" * 43},
        {"y": 7},
    ],
    ids=str,
)
def test_a_key_on_a_curve_that_may_not_be_used_is_left_out_as_well(changes: dict[str, Any]) -> None:
    assert list(keys({**CURVE_JWK, **changes}, ON_CURVE.jwk)) == ["curve"]


@pytest.mark.parametrize("alg", [{}, {"alg": ""}])
def test_a_key_need_not_say_its_algorithm_which_follows_from_its_kind(alg: dict[str, str]) -> None:
    read = keys({**JWK, "alg": "", **alg}, {**CURVE_JWK, **alg})
    assert {kid: key.algorithm for kid, key in read.items()} == {"rfc": "RS256", "rfc-curve": "ES256"}


@given(st.integers(0, len(CURVE_SIGNATURE) * 8 - 1))
def test_no_other_bit_of_a_signature_on_a_curve_passes(bit: int) -> None:
    changed = bytearray(CURVE_SIGNATURE)
    changed[bit // 8] ^= 1 << bit % 8
    assert not keys(CURVE_JWK)["rfc-curve"].verifies(CURVE_SIGNED, bytes(changed))


def test_a_signature_on_a_curve_has_one_form() -> None:
    """Neither nothing, nor the form that libraries write, nor a zero (which any message would fit)."""
    key = keys(CURVE_JWK)["rfc-curve"]
    r, s = CURVE_SIGNATURE[:32], CURVE_SIGNATURE[32:]
    der = encode_dss_signature(int.from_bytes(r, "big"), int.from_bytes(s, "big"))
    for other in (b"", bytes(64), r + bytes(32), bytes(32) + s, s + r, r + s + b"\x00", der, r + s[:-1]):
        assert not key.verifies(CURVE_SIGNED, other)


@pytest.mark.parametrize("document", [b"", b"{}", b"[]", b'{"keys": {}}', b"<html>", b"[" * 5000])
def test_what_is_no_set_of_keys_is_an_error_and_no_empty_set(document: bytes) -> None:
    with pytest.raises(UnreadableKeysError):
        read_keys(document)


CLAIMS = {"iss": "i", "azp": "c", "exp": 1.5, "sub": "s"}


def test_a_token_is_taken_apart() -> None:
    text = OURS.token({**CLAIMS, "realm_access": {"roles": ["a", "b"]}})
    token = take_apart(Secret(text))
    assert token is not None
    assert (token.kid, token.algorithm) == ("first", "RS256")
    assert (token.claims.exp, token.claims.roles) == (1.5, frozenset("ab"))
    assert keys(OURS.jwk)["first"].verifies(token.signed, token.signature)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "..",
        "a.b.c",
        OURS.token(CLAIMS, alg="none"),
        OURS.token(CLAIMS, alg="HS256"),
        OURS.token(CLAIMS, alg="PS256"),
        ON_CURVE.token(CLAIMS, alg="ES512"),
        OURS.token(CLAIMS, alg="rs256"),
        OURS.token(CLAIMS, alg=["RS256"]),
        OURS.token(CLAIMS, kid=None),
        OURS.token(CLAIMS, crit=["b64"]),
        OURS.token({**CLAIMS, "exp": "1"}),
        OURS.token({**CLAIMS, "exp": True}),
        OURS.token({**CLAIMS, "iss": None}),
        OURS.token({"iss": "i", "azp": "c"}),
    ],
)
def test_what_the_realm_would_not_have_signed_is_no_token(text: str) -> None:
    assert take_apart(Secret(text)) is None


@given(st.text(alphabet="AZaz09_-.", max_size=60))
def test_no_text_raises(text: str) -> None:
    take_apart(Secret(text))


@pytest.mark.parametrize(
    "access", [None, 7, [], {}, {"roles": "admin"}, {"roles": ["a", 7]}, {"roles": {"a": 1}}]
)
def test_roles_that_are_no_list_of_texts_are_none(access: Any) -> None:
    token = take_apart(Secret(OURS.token({**CLAIMS, "realm_access": access})))
    assert token is not None
    assert token.claims.roles == frozenset()
