"""Controller machinery that knows Kubernetes but no Magic Stick."""
