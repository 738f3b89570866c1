"""PalenaUI: LibreChat in front of a gateway."""
