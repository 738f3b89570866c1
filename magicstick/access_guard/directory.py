"""People and groups as Keycloak has them at this moment (spec: companions §2.4).

Guarantees: nothing of people or groups is kept, unless `cache_s` says for how long; whatever is odd in an
answer makes the whole of it unusable. The Secret with our credentials is read anew for each new token.
"""

import asyncio
import binascii
from base64 import b64decode
from dataclasses import dataclass
from http import HTTPStatus
from math import inf
from typing import Final, TypeVar

import msgspec

from magicstick.access_guard.decide import ABSENT, Absent, Person
from magicstick.access_guard.identifiers import is_askable
from magicstick.access_guard.provider import Answer, IdentityUnavailableError, Provider
from magicstick.access_guard.sharing import Remembered
from magicstick.kube.client import Client
from magicstick.kube.errors import NotFound
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import ObjectMeta
from magicstick.runtime.clock import Clock

T = TypeVar("T")

PAGE: Final = 100
MOST_DIRECT: Final = 10_000
MOST_GROUPS: Final = 1000
RENEWED_BEFORE_S: Final = 15.0
CREDENTIALS: Final = {"client_id": "client-id", "client_secret": "client-secret"}
"""The fields of the request for a token, and the keys of the Secret that they are in."""
MOST_KEPT: Final = 10_000
SERVICE_ACCOUNT: Final = "service-account-"
SECRET: Final = Kind("", "v1", "Secret", "secrets")


@dataclass(frozen=True, slots=True)
class Place:
    """Where Keycloak is asked, and where the credentials for that are."""

    admin_url: str
    token_url: str
    secret: ObjectKey


