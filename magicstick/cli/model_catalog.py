"""`magicstick model-catalog`: its options, made from its settings, and the way into the process."""

from collections.abc import Callable
from typing import Final

from magicstick.cli.errors import MISUSED, CommandError
from magicstick.cli.run import log_start, serve, with_options
from magicstick.model_catalog.settings import CatalogSettings
from magicstick.runtime.options import SettingsError
from magicstick.runtime.settings import described

WITHOUT_FLAG: Final = frozenset({"litellm_master_key"})
"""What stands on a command line is seen by everybody on the machine."""


def command() -> Callable[..., None]:
    """The command with its options."""
    return with_options(
        model_catalog, [known for known in described(CatalogSettings) if known.name not in WITHOUT_FLAG]
    )


def model_catalog(**flags: object) -> None:
    """Read the settings, say so, and keep the catalog until a signal comes.

    Raises:
        CommandError: a setting is wrong, the cluster's configuration cannot be used, or an address is taken.
    """
    try:
        settings = CatalogSettings.load(**flags)
    except SettingsError as error:
        raise CommandError(str(error), MISUSED) from None
    log_start(settings)

    from magicstick.model_catalog.program import ModelCatalog  # noqa: PLC0415 - after the log's first line

    serve(settings, lambda config: ModelCatalog(settings, config).run())
