"""The one place where kubernetes-asyncio is entered, without its generated models.

Its packages import thousands of generated classes from their `__init__` (110 MiB, 1.3 s), of which the
configuration needs none. Here the packages are made known without running those files; what is
imported from them afterwards loads only itself. A process that imported the library in the ordinary
way before is left as it is. Whoever imports it after this finds the packages without the names that
their `__init__` would have given them.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubernetes_asyncio.client.configuration import Configuration

NAME = "kubernetes_asyncio"


def enter() -> "type[Configuration]":
    """Make `kubernetes_asyncio.config` importable cheaply; the library's `Configuration` class."""
    if NAME not in sys.modules:
        _enter_packages()
    from kubernetes_asyncio.client.configuration import Configuration  # noqa: PLC0415 # only from here on

    return Configuration


def _enter_packages() -> None:
    spec = importlib.util.find_spec(NAME)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{NAME} is not installed")
    root = Path(spec.origin).parent
    package = _package(NAME, root)
    client = _package(f"{NAME}.client", root / "client")
    models = _package(f"{NAME}.client.models", root / "client" / "models")
    setattr(package, "client", client)  # noqa: B010 # attributes that the modules' type does not know
    setattr(client, "models", models)  # noqa: B010 # see above

    # `kubernetes_asyncio.config` asks `client` for two names. One is used; the other stands in functions
    # that make an API client, none of which is called here, and would bring the generated code's helpers.
    from kubernetes_asyncio.client.configuration import Configuration  # noqa: PLC0415 # only from here on

    setattr(client, "Configuration", Configuration)  # noqa: B010 # see above
    setattr(client, "ApiClient", _NoApiClient)  # noqa: B010 # see above


class _NoApiClient:
    """In place of the library's `ApiClient`."""

    def __init__(self, *_: object, **__: object) -> None:
        raise NotImplementedError(f"{NAME} was entered for its configuration only (magicstick.kube.library)")


def _package(name: str, location: Path) -> ModuleType:
    """Make a package known whose `__init__` does not run."""
    module = ModuleType(name)
    module.__path__ = [str(location)]
    sys.modules[name] = module
    return module
