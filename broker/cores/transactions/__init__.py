"""The transactional ids of one shard, as a core that the runtime runs: their topic, their records,
and the markers of their transactions."""
