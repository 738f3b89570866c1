"""Models that vLLM-Omni serves: speech in and out, without KubeAI (spec: realtime)."""
