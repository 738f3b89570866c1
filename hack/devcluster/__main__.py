"""`python -m hack.devcluster`."""

from hack.devcluster.cli import app

app(prog_name="python -m hack.devcluster")
