"""The Appliance: its default modules, and one status over everything that belongs to it."""
