"""Pure: the replicas of a partition. Its leader's in-sync replicas, its followers' truncation."""
