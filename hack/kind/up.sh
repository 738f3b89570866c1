#!/usr/bin/env bash
# Makes a kind cluster with Flux in it and says how to run the tests on it.
#
# Unverified: written from the documentation of kind and Flux, and not run by the project. The tests are run
# on hack/devcluster, which needs no containers; corrections from people who use kind are welcome.
#
# Needs: docker, kind, kubectl, flux. Usage: hack/kind/up.sh [up|down]
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
name=magicstick
# The version that hack/devcluster runs; kind publishes node images for most releases of Kubernetes.
image=${KIND_IMAGE:-kindest/node:v1.36.3}
kubeconfig=${KIND_KUBECONFIG:-$here/../../.dev/kind-kubeconfig}

need() {
  for program in "$@"; do
    command -v "$program" >/dev/null || { echo "$program is needed and was not found" >&2; exit 1; }
  done
}

up() {
  need docker kind kubectl flux
  mkdir -p "$(dirname "$kubeconfig")"
  if ! kind get clusters | grep -qx "$name"; then
    kind create cluster --config "$here/cluster.yaml" --image "$image" --kubeconfig "$kubeconfig" --wait 120s
  fi
  # Both controllers are the real ones here; the Git source must be reachable from inside of the cluster.
  flux install --kubeconfig "$kubeconfig" --components=source-controller,kustomize-controller,helm-controller
  cat <<TEXT
ready. Run the tests on it:

  USE_EXISTING_CLUSTER=1 KUBECONFIG=$kubeconfig make test

Tests that read the audit log are skipped there; those that play nodes need kwok in the cluster.
Remove it with: hack/kind/up.sh down
TEXT
}

down() {
  need kind
  kind delete cluster --name "$name" --kubeconfig "$kubeconfig"
}

case "${1:-up}" in
  up) up ;;
  down) down ;;
  *) echo "usage: $0 [up|down]" >&2; exit 2 ;;
esac
