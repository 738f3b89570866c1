"""Tools around the project: development cluster, measurements, requirements."""
