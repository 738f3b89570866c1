"""What is written of an object: all of it but secrets.

A value that was made up for the plan (`plan.unknown`) is told by its mark, wherever it stands.
"""

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from magicstick.plan.changes import ABSENT, Change, FieldChange
from magicstick.plan.unknown import ASSUMED, GENERATED, UID

MASK: Final = "(masked)"
MADE_UP: Final[Mapping[str, str]] = {GENERATED: "(generated)", UID: "(generated)", ASSUMED: "(assumed)"}
"""What is written in place of a value with a mark."""
SECRET_FIELDS: Final = ("data", "stringData")
SECRET_NAMES: Final = ("password", "secret", "token", "apikey", "accesskey", "privatekey", "credential")
"""Parts of names under which a text is taken for a secret, in lower case and without `-` and `_`."""
REFERENCES: Final = ("name", "ref", "key_ref", "keyref", "secretref")
"""Ends of names that only say where a secret is."""
REFERENCE: Final = ("secretRef", "SecretRef", "secretKeyRef")
"""Ends of names of whole objects that only say so."""


def masked(change: Change) -> Change:
    """The change without any secret in it."""
    secret = change.kind.kind == "Secret"
    fields = tuple(_field(each, secret=secret) for each in change.fields)
    return replace(change, body=_object(change.body, secret=secret), fields=fields)


def _object(body: Mapping[str, Any], *, secret: bool) -> Mapping[str, Any]:
    return {
        name: _all(value) if secret and name in SECRET_FIELDS else _value(name, value)
        for name, value in body.items()
    }


def _field(change: FieldChange, *, secret: bool) -> FieldChange:
    top = change.path.split(".")[0]
    hide = _all if secret and top in SECRET_FIELDS else lambda value: _value(_last(change.path), value)
    before, after = (each if each is ABSENT else hide(each) for each in (change.before, change.after))
    return replace(change, before=before, after=after)


def _last(path: str) -> str:
    return path.rpartition(".")[2].partition("[")[0]


def _value(name: str, value: Any) -> Any:
    """What stands under this name."""
    if isinstance(value, Mapping):
        if name.endswith(REFERENCE) and "name" in value:
            return _reference(value)
        return {key: _value(_name_of(key, value), below) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return [_value(name, item) for item in value]
    if not isinstance(value, str):
        return value
    return _made_up(value) or (MASK if value and _is_secret(name) else value)


def _reference(value: Any) -> Any:
    """What says in which Secret something is, and under which keys: only what is made up is told as such."""
    if isinstance(value, Mapping):
        return {key: _reference(below) for key, below in value.items()}
    return _made_up(value) or value if isinstance(value, str) else value


def _name_of(key: str, parent: Mapping[str, Any]) -> str:
    """The `value` of a variable stands for the variable's own name."""
    name = parent.get("name")
    return name if key == "value" and isinstance(name, str) else key


def _is_secret(name: str) -> bool:
    plain = name.lower().replace("-", "").replace("_", "")
    return any(part in plain for part in SECRET_NAMES) and not plain.endswith(REFERENCES)


def _all(value: Any) -> Any:
    return (
        {name: _hidden(below) for name, below in value.items()}
        if isinstance(value, Mapping)
        else _hidden(value)
    )


def _hidden(value: Any) -> str:
    """A value of a Secret, encoded or in clear."""
    return (_made_up(value) or _made_up(_decoded(value)) or MASK) if isinstance(value, str) else MASK


def _made_up(text: str) -> str:
    """What stands for a value that has a mark; "" for any other."""
    return next((word for mark, word in MADE_UP.items() if mark in text), "")


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError:
        return ""
