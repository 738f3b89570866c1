"""Palena: a governed AI gateway, with models on it and a chat, traces and tools around it."""
