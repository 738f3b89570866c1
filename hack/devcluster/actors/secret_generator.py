"""Stands in for kubernetes-secret-generator (mittwald): fills the missing keys of annotated Secrets.

Annotations of a Secret, with the prefix `secret-generator.v1.mittwald.de/`:

- `autogenerate: KEY,KEY2` names the keys to fill; keys that are there stay as they are;
- `encoding: hex` takes hexadecimal digits; without, base64;
- `length` is the number of characters, 40 without.

It acts from the start, whether the module `basis` has brought the real one or not, and knows neither
`regenerate` nor types of Secrets other than strings. Values are never logged.
"""

import base64
import json
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from hack.bare import BareClient
from hack.devcluster.actors.following import Collection, Key, Object, Workers, in_background, key_of

PREFIX: Final = "secret-generator.v1.mittwald.de"
LENGTH: Final = 40


def missing_keys(secret: Object) -> list[str]:
    """The keys that the annotations ask for and that are absent or empty."""
    asked = secret["metadata"].get("annotations", {}).get(f"{PREFIX}/autogenerate", "")
    data = secret.get("data") or {}
    return [key for each in asked.split(",") if (key := each.strip()) and not data.get(key)]


def generated(secret: Object, random_bytes: Callable[[int], bytes]) -> str:
    """A new value, as the annotations want it."""
    annotations = secret["metadata"].get("annotations", {})
    length = int(annotations.get(f"{PREFIX}/length", LENGTH))
    if annotations.get(f"{PREFIX}/encoding") == "hex":
        return random_bytes(length).hex()[:length]
    return base64.b64encode(random_bytes(length)).decode()[:length]


class SecretGenerator:
    """Acts on all Secrets of a cluster until cancelled."""

    def __init__(
        self, client: BareClient, *, random_bytes: Callable[[int], bytes] = secrets.token_bytes
    ) -> None:
        self._client = client
        self._random_bytes = random_bytes
        self._workers = Workers(self._fill)
        self._known = Collection(client, "/api/v1/secrets", self._see)

    async def run(self) -> None:
        """Follow the Secrets. Never returns."""
        await self._workers.run(self._known.follow())

    @asynccontextmanager
    async def running(self) -> AsyncIterator["SecretGenerator"]:
        """Run in the background within the block."""
        async with in_background(self.run()):
            yield self

    def _see(self, _: str, secret: Object) -> None:
        if missing_keys(secret):
            self._workers.wake(key_of(secret))

    async def _fill(self, key: Key) -> None:
        secret = self._known.items.get(key)
        if secret is None or "deletionTimestamp" in secret["metadata"]:
            return
        wanted = missing_keys(secret)
        if not wanted:
            return
        values = {each: generated(secret, self._random_bytes).encode() for each in wanted}
        body = {
            # With the version: what somebody else has put there meanwhile is not overwritten.
            "metadata": {"resourceVersion": secret["metadata"]["resourceVersion"]},
            "data": {each: base64.b64encode(value).decode() for each, value in values.items()},
        }
        namespace, name = key
        answer = await self._client.merge(f"/api/v1/namespaces/{namespace}/secrets/{name}", body)
        self._known.put(json.loads(answer))
