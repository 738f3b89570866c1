"""The objects that a plan is asked for, checked as far as that needs no server."""

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, cast

import msgspec
from pydantic import JsonValue

from magicstick.api.crds import DEFINITIONS, Definition
from magicstick.api.kinds import GROUP, PALENA_GROUP
from magicstick.api.names import DNS_LABEL_LIMIT, DNS_SUBDOMAIN_LIMIT, is_dns_label, is_dns_subdomain
from magicstick.api.parse import InvalidSpec, parse
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import FullObjectMeta, OwnerReference, Resource
from magicstick.palena.common.secrets import SECRET
from magicstick.plan.documents import Body, Document, InputError
from magicstick.plan.schema import known_fields, unknown_fields, with_defaults

OWN: Final[Mapping[Kind, Definition]] = {each.kind: each for each in DEFINITIONS}
"""The appliance's kinds and Palena's."""
_LABEL: Final = f"lower-case letters, digits and '-', at most {DNS_LABEL_LIMIT} characters"
_NAMES: Final = f"lower-case letters, digits, '-' and '.', at most {DNS_SUBDOMAIN_LIMIT} characters"


@dataclass(frozen=True, slots=True)
class Given:
    """One object, as the server would store it."""

    kind: Kind
    key: ObjectKey
    body: Body
    origin: str

    @property
    def ours(self) -> bool:
        """Whether it is of a kind of ours, so that its plan is asked for; others are its surroundings."""
        return self.kind in OWN


@dataclass(frozen=True, slots=True)
class Checked:
    """What the documents are."""

    given: tuple[Given, ...]
    skipped: tuple[str, ...]
    """Documents of kinds that the operator does not read, as sentences."""


def check(documents: Iterable[Document], kinds: Iterable[Kind], namespace: str) -> Checked:
    """The objects of the documents.

    Args:
        documents: what was handed over.
        kinds: what the operator reads; objects of any other kind change nothing, and are skipped.
        namespace: where the appliance is: its kinds live there and nowhere else, and whatever of ours does
            not say where it is to live.

    Raises:
        InputError: with every problem, each with file, document, field, and what is allowed.
    """
    known = {(kind.api_version, kind.kind): kind for kind in (*kinds, *OWN)}
    given: dict[tuple[Kind, ObjectKey], Given] = {}
    problems: list[str] = []
    skipped: list[str] = []
    for document in documents:
        kind, why_not = _kind(document, known)
        if kind is None:
            (problems if why_not else skipped).append(f"{document.origin}: {why_not or _unread(document)}")
            continue
        found = [*_problems(document.body, kind, namespace)]
        problems += [f"{document.origin}: {problem}" for problem in found]
        if found:
            continue
        each = _given(document, kind, namespace)
        other = given.setdefault((kind, each.key), each)
        if other is not each:
            problems.append(f"{each.origin}: {kind.kind} {each.key} stands in {other.origin} already")
    if problems:
        raise InputError(problems)
    return Checked(tuple(given.values()), tuple(skipped))


def _kind(document: Document, known: Mapping[tuple[str, str], Kind]) -> tuple[Kind | None, str]:
    """The kind; else what is wrong, "" where the kind is none that the operator reads."""
    version, name = document.body.get("apiVersion"), document.body.get("kind")
    for field, value in (("apiVersion", version), ("kind", name)):
        if not isinstance(value, str) or not value:
            return None, f"{field} is required, and must be text"
    found = known.get((str(version), str(name)))
    group = str(version).partition("/")[0]
    if found is not None or group not in (GROUP, PALENA_GROUP):
        return found, ""
    ours = [f"{kind.api_version} {kind.kind}" for kind in OWN if kind.group == group]
    return None, f"apiVersion and kind are {version} {name}; allowed are {', '.join(ours)}"


def _unread(document: Document) -> str:
    kind = f"{document.body['kind']} ({document.body['apiVersion']})"
    return f"skipped, since the operator reads no {kind} for this"


