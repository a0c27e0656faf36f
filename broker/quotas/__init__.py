"""Whether replication is held back, for how much is counted."""
