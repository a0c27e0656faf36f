"""The data directory: the registry of topics, its identity, and files that it should not have."""
