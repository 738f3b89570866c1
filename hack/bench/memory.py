"""Placeholder until informers exist."""
