"""Pure code for the replicas of a partition: the leader's in-sync replicas, and the followers'
truncation.

Where to change:

- the in-sync replicas and the high watermark: `replication/leader.py`. Then
  `tests/golden/replication`, `tests/replication/world.py`.
"""
