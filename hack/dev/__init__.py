"""`make dev`: a real control plane, the operator on it, and a live view of the appliance."""
