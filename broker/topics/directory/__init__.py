"""The data directory: its identity, the registry of topics, and directories that do not belong to a
topic."""
