"""The data directory: its identity, the registry of topics, and stray directories."""
