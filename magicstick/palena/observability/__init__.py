"""PalenaObservability: Langfuse behind a gateway."""
