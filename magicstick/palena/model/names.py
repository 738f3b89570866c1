"""What the objects of a model are called (spec: palena §5.3)."""


def child(model: str, gateway: str) -> str:
    """The LiteLLMModel on one gateway.

    Made from the names of two objects, since the name that clients ask for may hold any character, and
    several models may share it.
    """
    return f"{model}-{gateway}"


def credentials(model: str, gateway: str) -> str:
    """The copy of the provider's key beside a gateway in another namespace."""
    return f"{child(model, gateway)}-credentials"
