// Holds the version of a module whose CRD files are copied, not built: the one that Envoy Gateway is made for.
module magicstick.dev/hack/devcluster/tools/gateway-crds

go 1.26.0

require sigs.k8s.io/gateway-api v1.5.1
