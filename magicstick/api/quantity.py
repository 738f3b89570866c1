"""Kubernetes quantities: exact values, MiB, and the spelling that an API server would store.

The grammar is that of `k8s.io/apimachinery/pkg/api/resource` (spec: models §5)::

    quantity = [sign] number [suffix]
    number   = digits | digits "." digits | digits "." | "." digits      (ASCII digits alone)
    suffix   = Ki | Mi | Gi | Ti | Pi | Ei                               (powers of 1024)
             | n | u | m | k | M | G | T | P | E                         (powers of 1000)
             | (e | E) [sign] digits                                     (decimal exponent)

`M` is therefore 10^6 and never MiB, a lone `E` is exa, and blanks, underscores, other units and
other alphabets' digits are errors. So is a suffix without a number, which the API server's parser
takes for zero against its own grammar; it also trims blanks. Values are exact rationals; nothing
passes through a float.
"""

import math
import re
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Final

MAX_LENGTH: Final = 64
"""No longer text is read: a quantity that needs more is a mistake, and big numbers cost time."""

MAX_EXPONENT: Final = 64
"""No larger decimal exponent is read, for the same reason."""

MAX_MI: Final = 2**30
"""The largest amount of memory taken seriously, in MiB: one pebibyte."""

_KI: Final = 2**10
_MI: Final = 2**20
_TEN: Final = Fraction(10)
_NANO: Final = 10**9
_MAX_BINARY: Final = Fraction(2**63 - 1)
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIX: Final = {0: ""} | {power: suffix for suffix, power in _BINARY.items()}
_DECIMAL_SUFFIX: Final = {power: suffix for suffix, power in _DECIMAL.items()}
_LEAST_EXPONENT: Final = -9
_GREATEST_EXPONENT: Final = 18

_QUANTITY: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<number>[0-9]+\.?[0-9]*|\.[0-9]+)"
    r"(?:(?P<binary>[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+)|(?P<decimal>[numkMGTPE]?))"
)
_BARE_DIGITS: Final = re.compile(r"[0-9]+")


class QuantityError(ValueError):
    """The text is no quantity, or none of the size asked for. The message says what is allowed."""


class Format(Enum):
    """The family of suffixes that a quantity was written with; its canonical form keeps it."""

    BINARY = "binary"
    DECIMAL = "decimal"
    EXPONENT = "exponent"


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount: its exact value, a multiple of 10^-9, and the family of suffixes to print it with."""

    value: Fraction
    format: Format = Format.DECIMAL

    def __str__(self) -> str:
        """The canonical form, as the API server prints it: `1.5Gi` is `1536Mi`, `1000m` is `1`.

        Some decimals it stores as they were spelled (`5.153P`, `1E3`), so quantities in objects are
        compared by value. The one difference here: a decimal above 999 exa keeps the suffix `E`, where
        the API server's formatting loses the magnitude.
        """
        if self.value == 0:
            return "0"
        if self.format is Format.BINARY and abs(self.value) >= _KI and self.value.denominator == 1:
            return _binary_text(self.value.numerator)
        return _decimal_text(self.value, exponents=self.format is Format.EXPONENT)


def parse(text: str) -> Quantity:
    """Read a quantity as the API server does.

    Fractions finer than 10^-9 are rounded away from zero to it, and binary quantities are capped at
    2^63 - 1, both as there.

    Raises:
        QuantityError: outside the grammar, longer than `MAX_LENGTH`, or with an exponent beyond
            `MAX_EXPONENT`.
    """
    match = _QUANTITY.fullmatch(text) if len(text) <= MAX_LENGTH else None
    if match is None:
        raise QuantityError("must be a Kubernetes quantity, for example 8Gi, 1.5Gi, 500M or 1e9")
    number = Fraction(match["number"] + "0" if match["number"].endswith(".") else match["number"])
    if match["sign"] == "-":
        number = -number
    if match["binary"]:
        return _binary(number * _KI ** _BINARY[match["binary"]])
    if match["exponent"] is None:
        return Quantity(_round_to_nano(number * _TEN ** _DECIMAL[match["decimal"]]))
    exponent = int(match["exponent"])
    if abs(exponent) > MAX_EXPONENT:
        raise QuantityError(f"must not have an exponent beyond {MAX_EXPONENT}")
    return Quantity(_round_to_nano(number * _TEN**exponent), Format.EXPONENT)


def to_mi(text: str) -> int:
    """The whole MiB that hold the quantity `text` of bytes, rounded up: 1 to `MAX_MI`.

    Raises:
        QuantityError: no quantity, not above zero, or above `MAX_MI`.
    """
    return _checked_mi(math.ceil(parse(text).value / _MI))


def vram_mi(text: str) -> int:
    """The MiB that a `vram` field asks for: like `to_mi`, but bare digits are MiB already.

    So `12000` is 12000 MiB, while `12000M` and `12e9` are bytes.

    Raises:
        QuantityError: no quantity, not above zero, or above `MAX_MI`.
    """
    if len(text) <= MAX_LENGTH and _BARE_DIGITS.fullmatch(text):
        return _checked_mi(int(text))
    return to_mi(text)


def _checked_mi(mebibytes: int) -> int:
    if not 0 < mebibytes <= MAX_MI:
        raise QuantityError(f"must be more than 0 and at most {MAX_MI} MiB")
    return mebibytes


def _binary(value: Fraction) -> Quantity:
    """The API server caps binary quantities, and only those."""
    return Quantity(max(-_MAX_BINARY, min(_MAX_BINARY, _round_to_nano(value))), Format.BINARY)


def _round_to_nano(value: Fraction) -> Fraction:
    """Away from zero: who asks for something gets something."""
    nanos = math.ceil(abs(value) * _NANO)
    return Fraction(nanos if value >= 0 else -nanos, _NANO)


def _binary_text(number: int) -> str:
    power = 0
    while number % _KI == 0 and power < max(_BINARY_SUFFIX):
        number //= _KI
        power += 1
    return f"{number}{_BINARY_SUFFIX[power]}"


def _decimal_text(value: Fraction, *, exponents: bool) -> str:
    """The largest power of 1000 that leaves a whole number, as a suffix or as `e<power>`."""
    number, exponent = (value * _NANO).numerator, _LEAST_EXPONENT
    while number % 1000 == 0 and (exponents or exponent < _GREATEST_EXPONENT):
        number //= 1000
        exponent += 3
    if not exponents:
        return f"{number}{_DECIMAL_SUFFIX[exponent]}"
    return f"{number}e{exponent}" if exponent else str(number)
