"""Pure: transactional ids with their states, records and timeouts. `shard.py` is the surface."""
