"""Certificates for tests. Nobody has the keys of these authorities."""

import subprocess
from pathlib import Path

AUTHORITY = b"""-----BEGIN CERTIFICATE-----
MIIBizCCATGgAwIBAgIUQu6GtDYn7sm+IcM7Lt01m2kTm+QwCgYIKoZIzj0EAwIw
GjEYMBYGA1UEAwwPb25lLmV4YW1wbGUuY29tMCAXDTI2MTEzMDA3NTgyNloYDzIx
MjYxMTA2MDc1ODI2WjAaMRgwFgYDVQQDDA9vbmUuZXhhbXBsZS5jb20wWTATBgcq
hkjOPQIBBggqhkjOPQMBBwNCAATJooBm+cNRaAl4nkR6wuxsut2KYFv81gXChXtZ
TgzQR7jb+ktkQdPHSo/nNL/CEfcQSZZayg1nbRSIm7mhyWIVo1MwUTAdBgNVHQ4E
FgQU9LrOJDRjKOkhY1YcF/XdiL5xWKowHwYDVR0jBBgwFoAU9LrOJDRjKOkhY1Yc
F/XdiL5xWKowDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiEA8DDo
y5I6PACDTkc+QwzXWK0/Wpeqx8vBsOIzWHtUzxMCIDX3b9sUrW8VcgSF3DOqSIH6
06QOK7PLGSpNR/fpe6i9
-----END CERTIFICATE-----
"""

OTHER_AUTHORITY = b"""-----BEGIN CERTIFICATE-----
MIIBijCCATGgAwIBAgIUHwPEe9QpA86JsvNMKaHxlIJVZdowCgYIKoZIzj0EAwIw
GjEYMBYGA1UEAwwPdHdvLmV4YW1wbGUuY29tMCAXDTI2MTEzMDA3NTgyNloYDzIx
MjYxMTA2MDc1ODI2WjAaMRgwFgYDVQQDDA90d28uZXhhbXBsZS5jb20wWTATBgcq
hkjOPQIBBggqhkjOPQMBBwNCAASL3/jFNBbRsSbvBRoHqqSjGpO+qfgg7DtLFU9P
gnz2pNJJ/Sw+t9KqQKpYyWMXyAwXyw9+kPfJviP86AXiJ1Eao1MwUTAdBgNVHQ4E
FgQUchUpBla4QU1Putluow5YDqyFBGkwHwYDVR0jBBgwFoAUchUpBla4QU1Putlu
ow5YDqyFBGkwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNHADBEAiBQGJ3Q
np1lhgVxHJTDMMas23hAWYXpnsIHaJedFyj+gwIgfIoASqMmJGZLRsOw2g/UVjs7
wkUx3cOQEIkJ7mYhEy4=
-----END CERTIFICATE-----
"""


def client_certificate(directory: Path, name: str = "client") -> tuple[Path, Path]:
    """A new self-signed certificate and its key, made with the `openssl` program."""
    certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(key))
    subprocess.run(
        ("openssl", "req", "-x509", *new_key, "-subj", f"/CN={name}", "-out", str(certificate)),
        check=True,
        capture_output=True,
    )
    return certificate, key
