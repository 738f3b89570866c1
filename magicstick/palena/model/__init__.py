"""PalenaModel: one LiteLLMModel on each gateway that it names (spec: palena §5)."""
