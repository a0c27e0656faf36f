"""The producers of a log: their last batches, open transactions and snapshots."""
