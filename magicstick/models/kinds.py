"""The foreign kinds that models drive or look at (spec: models §1, §9, §10)."""

from typing import Final

from magicstick.kube.kinds import Kind

KUBEAI_MODEL: Final = Kind("kubeai.org", "v1", "Model", "models")
DEPLOYMENT: Final = Kind("apps", "v1", "Deployment", "deployments")
SERVICE: Final = Kind("", "v1", "Service", "services")
