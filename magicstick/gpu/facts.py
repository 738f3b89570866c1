"""What the rest of the operator may know of GPUs."""

from magicstick.gpu.nodes import NodeView

__all__ = ["NodeView"]
