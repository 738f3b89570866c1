"""Instances as the API server has them now, over the guard's own connections.

One is read for almost every question, so that it counts what a read costs; whatever else is read of the
cluster goes through its client. What follows an answer is the same as there: credentials that are refused are
read anew, once, and errors mean what they mean to everybody.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from magicstick.access_guard.connections import Connections, NoAnswerError, Reply, Target, request_bytes
from magicstick.access_guard.policy import InstanceView
from magicstick.api.kinds import APP_INSTANCE
from magicstick.kube.config import ClusterConfig
from magicstick.kube.errors import Unavailable
from magicstick.kube.kinds import ObjectKey
from magicstick.kube.responses import error_of
from magicstick.kube.wire import decode, decoder_of

ATTEMPTS: Final = 2
NO_HEADERS: Final[Mapping[str, str]] = {}
"""Nobody waits for as long as a server wishes: the answer to the question is no."""


class InstanceReader:
    """See the module. `aclose` ends its connections.

    Assumes that the server is reached without a proxy.
    """

    def __init__(self, config: ClusterConfig, most: int, user_agent: str) -> None:
        self._config = config
        self._connections = Connections(most, tls=lambda: config.tls, server_name=lambda: config.server_name)
        self._headers = {"Accept": "application/json", "User-Agent": user_agent}

    async def aclose(self) -> None:
        """End all connections."""
        self._connections.close()

    async def read(self, key: ObjectKey) -> InstanceView:
        """One instance.

        Raises:
            NotFound: it does not exist.
            ApiError: it could not be read.
        """
        target = Target.of(self._config.url + APP_INSTANCE.path(key.namespace, key.name))
        reply = await self._exchange(target, await self._config.authorization())
        if reply.status == HTTPStatus.UNAUTHORIZED:
            reply = await self._exchange(target, await self._config.authorization(refused=True))
        if reply.status != HTTPStatus.OK:
            raise error_of(reply.status, NO_HEADERS, reply.body, collection=False)
        return decode(decoder_of(InstanceView), reply.body)

    async def _exchange(self, target: Target, authorization: str | None) -> Reply:
        own = {"Authorization": authorization} if authorization else {}
        request = request_bytes("GET", target, {**self._headers, **own})
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._connections.exchange(target.origin, request)
            except (NoAnswerError, OSError) as error:
                if attempt == ATTEMPTS:
                    raise Unavailable(f"GET {target.path}: {type(error).__name__}") from None
        raise AssertionError("unreachable: the last attempt returns or raises")
