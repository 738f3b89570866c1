"""`magicstick run`: its options, made from the settings, and the way into the operator."""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from magicstick import __version__
from magicstick.cli.errors import MISUSED, CommandError
from magicstick.runtime.options import Described, SettingsError, in_cluster
from magicstick.runtime.settings import Settings, described

if TYPE_CHECKING:
    from magicstick.kube.config import ClusterConfig

Command = Callable[..., None]


def with_options(command: Command, settings: Iterable[Described] | None = None) -> Command:
    """The command with one option for each setting (the operator's by default), all of them optional."""
    parameters = [_parameter(known) for known in settings or described()]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # what typer reads
    return command


def _parameter(known: Described) -> inspect.Parameter:
    option = typer.Option(
        known.flag,
        help=_help(known),
        rich_help_panel=known.group,
        metavar=_metavar(known),
        show_default=False,
        autocompletion=_completion(known.choices),
    )
    annotation = Annotated[str | None, option]  # what is allowed is said in one place, the settings
    return inspect.Parameter(known.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _help(known: Described) -> str:
    facts = [f"env {known.variable}"]
    if known.choices:
        facts.append(known.allowed)
    if known.default:
        facts.append(f"default {known.default}")
    return f"{known.text} ({'; '.join(facts)})"


def _metavar(known: Described) -> str:
    """What stands for the value in the help; short, so that long flags fit on the line."""
    if known.choices:
        return "WORD"
    return "S" if known.name.endswith("_seconds") else "TEXT"


def _completion(choices: tuple[str, ...]) -> Callable[[str], list[str]] | None:
    if not choices:
        return None

    def complete(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    return complete


def run(**flags: object) -> None:
    """Read the settings, say so, and operate until a signal comes.

    Raises:
        CommandError: a setting is wrong, the cluster's configuration cannot be used, or an address is taken.
    """
    try:
        settings = Settings.load(**flags)
    except SettingsError as error:
        raise CommandError(str(error), MISUSED) from None
    log_start(settings)
    _operate(settings)


class ProcessSettings(Protocol):
    """What a process needs to know before it can begin."""

    @property
    def kubeconfig(self) -> Path | None:
        """Kubeconfig to use."""
        ...

    @property
    def kube_context(self) -> str | None:
        """Context of the kubeconfig."""
        ...

    @property
    def kubernetes_service_url(self) -> str:
        """The API server as seen from inside a cluster."""
        ...

    @property
    def drain_seconds(self) -> float:
        """How long work in progress may take to end."""
        ...

    @property
    def log_format(self) -> str:
        """How lines of the log are written."""
        ...

    @property
    def log_level(self) -> str:
        """The least important lines that are written."""
        ...

    def model_dump(self, *, mode: str, exclude_defaults: bool) -> dict[str, Any]:
        """As plain data."""
        ...


def log_start(settings: ProcessSettings) -> None:
    """The first line, before what takes long to import."""
    import structlog  # noqa: PLC0415 - the options of this command need none of it

    from magicstick.runtime import logs  # noqa: PLC0415

    logs.configure(settings.log_format, settings.log_level)
    changed = settings.model_dump(mode="json", exclude_defaults=True)
    structlog.get_logger(__name__).info("starting", version=__version__, settings=changed)


def _operate(settings: Settings) -> None:
    from magicstick.manager import Manager  # noqa: PLC0415 - imported after the first line of the log

    serve(settings, lambda config: Manager(settings, config).run())


def serve(settings: ProcessSettings, work: "Callable[[ClusterConfig], Awaitable[None]]") -> None:
    """Do the work of a process against the cluster, until a signal comes.

    Raises:
        CommandError: a setting is wrong, the cluster's configuration cannot be used, or an address is taken.
    """
    import uvloop  # noqa: PLC0415 - imported after the first line of the log

    from magicstick.kube.config import ClusterConfig, ConfigError  # noqa: PLC0415
    from magicstick.runtime.health import AddressInUseError  # noqa: PLC0415
    from magicstick.runtime.shutdown import run_until_signal  # noqa: PLC0415

    async def begin() -> None:
        config = await ClusterConfig.load(
            settings.kubeconfig,
            settings.kube_context,
            # It has a default: taken everywhere, it would hide the kubeconfig of whoever is not in a Pod.
            in_cluster_url=settings.kubernetes_service_url if in_cluster() else None,
        )
        await work(config)

    try:
        uvloop.run(run_until_signal(begin, drain_s=settings.drain_seconds))
    except* SettingsError as group:
        raise CommandError(_first(group), MISUSED) from None
    except* (ConfigError, AddressInUseError) as group:
        raise CommandError(_first(group)) from None


def _first(group: BaseExceptionGroup[Exception]) -> str:
    """The message of the first error in the group, however deep it stands."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)
