"""Instances of applications: a HelmRelease each, and the guarded way to it."""
