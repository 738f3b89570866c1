"""Local and external models: from a ModelActivation to what serves it (spec: models)."""
