"""Kinds that every API server serves and Palena generates objects of; Secrets are in `secrets`."""

from typing import Final

from magicstick.kube.kinds import Kind

DEPLOYMENT: Final = Kind("apps", "v1", "Deployment", "deployments")
STATEFUL_SET: Final = Kind("apps", "v1", "StatefulSet", "statefulsets")
SERVICE: Final = Kind("", "v1", "Service", "services")
PERSISTENT_VOLUME_CLAIM: Final = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
NETWORK_POLICY: Final = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
INGRESS: Final = Kind("networking.k8s.io", "v1", "Ingress", "ingresses")
