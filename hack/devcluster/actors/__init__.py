"""Stand-ins for the parts of a cluster that cannot run without containers or the network."""
