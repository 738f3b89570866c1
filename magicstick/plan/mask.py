"""What is written of an object: all of it but secrets."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from magicstick.plan.changes import ABSENT, Change, FieldChange

MASK: Final = "(masked)"
SECRET_FIELDS: Final = ("data", "stringData")
SECRET_NAMES: Final = ("password", "secret", "token", "apikey", "accesskey", "privatekey", "credential")
"""Parts of names under which a text is taken for a secret, in lower case and without `-` and `_`."""
REFERENCES: Final = ("name", "ref", "key_ref", "keyref", "secretref")
"""Ends of names that only say where a secret is."""


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
        return {key: _value(_name_of(key, value), below) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return [_value(name, item) for item in value]
    return MASK if isinstance(value, str) and value and _is_secret(name) else value


def _name_of(key: str, parent: Mapping[str, Any]) -> str:
    """The `value` of a variable stands for the variable's own name."""
    name = parent.get("name")
    return name if key == "value" and isinstance(name, str) else key


def _is_secret(name: str) -> bool:
    plain = name.lower().replace("-", "").replace("_", "")
    return any(part in plain for part in SECRET_NAMES) and not plain.endswith(REFERENCES)


def _all(value: Any) -> Any:
    return dict.fromkeys(value, MASK) if isinstance(value, Mapping) else MASK
