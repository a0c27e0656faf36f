"""The groups of one shard, as a core that the runtime runs: their records, their log lines, and the
work that no call causes."""
