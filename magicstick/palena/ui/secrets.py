"""What a UI keeps secret, generated once (spec: palena §6.3, §10)."""

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote

Random = Callable[[int], str]

CREDS_KEY: Final = "CREDS_KEY"
CREDS_IV: Final = "CREDS_IV"
JWT_SECRET: Final = "JWT_SECRET"  # noqa: S105 - the name of a key, as those below
JWT_REFRESH_SECRET: Final = "JWT_REFRESH_SECRET"  # noqa: S105
MEILI_MASTER_KEY: Final = "MEILI_MASTER_KEY"
OPENID_SESSION_SECRET: Final = "OPENID_SESSION_SECRET"  # noqa: S105
MONGO_ROOT_USERNAME: Final = "MONGO_ROOT_USERNAME"
MONGO_ROOT_PASSWORD: Final = "MONGO_ROOT_PASSWORD"  # noqa: S105
MONGO_URI: Final = "MONGO_URI"

MONGO_USER: Final = "librechat"
MONGO_DATABASE: Final = "LibreChat"


def mongo_uri(user: str, password: str, host: str, port: int) -> str:
    """The address of MongoDB, whose users are all kept in its database `admin`."""
    login = f"{quote(user, safe='')}:{quote(password, safe='')}"
    return f"mongodb://{login}@{host}:{port}/{MONGO_DATABASE}?authSource=admin"


def generated(hexadecimal: Random, alphanumeric: Random) -> Mapping[str, Callable[[], str]]:
    """How each key that is random comes about; lengths are in characters."""
    return {
        CREDS_KEY: lambda: hexadecimal(64),
        CREDS_IV: lambda: hexadecimal(32),
        JWT_SECRET: lambda: hexadecimal(64),
        JWT_REFRESH_SECRET: lambda: hexadecimal(64),
        MEILI_MASTER_KEY: lambda: alphanumeric(32),
        OPENID_SESSION_SECRET: lambda: hexadecimal(64),
        MONGO_ROOT_USERNAME: lambda: MONGO_USER,
        MONGO_ROOT_PASSWORD: lambda: alphanumeric(32),
    }
