"""Share groups at the edge of this broker (KIP-932): the share partitions of the logs that it
leads, the share sessions of the members that fetch from it, and the client of the share
coordinator.

Where to change:

- how share partitions are loaded, and how long they stay in memory: `partitions.py`; the state of a
  share partition is in `share/partition/`. Then `tests/broker/apis/test_share_partitions.py`.
- the rules of share sessions: `sessions.py`. Then `tests/broker/share/test_sessions.py`.
- a call of the share coordinator: `share/persister/calls.py` and its handler in `shard.py`; the
  callers use `persister.py`; `coordinator.py` serves it, and `state_messages.py` has its message
  between brokers. Then `tests/share/persister/kafka_records.py`.
"""
