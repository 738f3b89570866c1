"""What the observations of all kinds begin with."""

from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from magicstick.api.base import Model
from magicstick.kube.kinds import Kind
from magicstick.palena.common.frame import Subject
from magicstick.palena.common.owners import Owner

S = TypeVar("S", bound=Model)


@dataclass(frozen=True, slots=True)
class Observed(Generic[S]):
    """One object of a kind; a subclass adds its surroundings, read from the caches at the same moment."""

    KIND: ClassVar[Kind]
    """The kind of the object."""

    subject: Subject[S]

    @property
    def owner(self) -> Owner:
        """The object, as what it generates names it."""
        return self.subject.owner(self.KIND)

    @property
    def name(self) -> str:
        """Of the object."""
        return self.subject.live.metadata.name

    @property
    def namespace(self) -> str:
        """Where the object lives."""
        return self.subject.live.metadata.namespace
