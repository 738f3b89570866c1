"""The command line. Thin: each command calls what does the work, and imports it only then."""

from magicstick.cli.app import main

__all__ = ["main"]
