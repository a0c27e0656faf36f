"""The data directory: its identity, the registry of topics, and directories that don't belong."""
