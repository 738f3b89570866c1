"""What a UI keeps secret, generated once (spec: palena §6.3, §10)."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from magicstick.palena.common.addresses import CLUSTER_DOMAIN, service_host
from magicstick.palena.common.secrets import Maker, SecretRecipe, Values
from magicstick.palena.ui.names import LIBRECHAT, MONGODB_PORT, Names

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

GENERATED: Final[Mapping[str, Maker]] = {
    CREDS_KEY: lambda entropy: entropy.hex(64),
    CREDS_IV: lambda entropy: entropy.hex(32),
    JWT_SECRET: lambda entropy: entropy.hex(64),
    JWT_REFRESH_SECRET: lambda entropy: entropy.hex(64),
    MEILI_MASTER_KEY: lambda entropy: entropy.alphanumeric(32),
    OPENID_SESSION_SECRET: lambda entropy: entropy.hex(64),
    MONGO_ROOT_USERNAME: lambda _: MONGO_USER,
    MONGO_ROOT_PASSWORD: lambda entropy: entropy.alphanumeric(32),
}
VITAL: Final = frozenset({CREDS_KEY, CREDS_IV, MONGO_ROOT_USERNAME, MONGO_ROOT_PASSWORD})
"""What LibreChat's data can only be opened with: the keys that it encrypts with, and MongoDB's user."""


def recipe(names: Names, namespace: str, domain: str = CLUSTER_DOMAIN) -> SecretRecipe:
    """The Secret of everything that is generated for a UI."""
    host = service_host(names.mongodb, namespace, domain)

    def derived(values: Values) -> Values:
        uri = mongo_uri(values[MONGO_ROOT_USERNAME], values[MONGO_ROOT_PASSWORD], host, MONGODB_PORT)
        return {MONGO_URI: uri}

    return SecretRecipe(names.secrets, LIBRECHAT, GENERATED, derived, vital=VITAL)


def mongo_uri(user: str, password: str, host: str, port: int) -> str:
    """The address of MongoDB, whose users are all kept in its database `admin`."""
    login = f"{quote(user, safe='')}:{quote(password, safe='')}"
    return f"mongodb://{login}@{host}:{port}/{MONGO_DATABASE}?authSource=admin"
