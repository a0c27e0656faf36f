"""The data directory: its identity, the list of topics, and directories that do not belong to a
topic."""
