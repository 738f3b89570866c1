"""magicstick: the meta-operator that turns a Kubernetes cluster into an AI appliance."""

__version__ = "0.1.0"