class _SecretView(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    data: dict[str, str] = {}


class _Grant(msgspec.Struct, frozen=True):
    access_token: str
    expires_in: float


class _User(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    enabled: bool
    username: str = ""
    service_account_client_id: str | None = None


class _Role(msgspec.Struct, frozen=True):
    name: str


class _Group(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    parent_id: str | None = None


class Directory:
    """See the module."""

    def __init__(
        self, provider: Provider, client: Client, place: Place, clock: Clock, *, cache_s: float = 0.0
    ) -> None:
        self._provider, self._place = provider, place
        self._cache_s = cache_s
        self._access = _Access(provider, client, place, clock)
        self._people: Remembered[str, Person] = Remembered(clock, MOST_KEPT)
        self._groups: Remembered[tuple[str, frozenset[str]], frozenset[str]] = Remembered(clock, MOST_KEPT)

    async def person(self, subject: str) -> Person | Absent:
        """Somebody, with the roles in effect; ABSENT where the directory has nobody of this identifier.

        Raises:
            IdentityUnavailableError: the directory could not tell.
            ApiError: the credentials could not be read.
        """
        kept = self._people.get(subject)
        if kept is not None:
            return kept
        answers = await asyncio.gather(
            self._read(f"/users/{subject}", _User),
            self._read(f"/users/{subject}/role-mappings/realm/composite", list[_Role]),
            return_exceptions=True,  # so that neither question outlives the other's failure
        )
        user, roles = _sound(answers[0]), _sound(answers[1])
        if user is None or roles is None:
            return ABSENT
        service = bool(user.service_account_client_id) or user.username.startswith(SERVICE_ACCOUNT)
        names = frozenset(role.name for role in roles)
        person = Person(user.id, user.enabled, service, names)
        self._people.put(subject, person, self._cache_s)
        return person

    async def groups(self, subject: str, wanted: frozenset[str]) -> frozenset[str]:
        """The groups somebody is in, with those above them, as far up as it takes to find a wanted one.

        Raises:
            IdentityUnavailableError: the directory could not tell.
            ApiError: the credentials could not be read.
        """
        kept = self._groups.get((subject, wanted))
        if kept is not None:
            return kept
        found = level = await self._direct(subject)
        while level and not found & wanted:
            if len(found) > MOST_GROUPS:
                raise IdentityUnavailableError(f"somebody is in more than {MOST_GROUPS} groups")
            questions = (self._parent(group) for group in sorted(level))
            parents = await asyncio.gather(*questions, return_exceptions=True)
            level = frozenset(map(_sound, parents)) - {""} - found
            found |= level
        self._groups.put((subject, wanted), found, self._cache_s)
        return found

    async def _read(self, path: str, type_: type[T]) -> T | None:
        """What is there; None where nothing is."""
        answer = await self._ask(path)
        return None if answer.status == HTTPStatus.NOT_FOUND else answer.read(type_, "a user")

    async def _direct(self, subject: str) -> frozenset[str]:
        """The groups somebody was put into."""
        found: set[str] = set()
        for first in range(0, MOST_DIRECT, PAGE):
            path = f"/users/{subject}/groups?briefRepresentation=true&first={first}&max={PAGE}"
            page = (await self._ask(path)).read(list[_Group], "a user's groups")
            found |= {_checked(group.id) for group in page}
            if len(page) < PAGE:
                return frozenset(found)
        raise IdentityUnavailableError(f"a user is in {MOST_DIRECT} groups or more")

    async def _parent(self, group: str) -> str:
        """The group above; "" for none."""
        detail = (await self._ask(f"/groups/{group}")).read(_Group, "a group")
        if detail.id != group:
            raise IdentityUnavailableError("a group is another one than was asked for")
        return _checked(detail.parent_id) if detail.parent_id else ""

    async def _ask(self, path: str) -> Answer:
        """One question; once more with a new token where ours is not accepted."""
        token = await self._access.token()
        answer = await self._provider.get(self._place.admin_url + path, token)
        if answer.status != HTTPStatus.UNAUTHORIZED:
            return answer
        self._access.refused(token)
        return await self._provider.get(self._place.admin_url + path, await self._access.token())


class _Access:
    """The token that we ask with, kept until shortly before its end."""

    def __init__(self, provider: Provider, client: Client, place: Place, clock: Clock) -> None:
        self._provider, self._client, self._place, self._clock = provider, client, place, clock
        self._token = ""
        self._good_until = -inf
        self._renewing = asyncio.Lock()

    async def token(self) -> str:
        """A token.

        Raises:
            IdentityUnavailableError: there is none to be had.
            ApiError: the credentials could not be read.
        """
        if self._clock.monotonic() >= self._good_until:
            async with self._renewing:  # whoever waited here finds what the first one got
                if self._clock.monotonic() >= self._good_until:
                    await self._renew()
        return self._token

    def refused(self, token: str) -> None:
        """Forget a token that was not accepted, if it is still the one in use."""
        if token == self._token:
            self._good_until = -inf

    async def _renew(self) -> None:
        asked = self._clock.monotonic()
        answer = await self._provider.post(
            self._place.token_url, {"grant_type": "client_credentials", **await self._credentials()}
        )
        grant = answer.read(_Grant, "our token")
        self._token = grant.access_token
        self._good_until = asked + grant.expires_in - RENEWED_BEFORE_S

    async def _credentials(self) -> dict[str, str]:
        try:
            data = (await self._client.get(SECRET, self._place.secret, view=_SecretView)).data
            return {
                "client_id": _decoded(data["client-id"]),
                "client_secret": _decoded(data["client-secret"]),
            }
        except (NotFound, KeyError, ValueError):
            raise IdentityUnavailableError(
                f"the Secret {self._place.secret} needs the keys client-id and client-secret"
            ) from None


def _sound(answer: T | BaseException) -> T:
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _decoded(value: str) -> str:
    try:
        return b64decode(value, validate=True).decode()
    except binascii.Error as error:
        raise ValueError("no base64") from error


def _checked(group: str) -> str:
    if not is_askable(group):
        raise IdentityUnavailableError("a group's identifier is not as it must be")
    return group
