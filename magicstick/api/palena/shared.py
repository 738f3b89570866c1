"""What several kinds of Palena have in common (spec: palena §1).

Everything that is copied to a foreign object as it stands is a `FreeObject`: its schema is that of the
foreign kind, and is checked where the object is made.
"""

from typing import Annotated, Final, Literal, Protocol, Self, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, StrictBool, model_validator

from magicstick.api.base import Conditions, FreeObject, Model, ObservedGeneration, Timestamp
from magicstick.api.quantity import QuantityError, parse
from magicstick.api.schema import Keywords, Rule, list_map, rules

DeletionPolicy = Literal["Delete", "Retain"]
PullPolicy = Literal["Always", "IfNotPresent", "Never"]
ConsumersFrom = Literal["Same", "All", "List"]

NAME_PATTERN: Final = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
"""Of the objects whose names become those of Services and CNPG clusters: a DNS-1035 label."""
HOST_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


SIZE_NEEDED: Final = "must be a quantity above 0, for example 10Gi"
EXTERNAL_NEEDS_BLOCK: Final = "external belongs to mode external: set it there, and remove it elsewhere"
EXTERNAL_RULE: Final = Rule(
    "has(self.external) == (self.mode == 'external')", EXTERNAL_NEEDS_BLOCK, field_path=".mode"
)
"""That the block `external` is there exactly when the mode says so."""
LIST_NEEDED: Final = "namespaces are listed for from: List alone: remove them, or set from to List"


def _size(value: str) -> str:
    try:
        good = parse(value).value > 0
    except QuantityError:
        good = False
    if not good:
        raise ValueError(SIZE_NEEDED)
    return value


Name = Annotated[str, Field(min_length=1, max_length=253)]
Namespace = Annotated[str, Field(max_length=63)]
Host = Annotated[str, Field(min_length=1, max_length=253, pattern=HOST_PATTERN)]
Size = Annotated[
    str,
    Field(min_length=1, max_length=32),
    AfterValidator(_size),
    Keywords(
        rules(
            Rule(
                "isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))",
                SIZE_NEEDED,
            )
        )
    ),
]
HttpUrl = Annotated[str, Field(max_length=2048, pattern=r"^https?://[^\s]+$")]
Annotations = dict[str, str]


def value_or(root: str, path: str, absent: str) -> str:
    """CEL for a text at `root.path`, or `absent` where it or a block around it is not there.

    Not by optional types, whose cost the API server cannot estimate.
    """
    names = path.split(".")
    there = " && ".join(f"has({root}.{'.'.join(names[: depth + 1])})" for depth in range(len(names)))
    return f"({there} ? {root}.{path} : '{absent}')"


class HasMode(Protocol):
    """What somebody may bring themselves."""

    @property
    def mode(self) -> str:
        """`external` where they do."""
        ...

    @property
    def external(self) -> object:
        """What they bring; None where they do not."""
        ...


B = TypeVar("B", bound=HasMode)


def external_as_mode(block: B) -> B:
    """`EXTERNAL_RULE` for what was stored past it. ValueError where it is broken."""
    if (block.external is not None) != (block.mode == "external"):
        raise ValueError(EXTERNAL_NEEDS_BLOCK)
    return block


def name_rules(limit: int, *, dns_label: bool = True) -> tuple[Rule, ...]:
    """The rules on `metadata.name` of a kind whose generated names leave `limit` characters for it."""
    found = (
        Rule(
            f"size(self.metadata.name) <= {limit}",
            f"the name must be at most {limit} characters long: names of other objects are made from it",
        ),
    )
    if not dns_label:
        return found
    return (
        *found,
        Rule(
            f"self.metadata.name.matches('{NAME_PATTERN}')",
            "the name must be a DNS-1035 label: lower-case letters, digits and '-', beginning with a letter",
        ),
    )


class Reference(Model):
    """Another object of Palena's."""

    name: Name
    """Name of the object."""
    namespace: Namespace = ""
    """Namespace of the object; left out, that of the object that refers to it."""

    def place(self, home: str) -> tuple[str, str]:
        """(namespace, name), as seen from the namespace `home`."""
        return self.namespace or home, self.name


class LocalName(Model):
    """An object in the same namespace."""

    name: Name
    """Name of the object."""


class SecretKeyRef(Model):
    """One key of a Secret in the same namespace."""

    name: Name
    """Name of the Secret."""
    key: Annotated[str, Field(min_length=1, max_length=253)]
    """Key within the Secret."""


class EnvVar(Model):
    """One variable of a container's environment."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of the variable."""
    value: str | None = None
    """Its value."""
    value_from: FreeObject | None = None
    """Where its value is taken from, as in a container of a Pod."""


EnvVars = Annotated[tuple[EnvVar, ...], list_map("name")]


class Image(Model):
    """The image of a container; what is left out is the default of whoever runs it."""

    repository: str = ""
    """Where the image is, without its tag."""
    tag: str = ""
    """Tag of the image."""
    pull_policy: PullPolicy | None = None
    """When the image is fetched."""
    pull_secrets: tuple[LocalName, ...] = ()
    """Secrets that open the registry."""


class Storage(Model):
    """A volume that is asked for."""

    size: Size | None = None
    """Size of the volume, as a quantity; it may only grow."""
    storage_class_name: Annotated[str, Field(max_length=253)] = ""
    """StorageClass of the volume; left out, the cluster's default."""


class IngressTls(Model):
    """TLS of an Ingress."""

    enabled: StrictBool = False
    """Whether TLS ends at the Ingress."""
    secret_name: Annotated[str, Field(max_length=253)] = ""
    """Secret with the certificate."""


class ParentRef(Model):
    """A Gateway that a route attaches to."""

    name: Name
    """Name of the Gateway."""
    namespace: Namespace = ""
    """Namespace of the Gateway."""
    section_name: str = ""
    """Listener of the Gateway."""


class AllowedConsumers(Model):
    """From which namespaces objects may refer to this one."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                "self.from == 'List' || !has(self.namespaces) || size(self.namespaces) == 0",
                LIST_NEEDED,
                field_path=".namespaces",
            )
        )
    )

    from_: Annotated[ConsumersFrom, Field(alias="from")] = "Same"
    """`Same`: the own namespace. `All`: every namespace. `List`: the own and the listed ones."""
    namespaces: Annotated[tuple[Namespace, ...], Field(max_length=64)] = ()
    """Further namespaces, with `List`."""

    @model_validator(mode="after")
    def _listed_for_list(self) -> Self:
        if self.namespaces and self.from_ != "List":
            raise ValueError(LIST_NEEDED)
        return self

    def permits(self, home: str, namespace: str) -> bool:
        """Whether an object of `namespace` may refer to one of `home`."""
        if namespace == home or self.from_ == "All":
            return True
        return self.from_ == "List" and namespace in self.namespaces


class PalenaStatus(Model):
    """What every status of Palena's says."""

    observed_generation: ObservedGeneration = None
    """The generation of the spec that this status speaks of."""
    phase: str = ""
    """Summary: Pending, Provisioning, Running, Degraded, Error or Deleting."""
    ready_since: Timestamp | None = None
    """When everything was ready for the first time."""
    message: str = ""
    """The state in a sentence."""
    conditions: Conditions = ()
    """The state by aspects; `Ready` is always among them."""


class NamedRef(Model):
    """A generated object, by its name."""

    name: str = ""
    """Name of the object."""


class StatusSecretKeyRef(Model):
    """One key of a Secret that is in use."""

    name: str = ""
    """Name of the Secret."""
    key: str = ""
    """Key within the Secret."""
