"""Pure code for the replicas of a partition: how a leader determines the in-sync replicas, and how
a follower truncates its log.

Where to change:

- the in-sync replicas and the high watermark: `replication/leader.py`. Then
  `tests/golden/replication`, `tests/replication/world.py`.
"""
