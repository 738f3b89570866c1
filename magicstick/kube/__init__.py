"""The API server: client, local copies, and writes that send nothing when nothing differs."""
