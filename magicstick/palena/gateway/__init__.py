"""PalenaGateway: LiteLLM with its database, its cache, and the only ways to them (spec: palena §4)."""
