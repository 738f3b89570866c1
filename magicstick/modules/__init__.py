"""Modules: from a ModuleActivation to the Flux Kustomization that installs a capability."""
