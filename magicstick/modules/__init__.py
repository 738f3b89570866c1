"""Modules: from a ModuleActivation to a Flux Kustomization."""
