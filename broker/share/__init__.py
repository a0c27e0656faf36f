"""Share groups on this broker (KIP-932): the share partitions of the logs that it leads, the share
sessions of the members that fetch from it, and the client of the share coordinator.

Where to change:

- how share partitions are loaded, and how long they stay in memory: `broker/share/partitions.py`.
  Then `tests/broker/apis/test_share_partitions.py`.
- the state of a share partition: `share/partition/`. Then
  `tests/broker/apis/test_share_partitions.py`.
- the rules of share sessions: `broker/share/sessions.py`. Then
  `tests/broker/share/test_sessions.py`.
- a new type of call to the share coordinator: the class of the call in `share/persister/calls.py`,
  the handler of the call in `share/persister/shard.py`, the method for callers in
  `broker/share/persister.py`, the entry point of the share coordinator in
  `broker/share/coordinator.py`, and the request between brokers in
  `broker/share/state_messages.py`. Then `tests/share/persister/kafka_records.py`.
"""
