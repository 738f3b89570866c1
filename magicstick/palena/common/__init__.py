"""What the reconcilers of Palena have in common."""
