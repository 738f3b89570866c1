"""The composition root of `magicstick access-guard`: who is asked, and where questions are answered."""

import contextlib

import anyio
import structlog

from magicstick import __version__
from magicstick.access_guard.directory import Directory, Place
from magicstick.access_guard.guard import AT_A_TIME, Guard
from magicstick.access_guard.instances import InstanceReader
from magicstick.access_guard.keys import SigningKeys
from magicstick.access_guard.metrics import GuardMetrics
from magicstick.access_guard.policy import InstanceView
from magicstick.access_guard.principals import Expected, Principals
from magicstick.access_guard.provider import Provider
from magicstick.access_guard.server import serve_questions
from magicstick.access_guard.settings import GuardSettings
from magicstick.access_guard.sources import LiveSources
from magicstick.api.kinds import APP_INSTANCE
from magicstick.kube.client import Client
from magicstick.kube.config import ClusterConfig
from magicstick.kube.errors import FenceClosed
from magicstick.kube.kinds import ObjectKey
from magicstick.runtime.clock import Clock, SystemClock
from magicstick.runtime.health import serve_metrics

log = structlog.get_logger(__name__)

NAME = "magicstick-access-guard"


class AccessGuard:
    """One process. `run` returns only by cancellation; `started` is set once `url` is answered."""

    def __init__(
        self,
        settings: GuardSettings,
        config: ClusterConfig,
        *,
        clock: Clock | None = None,
        user_agent: str = f"{NAME}/{__version__}",
    ) -> None:
        self.settings = settings
        self.metrics = GuardMetrics()
        self.started = anyio.Event()
        self.url = ""
        clock = clock or SystemClock()
        self._client = Client(config, user_agent=user_agent, field_manager=NAME, fence=_never)
        self._provider = Provider()
        keys = SigningKeys(self._provider, settings.oidc_jwks_url, clock)
        expected = Expected(settings.oidc_expected_issuer, settings.clients)
        principals = Principals(self._provider, keys, settings.oidc_userinfo_url, expected, clock)
        self._reader = InstanceReader(config, AT_A_TIME, user_agent)
        instances = self._reader.read if config.proxy is None else self._by_client
        sources = LiveSources(instances, settings.appliance_namespace, principals, self._directory(clock))
        self.guard = Guard(sources)

    async def _by_client(self, key: ObjectKey) -> InstanceView:
        """Read an instance through a proxy, which only the client knows how to ask."""
        return await self._client.get(APP_INSTANCE, key, view=InstanceView)

    def _directory(self, clock: Clock) -> Directory | None:
        settings = self.settings
        if not settings.has_directory:
            return None
        secret = ObjectKey(
            settings.keycloak_user_admin_secret_namespace, settings.keycloak_user_admin_secret_name
        )
        place = Place(settings.directory_url, settings.token_url, secret)
        cache_s = settings.guard_directory_cache_seconds
        return Directory(self._provider, self._client, place, clock, cache_s=cache_s)

    async def run(self) -> None:
        """Answer until cancelled; questions that were asked by then are still answered."""
        settings = self.settings
        async with (
            self._client,
            contextlib.aclosing(self._reader),
            self._provider,
            self.guard,
            serve_metrics(settings.metrics_bind_address, self.metrics.render) as metrics,
            serve_questions(settings.guard_bind_address, self.guard, self.metrics.decided) as url,
        ):
            self.url = url
            log.info("started", version=__version__, questions=url, metrics=metrics)
            self.started.set()
            await anyio.sleep_forever()


def _never() -> None:
    """The fence of a process that writes nothing."""
    raise FenceClosed("the access guard writes nothing")
