// Holds the versions of modules whose CRD files are copied, not built.
module magicstick.dev/hack/devcluster/tools/flux-crds

go 1.26.0

require (
	github.com/fluxcd/kustomize-controller v1.9.6
	github.com/fluxcd/source-controller v1.9.6
)
