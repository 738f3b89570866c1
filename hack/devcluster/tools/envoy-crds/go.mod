// Holds the version of a module whose CRD files are copied, not built.
module magicstick.dev/hack/devcluster/tools/envoy-crds

go 1.26.0

require github.com/envoyproxy/gateway v1.8.0
