"""The foreign kinds that instances are made of, besides Flux's."""

from typing import Final

from magicstick.kube.kinds import Kind

HTTP_ROUTE: Final = Kind("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes")
REFERENCE_GRANT: Final = Kind("gateway.networking.k8s.io", "v1beta1", "ReferenceGrant", "referencegrants")
SECURITY_POLICY: Final = Kind("gateway.envoyproxy.io", "v1alpha1", "SecurityPolicy", "securitypolicies")
ACCESS_KINDS: Final = (HTTP_ROUTE, SECURITY_POLICY, REFERENCE_GRANT)
"""What stands between the world and an instance."""

SERVICE: Final = Kind("", "v1", "Service", "services")
NETWORK_POLICY: Final = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
RESOURCE_QUOTA: Final = Kind("", "v1", "ResourceQuota", "resourcequotas")
LIMIT_RANGE: Final = Kind("", "v1", "LimitRange", "limitranges")
