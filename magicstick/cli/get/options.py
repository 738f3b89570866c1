"""What a `get` was asked for, checked as far as that needs no cluster."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from magicstick.api.names import DNS_SUBDOMAIN_LIMIT, is_dns_subdomain
from magicstick.cli.cluster import check_namespace
from magicstick.cli.errors import MISUSED, CommandError
from magicstick.cli.words import HARDWARE, Wanted
from magicstick.kube.kinds import Kind

_NAME_ALLOWED: Final = f"lower-case letters, digits, '-' and '.', at most {DNS_SUBDOMAIN_LIMIT} characters"


class Output(StrEnum):
    """How it is written."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"

    @property
    def is_table(self) -> bool:
        """Whether it is for people."""
        return self in {Output.TABLE, Output.WIDE}


class SortBy(StrEnum):
    """In what order lines of one kind stand."""

    NAME = "name"
    AGE = "age"
    """The youngest first."""
    PHASE = "phase"
    """What needs attention first."""


@dataclass(frozen=True, slots=True)
class Query:
    """What to read, and how to show it."""

    wanted: tuple[Wanted, ...]
    overview: bool = False
    """Everything, because nothing in particular was asked for."""
    namespace: str = ""
    """"" for all."""
    selector: str = ""
    output: Output = Output.TABLE
    sort_by: SortBy = SortBy.NAME
    headers: bool = True
    watch: bool = False
    events: bool = False
    """Write the kind of each change around the objects of a watch."""

    @property
    def sources(self) -> tuple[Kind, ...]:
        """The kinds to read, each once."""
        return tuple(dict.fromkeys(each.source for each in self.wanted))

    @property
    def single(self) -> bool:
        """Whether it asks for one object by its name, so that the answer is no list."""
        return len(self.wanted) == 1 and len(self.wanted[0].names) == 1

    def nothing(self) -> str:
        """What to say where there is nothing of it."""
        what = (
            "nothing of magicstick"
            if self.overview
            else "no " + ", no ".join(each.appearance.kind.plural for each in self.wanted)
        )
        labels = f" with the labels {self.selector}" if self.selector else ""
        place = (
            f"in namespace {self.namespace}; --all-namespaces looks everywhere" if self.namespace else "here"
        )
        return f"{what}{labels} {place}"

    def check(self) -> None:
        """Raise CommandError for what no object or namespace is called, and for what does not go together."""
        if self.namespace:
            check_namespace(self.namespace)
        for name in (name for each in self.wanted for name in each.names):
            if not is_dns_subdomain(name):
                raise CommandError(f"no object can be called {name!r}: {_NAME_ALLOWED}", MISUSED)
        named = any(each.names for each in self.wanted)
        if named and not self.namespace:
            raise CommandError("--all-namespaces and names exclude each other: use --namespace", MISUSED)
        if named and self.selector:
            raise CommandError("--selector and names exclude each other", MISUSED)
        if not self.selector.isprintable():
            raise CommandError(f"--selector {self.selector!r}: only characters that can be printed", MISUSED)
        if self.events and not (self.watch and self.output in {Output.JSON, Output.YAML}):
            raise CommandError("--output-watch-events needs --watch and -o json or yaml", MISUSED)
        data = self.output in {Output.JSON, Output.YAML}
        if data and not self.overview and any(each.appearance is HARDWARE for each in self.wanted):
            raise CommandError(
                "hardware is no object of its own: 'magicstick get appliance "
                f"-o {self.output}' has it under status.hardwareOperators",
                MISUSED,
            )
