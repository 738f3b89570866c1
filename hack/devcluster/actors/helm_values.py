"""The values of a HelmRelease: what `valuesFrom` names, in order, and its own over them."""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from hack.bare import BareClient
from hack.devcluster.actors.following import Object
from hack.devcluster.actors.releases import NotYetError

MASK: Final = "***"
SHORT: Final = 4
"""Below so many characters a secret text is hidden only where it stands as a word of its own."""


@dataclass(frozen=True, slots=True)
class Values:
    """What a chart is given.

    Attributes:
        secrets: every text that came out of a Secret; none of them may be shown.
    """

    content: Object
    secrets: frozenset[str] = frozenset()

    def hide(self, text: str) -> str:
        """The text without anything that came out of a Secret, however it is written there."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            for form in _forms(secret):
                escaped = re.escape(form)
                pattern = escaped if len(form) >= SHORT else rf"(?<!\w){escaped}(?!\w)"
                text = re.sub(pattern, MASK, text)
        return text


async def values_of(release: Object, client: BareClient) -> Values:
    """All values of a release.

    Raises:
        NotYetError: something that is named is not there, or cannot be read.
    """
    content, secrets = dict[str, Any](), set[str]()
    for reference in release["spec"].get("valuesFrom", []):
        text = await _text(release, reference, client)
        if text is None:
            continue
        found = _read(reference, text)
        if reference["kind"] == "Secret":
            secrets.update(_texts(found))
        content = merged(content, found)
    return Values(merged(content, release["spec"].get("values") or {}), frozenset(secrets))


def merged(below: Object, above: Object) -> dict[str, Any]:
    """Values over others: maps are merged, anything else is replaced."""
    both = {
        key: merged(below[key], above[key])
        for key in below.keys() & above.keys()
        if isinstance(below[key], Mapping) and isinstance(above[key], Mapping)
    }
    return {**below, **above, **both}


async def _text(release: Object, reference: Object, client: BareClient) -> str | None:
    kind, name = reference["kind"], reference["name"]
    path = f"/api/v1/namespaces/{release['metadata']['namespace']}/{kind.lower()}s/{name}"
    found = await client.find(path)
    content = (found or {}).get("data", {}).get(reference.get("valuesKey", "values.yaml"))
    if content is None:
        if reference.get("optional"):
            return None
        raise NotYetError("ValuesError", f"could not resolve {kind} chart values reference '{name}'")
    try:
        return base64.b64decode(content).decode() if kind == "Secret" else str(content)
    except ValueError:
        raise NotYetError("ValuesError", f"values of {kind} '{name}' are no text") from None


def _read(reference: Object, text: str) -> Object:
    """What a key of `valuesFrom` says, at its place."""
    if path := reference.get("targetPath"):
        found: Object = {}
        for step in reversed(path.split(".")):
            found = {step: found or text}
        return found
    name, kind = reference["name"], reference["kind"]
    try:
        values = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        # The parser quotes what it could not read.
        why = f": {error}" if kind != "Secret" else ""
        raise NotYetError("ValuesError", f"unable to read values of '{name}'{why}") from None
    if not isinstance(values, Mapping):
        raise NotYetError("ValuesError", f"values of '{name}' are no map")
    return values


def _texts(value: object) -> Iterator[str]:
    """Every text in values; numbers as they are written."""
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif value is not None and not isinstance(value, bool) and str(value).strip():
        yield str(value)
        yield from (line.strip() for line in str(value).splitlines() if line.strip())


def _forms(secret: str) -> tuple[str, ...]:
    """How a text may be written by Helm, the longest first."""
    encoded = base64.b64encode(secret.encode()).decode()
    forms = {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], encoded}
    return tuple(sorted(forms, key=len, reverse=True))
