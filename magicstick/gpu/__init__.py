"""GPUs: which vendor's hardware is there, whether it can be used, and who is asked to bring its operator."""