def _problems(body: Body, kind: Kind, namespace: str) -> Iterator[str]:
    metadata = body.get("metadata")
    if not isinstance(metadata, Mapping):
        yield "metadata is required, and must be an object"
        return
    name = metadata.get("name")
    if not (isinstance(name, str) and is_dns_subdomain(name)):
        yield f"metadata.name must be {_NAMES}"
    for field in ("labels", "annotations"):
        yield from _not_texts(metadata.get(field), f"metadata.{field}")
    yield from _unlike(metadata.get("finalizers"), tuple[str, ...], "metadata.finalizers", "texts")
    owners = "objects with apiVersion, kind, name and uid"
    yield from _unlike(
        metadata.get("ownerReferences"), tuple[OwnerReference, ...], "metadata.ownerReferences", owners
    )
    for field in ("spec", "status", "data"):
        if not isinstance(body.get(field) or {}, Mapping):
            yield f"{field} must be an object"
            return
    if kind == SECRET:
        yield from _not_texts(body.get("stringData"), "stringData")
        yield from _not_texts(body.get("data"), "data")
    if kind in OWN:
        yield from _own_problems(body, OWN[kind], namespace)
    elif kind.namespaced and not isinstance(metadata.get("namespace"), str):
        yield f"metadata.namespace is required for a {kind.kind}"


def _not_texts(value: object, path: str) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, Mapping):
        yield f"{path} must be an object"
        return
    for name, text in value.items():
        if not isinstance(text, str):
            yield f"{path}.{name} must be text, in quotes"


def _unlike(value: object, form: object, path: str, items: str) -> Iterator[str]:
    try:
        msgspec.convert(value or (), form)
    except msgspec.ValidationError:
        yield f"{path} must be a list of {items}"


def _own_problems(body: Body, definition: Definition, namespace: str) -> Iterator[str]:
    place, kind = body["metadata"].get("namespace"), definition.kind
    if kind.group == PALENA_GROUP:
        if place is not None and not (isinstance(place, str) and is_dns_label(place)):
            yield f"metadata.namespace must be {_LABEL}"
    elif place not in (None, namespace):
        yield f"metadata.namespace must be {namespace}, where the appliance is (APPLIANCE_NAMESPACE)"
    schema = schema_of(definition)
    unknown = [*unknown_fields(schema, {name: value for name, value in body.items() if name != "metadata"})]
    for path in unknown:
        known = ", ".join(known_fields(schema, path))
        yield f"{path} is no field of {kind.kind}; known are {known}"
    spec = {name: value for name, value in (body.get("spec") or {}).items() if f"spec.{name}" not in unknown}
    found = parse(definition.spec, Resource(FullObjectMeta(), spec=spec))
    if isinstance(found, InvalidSpec):
        yield str(found)


def _given(document: Document, kind: Kind, namespace: str) -> Given:
    body, metadata = document.body, document.body["metadata"]
    place = metadata.get("namespace") or (namespace if kind in OWN else "")
    key = ObjectKey(place if kind.namespaced else "", metadata["name"])
    stored = with_defaults(schema_of(OWN[kind]), cast("JsonValue", dict(body))) if kind in OWN else body
    where = {"namespace": key.namespace} if key.namespace else {}
    complete: Body = {**cast("Body", stored), "metadata": {**metadata, **where}}
    if kind == SECRET:
        complete = _encoded(complete)
    return Given(kind, key, complete, document.origin)


def _encoded(body: Body) -> Body:
    """A Secret as it is stored: what was given in clear is encoded, and counts more."""
    clear: Mapping[str, str] = body.get("stringData") or {}
    encoded = {name: base64.b64encode(text.encode()).decode() for name, text in clear.items()}
    kept = {name: value for name, value in body.items() if name != "stringData"}
    return {**kept, "data": {**(body.get("data") or {}), **encoded}}


@cache
def schema_of(definition: Definition) -> Mapping[str, Any]:
    """The schema of the whole object; it takes long to make."""
    crd: Any = definition.render()
    schema: Mapping[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema
