"""What travels between server and client, and its way from bytes into views.

The server stores objects nested ten thousand levels deep, and the decoder gives up at about a thousand.
Such an object must not hide its neighbours in a list or a watch: it is read without what lies below
`MAX_DEPTH` levels, where no field of any schema is. Nor must one that is older than its kind's schema, and
whose spec, status or data is no object: it is read as if it had none.
"""

import re
from collections.abc import Iterator
from typing import Any, Generic, TypeVar, cast

import msgspec

from magicstick.kube.errors import ApiError, Unreadable
from magicstick.kube.objects import MetadataOnly, View
from magicstick.kube.responses import Status, of_status

V = TypeVar("V", bound=View)
T = TypeVar("T")

BOOKMARK = "BOOKMARK"
ERROR = "ERROR"
MAX_DEPTH = 200
PARTS = ("spec", "status", "data")
"""Of every object that has them they are objects."""
_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]')


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """`metadata` of a list."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class ListPage(msgspec.Struct, Generic[V], frozen=True):
    """One page of a list."""

    metadata: ListMeta
    items: list[V]

    @property
    def resource_version(self) -> str:
        """The version of the whole list, the same on every page."""
        return self.metadata.resource_version


class WatchEvent(msgspec.Struct, Generic[V], frozen=True):
    """ADDED, MODIFIED, DELETED or BOOKMARK, with the object in the reader's view.

    Of a bookmark only the metadata says anything: its object has no content, and where that does not
    fit the view (lists that are null) it is `MetadataOnly`.
    """

    type: str
    object: V


class _ErrorEvent(msgspec.Struct, frozen=True):
    object: Status


class _EventType(msgspec.Struct, frozen=True):
    type: str


_encode = msgspec.json.Encoder().encode
_NOT_YAML = re.compile(
    # DEL and C1 controls, line and paragraph separator, byte order mark, U+FFFE and U+FFFF, in UTF-8
    rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]|\xef\xbb\xbf|\xef\xbf[\xbe\xbf]"
)
_error_event = msgspec.json.Decoder(_ErrorEvent)
_metadata_event = msgspec.json.Decoder(WatchEvent[MetadataOnly])
_event_type = msgspec.json.Decoder(_EventType)
_decoders: dict[object, msgspec.json.Decoder[Any]] = {}


def decoder_of(type_: type[T]) -> msgspec.json.Decoder[T]:
    """The decoder of a type; built once."""
    found = _decoders.get(type_)
    if found is None:
        found = _decoders[type_] = msgspec.json.Decoder(type_)
    return found


def encode(body: object) -> bytes:
    """A body as JSON that is YAML as well, since the server reads an apply as YAML.

    YAML refuses some characters that JSON allows, or takes them for line breaks; escaped, both read them
    alike.
    """
    text = _encode(body)
    if text.isascii() and b"\x7f" not in text:  # nearly always, and told in no time
        return text
    return _NOT_YAML.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), text)


def decode(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Decode an answer.

    Raises:
        Unreadable: it is no JSON, or does not fit the view. The text names the place, not the value.
    """
    try:
        return _decode(decoder, body)
    except msgspec.DecodeError as error:
        raise Unreadable(f"the answer cannot be read: {error}") from error


def decode_event(decoder: msgspec.json.Decoder[WatchEvent[V]], line: bytes) -> WatchEvent[V]:
    """Decode one line of a watch.

    Raises:
        ApiError: the event is an ERROR, and this its meaning.
        Unreadable: as `decode`.
    """
    try:
        event = _decode(decoder, line)
    except msgspec.DecodeError as error:
        # Neither a Status nor the empty object of a bookmark needs to fit the view.
        bookmark = _bookmark_in(line)
        if bookmark is not None:
            return cast("WatchEvent[V]", bookmark)
        raise _error_in(line) or Unreadable(f"the event cannot be read: {error}") from error
    if event.type == ERROR:
        raise _error_in(line) or Unreadable("an ERROR event without a Status")
    return event


def _bookmark_in(line: bytes) -> WatchEvent[MetadataOnly] | None:
    """A BOOKMARK event; None for any other line."""
    try:
        event = _metadata_event.decode(line)
    except msgspec.DecodeError:
        return None
    return event if event.type == BOOKMARK else None


def _error_in(line: bytes) -> ApiError | None:
    """The meaning of an ERROR event; None for any other line."""
    try:
        if _event_type.decode(line).type != ERROR:
            return None
        return of_status(0, {}, _error_event.decode(line).object, collection=True)
    except msgspec.DecodeError:
        return None


def _decode(decoder: msgspec.json.Decoder[T], text: bytes) -> T:
    try:
        return decoder.decode(text)
    except RecursionError:
        return _decode(decoder, shallow(text))
    except msgspec.ValidationError:
        formed = _formed(text)
        if formed is None:
            raise
        return decoder.decode(formed)


def _formed(text: bytes) -> bytes | None:
    """A list or an event without parts that have another form than every object's; None where there are none.

    One strange object is not to hide the others of its kind. Who asks for one object gets the error: what
    an object without content means is not what was asked.
    """
    answer = msgspec.json.decode(shallow(text))
    if not isinstance(answer, dict):
        return None
    listed = answer.get("items")
    objects = [answer.get("object"), *(listed if isinstance(listed, list) else ())]
    strange = [
        (each, part)
        for each in objects
        if isinstance(each, dict)
        for part in PARTS
        if part in each and not isinstance(each[part], dict)
    ]
    for each, part in strange:
        del each[part]
    return msgspec.json.encode(answer) if strange else None


def shallow(text: bytes, depth: int = MAX_DEPTH) -> bytes:
    """The JSON text with null in place of every object and array below `depth` levels."""
    parts: list[bytes] = []
    level = start = 0
    for token in _STRING_OR_BRACKET.finditer(text):
        if token[0] in (b"{", b"["):
            if level == depth:
                parts += text[start : token.start()], b"null"
            level += 1
        elif token[0] in (b"}", b"]"):
            level -= 1
            if level == depth:
                start = token.end()
    parts.append(text[start:])
    return b"".join(parts)


class LineSplitter:
    """Lines out of chunks, however long the lines are and however the network cuts them.

    A line that never ends is never given: its event comes again after a reconnect.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that this chunk completes, without line breaks; empty ones are left out."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            line = chunk[start:end]
            if self._parts:
                line = b"".join((*self._parts, line))
                self._parts.clear()
            start = end + 1
            if line:
                yield line
        if start < len(chunk):
            self._parts.append(chunk[start:])
