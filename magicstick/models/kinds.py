"""The built-in kinds that direct runtimes are made of (spec: models §13)."""

from typing import Final

from magicstick.kube.kinds import Kind

DEPLOYMENT: Final = Kind("apps", "v1", "Deployment", "deployments")
SERVICE: Final = Kind("", "v1", "Service", "services")
