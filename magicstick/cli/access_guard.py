"""`magicstick access-guard`: its options, made from its settings, and the way into the process."""

from collections.abc import Callable

from magicstick.access_guard.settings import GuardSettings
from magicstick.cli.errors import MISUSED, CommandError
from magicstick.cli.run import log_start, serve, with_options
from magicstick.runtime.options import SettingsError
from magicstick.runtime.settings import described


def command() -> Callable[..., None]:
    """The command with its options."""
    return with_options(access_guard, described(GuardSettings))


def access_guard(**flags: object) -> None:
    """Read the settings, say so, and answer the gateway until a signal comes.

    Raises:
        CommandError: a setting is wrong, the cluster's configuration cannot be used, or an address is taken.
    """
    try:
        settings = GuardSettings.load(**flags)
    except SettingsError as error:
        raise CommandError(str(error), MISUSED) from None
    log_start(settings)

    from magicstick.access_guard.program import AccessGuard  # noqa: PLC0415 - after the log's first line

    serve(settings, lambda config: AccessGuard(settings, config).run())
